"""Access check of URIs without a host: such a link connects inside the node, without a password."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mirrormq.bridges import federation_parameters
from mirrormq.bridges.link_placement import SHOVEL
from mirrormq.bridges.parameter_checks import uri_list
from mirrormq.client.amqp_uri import DEFAULT_VHOST, parse_amqp_uri
from mirrormq.metadata.records import User

ADMINISTRATOR = "administrator"


def local_uri_refusal(
    user: User, may_enter: Callable[[str], bool], vhost: str, component: str, value: dict[str, Any]
) -> str:
    """Return why the user may not set a checked parameter with these URIs; empty if the user may."""
    keys: tuple[str, ...]
    if component == SHOVEL:
        keys, default = ("src-uri", "dest-uri"), DEFAULT_VHOST
    elif component == federation_parameters.UPSTREAM:
        keys, default = ("uri",), vhost
    else:
        return ""
    for text in (each for key in keys for each in uri_list(value[key])):
        uri = parse_amqp_uri(text)
        if uri.host:
            continue
        wanted = default if uri.vhost is None else uri.vhost
        if not may_enter(wanted):
            return f'user "{user.name}" may not connect to vhost "{wanted}"'
        # RabbitMQ lets every policymaker borrow the rights of every user.
        if uri.user not in (None, user.name) and ADMINISTRATOR not in user.tags:
            return f'user "{user.name}" may not connect as user "{uri.user}"'
    return ""
