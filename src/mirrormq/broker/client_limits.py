"""Client limits: the number of queues, connections and channels that operators permit.

Limits hold for all nodes together. Each node reports to the others how many connections and channels it
has of limited vhosts and users, at once when the number grows. A new connection is checked against the
last reports. As in RabbitMQ, two nodes may both admit clients that connect at the same moment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.auth import limit_checks as access_limits
from mirrormq.errors import PreconditionFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mirrormq.broker.broker import Broker
    from mirrormq.metadata import records

Usage = tuple[tuple[str, str, int], ...]
"""Rows of kind, vhost or user name, count."""

OF_VHOST = "vhost"
OF_USER = "user"
CHANNELS = "channels"


class ClientLimits:
    """Checks of limits for new queues, connections and channels."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.peer_usage: Callable[[], Iterable[Usage]] = tuple
        """Returns the usage that other nodes reported; set by the runtime."""
        self.usage_grows: Callable[[], None] = lambda: None
        """Requests a report to the other nodes; set by the runtime."""

    def check_queue(self, vhost: str, name: str) -> None:
        """Refuse a queue beyond the vhost's limit."""
        state = self._broker.metadata.state
        refusal = access_limits.queue_refusal(state.vhosts[vhost], name, len(state.queues_of(vhost)))
        if refusal is not None:
            raise PreconditionFailed(refusal)

    def connection_refusal(self, user: records.User, vhost: str) -> str | None:
        """Return why this user may not open one more connection to this vhost, or None."""
        record = self._broker.metadata.state.vhosts[vhost]
        limited = (record.limits, user.limits)
        if not any(access_limits.MAX_CONNECTIONS in limits for limits in limited):
            return None
        self.usage_grows()
        return access_limits.vhost_connection_refusal(
            record, user.name, self._in_use(OF_VHOST, vhost)
        ) or access_limits.user_connection_refusal(user, self._in_use(OF_USER, user.name))

    def channel_refusal(self, user: records.User) -> str | None:
        """Return why this user may not open one more channel, or None."""
        current = self._broker.metadata.state.users.get(user.name, user)
        if access_limits.MAX_CHANNELS not in current.limits:
            return None
        self.usage_grows()
        return access_limits.user_channel_refusal(current, self._in_use(CHANNELS, user.name))

    def usage(self) -> Usage:
        """Return this node's usage of limited vhosts and users."""
        return tuple(entry for entry in self._limited() if entry[2])

    def _limited(self) -> Iterator[tuple[str, str, int]]:
        state = self._broker.metadata.state
        for vhost in state.vhosts.values():
            if access_limits.MAX_CONNECTIONS in vhost.limits:
                yield OF_VHOST, vhost.name, self._local_count(OF_VHOST, vhost.name)
        for user in state.users.values():
            if access_limits.MAX_CONNECTIONS in user.limits:
                yield OF_USER, user.name, self._local_count(OF_USER, user.name)
            if access_limits.MAX_CHANNELS in user.limits:
                yield CHANNELS, user.name, self._local_count(CHANNELS, user.name)

    def _in_use(self, what: str, name: str) -> int:
        """Return the number on all nodes."""
        on_peers = sum(
            count for usage in self.peer_usage() for kind, of, count in usage if kind == what and of == name
        )
        return self._local_count(what, name) + on_peers

    def _local_count(self, what: str, name: str) -> int:
        if what == OF_VHOST:
            return sum(connection.vhost_name == name for connection in self._broker.connections)
        connections = [connection for connection in self._broker.connections if connection.user.name == name]
        return (
            len(connections)
            if what == OF_USER
            else sum(len(connection.open_channels()) for connection in connections)
        )
