"""Leases, of all nodes' queues."""

from __future__ import annotations

from mirrormq.auth import refusals
from mirrormq.control.protocol import ControlError, Request
from mirrormq.management import access
from mirrormq.management.answers import bad_request, missing, not_authorised
from mirrormq.management.call import Call, Done, Listing
from mirrormq.management.routing import Route


async def list_leases(call: Call) -> Listing:
    """Those of queues that the user may read."""
    may, user = call.node.broker.permissions.check, call.user.name
    rows = []
    for vhost in call.chosen_vhosts():
        found = await call.node.carry_out(Request("list_leases", [], {"vhost": vhost}))
        rows += [row for row in found if call.is_monitor or may(user, vhost, row["queue"], "read")]
    return Listing(rows, lambda row: row, lambda row: str(row["name"]))


async def release(call: Call) -> Done:
    """Give a lease up."""
    queue = call.parts["queue"]
    if not call.node.broker.permissions.check(call.user.name, call.vhost, queue, "read"):
        raise not_authorised(refusals.resource_refused("queue", queue, call.vhost, call.user.name))
    if not any(
        (lease.vhost, lease.queue, lease.name) == (call.vhost, queue, call.name)
        for lease in call.state.leases.values()
    ):
        raise missing("Not Found")
    try:
        await call.node.carry_out(Request("release_lease", [queue, call.name], {"vhost": call.vhost}))
    except ControlError as error:
        raise bad_request(error.text) from None
    return Done()


ROUTES = [
    Route("mirrormq/leases", access.vhost, {"GET": list_leases}),
    Route("mirrormq/leases/{vhost}", access.vhost, {"GET": list_leases}),
    Route("mirrormq/leases/{vhost}/{queue}/{name}", access.vhost, {"DELETE": release}),
]
