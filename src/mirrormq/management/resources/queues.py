"""Queues: what is in them, declaring, emptying, deleting, looking at their messages."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from mirrormq.control.tables import plain_arguments
from mirrormq.errors import AmqpError
from mirrormq.management import access, shapes
from mirrormq.management.answers import Silent, bad_request, not_found
from mirrormq.management.call import CREATED, Call, Done, Listing, boolean, declared, integer, spoken, table
from mirrormq.management.routing import Route
from mirrormq.metadata import records
from mirrormq.wire.content import body_of
from mirrormq.wire.fields import plain
from mirrormq.wire.properties import decode_properties

if TYPE_CHECKING:
    from mirrormq.connections.connection import Connection
    from mirrormq.queues.message import Message
    from mirrormq.queues.queue import Queue

GET_BYTES_MAX = 64 * 1024 * 1024
"""Bodies in one answer to a get; what is beyond stays in the queue."""

ACK_MODES = ("ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false")


def row(call: Call, record: records.Queue) -> dict[str, Any]:
    """A queue in a list."""
    effective = call.node.broker.policies.effective(record.vhost, record.name, "queues")
    vhost = call.node.broker.vhosts.get(record.vhost)
    queue = vhost.local_queue(record.name) if vhost is not None else None
    return {
        "arguments": plain_arguments(record.arguments),
        "auto_delete": record.auto_delete,
        "durable": record.durable,
        "effective_policy_definition": effective.definition,
        "exclusive": record.exclusive,
        "name": record.name,
        "node": record.node,
        "operator_policy": effective.operator_policy,
        "policy": effective.policy,
        "type": "classic",
        "vhost": record.vhost,
        **({"state": "down"} if queue is None else _state(call, queue)),
    }


def _state(call: Call, queue: Queue) -> dict[str, Any]:
    backing, turns = queue.backing, queue.consumers
    exclusive = queue.exclusive_consumer
    active = turns.active if turns.single_active else None
    return {
        "consumers": len(turns.all),
        "exclusive_consumer_tag": None if exclusive is None else exclusive.describe().tag,
        "message_bytes": backing.ready_bytes + backing.unacked_bytes,
        "message_bytes_ready": backing.ready_bytes,
        "message_bytes_unacknowledged": backing.unacked_bytes,
        "recoverable_slaves": None,
        "single_active_consumer_tag": None if active is None else active.describe().tag,
        "state": "running",
        **call.statistics.queue(queue, call.ranges),
    }


def short_row(call: Call, record: records.Queue) -> dict[str, Any]:
    """A queue in a list without statistics."""
    names = ["arguments", "auto_delete", "durable", "exclusive", "name", "node", "type", "vhost"]
    if call.flag("enable_queue_totals"):
        names += ["messages", "messages_ready", "messages_unacknowledged", "state"]
    whole = row(call, record)
    policy = {"policy": whole["policy"]} if whole["policy"] is not None else {}
    return {name: whole[name] for name in names if name in whole} | policy


def list_queues(call: Call) -> Listing:
    state = call.state
    shown = short_row if call.flag("disable_stats") else row
    found = [record for vhost in call.chosen_vhosts() for _, record in sorted(state.queues_of(vhost).items())]
    return Listing(found, lambda record: shown(call, record), lambda record: str(record.name))


def show(call: Call) -> dict[str, Any]:
    record = _record(call)
    queue = call.node.broker.vhosts[call.vhost].local_queue(call.name)
    owner: Connection | None = None if queue is None else queue.owner  # type: ignore[assignment]
    return {
        "consumer_details": [] if queue is None else shapes.consumers_of(queue),
        **row(call, record),
        "deliveries": [],
        "incoming": [],
        **({} if owner is None else {"owner_pid_details": shapes.connection_details(owner)}),
    }


def _record(call: Call) -> records.Queue:
    record = call.state.queues.get((call.vhost, call.name))
    if record is None:
        raise not_found()
    return record


async def declare(call: Call) -> Done:
    body = call.body()
    node = body.get("node")
    if node is not None and node != call.node.settings.name:
        raise bad_request(f"Node {node} could not be contacted")
    existed = (call.vhost, call.name) in call.state.queues
    durable, auto_delete = boolean(body, "durable"), boolean(body, "auto_delete")
    try:
        await call.direct().declare_queue(
            call.name, durable=durable, auto_delete=auto_delete, arguments=table(body)
        )
    except AmqpError as error:
        raise declared(error) from None
    return Done() if existed else Done(CREATED)


async def delete(call: Call) -> Done:
    _record(call)
    try:
        await call.direct().delete_queue(
            call.name, if_unused=call.flag("if-unused"), if_empty=call.flag("if-empty")
        )
    except AmqpError as error:
        raise declared(error) from None
    return Done()


async def purge(call: Call) -> Done:
    _record(call)
    try:
        await call.direct().purge_queue(call.name)
    except AmqpError as error:
        raise declared(error) from None
    return Done()


def bindings(call: Call) -> Listing:
    """RabbitMQ shows the default binding even of a queue that is not there."""
    found = call.state.bindings_to(call.vhost, "queue", call.name).values()
    items = [shapes.default_binding(call.vhost, call.name), *sorted(found, key=lambda each: each.key)]
    return Listing(items, shapes.binding)


def act(call: Call) -> Done:
    """A queue without mirrors is in step with all of them."""
    body = call.body("action")
    if (call.vhost, call.name) not in call.state.queues:
        raise Silent
    if body["action"] not in ("sync", "cancel_sync"):
        raise bad_request(["unknown", body["action"]])
    return Done()


async def get(call: Call) -> list[dict[str, Any]]:
    body = call.body("ackmode", "count", "encoding")
    mode, encoding = body["ackmode"], body["encoding"]
    if mode not in ACK_MODES:
        raise Silent
    count = integer(body["count"])
    cut = integer(body["truncate"]) if "truncate" in body else None
    if encoding not in ("auto", "base64"):
        raise bad_request("Unsupported encoding. Please use auto or base64.")
    try:
        messages = await call.direct().get(call.name, count, mode, GET_BYTES_MAX)
    except AmqpError as error:
        raise spoken(error) from None
    return [_message(message, left, encoding, cut) for message, left in messages]


def _message(message: Message, left: int, encoding: str, cut: int | None) -> dict[str, Any]:
    given = decode_properties(message.envelope.properties, 0)._asdict()
    properties = {name.rstrip("_"): value for name, value in given.items() if value is not None}
    if "headers" in properties:
        properties["headers"] = plain(properties["headers"])
    body = body_of(message.frames)
    payload, used = _payload(body if cut is None else body[:cut], encoding)
    return {
        "payload_bytes": len(body),
        "redelivered": message.redelivered,
        "exchange": message.envelope.exchange,
        "routing_key": message.envelope.routing_key,
        "message_count": left,
        "properties": properties or [],
        "payload": payload,
        "payload_encoding": used,
    }


def _payload(body: bytes, encoding: str) -> tuple[str, str]:
    if encoding == "auto":
        try:
            return body.decode(), "string"
        except UnicodeDecodeError:
            pass
    return base64.b64encode(body).decode(), "base64"


ROUTES = [
    Route("queues", access.vhost, {"GET": list_queues}),
    Route("queues/{vhost}", access.vhost, {"GET": list_queues}),
    Route("queues/{vhost}/{name}", access.vhost, {"GET": show, "PUT": declare, "DELETE": delete}),
    Route("queues/{vhost}/{name}/bindings", access.vhost, {"GET": bindings}),
    Route("queues/{vhost}/{name}/contents", access.vhost, {"DELETE": purge}),
    Route("queues/{vhost}/{name}/get", access.vhost, {"POST": get}),
    Route("queues/{vhost}/{name}/actions", access.administrator, {"POST": act}),
]
