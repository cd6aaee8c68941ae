"""How many queues, connections and channels there may be: what operators have limited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.auth import limits as access_limits
from mirrormq.errors import PreconditionFailed

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.metadata import records


class ClientLimits:
    """The part of a Broker that refuses one too many."""

    def check_queue_limit(self: Broker, vhost: str, name: str) -> None:  # type: ignore[misc]
        """Refuse one queue too many."""
        state = self.metadata.state
        refusal = access_limits.queue_refusal(state.vhosts[vhost], name, len(state.queues_of(vhost)))
        if refusal is not None:
            raise PreconditionFailed(refusal)

    def connection_refusal(self: Broker, user: records.User, vhost: str) -> str | None:  # type: ignore[misc]
        """Why this user may not have one more connection to this vhost, if so."""
        in_vhost = sum(connection.vhost_name == vhost for connection in self.connections)
        refusal = access_limits.vhost_connection_refusal(
            self.metadata.state.vhosts[vhost], user.name, in_vhost
        )
        if refusal is None:
            of_user = sum(connection.user.name == user.name for connection in self.connections)
            refusal = access_limits.user_connection_refusal(user, of_user)
        return refusal

    def channel_refusal(self: Broker, user: records.User) -> str | None:  # type: ignore[misc]
        """Why this user may not have one more channel, if so."""
        current = self.metadata.state.users.get(user.name, user)
        if access_limits.MAX_CHANNELS not in current.limits:
            return None
        count = sum(len(c.channels) for c in self.connections if c.user.name == user.name)
        return access_limits.user_channel_refusal(current, count)
