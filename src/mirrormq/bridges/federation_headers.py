"""Headers of federated messages: where a message came from, and how often."""

from __future__ import annotations

from typing import NamedTuple

from mirrormq.exchanges.federation_upstream import RECEIVED_FROM_HEADER, should_forward
from mirrormq.wire.fields import Field, Table
from mirrormq.wire.properties import decode_properties, encode_properties

ORIGINAL_EXCHANGE = "x-original-exchange"
ORIGINAL_ROUTING_KEY = "x-original-routing-key"
ORIGINAL_CC = "x-original-cc"


class Origin(NamedTuple):
    """Upstream of a message."""

    uri: str
    """URI without credentials."""
    resource: str
    """Name in the header: of the downstream exchange, or of the upstream queue."""
    upstream_resource: str
    cluster: str
    vhost: str


def _text(text: str) -> Field:
    return Field("S", text.encode("utf-8", "surrogateescape"))


def _received_from(headers: Table) -> list[Field]:
    field = headers.get(RECEIVED_FROM_HEADER)
    return list(field.value) if field is not None and field.kind == "A" else []


def exchange_properties(
    encoded: bytes, origin: Origin, redelivered: bool, max_hops: int, here: tuple[str, str], trusted: bool
) -> bytes | None:
    """Return the properties of a message over an exchange link; None: it must not go on.

    `here` is cluster and vhost of the downstream. The check is the upstream exchange's own; an upstream
    without that exchange type does not make it.
    """
    properties = decode_properties(encoded, 0)
    headers = dict(properties.headers or {})
    cluster, vhost = (name.encode("utf-8", "surrogateescape") for name in here)
    if not should_forward(headers, max_hops, cluster, vhost):
        return None
    entry: Table = {
        "uri": _text(origin.uri),
        "exchange": _text(origin.resource),
        "redelivered": Field("t", redelivered),
        "cluster-name": _text(origin.cluster),
        "vhost": _text(origin.vhost),
        "upstream-exchange": _text(origin.upstream_resource),
    }
    headers[RECEIVED_FROM_HEADER] = Field("A", [Field("F", entry), *_received_from(headers)])
    user_id = properties.user_id if trusted else None
    return encode_properties(properties._replace(headers=headers, user_id=user_id))


def queue_properties(
    encoded: bytes, origin: Origin, redelivered: bool, exchange: str, routing_key: str, trusted: bool
) -> bytes:
    """Return the properties of a message over a queue link."""
    properties = decode_properties(encoded, 0)
    headers = dict(properties.headers or {})
    if RECEIVED_FROM_HEADER not in headers:
        headers[ORIGINAL_EXCHANGE] = _text(exchange)
        headers[ORIGINAL_ROUTING_KEY] = _text(routing_key)
        if (carbon_copies := headers.pop("CC", None)) is not None:
            headers[ORIGINAL_CC] = carbon_copies
    uri, queue = _text(origin.uri), _text(origin.upstream_resource)
    visits, others = 0, []
    for entry in _received_from(headers):
        table = entry.value if entry.kind == "F" else {}
        if table.get("uri") == uri and table.get("queue") == queue:
            count = table.get("visit-count")
            visits = count.value if count is not None and isinstance(count.value, int) else 0
        else:
            others.append(entry)
    entry = Field("F", {
        "uri": uri,
        "queue": queue,
        "redelivered": Field("t", redelivered),
        "visit-count": Field("l", visits + 1),
    })  # fmt: skip
    headers[RECEIVED_FROM_HEADER] = Field("A", [entry, *others])
    user_id = properties.user_id if trusted else None
    return encode_properties(properties._replace(headers=headers, user_id=user_id))
