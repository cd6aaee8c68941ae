"""Deliveries and settlements that a client's node retains for the next master (`ha-redeliver: lost`).

The master tells how many of this node's settlements are in the ring. Until then they are kept here, and
repeated to the next master if this one is lost. A node retains as much as its clients hold, and what
they settle in the time that a ring takes; no delivery comes before the ring has it, so that is bounded too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mirrormq.queues.claims import Claim, Settlement

if TYPE_CHECKING:
    from mirrormq.queues.queue_interface import Subscriber


class RetainedDeliveries:
    """Deliveries of one queue to clients of this node, in one tenure."""

    __slots__ = ("_held", "_settled")

    def __init__(self) -> None:
        self._held: dict[int, Subscriber | None] = {}
        """Sequences that clients hold, and the consumer; none for basic.get or an earlier master's."""
        self._settled: deque[tuple[int, dict[int, Settlement]]] = deque()
        """Settlements that were sent, by the number of the item."""

    def delivered(self, sequences: Sequence[int], consumer: Subscriber | None = None) -> None:
        """Clients hold these from now on."""
        self._held.update(dict.fromkeys(sequences, consumer))

    def settled(self, sequences: Sequence[int]) -> None:
        """Clients do not hold these any more."""
        for sequence in sequences:
            self._held.pop(sequence, None)

    def sent(self, number: int, settlements: dict[int, Settlement]) -> None:
        """An item with settlements is on its way to the master."""
        self._settled.append((number, settlements))

    def replicated(self, number: int) -> None:
        """Items up to this one are in the ring."""
        while self._settled and self._settled[0][0] <= number:
            self._settled.popleft()

    def claim(self, unsent: dict[int, Settlement]) -> Claim:
        """State what clients hold and what they have settled. The last word on a sequence counts; consumers
        that are cancelled by a failover lose what they hold."""
        settlements: dict[int, Settlement] = {}
        for _, sent in self._settled:
            settlements.update(sent)
        settlements.update(unsent)
        held: list[int] = []
        for sequence, consumer in self._held.items():
            if consumer is not None and consumer.cancel_on_failover:
                settlements[sequence] = "requeue"
            else:
                settlements.pop(sequence, None)
                held.append(sequence)
        return Claim(
            tuple(held),
            tuple([sequence for sequence, one in settlements.items() if one == "acknowledge"]),
            tuple([sequence for sequence, one in settlements.items() if one == "requeue"]),
            tuple([sequence for sequence, one in settlements.items() if one == "reject"]),
        )
