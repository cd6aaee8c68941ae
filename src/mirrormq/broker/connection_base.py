"""Base class of client connections, as broker and channels see it; `connections.connection` implements it.

Broker and channels lie below the connections. They use this base class and `ChannelInterface`, and import
nothing of the packages above them. A class and not a protocol, because channels use it for every message:
the compiled core reads attributes of a class without a lookup by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from mirrormq.auth.client_peer import Peer
from mirrormq.broker.channel_states import ChannelState
from mirrormq.broker.outbox import Outbox
from mirrormq.errors import AmqpError
from mirrormq.events.event_host import EventChannel
from mirrormq.metadata import records
from mirrormq.queues.message import Message
from mirrormq.queues.queue_interface import QueueInterface, Subscriber
from mirrormq.wire.fields import Table

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.broker.vhost import Vhost

NO_USER = records.User("")
"""User of a connection before the login."""

HeldDelivery = tuple[Message, Subscriber | None]
"""Unacknowledged message of a client, and its consumer; None after basic.get."""


class ChannelInterface(EventChannel, Protocol):
    """Channel as its connection and the broker see it."""

    state: ChannelState

    @property
    def closing(self) -> bool:
        """Whether the channel sends nothing more."""

    @property
    def oldest_delivery_ms(self) -> int | None:
        """Time of the oldest unacknowledged delivery, in milliseconds; None if there is none."""

    def deliveries_of(self, queue: QueueInterface) -> list[HeldDelivery]:
        """Return the unacknowledged deliveries of a queue, settlements of an open transaction included."""

    def terminate(self) -> None:
        """Cancel consumers and requeue all deliveries."""

    def resume(self) -> None:
        """Handle the frames that have waited for a reply."""


class ConnectionBase(Outbox):
    """Identity, output and requests of one client connection."""

    def __init__(self, broker: Broker, peer: Peer) -> None:
        super().__init__(broker.clock, broker.writing)
        self.broker = broker
        self.peer = peer
        self.name = str(peer)
        self.number = 0
        """Number in its pid and those of its channels (`broker.pids`); 0 until the first use."""
        self.effort = 0
        """Work that the connection may still do in this turn."""
        self.frame_max = 0
        self.channel_max = broker.settings.channel_max
        self.heartbeat_s = 0
        self.client_properties: Table = {}
        self.mechanism = ""
        self.user: records.User = NO_USER
        self.variables: dict[str, str] = {}
        """Values of the variables `{…}` in topic permissions."""
        self.vhost_name = ""
        self.blocked = False
        """Whether the client has published under an alarm and waits for its end."""
        self.connected_at_ms = broker.clock.now_ms

    @property
    def vhost(self) -> Vhost:
        """Vhost of the connection."""
        return self.broker.vhosts[self.vhost_name]

    @property
    def closed(self) -> bool:
        """Whether connection.close was sent or the socket is closed."""
        raise NotImplementedError

    def open_channels(self) -> Sequence[ChannelInterface]:
        """Return the channels of the connection, oldest first."""
        raise NotImplementedError

    def client_can(self, capability: str) -> bool:
        """Return whether the client has announced a capability."""
        capabilities = self.client_properties.get("capabilities")
        if capabilities is None or not isinstance(capabilities.value, dict):
            return False
        field = capabilities.value.get(capability)
        return field is not None and field.value is True

    # -- requests of the broker -----------------------------------------------------------------

    def unblock(self) -> None:
        """Let the client publish again: no alarm is left."""
        raise NotImplementedError

    def force_close(self, explanation: str) -> None:
        """Close the connection for the operator."""
        raise NotImplementedError

    # -- requests of the channels ---------------------------------------------------------------

    def congested_by(self, queue: QueueInterface, count: int, size_bytes: int) -> None:
        """Slow down after a publish to a congested queue; hold the connection if the queue is full."""
        raise NotImplementedError

    def postponed(self, size_bytes: int) -> None:
        """Add to the postponed bytes, or subtract; too many of them hold the connection."""
        raise NotImplementedError

    def replay(self, action: Callable[[], None]) -> None:
        """Handle a frame that was postponed."""
        raise NotImplementedError

    def channel_answered(self) -> None:
        """Continue a connection.close when no channel waits for a reply."""
        raise NotImplementedError

    def fail(self, error: AmqpError) -> None:
        """Close the connection for a hard error."""
        raise NotImplementedError

    def close_channel(self, channel: ChannelInterface, error: AmqpError) -> None:
        """Close a channel for a soft error: requeue its deliveries and send channel.close."""
        raise NotImplementedError

    def end_channel(self, channel: ChannelInterface) -> None:
        """Terminate a channel, and free its number."""
        raise NotImplementedError

    def forget_channel(self, channel: ChannelInterface) -> None:
        """Free the number of a closed channel."""
        raise NotImplementedError
