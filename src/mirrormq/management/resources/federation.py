"""Resource: federation links of all nodes with their status, and their restart."""

from __future__ import annotations

from mirrormq.control import federation_rows
from mirrormq.control.commands.bridges import LIST_LINKS
from mirrormq.control.control_protocol import Request
from mirrormq.control.federation_rows import FederationLink
from mirrormq.management.api_request import ApiRequest, EmptyReply, ListReply
from mirrormq.management.http_errors import not_found
from mirrormq.management.resources.shovels import monitored_vhost
from mirrormq.management.route_table import ApiRoute
from mirrormq.metadata.commands import RestartLink


async def _links(call: ApiRequest) -> list[FederationLink]:
    """Return the links that the user may see, as of shovels."""
    vhosts = set(call.chosen_vhosts()) & set(call.vhosts())
    rows = await call.node.carry_out(Request(LIST_LINKS, [], {}))
    return [link for link in federation_rows.all_links(call.state, rows) if link.key[0] in vhosts]


def _listing(links: list[FederationLink]) -> ListReply:
    return ListReply(links, federation_rows.api_row, lambda link: str(link.definition.name))


async def list_links(call: ApiRequest) -> ListReply:
    return _listing(await _links(call))


async def list_down(call: ApiRequest) -> ListReply:
    return _listing([link for link in await _links(call) if link.is_down])


def restart(call: ApiRequest) -> EmptyReply:
    for link in federation_rows.all_links(call.state, ()):
        chosen = (link.key[0], link.id, link.node) == (call.vhost, call.parts["id"], call.parts["node"])
        if chosen and call.vhost in call.vhosts():
            call.write(RestartLink(*link.key))
            return EmptyReply()
    raise not_found()


ROUTES = [
    ApiRoute("federation-links", monitored_vhost, {"GET": list_links}),
    ApiRoute("federation-links/{vhost}", monitored_vhost, {"GET": list_links}),
    ApiRoute("federation-links/state/down", monitored_vhost, {"GET": list_down}),
    ApiRoute("federation-links/{vhost}/state/down", monitored_vhost, {"GET": list_down}),
    ApiRoute("federation-links/vhost/{vhost}/{id}/{node}/restart", monitored_vhost, {"DELETE": restart}),
]
