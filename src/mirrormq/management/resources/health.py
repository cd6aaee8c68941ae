"""Resource: health checks, which reply 200 and "ok", or 503 and the reason."""

from __future__ import annotations

from typing import Any

from mirrormq.control.certificates import expiring
from mirrormq.errors import AmqpError
from mirrormq.management import access
from mirrormq.management.api_request import ApiRequest, RawReply, refusal_of
from mirrormq.management.http_errors import bad_request, encode, not_found
from mirrormq.management.json_encoding import integer
from mirrormq.management.resources.nodes import listeners
from mirrormq.management.route_table import ApiRoute

UNAVAILABLE = 503
TIME_UNITS = ("days", "weeks", "months", "years")
ALIVENESS_QUEUE = "aliveness-test"
PROTOCOLS = {"amqp091": "amqp", "amqp0.9.1": "amqp", "amqps": "amqp/ssl"}
"""Other names of protocols in RabbitMQ."""


def ok(call: ApiRequest) -> dict[str, Any]:
    return {"status": "ok"}


def _failed(reason: str, **more: Any) -> RawReply:
    return RawReply(encode({"status": "failed", "reason": reason, **more}), UNAVAILABLE)


def ready(call: ApiRequest) -> dict[str, Any] | RawReply:
    """Report whether a load balancer may send clients here. An alarm is no reason to refuse them: it blocks
    publishers, and consumers are what ends it."""
    record = call.node.metadata.state.nodes.get(call.node.settings.name)
    if record is not None and record.maintenance:
        return _failed("The node is in maintenance mode")
    return {"status": "ok"}


def alarms(call: ApiRequest) -> dict[str, Any] | RawReply:
    raised = call.node.broker.alarms.by_node(call.node.settings.name)
    if not raised:
        return {"status": "ok"}
    return _failed(
        "There are alarms in effect in the cluster",
        alarms=[{"node": node, "resource": each} for node, each in raised],
    )


def local_alarms(call: ApiRequest) -> dict[str, Any] | RawReply:
    raised = sorted(call.node.broker.alarms.raised)
    if not raised:
        return {"status": "ok"}
    node = call.node.settings.name
    return _failed(
        "There are alarms in effect on the node", alarms=[{"node": node, "resource": each} for each in raised]
    )


def certificates(call: ApiRequest) -> dict[str, Any] | RawReply:
    try:
        within = integer(call.parts["within"])
    except ValueError:
        raise bad_request("Invalid expiration value.") from None
    if call.parts["unit"] not in TIME_UNITS:
        raise bad_request(f"Time unit not recognised. Supported units: {', '.join(TIME_UNITS)}.")
    found = expiring(call.node.settings, within, call.parts["unit"])
    shown = [{name: value for name, value in row.items() if name != "purpose"} for row in found]
    return _failed("Certificates expiring", expired=shown) if found else {"status": "ok"}


def port(call: ApiRequest) -> dict[str, Any] | RawReply:
    try:
        wanted = integer(call.parts["port"])
    except ValueError:
        raise bad_request("Invalid port") from None
    ports = [found["port"] for found in listeners(call)]
    if wanted in ports:
        return {"status": "ok", "port": wanted}
    return _failed("No active listener", missing=wanted, ports=ports)


def protocol(call: ApiRequest) -> dict[str, Any] | RawReply:
    wanted = PROTOCOLS.get(call.parts["protocol"].lower(), call.parts["protocol"].lower())
    protocols = sorted({found["protocol"] for found in listeners(call)})
    if wanted in protocols:
        return {"status": "ok", "protocol": wanted}
    return _failed("No active listener", missing=wanted, protocols=protocols)


def mirrors(call: ApiRequest) -> dict[str, Any] | RawReply:
    """Check whether mirrored queues would be lost with this node."""
    if len(call.node.cluster.members) == 1:
        return {"status": "ok", "reason": "single node cluster"}
    if found := call.node.live.critical_queues():
        return _failed("There are classic mirrored queues without online synchronised mirrors", queues=found)
    return {"status": "ok"}


def quorum(call: ApiRequest) -> dict[str, Any]:
    """Pass always: there are no quorum queues."""
    alone = len(call.node.cluster.members) == 1
    return {"status": "ok", "reason": "single node cluster"} if alone else {"status": "ok"}


def node(call: ApiRequest) -> dict[str, Any]:
    if call.parts.get("name", call.me) not in (call.me, *call.peer_client.peers):
        raise not_found()
    return {"status": "ok"}


async def aliveness(call: ApiRequest) -> dict[str, Any]:
    """Declare a queue and send a message through it; the queue is kept for the next check."""
    channel = call.direct()
    try:
        await channel.declare_queue(ALIVENESS_QUEUE, durable=False, auto_delete=False, arguments={})
        await channel.publish("", ALIVENESS_QUEUE, b"\0\0", b"test_message")
        await channel.get(ALIVENESS_QUEUE, 1, "ack_requeue_false", 1)
    except AmqpError as error:
        raise refusal_of(error) from None
    finally:
        call.node.changed()
    return {"status": "ok"}


ROUTES = [
    ApiRoute("aliveness-test/{vhost}", access.vhost, {"GET": aliveness}),
    ApiRoute("health/ready", access.no_login_required, {"GET": ready}, is_open=True),
    ApiRoute("health/checks/alarms", access.management, {"GET": alarms}),
    ApiRoute("health/checks/local-alarms", access.management, {"GET": local_alarms}),
    ApiRoute(
        "health/checks/certificate-expiration/{within}/{unit}", access.management, {"GET": certificates}
    ),
    ApiRoute("health/checks/port-listener/{port}", access.management, {"GET": port}),
    ApiRoute("health/checks/protocol-listener/{protocol}", access.management, {"GET": protocol}),
    ApiRoute("health/checks/virtual-hosts", access.management, {"GET": ok}),
    ApiRoute("health/checks/node-is-mirror-sync-critical", access.management, {"GET": mirrors}),
    ApiRoute("health/checks/node-is-quorum-critical", access.management, {"GET": quorum}),
    ApiRoute("healthchecks/node", access.management, {"GET": node}),
    ApiRoute("healthchecks/node/{name}", access.management, {"GET": node}),
]
