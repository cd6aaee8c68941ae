"""Resource: rights of the user of the request, so that the page shows only buttons that work.

The reply uses the broker's permission checks. It grants nothing: each request is checked again.
"""

from __future__ import annotations

from typing import Any

from mirrormq.auth.permissions import Access
from mirrormq.management import access
from mirrormq.management.api_request import ApiRequest
from mirrormq.management.route_table import ApiRoute

RIGHTS: tuple[Access, ...] = ("configure", "write", "read")
DEFAULT_EXCHANGE = "amq.default"


def in_vhosts(call: ApiRequest) -> list[dict[str, Any]]:
    """Return the user's own permissions, one row per vhost."""
    found = [record for (user, _), record in call.state.permissions.items() if user == call.user.name]
    return [
        {"vhost": record.vhost, **{right: getattr(record, right) for right in RIGHTS}}
        for record in sorted(found, key=lambda record: record.vhost)
    ]


def on_name(call: ApiRequest) -> dict[str, bool]:
    """Return whether the user may configure, write and read the queue or exchange of a name."""
    name = "" if call.name == DEFAULT_EXCHANGE else call.name
    check = call.node.broker.permissions.check
    return {right: check(call.user.name, call.vhost, name, right) for right in RIGHTS}


ROUTES = [
    ApiRoute("mirrormq/rights", access.management, {"GET": in_vhosts}),
    ApiRoute("mirrormq/rights/{vhost}/{name}", access.visible_vhost, {"GET": on_name}),
]
