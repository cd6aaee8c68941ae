"""Resource: exchanges, their bindings, and publishing."""

from __future__ import annotations

import base64
import binascii
import struct
from typing import Any

from mirrormq.control.argument_tables import plain_arguments
from mirrormq.errors import AmqpError
from mirrormq.management import access, detailed_statistics, object_json
from mirrormq.management.api_request import (
    CREATED,
    ApiRequest,
    EmptyReply,
    ListReply,
    boolean,
    declared,
    table,
)
from mirrormq.management.http_errors import bad_request, not_found
from mirrormq.management.peer_client import merged
from mirrormq.management.route_table import ApiRoute
from mirrormq.metadata import records
from mirrormq.metadata.store import INTERNAL_USER
from mirrormq.wire.fields import table_of
from mirrormq.wire.properties import PROPERTY_TYPES, BasicProperties, encode_properties

DEFAULT_NAME = "amq.default"
"""Name of the default exchange in paths."""

ROUTING_KEY_BYTES_MAX = 255


def _name(call: ApiRequest) -> str:
    return "" if call.name == DEFAULT_NAME else call.name


def counted_here(call: ApiRequest, record: records.Exchange) -> dict[str, Any]:
    """Return the publish counts of this node's clients at an exchange."""
    return call.statistics.exchange(record.vhost, record.name, call.ranges)


Counted = dict[tuple[str, str], list[dict[str, Any]]]


async def _counted_on_peers(call: ApiRequest, vhosts: list[str]) -> Counted:
    """Return the publish counts of other nodes' clients, by exchange."""
    counts: Counted = {}
    rows: list[Any] = await call.peer_client.rows("exchanges", vhosts=vhosts, query=call.asked)
    for vhost, name, numbers in rows:
        counts.setdefault((vhost, name), []).append(numbers)
    return counts


def row(call: ApiRequest, record: records.Exchange, peer_rows: Counted) -> dict[str, Any]:
    policy = call.node.broker.policies.effective(record.vhost, record.name, "exchanges").policy
    return {
        "arguments": plain_arguments(record.arguments),
        "auto_delete": record.auto_delete,
        "durable": record.durable,
        "internal": record.internal,
        "name": record.name,
        "type": record.kind,
        "user_who_performed_action": call.statistics.makers.get(record.key, INTERNAL_USER),
        "vhost": record.vhost,
        **merged([counted_here(call, record), *peer_rows.get(record.key, [])]),
        **({} if policy is None else {"policy": policy}),
    }


async def list_exchanges(call: ApiRequest) -> ListReply:
    vhosts = call.chosen_vhosts()
    found = [record for vhost in vhosts for _, record in sorted(call.state.exchanges_of(vhost).items())]
    peer_rows = await _counted_on_peers(call, vhosts)
    return ListReply(found, lambda record: row(call, record, peer_rows), lambda record: str(record.name))


def _record(call: ApiRequest) -> records.Exchange:
    record = call.state.exchanges.get((call.vhost, _name(call)))
    if record is None:
        raise not_found()
    return record


async def show(call: ApiRequest) -> dict[str, Any]:
    record = _record(call)
    peer_rows = await _counted_on_peers(call, [call.vhost])
    incoming, outgoing = await detailed_statistics.on_all_nodes(call, record.vhost, "exchange", record.name)
    return {**row(call, record, peer_rows), "incoming": incoming, "outgoing": outgoing}


async def declare(call: ApiRequest) -> EmptyReply:
    body = call.body()
    existed = (call.vhost, _name(call)) in call.state.exchanges
    flags = {name: boolean(body, name) for name in ("durable", "auto_delete", "internal")}
    kind = body.get("type", "direct")
    if not isinstance(kind, str):
        raise bad_request(["not_string", kind])
    try:
        await call.direct().declare_exchange(_name(call), kind, arguments=table(body), **flags)
    except AmqpError as error:
        raise declared(error) from None
    return EmptyReply() if existed else EmptyReply(CREATED)


async def delete(call: ApiRequest) -> EmptyReply:
    _record(call)
    try:
        await call.direct().delete_exchange(_name(call), if_unused=call.flag("if-unused"))
    except AmqpError as error:
        raise declared(error) from None
    return EmptyReply()


def from_it(call: ApiRequest) -> ListReply:
    name = _name(call)
    if not name:
        queues = sorted(call.state.queues_of(call.vhost))
        return ListReply(
            [object_json.default_binding(call.vhost, queue) for queue in queues], object_json.binding
        )
    found = call.state.bindings_from(call.vhost, name).values()
    return ListReply(sorted(found, key=lambda each: each.key), object_json.binding)


def to_it(call: ApiRequest) -> ListReply:
    found = call.state.bindings_to(call.vhost, "exchange", _name(call)).values()
    return ListReply(sorted(found, key=lambda each: each.key), object_json.binding)


async def publish(call: ApiRequest) -> dict[str, bool]:
    body = call.body("routing_key", "properties", "payload", "payload_encoding")
    if not isinstance(body["payload"], str):
        raise bad_request("payload_not_string")
    channel, key = call.direct(), body["routing_key"]
    if not isinstance(key, str):
        raise bad_request(["not_string", "routing_key"])
    if len(key.encode("utf-8", "surrogateescape")) > ROUTING_KEY_BYTES_MAX:
        return {"routed": False}
    try:
        properties = encode_properties(_properties(body["properties"]))
    except (TypeError, ValueError, OverflowError, struct.error) as error:
        raise bad_request(f"properties cannot be used: {error}") from None
    payload = _payload(body["payload"], body["payload_encoding"])
    try:
        return {"routed": await channel.publish(_name(call), key, properties, payload)}
    except AmqpError as error:
        raise bad_request(f"{error.code} {error.text}") from None


def _payload(payload: str, encoding: Any) -> bytes:
    raw = payload.encode("utf-8", "surrogateescape")
    if encoding == "string":
        return raw
    if encoding != "base64":
        raise bad_request(["unsupported_encoding", encoding])
    try:
        return base64.b64decode(raw, validate=True)
    except binascii.Error:
        raise bad_request(["not_base64", payload]) from None


def _properties(given: Any) -> BasicProperties:
    """Return the properties of a message; some languages encode an empty object as an empty list."""
    values: dict[str, Any] = {}
    for name, value in given.items() if isinstance(given, dict) else ():
        field = "type_" if name == "type" else name
        wire_type = PROPERTY_TYPES.get(field)
        if wire_type is None:
            continue
        if wire_type == "table":
            if not isinstance(value, dict):
                raise bad_request(["not_object", name])
            values[field] = table_of(value)
        elif wire_type == "shortstr":
            if not isinstance(value, str):
                raise bad_request(["not_string", name])
            values[field] = value
        elif isinstance(value, bool) or not isinstance(value, int):
            raise bad_request(["not_int", name])
        else:
            values[field] = value
    return BasicProperties(**values)


ROUTES = [
    ApiRoute("exchanges", access.vhost, {"GET": list_exchanges}),
    ApiRoute("exchanges/{vhost}", access.vhost, {"GET": list_exchanges}),
    ApiRoute("exchanges/{vhost}/{name}", access.vhost, {"GET": show, "PUT": declare, "DELETE": delete}),
    ApiRoute("exchanges/{vhost}/{name}/bindings/source", access.vhost, {"GET": from_it}),
    ApiRoute("exchanges/{vhost}/{name}/bindings/destination", access.vhost, {"GET": to_it}),
    ApiRoute("exchanges/{vhost}/{name}/publish", access.vhost_if_any, {"POST": publish}),
]
