"""Who publishes to a queue, and what it has had of each: so that what comes twice is kept once.

*Nodes.* A node keeps what its clients publish to a queue elsewhere until the queue's master says that it is
safe, and sends it again to whoever becomes master next. Each node numbers its publishes to a queue (1, 2, 3
…, for as long as it lives), they arrive in that order, and the queue remembers the highest number of each.

*Clients.* A publisher that cannot tell whether a message has arrived (its connection broke, its task is run
again) may publish it once more, if it gives its messages the headers `x-producer`, a name that stays, and
`x-publish-id`, a number that grows. They are *presented* then: what is not above the highest number of that
name is confirmed and not kept. Names that have not been heard of for long are forgotten.

Both are remembered in one table, so the ring, synchronisation and promotion carry both alike.
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
MARKER = b"x-producer"
"""What raw properties hold if their message may be presented."""

PREFIX = "x-producer:"
"""What names of clients begin with in the table; they end with a colon, and names of nodes do not."""


def publish_id_of(headers: Table) -> tuple[str, int] | None:
    """The name and number that a message is presented with, as the table has them."""
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
    """The same, from raw properties."""
    if MARKER not in properties:
        return None
    return publish_id_of(decode_properties(properties, 0).headers or {})


def highest_of(messages: Iterable[Message]) -> dict[str, int]:
    """The highest number of each name among messages."""
    highest: dict[str, int] = {}
    for message in messages:
        producer_ids = message.envelope.producer_ids
        if producer_ids is not None and producer_ids[1] > highest.get(producer_ids[0], -1):
            highest[producer_ids[0]] = producer_ids[1]
    return highest


def publish_ids_only(producers: Mapping[str, int]) -> dict[str, int]:
    """Of a table, the clients."""
    return {name: number for name, number in producers.items() if name.startswith(PREFIX)}


class PublishOrigin(NamedTuple):
    """Where a batch of publishes comes from."""

    producer: str
    """A node in one of its lives."""
    first_number: int
    """The number of the batch's first message; the others follow."""


class SeenPublishIds(dict[str, int]):
    """The highest number of each producer. The least recently heard of goes when there are too many: a
    cluster has few nodes, and each has one life at a time; clients may be more."""

    def __init__(self, known: Mapping[str, int] | None = None) -> None:
        super().__init__(known or {})
        self._heard_ms: dict[str, int] = {}
        """When clients were last heard of, those of longest ago first."""
        self._nodes = sum(not name.startswith(PREFIX) for name in self)

    def seen(self, origin: PublishOrigin, count: int) -> int:
        """How many messages at the beginning of a batch are known already; the rest is from now on."""
        last = origin.first_number + count - 1
        if origin.producer not in self:
            self._nodes += 1
        highest = self.pop(origin.producer, 0)
        self[origin.producer] = max(highest, last)
        if self._nodes > limits.PRODUCERS_MAX:
            del self[next(name for name in self if not name.startswith(PREFIX))]
            self._nodes -= 1
        return min(count, max(0, highest - origin.first_number + 1))

    def heard(self, highest: Mapping[str, int], now_ms: int) -> list[str]:
        """Clients have come so far; says which others are forgotten for that."""
        if len(self._heard_ms) < len(self) - self._nodes:
            self._heard_ms = {name: self._heard_ms.get(name, now_ms) for name in publish_ids_only(self)}
        for name, number in highest.items():
            self[name] = max(number, self.get(name, -1))
            self._heard_ms.pop(name, None)
            self._heard_ms[name] = now_ms
        gone: list[str] = []
        for name, heard_ms in self._heard_ms.items():
            too_many = len(self._heard_ms) - len(gone) > limits.PRODUCERS_REMEMBERED_MAX
            if not too_many and now_ms - heard_ms < limits.PRODUCER_IDLE_MS:
                break
            gone.append(name)
        for name in gone:
            del self._heard_ms[name], self[name]
        return gone

    def forget(self, gone: Callable[[str], bool]) -> list[str]:
        """Forget nodes whose life is over; says which they were."""
        names = [name for name in self if not name.startswith(PREFIX) and gone(name)]
        for name in names:
            del self[name]
        self._nodes -= len(names)
        return names
