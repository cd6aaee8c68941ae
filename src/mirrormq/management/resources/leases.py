"""Resource: leases of all nodes' queues."""

from __future__ import annotations

from mirrormq.auth import access_errors
from mirrormq.control.control_protocol import ControlError, Request
from mirrormq.management import access
from mirrormq.management.api_request import ApiRequest, EmptyReply, ListReply
from mirrormq.management.http_errors import bad_request, missing, not_authorised
from mirrormq.management.route_table import ApiRoute


async def list_leases(call: ApiRequest) -> ListReply:
    """Return the leases of queues that the user may read."""
    may, user = call.node.broker.permissions.check, call.user.name
    rows = []
    for vhost in call.chosen_vhosts():
        found = await call.node.carry_out(Request("list_leases", [], {"vhost": vhost}))
        rows += [row for row in found if call.is_monitor or may(user, vhost, row["queue"], "read")]
    return ListReply(rows, lambda row: row, lambda row: str(row["name"]))


async def release(call: ApiRequest) -> EmptyReply:
    """Release a lease."""
    queue = call.parts["queue"]
    if not call.node.broker.permissions.check(call.user.name, call.vhost, queue, "read"):
        raise not_authorised(access_errors.resource_refused("queue", queue, call.vhost, call.user.name))
    if not any(
        (lease.vhost, lease.queue, lease.name) == (call.vhost, queue, call.name)
        for lease in call.state.leases.values()
    ):
        raise missing("Not Found")
    try:
        await call.node.carry_out(Request("release_lease", [queue, call.name], {"vhost": call.vhost}))
    except ControlError as error:
        raise bad_request(error.text) from None
    return EmptyReply()


ROUTES = [
    ApiRoute("mirrormq/leases", access.vhost, {"GET": list_leases}),
    ApiRoute("mirrormq/leases/{vhost}", access.vhost, {"GET": list_leases}),
    ApiRoute("mirrormq/leases/{vhost}/{queue}/{name}", access.vhost, {"DELETE": release}),
]
