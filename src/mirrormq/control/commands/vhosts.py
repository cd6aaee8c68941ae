"""Commands for vhosts, their limits and the firehose (`trace_on`, `trace_off`)."""

from __future__ import annotations

from typing import Any

import msgspec

from mirrormq.auth.limit_checks import VHOST_LIMITS
from mirrormq.control import hints
from mirrormq.control.commands.command_checks import json_value, validation_failed, vhost_of
from mirrormq.control.control_protocol import Request
from mirrormq.control.node_interface import ControlledNode, NodeShell
from mirrormq.metadata.commands import DeleteVhost, PutVhost
from mirrormq.metadata.records import Vhost
from mirrormq.wire.erlang_terms import term


def add_vhost(node: ControlledNode, request: Request) -> None:
    """Add a vhost. As in RabbitMQ, adding an existing vhost changes nothing and is no error."""
    name = request.arguments[0]
    if name in node.metadata.state.vhosts:
        return
    tags = [tag.strip() for tag in str(request.options.get("tags", "")).split(",") if tag.strip()]
    description = str(request.options.get("description", ""))
    node.metadata.write(PutVhost(Vhost(name, description=description, tags=tags)))


def delete_vhost(node: ControlledNode, request: Request) -> None:
    vhost_of(node, request.arguments[0])
    node.metadata.write(DeleteVhost(request.arguments[0]))


def list_vhosts(node: NodeShell, request: Request) -> list[dict[str, Any]]:
    return [
        {
            "name": vhost.name,
            "description": vhost.description,
            "tags": vhost.tags,
            "tracing": vhost.tracing,
            "default_queue_type": "undefined",
            "cluster_state": [f"{{{name}, running}}" for name in node.cluster.running],
        }
        for vhost in node.metadata.state.vhosts.values()
    ]


def set_vhost_tags(node: ControlledNode, request: Request) -> None:
    vhost = vhost_of(node, request.arguments[0])
    node.metadata.write(PutVhost(msgspec.structs.replace(vhost, tags=request.arguments[1:])))


def checked_limits(definition: Any, known: tuple[str, ...]) -> dict[str, int]:
    """Return the limits if each has a known name and an integer value."""
    if not isinstance(definition, dict):
        raise validation_failed(f"limits should be an object, actually was {definition!r}")
    for name, value in definition.items():
        if name not in known:
            hint = hints.no_such("limit", name, known)
            raise validation_failed(f'Unrecognised terms [{{<<"{name}">>,{term(value)}}}] in limits', hint)
        if isinstance(value, bool) or not isinstance(value, int):
            raise validation_failed(f'"{name}" should be an integer, actually was {term(value)}')
    return definition


def set_vhost_limits(node: ControlledNode, request: Request) -> None:
    limits = checked_limits(json_value(request.arguments[0]), VHOST_LIMITS)
    vhost = vhost_of(node, request.vhost)
    node.metadata.write(PutVhost(msgspec.structs.replace(vhost, limits=limits)))


def clear_vhost_limits(node: ControlledNode, request: Request) -> None:
    vhost = vhost_of(node, request.vhost)
    node.metadata.write(PutVhost(msgspec.structs.replace(vhost, limits={})))


def list_vhost_limits(node: ControlledNode, request: Request) -> list[dict[str, Any]]:
    if not request.flag("global"):
        vhosts = [vhost_of(node, request.vhost)]
    else:
        vhosts = list(node.metadata.state.vhosts.values())
    return [{"vhost": vhost.name, "limits": vhost.limits} for vhost in vhosts if vhost.limits]


def trace_on(node: ControlledNode, request: Request) -> str:
    return _trace(node, request, True)


def trace_off(node: ControlledNode, request: Request) -> str:
    return _trace(node, request, False)


def _trace(node: ControlledNode, request: Request, on: bool) -> str:
    vhost = vhost_of(node, request.vhost)
    node.metadata.write(PutVhost(msgspec.structs.replace(vhost, tracing=on)))
    return f"Trace {'enabled' if on else 'disabled'} for vhost {vhost.name}"


COMMANDS = {
    "add_vhost": add_vhost,
    "delete_vhost": delete_vhost,
    "list_vhosts": list_vhosts,
    "set_vhost_tags": set_vhost_tags,
    "set_vhost_limits": set_vhost_limits,
    "clear_vhost_limits": clear_vhost_limits,
    "list_vhost_limits": list_vhost_limits,
    "trace_on": trace_on,
    "trace_off": trace_off,
}
