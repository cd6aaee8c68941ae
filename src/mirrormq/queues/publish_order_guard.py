"""Publish order guard: after a publish id is refused, refuse all higher ids of that producer until it
retries.

A queue records the highest number of each producer (`queues.publish_ids`). If it refused one message and
stored a later one, the refused message could never be published again: its number would count as known. A
refusal therefore also refuses every higher number of that producer. The guard ends when the producer
retries the refused message, or an earlier one.
"""

from __future__ import annotations

from mirrormq import limits


class PublishOrderGuard:
    """Producers with a refused publish, by name."""

    __slots__ = ("_closed",)

    def __init__(self) -> None:
        self._closed: dict[str, int] = {}

    @property
    def closed(self) -> bool:
        """Whether any producer is guarded."""
        return bool(self._closed)

    def stops(self, producer_ids: tuple[str, int]) -> bool:
        """Return whether this publish must be refused. A publish that may pass ends the guard of its
        producer."""
        name, number = producer_ids
        refused = self._closed.get(name)
        if refused is None:
            return False
        if number > refused:
            return True
        del self._closed[name]
        return False

    def close(self, producer_ids: tuple[str, int]) -> None:
        """Record that this publish was refused."""
        name, number = producer_ids
        self._closed[name] = min(number, self._closed.get(name, number))
        if len(self._closed) > limits.PRODUCERS_REMEMBERED_MAX:
            del self._closed[next(iter(self._closed))]
