"""How many queues, connections and channels there may be: what operators have limited.

Limits hold for all nodes together. Each node tells the others how many connections and channels it has of
those vhosts and users that are limited, at once when there is one more; who opens a connection is asked of
what was last heard. As in RabbitMQ, clients that come to two nodes in the same moment may both be let in.
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
"""Of what, of whom, how many."""

OF_VHOST = "vhost"
OF_USER = "user"
CHANNELS = "channels"


class ClientLimits:
    """Refuses one too many."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.peer_usage: Callable[[], Iterable[Usage]] = tuple
        """What other nodes have said; the runtime knows."""
        self.usage_grows: Callable[[], None] = lambda: None
        """The others are to be told; the runtime does so."""

    def check_queue(self, vhost: str, name: str) -> None:
        """Refuse one queue too many."""
        state = self._broker.metadata.state
        refusal = access_limits.queue_refusal(state.vhosts[vhost], name, len(state.queues_of(vhost)))
        if refusal is not None:
            raise PreconditionFailed(refusal)

    def connection_refusal(self, user: records.User, vhost: str) -> str | None:
        """Why this user may not have one more connection to this vhost, if so."""
        record = self._broker.metadata.state.vhosts[vhost]
        limited = (record.limits, user.limits)
        if not any(access_limits.MAX_CONNECTIONS in limits for limits in limited):
            return None
        self.usage_grows()
        return access_limits.vhost_connection_refusal(
            record, user.name, self._in_use(OF_VHOST, vhost)
        ) or access_limits.user_connection_refusal(user, self._in_use(OF_USER, user.name))

    def channel_refusal(self, user: records.User) -> str | None:
        """Why this user may not have one more channel, if so."""
        current = self._broker.metadata.state.users.get(user.name, user)
        if access_limits.MAX_CHANNELS not in current.limits:
            return None
        self.usage_grows()
        return access_limits.user_channel_refusal(current, self._in_use(CHANNELS, user.name))

    def usage(self) -> Usage:
        """What this node has of what is limited."""
        return tuple(entry for entry in self._limited() if entry[2])

    def _limited(self) -> Iterator[tuple[str, str, int]]:
        state = self._broker.metadata.state
        for vhost in state.vhosts.values():
            if access_limits.MAX_CONNECTIONS in vhost.limits:
                yield OF_VHOST, vhost.name, self._here(OF_VHOST, vhost.name)
        for user in state.users.values():
            if access_limits.MAX_CONNECTIONS in user.limits:
                yield OF_USER, user.name, self._here(OF_USER, user.name)
            if access_limits.MAX_CHANNELS in user.limits:
                yield CHANNELS, user.name, self._here(CHANNELS, user.name)

    def _in_use(self, what: str, name: str) -> int:
        """How many there are on all nodes."""
        on_peers = sum(
            count for usage in self.peer_usage() for kind, of, count in usage if kind == what and of == name
        )
        return self._here(what, name) + on_peers

    def _here(self, what: str, name: str) -> int:
        if what == OF_VHOST:
            return sum(connection.vhost_name == name for connection in self._broker.connections)
        theirs = [connection for connection in self._broker.connections if connection.user.name == name]
        return len(theirs) if what == OF_USER else sum(len(one.channels) for one in theirs)
