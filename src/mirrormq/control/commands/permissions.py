"""Commands for permissions and topic permissions of users."""

from __future__ import annotations

from typing import Any

from mirrormq.auth import patterns
from mirrormq.control import hints
from mirrormq.control.commands.command_checks import no_such_user, user_of, vhost_of
from mirrormq.control.control_protocol import ControlError, Request
from mirrormq.control.node_interface import ControlledNode
from mirrormq.metadata.commands import (
    DeletePermission,
    DeleteTopicPermission,
    PutPermission,
    PutTopicPermission,
)
from mirrormq.metadata.records import Permission, TopicPermission


def _check_target(node: ControlledNode, user: str, vhost: str) -> None:
    """Check vhost and user; RabbitMQ checks the vhost first."""
    if vhost not in node.metadata.state.vhosts:
        raise ControlError(f"Virtual host {vhost} does not exist")
    user_of(node, user, quoted=False)


def _check_patterns(*expressions: str) -> None:
    for expression in expressions:
        try:
            patterns.check(expression)
        except patterns.PatternInvalid as error:
            raise ControlError(
                f"{{:invalid_regexp, '{expression}', {{'{error.text}', {error.position}}}}}",
                hint=hints.bad_pattern(expression, error.text, error.position),
            ) from None


def set_permissions(node: ControlledNode, request: Request) -> None:
    user, configure, write, read = request.arguments
    _check_patterns(configure, write, read)
    _check_target(node, user, request.vhost)
    node.metadata.write(PutPermission(Permission(user, request.vhost, configure, write, read)))


def set_permissions_globally(node: ControlledNode, request: Request) -> None:
    user, configure, write, read = request.arguments
    _check_patterns(configure, write, read)
    user_of(node, user, quoted=False)
    for vhost in list(node.metadata.state.vhosts):
        node.metadata.write(PutPermission(Permission(user, vhost, configure, write, read)))


def clear_permissions(node: ControlledNode, request: Request) -> None:
    _check_target(node, request.arguments[0], request.vhost)
    node.metadata.write(DeletePermission(request.arguments[0], request.vhost))


def list_permissions(node: ControlledNode, request: Request) -> list[dict[str, Any]]:
    vhost_of(node, request.vhost)
    return [
        {
            "user": permission.user,
            "configure": permission.configure,
            "write": permission.write,
            "read": permission.read,
        }
        for permission in node.metadata.state.permissions.values()
        if permission.vhost == request.vhost
    ]


def _known_user(node: ControlledNode, request: Request) -> str:
    name = request.arguments[0]
    if name not in node.metadata.state.users:
        raise no_such_user(node, name)
    return name


def list_user_permissions(node: ControlledNode, request: Request) -> list[dict[str, Any]]:
    name = _known_user(node, request)
    return [
        {
            "vhost": permission.vhost,
            "configure": permission.configure,
            "write": permission.write,
            "read": permission.read,
        }
        for permission in node.metadata.state.permissions.values()
        if permission.user == name
    ]


def set_topic_permissions(node: ControlledNode, request: Request) -> None:
    user, exchange, write, read = request.arguments
    _check_patterns(write, read)
    _check_target(node, user, request.vhost)
    node.metadata.write(PutTopicPermission(TopicPermission(user, request.vhost, exchange, write, read)))


def clear_topic_permissions(node: ControlledNode, request: Request) -> None:
    user = request.arguments[0]
    exchange = request.arguments[1] if len(request.arguments) > 1 else None
    _check_target(node, user, request.vhost)
    node.metadata.write(DeleteTopicPermission(user, request.vhost, exchange))


def list_topic_permissions(node: ControlledNode, request: Request) -> list[dict[str, Any]]:
    vhost_of(node, request.vhost)
    return [
        {
            "user": permission.user,
            "exchange": permission.exchange,
            "write": permission.write,
            "read": permission.read,
        }
        for permission in node.metadata.state.topic_permissions.values()
        if permission.vhost == request.vhost
    ]


def list_user_topic_permissions(node: ControlledNode, request: Request) -> list[dict[str, Any]]:
    name = _known_user(node, request)
    return [
        {
            "vhost": permission.vhost,
            "exchange": permission.exchange,
            "write": permission.write,
            "read": permission.read,
        }
        for permission in node.metadata.state.topic_permissions.values()
        if permission.user == name
    ]


COMMANDS = {
    "set_permissions": set_permissions,
    "set_permissions_globally": set_permissions_globally,
    "clear_permissions": clear_permissions,
    "list_permissions": list_permissions,
    "list_user_permissions": list_user_permissions,
    "set_topic_permissions": set_topic_permissions,
    "clear_topic_permissions": clear_topic_permissions,
    "list_topic_permissions": list_topic_permissions,
    "list_user_topic_permissions": list_user_topic_permissions,
}
