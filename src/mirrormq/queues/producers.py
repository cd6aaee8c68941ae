"""Who publishes to a queue from other nodes, and what it has had of each.

A node keeps what its clients publish to a queue elsewhere until the queue's master says that it is safe,
and sends it again to whoever becomes master next. So a publish may come twice, and must not be kept twice.
Each node numbers its publishes to a queue (1, 2, 3 …, for as long as it lives), they arrive in that order,
and the queue remembers the highest number of each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mirrormq import limits


class Origin(NamedTuple):
    """Where a batch of publishes comes from."""

    producer: str
    """A node in one of its lives."""
    first_number: int
    """The number of the batch's first message; the others follow."""


class Producers(dict[str, int]):
    """The highest publish number of each producer. The least recently heard of goes when there are too
    many: a cluster has few nodes, and each has one life at a time."""

    def seen(self, origin: Origin, count: int) -> int:
        """How many messages at the beginning of a batch are known already; the rest is from now on."""
        last = origin.first_number + count - 1
        highest = self.pop(origin.producer, 0)
        self[origin.producer] = max(highest, last)
        if len(self) > limits.PRODUCERS_MAX:
            del self[next(iter(self))]
        return min(count, max(0, highest - origin.first_number + 1))

    def forget(self, gone: Callable[[str], bool]) -> list[str]:
        """Forget producers whose life is over; says which they were."""
        names = [name for name in self if gone(name)]
        for name in names:
            del self[name]
        return names
