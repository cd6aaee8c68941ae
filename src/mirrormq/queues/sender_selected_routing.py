"""Sender-selected routing: the CC and BCC headers name further routing keys.

The broker removes BCC from the headers before a consumer receives the message.
"""

from __future__ import annotations

from mirrormq.errors import PreconditionFailed
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.message import Envelope
from mirrormq.wire.content import with_properties
from mirrormq.wire.fields import TYPE_NAMES, Table
from mirrormq.wire.properties import decode_properties, encode_properties


def apply(
    envelope: Envelope, headers: Table, contents: list[bytes]
) -> tuple[Envelope, list[str], list[bytes]]:
    """Return the message without BCC, all its routing keys, and its contents."""
    shown_keys = [envelope.routing_key, *header_keys(headers, "CC")]
    hidden = [*envelope.hidden_keys, *header_keys(headers, "BCC")]
    if "BCC" in headers:
        assert envelope.properties is not None
        properties = decode_properties(envelope.properties, 0)
        shown = {name: field for name, field in headers.items() if name != "BCC"}
        payload = encode_properties(properties._replace(headers=shown))
        envelope = make_envelope(envelope.publish, payload)
        envelope.hidden_keys = tuple(hidden)
        contents = [with_properties(content, payload) for content in contents]
    return envelope, shown_keys + hidden, contents


def header_keys(headers: Table, name: str) -> list[str]:
    """Return the routing keys in one of the headers, which must be an array of long strings."""
    field = headers.get(name)
    if field is None:
        return []
    if field.kind != "A" or not isinstance(field.value, list):
        raise PreconditionFailed(
            f'invalid message: {{unacceptable_type_in_header,"{name}",{TYPE_NAMES[field.kind]}}}'
        )
    return [
        entry.value.decode("utf-8", "surrogateescape")
        for entry in field.value
        if isinstance(entry.value, bytes)
    ]
