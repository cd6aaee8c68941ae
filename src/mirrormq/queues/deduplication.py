"""Deduplication of publishes with a publish id (`queues.publish_ids`)."""

from __future__ import annotations

from itertools import groupby

from mirrormq.queues.message import Message
from mirrormq.queues.publish_ids import SeenPublishIds, highest_of
from mirrormq.queues.publish_order_guard import PublishOrderGuard


class Deduplication:
    """Publish ids that one queue has seen, and producers with a refused publish."""

    __slots__ = ("guard", "producers")

    def __init__(self, producers: SeenPublishIds) -> None:
        self.producers = producers
        self.guard = PublishOrderGuard()

    def parts(self, messages: list[Message]) -> list[tuple[bool, list[Message]]]:
        """Divide messages that all have a publish id into new and repeated ones, in order. Return each part
        with whether it is new."""
        grouped = groupby(self._with_novelty(messages), key=_novelty)
        return [(is_new, [message for _, message in group]) for is_new, group in grouped]

    def _with_novelty(self, messages: list[Message]) -> list[tuple[bool, Message]]:
        highest: dict[str, int] = {}
        result = []
        for message in messages:
            assert message.envelope.producer_ids is not None
            name, number = message.envelope.producer_ids
            is_new = number > highest.get(name, self.producers.get(name, -1))
            if is_new:
                highest[name] = number
            result.append((is_new, message))
        return result

    def remember(self, messages: list[Message], now_ms: int) -> list[str]:
        """Record the publish ids of stored messages. Return the producers that are forgotten in exchange."""
        return self.producers.record(highest_of(messages), now_ms)


def _novelty(pair: tuple[bool, Message]) -> bool:
    return pair[0]
