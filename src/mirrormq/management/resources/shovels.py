"""Resource: shovels of all nodes with their status, their restart and their deletion."""

from __future__ import annotations

from mirrormq.bridges.link_placement import SHOVEL, static_shovel_key, static_shovel_nodes
from mirrormq.control import shovel_rows
from mirrormq.control.commands.bridges import LIST_LINKS
from mirrormq.control.control_protocol import Request
from mirrormq.control.shovel_rows import Shovel
from mirrormq.management import access
from mirrormq.management.api_request import ApiRequest, EmptyReply, ListReply
from mirrormq.management.http_errors import bad_request, not_found
from mirrormq.management.route_table import ApiRoute
from mirrormq.metadata.commands import DeleteParameter, RestartLink
from mirrormq.metadata.link_records import LinkKey


async def _shovels(call: ApiRequest) -> list[Shovel]:
    """Return the shovels that the user may see. Static ones have no vhost; administrators see them."""
    vhosts = set(call.chosen_vhosts()) & set(call.vhosts())
    if "vhost" not in call.parts and call.is_administrator:
        vhosts.add("")
    links = await call.node.carry_out(Request(LIST_LINKS, [], {}))
    return [each for each in shovel_rows.all_shovels(call.state, links) if each.key[0] in vhosts]


def _listing(shovels: list[Shovel]) -> ListReply:
    return ListReply(shovels, shovel_rows.api_row, lambda shovel: str(shovel.key[2]))


async def list_shovels(call: ApiRequest) -> ListReply:
    return _listing(await _shovels(call))


async def show(call: ApiRequest) -> ListReply:
    """Return all shovels of the vhost, as RabbitMQ does, if the named one exists."""
    if _dynamic(call) is None:
        raise not_found()
    return _listing(await _shovels(call))


def _dynamic(call: ApiRequest) -> LinkKey | None:
    """Return the key of the dynamic shovel that the path names, if the user may see it."""
    key = (call.vhost, SHOVEL, call.name)
    return key if key in call.state.parameters and call.vhost in call.vhosts() else None


def _chosen(call: ApiRequest) -> LinkKey:
    """Return the key of the dynamic shovel that the path names, else of the static one."""
    if key := _dynamic(call):
        return key
    if call.is_administrator and call.name in static_shovel_nodes(call.state):
        return static_shovel_key(call.name)
    raise not_found()


def delete(call: ApiRequest) -> EmptyReply:
    key = _chosen(call)
    if refusal := shovel_rows.deletion_refusal(call.state, key):
        raise bad_request(refusal)
    call.write(DeleteParameter(*key))
    return EmptyReply()


def restart(call: ApiRequest) -> EmptyReply:
    call.write(RestartLink(*_chosen(call)))
    return EmptyReply()


def monitored_vhost(call: ApiRequest) -> None:
    """Require the tag monitoring, and a vhost that exists."""
    access.monitor(call)
    if call.parts.get("vhost", "") not in call.state.vhosts and "vhost" in call.parts:
        raise not_found()


ROUTES = [
    ApiRoute("shovels", monitored_vhost, {"GET": list_shovels}),
    ApiRoute("shovels/{vhost}", monitored_vhost, {"GET": list_shovels}),
    ApiRoute("shovels/vhost/{vhost}/{name}", monitored_vhost, {"GET": show, "DELETE": delete}),
    ApiRoute("shovels/vhost/{vhost}/{name}/restart", monitored_vhost, {"DELETE": restart}),
]
