"""Publish ids: the highest number of each producer of a queue, so that repeated publishes are stored once.

*Nodes.* A node keeps the publishes of its clients to a queue on another node until the queue's master
confirms them. It sends them again to the next master. Each node numbers its publishes to a queue (1, 2, 3 …,
during one incarnation). They arrive in that order, and the queue records the highest number of each node.

*Clients.* A publisher that cannot tell whether a message has arrived (its connection broke, its task is
run again) may publish it once more. For that it sets the headers `x-producer`, a stable name, and
`x-publish-id`, a growing number. The queue confirms a message whose number is not above the highest number
of that name, and does not store it. Names that have been idle for long are forgotten.

One table records both, so that ring, synchronisation and promotion treat both alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from mirrormq import limits
from mirrormq.queues.message import Message
from mirrormq.wire.fields import Table
from mirrormq.wire.properties import decode_properties

PRODUCER_HEADER = "x-producer"
PUBLISH_ID_HEADER = "x-publish-id"
MIGRATED_FROM_HEADER = "x-migrated-from"
"""Header of a publish by `mirrormq migrate`, always with a publish id (`channels.migrated_publishes`)."""
MARKER = b"x-producer"
"""Bytes that raw properties contain if their message may have a publish id."""

PREFIX = "x-producer:"
"""Prefix of client names in the table. They end with a colon, which names of nodes do not."""


def publish_id_of(headers: Table) -> tuple[str, int] | None:
    """Return the producer name and number of a message, as the table has them."""
    name, number = headers.get(PRODUCER_HEADER), headers.get(PUBLISH_ID_HEADER)
    if name is None or number is None or not isinstance(name.value, bytes):
        return None
    value = number.value
    if not isinstance(value, int) or isinstance(value, bool) or value < 0 or number.kind == "T":
        return None
    if len(name.value) > limits.PRODUCER_NAME_BYTES_MAX:
        return None
    return f"{PREFIX}{name.value.decode('utf-8', 'surrogateescape')}:", value


def publish_ids_in(properties: bytes) -> tuple[str, int] | None:
    """Return the producer name and number from raw properties."""
    if MARKER not in properties:
        return None
    return publish_id_of(decode_properties(properties, 0).headers or {})


def highest_of(messages: Iterable[Message]) -> dict[str, int]:
    """Return the highest number of each producer among messages."""
    highest: dict[str, int] = {}
    for message in messages:
        producer_ids = message.envelope.producer_ids
        if producer_ids is not None and producer_ids[1] > highest.get(producer_ids[0], -1):
            highest[producer_ids[0]] = producer_ids[1]
    return highest


def publish_ids_only(producers: Mapping[str, int]) -> dict[str, int]:
    """Return the client producers of a table, without the nodes."""
    return {name: number for name, number in producers.items() if name.startswith(PREFIX)}


class PublishOrigin(NamedTuple):
    """Origin of a batch of publishes."""

    producer: str
    """Node in one of its incarnations."""
    first_number: int
    """Number of the batch's first message; the others follow."""


class SeenPublishIds(dict[str, int]):
    """Highest number of each producer. At the limit the least recently seen one is forgotten: a cluster
    has few nodes with one incarnation at a time, but there may be many clients."""

    def __init__(self, known: Mapping[str, int] | None = None) -> None:
        super().__init__(known or {})
        self._published_ms: dict[str, int] = {}
        """Time of the last publish of each client, oldest first."""
        self._nodes = sum(not name.startswith(PREFIX) for name in self)

    def seen(self, origin: PublishOrigin, count: int) -> int:
        """Record a batch of a node. Return how many messages at its beginning are known already."""
        last_number = origin.first_number + count - 1
        if origin.producer not in self:
            self._nodes += 1
        # Removed and added again, so that the dictionary's order is that of the last publish.
        highest = self.pop(origin.producer, 0)
        self[origin.producer] = max(highest, last_number)
        if self._nodes > limits.PRODUCERS_MAX:
            del self[next(name for name in self if not name.startswith(PREFIX))]
            self._nodes -= 1
        return min(count, max(0, highest - origin.first_number + 1))

    def record(self, highest: Mapping[str, int], now_ms: int) -> list[str]:
        """Record the highest numbers of clients. Return the producers that are forgotten in exchange."""
        if len(self._published_ms) < len(self) - self._nodes:
            self._published_ms = {
                name: self._published_ms.get(name, now_ms) for name in publish_ids_only(self)
            }
        for name, number in highest.items():
            self[name] = max(number, self.get(name, -1))
            self._published_ms.pop(name, None)
            self._published_ms[name] = now_ms
        forgotten: list[str] = []
        for name, published_ms in self._published_ms.items():
            too_many = len(self._published_ms) - len(forgotten) > limits.PRODUCERS_REMEMBERED_MAX
            if not too_many and now_ms - published_ms < limits.PRODUCER_IDLE_MS:
                break
            forgotten.append(name)
        for name in forgotten:
            del self._published_ms[name], self[name]
        return forgotten

    def forget(self, gone: Callable[[str], bool]) -> list[str]:
        """Forget nodes whose incarnation has ended. Return their names."""
        names = [name for name in self if not name.startswith(PREFIX) and gone(name)]
        for name in names:
            del self[name]
        self._nodes -= len(names)
        return names
