"""Claims: deliveries that clients of a surviving node hold when a queue gets another master.

With `ha-redeliver: lost` a failover takes nothing away from a client whose node lives. Each node states its
claim to the new master, which withholds exactly those messages from delivery.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from mirrormq.ranges.spans import Span, joined

Settlement = Literal["acknowledge", "requeue", "reject"]
"""Decision of a client about a delivery; also the name of the method that carries it out."""


class Claim(NamedTuple):
    """Sequences of one queue that one node answers for."""

    held: tuple[int, ...] = ()
    """Unacknowledged, with clients of the node."""
    acknowledged: tuple[int, ...] = ()
    """Acknowledged, and the ring is not known to have that."""
    requeued: tuple[int, ...] = ()
    """The same for those that clients gave back, or lose because they asked to be cancelled …"""
    rejected: tuple[int, ...] = ()
    """… and for those that they rejected."""

    @property
    def sequences(self) -> list[int]:
        """All of them, ascending."""
        return sorted({*self.held, *self.acknowledged, *self.requeued, *self.rejected})


NOTHING = Claim()


def spans_of(sequences: Iterable[int]) -> list[Span]:
    """Sequences as ascending stretches."""
    return joined([(sequence, 1) for sequence in sorted(sequences)])
