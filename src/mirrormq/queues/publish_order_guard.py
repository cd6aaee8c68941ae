"""Whom a refusal stops: a publisher that numbers its messages, until it comes back to the refused one.

A queue remembers the highest number it has had of a publisher (`queues.producers`). If one message is refused
and a later one is kept, the refused one can never be published again: its number would be taken for one that
is known. So a refusal closes the gate: whatever is numbered above the refused message is refused as well. It
opens when the publisher goes back to that message, or to one before it.
"""

from __future__ import annotations

from mirrormq import limits


class PublishOrderGuard:
    """The publishers that something was refused to, by name."""

    __slots__ = ("_closed",)

    def __init__(self) -> None:
        self._closed: dict[str, int] = {}

    @property
    def closed(self) -> bool:
        """Is it closed for anybody?"""
        return bool(self._closed)

    def stops(self, producer_ids: tuple[str, int]) -> bool:
        """May this one not pass? One that may opens the gate."""
        name, number = producer_ids
        refused = self._closed.get(name)
        if refused is None:
            return False
        if number > refused:
            return True
        del self._closed[name]
        return False

    def close(self, producer_ids: tuple[str, int]) -> None:
        """This one was refused."""
        name, number = producer_ids
        self._closed[name] = min(number, self._closed.get(name, number))
        if len(self._closed) > limits.PRODUCERS_REMEMBERED_MAX:
            del self._closed[next(iter(self._closed))]
