"""Messages as a migration publishes them, and as they were before.

A moved message goes to its queue through the default exchange. Three headers keep what that changes; the new
cluster restores exchange, routing key, user-id and CC from the first one (`channels.migrated_publishes`):

    x-migrated-from              table: exchange, routing-key, redelivered, and user-id and CC if it had them
    x-producer, x-publish-id     number of the message; the new cluster keeps each number once

The numbers count: the highest one of each producer that a queue has stored is how many messages arrived.
`plain` removes all three, so a message has the same hash on both clusters.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mirrormq.bridges.link_plan import Outgoing
from mirrormq.client.client_connection import ClientConnection
from mirrormq.client.client_events import Delivery
from mirrormq.migration.move_ledger import message_hash
from mirrormq.queues.publish_ids import MIGRATED_FROM_HEADER, PREFIX, PRODUCER_HEADER, PUBLISH_ID_HEADER
from mirrormq.wire.fields import Field, Table
from mirrormq.wire.properties import BasicProperties, decode_properties, encode_properties

PRODUCER_PREFIX = "migration:"
"""Beginning of the producers' names: they tell migrated messages from a client's own publish ids."""

TABLE_PREFIX = PREFIX + PRODUCER_PREFIX
"""Beginning of these names in the table of a queue of the new cluster."""

_SENTINEL = 0x7A6C_5B4E_3D2F_1A09
"""Number in a template that the number of each message replaces."""
_SENTINEL_BYTES = _SENTINEL.to_bytes(8, "big")

TEMPLATES_BYTES_MAX = 1024 * 1024
"""Memory for the property templates of one link. Messages with equal properties share one; with others, for
example with an id in each, this is enough for those under way."""

TEMPLATE_BYTES = 1_000
"""Memory of a template without its properties, measured with CPython 3.11."""
PROPERTIES_HELD = 6
"""Number of times that a template holds its properties: in the key, decoded and encoded."""


class PlainMessage(NamedTuple):
    """Message without the traces of a migration."""

    exchange: str
    routing_key: str
    properties: BasicProperties
    flagged: bool = False
    """The cluster that it came from had delivered it before."""


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _text(field: Field | None) -> str:
    return field.value.decode("utf-8", "surrogateescape") if field and isinstance(field.value, bytes) else ""


def plain(exchange: str, routing_key: str, encoded: bytes) -> PlainMessage:
    """Return a message as its publisher sent it."""
    properties = decode_properties(encoded, 0)
    headers = dict(properties.headers or {})
    if _text(headers.get(PRODUCER_HEADER)).startswith(PRODUCER_PREFIX):
        del headers[PRODUCER_HEADER]
        headers.pop(PUBLISH_ID_HEADER, None)
    entry = headers.pop(MIGRATED_FROM_HEADER, None)
    if entry is None or not isinstance(entry.value, dict):
        return PlainMessage(exchange, routing_key, properties._replace(headers=headers or None))
    before = entry.value
    if "CC" in before:
        headers["CC"] = before["CC"]
    user_id = _text(before["user-id"]) if "user-id" in before else properties.user_id
    # The new cluster has removed the address, which is the message's own again.
    named = "exchange" in before
    return PlainMessage(
        _text(before.get("exchange")) if named else exchange,
        _text(before.get("routing-key")) if named else routing_key,
        properties._replace(headers=headers or None, user_id=user_id),
        "redelivered" in before,
    )


def canonical(properties: BasicProperties) -> bytes:
    """Encode properties for the hash: a migration may move CC behind the other headers."""
    headers = dict(properties.headers or {})
    return encode_properties(properties._replace(headers=dict(sorted(headers.items())) or None))


def plain_hash(message: PlainMessage, body: bytes | bytearray) -> int:
    """Return the hash of a message, equal on both clusters."""
    return message_hash(message.exchange, message.routing_key, canonical(message.properties), body)


class _Template(NamedTuple):
    message: PlainMessage
    canonical: bytes
    head: bytes
    tail: bytes
    """Properties to publish, before and after the number. An empty tail: they have no number."""


_TemplateKey = tuple[str, str, bytes, bool]
"""Exchange, routing key, properties, and whether the message is redelivered."""


def _size(key: _TemplateKey) -> int:
    return TEMPLATE_BYTES + PROPERTIES_HELD * (len(key[0]) + len(key[1]) + len(key[2]))


class MovingTransform:
    """Transform of one link: adds the headers, numbers the messages, and knows their hashes.

    `restart` begins a new producer. Each attempt of a link needs its own: a message of an attempt that broke
    may arrive late, and must not take the number of another one.
    """

    def __init__(
        self, queue: str, *, forward: bool, enter: Callable[[int, bool], None],
        templates_bytes_max: int = TEMPLATES_BYTES_MAX,
    ) -> None:  # fmt: skip
        self._queue = queue
        self._forward = forward
        """Flag: to the new cluster, which keeps publish ids."""
        self._enter = enter
        self._templates: dict[_TemplateKey, _Template] = {}
        self.templates_bytes = 0
        """Memory that the templates take."""
        self._templates_bytes_max = templates_bytes_max
        self._producer = ""
        self._number = 0

    def restart(self, producer: str) -> None:
        """Begin an attempt."""
        self._producer = PRODUCER_PREFIX + producer
        self._number = 0
        self._templates.clear()
        self.templates_bytes = 0

    def __call__(self, delivery: Delivery, _source: ClientConnection) -> Outgoing:
        template = self._template(delivery)
        properties = template.head
        if self._forward:
            self._number += 1
            properties = template.head + self._number.to_bytes(8, "big") + template.tail
        return Outgoing("", self._queue, properties, delivery.body)

    def moved(self, delivery: Delivery) -> None:
        """Enter a message that the destination has confirmed."""
        template = self._template(delivery)
        message = template.message
        value = message_hash(message.exchange, message.routing_key, template.canonical, delivery.body)
        self._enter(value, delivery.redelivered)

    def _template(self, delivery: Delivery) -> _Template:
        key = (delivery.exchange, delivery.routing_key, delivery.properties, delivery.redelivered)
        template = self._templates.get(key)
        if template is None:
            template = self._templates[key] = self._make(delivery)
            self.templates_bytes += _size(key)
            while self.templates_bytes > self._templates_bytes_max:
                oldest = next(iter(self._templates))
                del self._templates[oldest]
                self.templates_bytes -= _size(oldest)
        return template

    def _make(self, delivery: Delivery) -> _Template:
        message = plain(delivery.exchange, delivery.routing_key, delivery.properties)
        properties = message.properties
        headers: Table = dict(properties.headers or {})
        before: Table = {}
        if delivery.redelivered or message.flagged:
            before["redelivered"] = Field("t", True)
        if properties.user_id is not None:
            # The broker accepts only the user of the connection.
            before["user-id"] = Field("S", _bytes(properties.user_id))
        if "CC" in headers:
            # The broker would route the message to these keys once more.
            before["CC"] = headers.pop("CC")
        # A message for the queue itself needs no address: the default exchange is where it was published.
        if before or message.exchange or message.routing_key != self._queue:
            before["exchange"] = Field("S", _bytes(message.exchange))
            before["routing-key"] = Field("S", _bytes(message.routing_key))
            headers[MIGRATED_FROM_HEADER] = Field("F", before)
        if self._forward:
            headers[PRODUCER_HEADER] = Field("S", self._producer.encode())
            headers[PUBLISH_ID_HEADER] = Field("l", _SENTINEL)
        encoded = encode_properties(properties._replace(headers=headers or None, user_id=None))
        head, found, tail = encoded.rpartition(_SENTINEL_BYTES) if self._forward else (encoded, b"", b"")
        assert bool(found) is self._forward
        return _Template(message, canonical(properties), head, tail)
