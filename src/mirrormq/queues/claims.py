"""Claims: deliveries that clients of a surviving node hold when a queue gets another master.

With `ha-redeliver: lost`, a client whose node survives a failover keeps its deliveries. Each node states its
claim to the new master, and the new master withholds exactly the claimed messages from delivery.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Settlement = Literal["acknowledge", "requeue", "reject"]
"""Decision of a client about a delivery; also the name of the method that carries it out."""


class Claim(NamedTuple):
    """Sequences of one queue that one node claims."""

    held: tuple[int, ...] = ()
    """Sequences that clients of the node hold unacknowledged."""
    acknowledged: tuple[int, ...] = ()
    """Sequences that clients have acknowledged; the ring may lack the acknowledgement."""
    requeued: tuple[int, ...] = ()
    """Sequences that clients requeued, or lose because a failover cancels them; the ring may lack the
    requeue."""
    rejected: tuple[int, ...] = ()
    """Sequences that clients rejected; the ring may lack the rejection."""

    @property
    def sequences(self) -> list[int]:
        """All sequences of the claim, ascending."""
        return sorted({*self.held, *self.acknowledged, *self.requeued, *self.rejected})


NOTHING = Claim()
