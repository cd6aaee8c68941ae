"""Deliveries and settlements that a client's node retains for the next master (`ha-redeliver: lost`).

The master reports how many of this node's settlements are in the ring. Until then the node retains them, and
repeats them to the next master if this one is lost. The amount is bounded by the deliveries that clients
hold, and by the settlements during one round of the ring: the gate delays deliveries in the same way.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mirrormq.queues.claims import Claim, Settlement

if TYPE_CHECKING:
    from mirrormq.queues.queue_interface import Subscriber


class RetainedDeliveries:
    """Deliveries of one queue to clients of this node, in one epoch."""

    __slots__ = ("_held", "_settled")

    def __init__(self) -> None:
        self._held: dict[int, Subscriber | None] = {}
        """Sequences that clients hold, with the consumer; None for basic.get or an earlier master's
        deliveries."""
        self._settled: deque[tuple[int, dict[int, Settlement]]] = deque()
        """Settlements that were sent, with the number of their Settle item."""

    def delivered(self, sequences: Sequence[int], consumer: Subscriber | None = None) -> None:
        """Record that clients hold these sequences."""
        self._held.update(dict.fromkeys(sequences, consumer))

    def settled(self, sequences: Sequence[int]) -> None:
        """Record that clients have settled these sequences."""
        for sequence in sequences:
            self._held.pop(sequence, None)

    def sent(self, number: int, settlements: dict[int, Settlement]) -> None:
        """Retain settlements that are sent to the master as Settle item `number`."""
        self._settled.append((number, settlements))

    def replicated(self, number: int) -> None:
        """Forget settlements of items up to `number`, which are in the ring."""
        while self._settled and self._settled[0][0] <= number:
            self._settled.popleft()

    def claim(self, unsent: dict[int, Settlement]) -> Claim:
        """Return the claim: sequences that clients hold, and settlements that the ring may lack. The latest
        settlement of a sequence counts. Consumers that a failover cancels lose their deliveries."""
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
