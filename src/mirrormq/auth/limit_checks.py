"""Limits per user and per vhost on connections, channels and queues.

Each function takes the record and the current count, and returns None or RabbitMQ's error text: 530 for
connections and channels, 406 for queues. A negative limit means unlimited.
"""

from __future__ import annotations

from mirrormq.metadata.records import User, Vhost

MAX_CONNECTIONS = "max-connections"
MAX_CHANNELS = "max-channels"
MAX_QUEUES = "max-queues"

VHOST_LIMITS = (MAX_CONNECTIONS, MAX_QUEUES)
USER_LIMITS = (MAX_CONNECTIONS, MAX_CHANNELS)

UNLIMITED = -1


def vhost_connection_refusal(vhost: Vhost, user: str, open_connections: int) -> str | None:
    """Check the vhost's limit for one more connection (530)."""
    limit = _limit_reached(vhost.limits, MAX_CONNECTIONS, open_connections)
    if limit is None:
        return None
    return f"access to vhost '{vhost.name}' refused for user '{user}': connection limit ({limit}) is reached"


def user_connection_refusal(user: User, open_connections: int) -> str | None:
    """Check the user's limit for one more connection (530)."""
    limit = _limit_reached(user.limits, MAX_CONNECTIONS, open_connections)
    if limit is None:
        return None
    return f"connection refused for user '{user.name}': user connection limit ({limit}) is reached"


def user_channel_refusal(user: User, open_channels: int) -> str | None:
    """Check the user's limit for one more channel, over all connections of the user (530)."""
    limit = _limit_reached(user.limits, MAX_CHANNELS, open_channels)
    if limit is None:
        return None
    return (
        f"number of channels opened for user '{user.name}' "
        f"has reached the maximum allowed user limit of ({limit})"
    )


def queue_refusal(vhost: Vhost, queue: str, existing_queues: int) -> str | None:
    """Check the vhost's limit for one more queue (406). The caller does not check a queue that exists."""
    limit = _limit_reached(vhost.limits, MAX_QUEUES, existing_queues)
    if limit is None:
        return None
    return f"cannot declare queue '{queue}': queue limit in vhost '{vhost.name}' ({limit}) is reached"


def _limit_reached(limits: dict[str, int], name: str, count: int) -> int | None:
    limit = limits.get(name, UNLIMITED)
    return limit if 0 <= limit <= count else None
