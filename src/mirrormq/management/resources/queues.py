"""Queues of all nodes in the HTTP API: state, rings, declare, purge, delete, get messages."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from mirrormq.control.argument_tables import plain_arguments
from mirrormq.control.control_protocol import NOT_MIRRORED, ControlError, Request
from mirrormq.control.queue_info import queue_facts
from mirrormq.errors import AmqpError
from mirrormq.management import access, detailed_statistics, object_json
from mirrormq.management.api_request import (
    CREATED,
    ApiRequest,
    EmptyReply,
    ListReply,
    boolean,
    declared,
    integer,
    refusal_of,
    table,
)
from mirrormq.management.http_errors import HttpRefusal, bad_request, not_found
from mirrormq.management.route_table import ApiRoute
from mirrormq.metadata import records
from mirrormq.replication.ring_status import is_mirrored, ring_facts, synchronising
from mirrormq.wire.content import body_of
from mirrormq.wire.fields import plain
from mirrormq.wire.properties import decode_properties

if TYPE_CHECKING:
    from mirrormq.connections.connection import Connection
    from mirrormq.queues.message import Message
    from mirrormq.queues.queue import Queue

GET_BYTES_MAX = 64 * 1024 * 1024
"""Bytes of bodies in one reply to a get; messages beyond stay in the queue."""

EVERYTHING = 2**31
"""Number of messages of one get if its count is negative."""

ACTIONS = {"sync": "sync_queue", "cancel_sync": "cancel_sync_queue"}
NOT_LISTED = ("disk_reads", "disk_writes")
ACK_MODES = ("ack_requeue_true", "ack_requeue_false", "reject_requeue_true", "reject_requeue_false")


def row(call: ApiRequest, record: records.Queue) -> dict[str, Any]:
    """Return a queue's row in a list, as this node knows it."""
    effective = call.node.broker.policies.effective(record.vhost, record.name, "queues")
    queue = _local(call, record)
    return {
        "arguments": plain_arguments(record.arguments),
        "auto_delete": record.auto_delete,
        "durable": record.durable,
        "effective_policy_definition": effective.definition,
        "exclusive": record.exclusive,
        "name": record.name,
        "node": record.ring.master,
        "operator_policy": effective.operator_policy,
        "policy": effective.policy,
        "type": "classic",
        "vhost": record.vhost,
        **_mirrors(call, record),
        **({"state": _remote_state(call, record)} if queue is None else _state(call, queue)),
        **({} if queue is None else _progress(call, record)),
        "mirrormq": ring_facts(call.node.broker, record),
    }


def is_here(call: ApiRequest, record: records.Queue) -> bool:
    """Return whether this node is the queue's master."""
    return _local(call, record) is not None


def _local(call: ApiRequest, record: records.Queue) -> Queue | None:
    vhost = call.node.broker.vhosts.get(record.vhost)
    return vhost.local_queue(record.name) if vhost is not None else None


def _mirrors(call: ApiRequest, record: records.Queue) -> dict[str, Any]:
    """Return the mirror fields. RabbitMQ shows none for a queue that no policy mirrors, and lists for
    any other."""
    if not is_mirrored(call.node.broker, record):
        return {"recoverable_slaves": None}
    view = record.ring
    mirrors = list(view.members[1:])
    gone = [name for name in record.waits_for if name not in view.members]
    return {
        "slave_nodes": mirrors,
        "synchronised_slave_nodes": [name for name in mirrors if name in view.in_sync],
        "recoverable_slaves": mirrors + gone,
    }


def _remote_state(call: ApiRequest, record: records.Queue) -> str:
    """Return the state of a queue as far as it is known without its master."""
    runs = not record.waits_for and record.ring.master in call.node.cluster.running
    return "running" if runs and record.ring.master != call.me else "down"


def _progress(call: ApiRequest, record: records.Queue) -> dict[str, Any]:
    synchronised = synchronising(call.node.broker, record)
    return {} if synchronised is None else {"state": "syncing", "sync_messages": synchronised}


def _state(call: ApiRequest, queue: Queue) -> dict[str, Any]:
    backing, turns = queue.backing, queue.consumers
    exclusive = queue.exclusive_consumer
    active = turns.active if turns.single_active else None
    return {
        "consumers": len(turns.all),
        "exclusive_consumer_tag": None if exclusive is None else exclusive.describe().tag,
        "message_bytes": backing.ready_bytes + backing.unacked_bytes,
        "message_bytes_ready": backing.ready_bytes,
        "message_bytes_unacknowledged": backing.unacked_bytes,
        "single_active_consumer_tag": None if active is None else active.describe().tag,
        "state": "running",
        **_facts(call, queue),
        **call.statistics.queue(queue, call.ranges),
    }


def _facts(call: ApiRequest, queue: Queue) -> dict[str, Any]:
    """Return the details that RabbitMQ shows for queues, without those that it leaves out in lists."""
    facts = queue_facts(queue, call.node.broker.clock.now_ms)
    return {name: fact for name, fact in facts.items() if name not in NOT_LISTED}


def short_row(call: ApiRequest, whole: dict[str, Any]) -> dict[str, Any]:
    """Return a queue's row in a list without statistics."""
    names = ["arguments", "auto_delete", "durable", "exclusive", "name", "node", "type", "vhost"]
    if call.flag("enable_queue_totals"):
        names += ["messages", "messages_ready", "messages_unacknowledged", "state"]
    policy = {"policy": whole["policy"]} if whole["policy"] is not None else {}
    return {"state": "live"} | {name: whole[name] for name in names if name in whole} | policy


def list_queues(call: ApiRequest) -> ListReply:
    """List queues, each as its master shows it."""
    state, short = call.state, call.flag("disable_stats")
    reported: dict[records.QueueKey, dict[str, Any]] = {}

    async def prepare(some: Sequence[records.Queue]) -> None:
        reported.clear()
        for found in await _ask_masters(call, some):
            reported[found["vhost"], found["name"]] = found

    def shown(record: records.Queue) -> dict[str, Any]:
        whole = reported.get(record.key) or row(call, record)
        return short_row(call, whole) if short else whole

    found = [record for vhost in call.chosen_vhosts() for _, record in sorted(state.queues_of(vhost).items())]
    needed = not short or call.flag("enable_queue_totals")
    return ListReply(found, shown, lambda record: str(record.name), prepare if needed else None)


async def _ask_masters(
    call: ApiRequest, some: Sequence[records.Queue], **options: Any
) -> list[dict[str, Any]]:
    """Return the rows of those queues whose master is another node."""
    wanted: dict[str, list[Any]] = {}
    for record in some:
        if record.ring.master != call.me and not record.waits_for:
            wanted.setdefault(record.ring.master, []).append(record.key)
    return await call.peer_client.by_owner("queues", wanted, query=call.asked, **options) if wanted else []


async def show(call: ApiRequest) -> dict[str, Any]:
    record = _record(call)
    deliveries, incoming = await detailed_statistics.on_all_nodes(call, record.vhost, "queue", record.name)
    used = {"deliveries": deliveries, "incoming": incoming}
    if not is_here(call, record):
        for found in await _ask_masters(call, [record], details=True):
            return found | used
    return details(call, record) | used


def details(call: ApiRequest, record: records.Queue) -> dict[str, Any]:
    """Return one queue in detail, as this node knows it."""
    queue = _local(call, record)
    owner = None if queue is None else cast("Connection | None", queue.owner)
    return {
        "consumer_details": [] if queue is None else object_json.consumers_of(queue),
        **row(call, record),
        **({} if owner is None else {"owner_pid_details": object_json.connection_details(owner)}),
    }


def _record(call: ApiRequest) -> records.Queue:
    record = call.state.queues.get((call.vhost, call.name))
    if record is None:
        raise not_found()
    return record


async def declare(call: ApiRequest) -> EmptyReply:
    """Declare a queue on this node, or on the node that the body names."""
    body = call.body()
    node = body.get("node", call.me)
    existed = (call.vhost, call.name) in call.state.queues
    durable, auto_delete = boolean(body, "durable"), boolean(body, "auto_delete")
    wanted: dict[str, Any] = {"durable": durable, "auto_delete": auto_delete, "arguments": table(body)}
    if node != call.me:
        await _declare_on_peer(call, str(node), wanted)
        return EmptyReply() if existed else EmptyReply(CREATED)
    try:
        await call.direct().declare_queue(call.name, **wanted)
    except AmqpError as error:
        raise declared(error) from None
    return EmptyReply() if existed else EmptyReply(CREATED)


async def _declare_on_peer(call: ApiRequest, node: str, wanted: dict[str, Any]) -> None:
    refusal = None
    if node in call.peer_client.peers:
        whose = {"user": call.user.name, "vhost": call.vhost, "name": call.name}
        refusal = await call.peer_client.ask(node, "declare_queue", **whose, **wanted)
    if refusal is None:
        raise bad_request(f"Node {node} could not be contacted")
    if refusal:
        raise HttpRefusal(*refusal)


async def delete(call: ApiRequest) -> EmptyReply:
    _record(call)
    try:
        await call.direct().delete_queue(
            call.name, if_unused=call.flag("if-unused"), if_empty=call.flag("if-empty")
        )
    except AmqpError as error:
        raise declared(error) from None
    return EmptyReply()


async def purge(call: ApiRequest) -> EmptyReply:
    _record(call)
    try:
        await call.direct().purge_queue(call.name)
    except AmqpError as error:
        raise declared(error) from None
    return EmptyReply()


def bindings(call: ApiRequest) -> ListReply:
    """List the bindings of a queue. As in RabbitMQ, the default binding is shown even if the queue does
    not exist."""
    found = call.state.bindings_to(call.vhost, "queue", call.name).values()
    items = [object_json.default_binding(call.vhost, call.name), *sorted(found, key=lambda each: each.key)]
    return ListReply(items, object_json.binding)


async def act(call: ApiRequest) -> EmptyReply:
    """Start or cancel a synchronisation. For a queue without mirrors this is a successful no-op."""
    body = call.body("action")
    if (call.vhost, call.name) not in call.state.queues:
        raise not_found()
    command = ACTIONS.get(body["action"]) if isinstance(body["action"], str) else None
    if command is None:
        raise bad_request(["unknown", body["action"]])
    try:
        await call.node.carry_out(Request(command, [call.name], {"vhost": call.vhost}))
    except ControlError as error:
        if error.reason != NOT_MIRRORED:
            raise
    return EmptyReply()


async def move(call: ApiRequest) -> EmptyReply:
    """Promote the synchronised mirror on a node to master."""
    node = call.body("node")["node"]
    _record(call)
    await call.node.carry_out(Request("move_master", [call.name, str(node)], {"vhost": call.vhost}))
    return EmptyReply()


async def get(call: ApiRequest) -> list[dict[str, Any]]:
    body = call.body("ackmode", "count", "encoding")
    mode, encoding, channel = body["ackmode"], body["encoding"], call.direct()
    count = integer(body["count"])
    if encoding not in ("auto", "base64"):
        raise bad_request("Unsupported encoding. Please use auto or base64.")
    cut = integer(body["truncate"]) if "truncate" in body else None
    if not count:
        return []
    if mode not in ACK_MODES:
        raise bad_request(["unknown", "ackmode", mode])
    try:
        messages = await channel.get(call.name, count if count > 0 else EVERYTHING, mode, GET_BYTES_MAX)
    except AmqpError as error:
        raise refusal_of(error) from None
    return [_message(message, left, encoding, cut) for message, left in messages]


def _message(message: Message, left: int, encoding: str, cut: int | None) -> dict[str, Any]:
    given = decode_properties(message.properties, 0)._asdict()
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
    ApiRoute("queues", access.vhost, {"GET": list_queues}),
    ApiRoute("queues/{vhost}", access.vhost, {"GET": list_queues}),
    ApiRoute("queues/{vhost}/{name}", access.vhost, {"GET": show, "PUT": declare, "DELETE": delete}),
    ApiRoute("queues/{vhost}/{name}/bindings", access.vhost, {"GET": bindings}),
    ApiRoute("queues/{vhost}/{name}/contents", access.vhost, {"DELETE": purge}),
    ApiRoute("queues/{vhost}/{name}/get", access.vhost_if_any, {"POST": get}),
    ApiRoute("queues/{vhost}/{name}/actions", access.administrator, {"POST": act}),
    ApiRoute("mirrormq/queues/{vhost}/{name}/move", access.administrator, {"POST": move}),
]
