"""Error texts of refused access, equal to RabbitMQ's, because clients match on them.

Each is the text behind the code's name: 403 for resources, 530 for vhosts and connections, 406 for a user_id
that is not the user's.
"""

from __future__ import annotations

from typing import Literal

DEFAULT_EXCHANGE_NAME = "amq.default"
"""Name of the exchange "" in permissions and error texts."""


def resource_refused(kind: Literal["queue", "exchange"], name: str, vhost: str, user: str) -> str:
    """403: no permission on a queue or an exchange."""
    return f"access to {kind} '{resource_name(kind, name)}' in vhost '{vhost}' refused for user '{user}'"


def topic_refused(routing_key: str, exchange: str, vhost: str, user: str) -> str:
    """403: no topic permission for a routing key."""
    return (
        f"access to topic '{routing_key}' in exchange '{exchange}' in vhost '{vhost}' "
        f"refused for user '{user}'"
    )


def vhost_refused(vhost: str, user: str) -> str:
    """530: no permissions in a vhost."""
    return f"access to vhost '{vhost}' refused for user '{user}'"


def vhost_not_found(vhost: str) -> str:
    """530: no such vhost."""
    return f"vhost {vhost} not found"


def user_id_refused(claimed: str, user: str) -> str:
    """406: a message that names another user as its publisher."""
    return f"user_id property set to '{claimed}' but authenticated user was '{user}'"


def resource_name(kind: str, name: str) -> str:
    """Return the name under which permissions know a queue or an exchange."""
    return DEFAULT_EXCHANGE_NAME if kind == "exchange" and not name else name
