"""Resource: topic permissions, which limit the routing keys a user may publish with and bind by."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mirrormq.management import access
from mirrormq.management.api_request import CREATED, ApiRequest, EmptyReply, ListReply
from mirrormq.management.http_errors import not_found
from mirrormq.management.resources.permissions import check_ends, check_pattern
from mirrormq.management.route_table import ApiRoute
from mirrormq.metadata import commands, records


def listing(call: ApiRequest, wanted: Callable[[records.TopicPermission], bool]) -> ListReply:
    found = [each for each in call.state.topic_permissions.values() if wanted(each)]
    return ListReply(sorted(found, key=lambda each: (each.vhost, each.user)), msgspec.structs.asdict)


def list_permissions(call: ApiRequest) -> ListReply:
    return listing(call, lambda found: True)


def show(call: ApiRequest) -> ListReply:
    found = listing(call, lambda each: (each.user, each.vhost) == (call.name, call.vhost))
    if not found.items:
        raise not_found()
    return found


def put(call: ApiRequest) -> EmptyReply:
    check_ends(call)
    body = call.body("exchange", "write", "read")
    rights = [check_pattern(body[name], str) for name in ("write", "read")]
    record = records.TopicPermission(call.name, call.vhost, str(body["exchange"]), *rights)
    of_user = {key[:2] for key in call.state.topic_permissions}
    existed = (call.name, call.vhost) in of_user
    call.write(commands.PutTopicPermission(record))
    return EmptyReply() if existed else EmptyReply(CREATED)


def delete(call: ApiRequest) -> EmptyReply:
    show(call)
    call.write(commands.DeleteTopicPermission(call.name, call.vhost))
    return EmptyReply()


_ONE = {"GET": show, "PUT": put, "DELETE": delete}

ROUTES = [
    ApiRoute("topic-permissions", access.administrator, {"GET": list_permissions}),
    ApiRoute("topic-permissions/{vhost}/{name}", access.administrator, _ONE),
]
