"""Messages that `mirrormq migrate` publishes: consumers see the original exchange and routing key.

A migration publishes through the default exchange to one queue. The header `x-migrated-from` names what that
hides: exchange, routing key, and the property and header that a publish may not repeat. The broker restores
them, for administrators only: others could write a false sender into a message. It works on messages with a
publish id, whose headers are decoded anyway.
"""

from __future__ import annotations

from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.message import Envelope
from mirrormq.queues.publish_ids import MIGRATED_FROM_HEADER
from mirrormq.wire.content import with_properties
from mirrormq.wire.fields import SHORT_STRING_BYTES_MAX, Table
from mirrormq.wire.methods import encode_basic_publish
from mirrormq.wire.properties import decode_properties, encode_properties

EXCHANGE, ROUTING_KEY, REDELIVERED, USER_ID, CARBON_COPIES = (
    "exchange", "routing-key", "redelivered", "user-id", "CC",
)  # fmt: skip
"""Fields of the header. `redelivered` stays with the message: the old cluster had delivered it before."""


def restored(envelope: Envelope, headers: Table, contents: list[bytes]) -> tuple[Envelope, list[bytes]]:
    """Return envelope and contents as first published; unchanged if the header is malformed."""
    before = headers[MIGRATED_FROM_HEADER].value
    if not isinstance(before, dict) or envelope.properties is None:
        return envelope, contents
    exchange, routing_key = (_text(before, name) for name in (EXCHANGE, ROUTING_KEY))
    if exchange is None or routing_key is None:
        return envelope, contents
    kept: Table = {name: field for name, field in headers.items() if name != MIGRATED_FROM_HEADER}
    if REDELIVERED in before:
        kept[MIGRATED_FROM_HEADER] = headers[MIGRATED_FROM_HEADER]._replace(
            value={REDELIVERED: before[REDELIVERED]}
        )
    if CARBON_COPIES in before:
        kept[CARBON_COPIES] = before[CARBON_COPIES]
    properties = decode_properties(envelope.properties, 0)
    user_id = _text(before, USER_ID) if USER_ID in before else properties.user_id
    payload = encode_properties(properties._replace(headers=kept, user_id=user_id))
    publish = encode_basic_publish(exchange, routing_key, envelope.mandatory)
    first = make_envelope(publish, payload)
    first.identify(envelope.producer_ids)
    return first, [with_properties(content, payload) for content in contents]


def _text(table: Table, name: str) -> str | None:
    """Return a short string of the table; None if it is absent or has another form."""
    field = table.get(name)
    if field is None or not isinstance(field.value, bytes) or len(field.value) > SHORT_STRING_BYTES_MAX:
        return None
    return field.value.decode("utf-8", "surrogateescape")
