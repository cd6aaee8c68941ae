"""Connection without a socket: carries a channel on which the node itself acts for a user."""

from __future__ import annotations

from collections.abc import Callable

from mirrormq.auth.client_peer import Peer
from mirrormq.broker.broker import Broker
from mirrormq.broker.connection_base import ChannelInterface
from mirrormq.connections.connection import Connection
from mirrormq.errors import AmqpError
from mirrormq.metadata import records
from mirrormq.queues.queue_interface import QueueInterface


class DirectConnection(Connection):
    """Connection of a logged-in user without handshake and heartbeats. Replies go to callbacks."""

    def __init__(
        self, broker: Broker, user: records.User, vhost: str, on_method: Callable[[bytes], None],
        on_failure: Callable[[AmqpError], None],
    ) -> None:  # fmt: skip
        super().__init__(broker, Peer("127.0.0.1", 0), has_handshake=False)
        self.user = user
        self.vhost_name = vhost
        self.name = f"<management {user.name}>"
        self.frame_max = broker.settings.frame_max
        self._on_method = on_method
        self._on_failure = on_failure

    def fail(self, error: AmqpError) -> None:
        """Report a hard error."""
        self._on_failure(error)

    def close_channel(self, channel: ChannelInterface, error: AmqpError) -> None:
        """Report a soft error."""
        self._on_failure(error)

    def postponed(self, size_bytes: int) -> None:
        """Ignore the limit on postponed input: a request consists of one method at a time."""

    def channel_answered(self) -> None:
        """Ignore the reply: no connection.close waits for it."""

    def send(self, channel: int, payload: bytes) -> None:
        """Report a method."""
        self._on_method(payload)

    def output(self) -> list[bytes]:
        """Discard returned contents."""
        return []

    def congested_by(self, queue: QueueInterface, count: int, size_bytes: int) -> None:
        """Ignore congestion: one message at a time congests no queue."""
