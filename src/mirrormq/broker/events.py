"""The event exchange: what happens in the broker, as messages anybody may bind to.

Events go to the topic exchange `amq.rabbitmq.event` of the default vhost, with the event's name as
routing key and its facts as headers. Nothing is built while nobody is bound.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mirrormq.auth import sasl
from mirrormq.metadata import records
from mirrormq.metadata.changes import Change, Deleted, Put
from mirrormq.metadata.defaults import DEFAULT_VHOST
from mirrormq.wire.fields import decode_table, plain, table_of
from mirrormq.wire.properties import BasicProperties

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.channels.channel import Channel
    from mirrormq.channels.consumer import Consumer
    from mirrormq.connections.connection import Connection

EXCHANGE = "amq.rabbitmq.event"

Facts = dict[str, object]


class Events:
    """Publishes what it is told of."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def emit(self, name: str, facts: Callable[[], Facts]) -> None:
        """Publish one event, if anybody listens."""
        vhost = self._broker.vhosts.get(DEFAULT_VHOST)
        if vhost is None:
            return
        exchange = vhost.router.exchanges.get(EXCHANGE)
        if exchange is None or exchange.is_unused:
            return
        now_ms = self._broker.clock.now_ms
        headers = table_of({**facts(), "timestamp_in_ms": now_ms})
        properties = BasicProperties(headers=headers, delivery_mode=2, timestamp=now_ms // 1000)
        vhost.publish(EXCHANGE, name, properties, b"")

    # -- connections, channels, consumers -------------------------------------------------------

    def connection_created(self, connection: Connection) -> None:
        """A client is in."""
        self.emit("connection.created", lambda: _connection_facts(connection))

    def connection_closed(self, connection: Connection) -> None:
        """A client is gone."""
        self.emit(
            "connection.closed",
            lambda: {"name": connection.name, "user": connection.user.name, "node": self._node(), "pid": connection.name},
        )

    def channel_created(self, channel: Channel) -> None:
        """A channel was opened."""
        self.emit("channel.created", lambda: _channel_facts(channel))

    def channel_closed(self, channel: Channel) -> None:
        """A channel is gone."""
        self.emit("channel.closed", lambda: _channel_facts(channel))

    def consumer_created(self, consumer: Consumer) -> None:
        """Somebody consumes."""
        self.emit("consumer.created", lambda: _consumer_facts(consumer))

    def consumer_deleted(self, consumer: Consumer) -> None:
        """Somebody no longer consumes."""
        self.emit("consumer.deleted", lambda: _consumer_facts(consumer))

    def authenticated(self, connection: Connection) -> None:
        """A password was right."""
        self.emit("user.authentication.success", lambda: _login_facts(connection, connection.user.name))

    def authentication_failed(self, connection: Connection, credentials: sasl.Credentials, reason: str) -> None:
        """A password was wrong."""
        self.emit(
            "user.authentication.failure",
            lambda: {**_login_facts(connection, credentials.user), "error": reason},
        )

    # -- metadata -------------------------------------------------------------------------------

    def follow(self, change: Change) -> None:
        """Metadata changes are events too."""
        record = change.record
        if isinstance(record, records.Queue | records.Exchange | records.Binding | records.Vhost | records.User):
            if isinstance(change, Put) and change.before is not None:
                return
            kind = type(record).__name__.lower()
            action = "deleted" if isinstance(change, Deleted) else "created"
            self.emit(f"{kind}.{action}", lambda: _record_facts(record))
        elif isinstance(record, records.Policy | records.Parameter):
            action = "cleared" if isinstance(change, Deleted) else "set"
            self.emit(f"{type(record).__name__.lower()}.{action}", lambda: _record_facts(record))
        elif isinstance(record, records.Permission):
            action = "deleted" if isinstance(change, Deleted) else "created"
            self.emit(f"permission.{action}", lambda: _record_facts(record))

    def _node(self) -> str:
        return self._broker.settings.name


def _connection_facts(connection: Connection) -> Facts:
    peer = connection.peer
    return {
        "name": connection.name,
        "pid": connection.name,
        "peer_host": peer.host,
        "peer_port": peer.port,
        "host": peer.server_host,
        "port": peer.server_port,
        "user": connection.user.name,
        "vhost": connection.vhost_name,
        "protocol": "{0,9,1}",
        "auth_mechanism": connection.mechanism,
        "ssl": peer.tls,
        "frame_max": connection.frame_max,
        "channel_max": connection.channel_max,
        "timeout": connection.heartbeat_s,
        "connected_at": connection.connected_at_ms,
        "node": connection.broker.settings.name,
    }


def _channel_facts(channel: Channel) -> Facts:
    return {
        "name": f"{channel.connection.name} ({channel.number})",
        "number": channel.number,
        "user": channel.user.name,
        "vhost": channel.connection.vhost_name,
        "connection": channel.connection.name,
        "node": channel.broker.settings.name,
    }


def _consumer_facts(consumer: Consumer) -> Facts:
    return {
        "consumer_tag": consumer.tag,
        "queue": consumer.queue.name,
        "vhost": consumer.queue.vhost,
        "exclusive": consumer.exclusive,
        "ack_required": not consumer.no_ack,
        "prefetch_count": consumer.prefetch,
        "arguments": plain(consumer.arguments),
        "channel": f"{consumer.channel.connection.name} ({consumer.channel.number})",
        "user_who_performed_action": consumer.channel.user.name,
    }


def _login_facts(connection: Connection, user: str) -> Facts:
    return {
        "name": user,
        "auth_mechanism": connection.mechanism,
        "connection_name": connection.name,
        "peer_host": connection.peer.host,
        "peer_port": connection.peer.port,
        "host": connection.peer.server_host,
        "port": connection.peer.server_port,
        "protocol": "{0,9,1}",
        "ssl": connection.peer.tls,
    }


def _record_facts(record: records.Record) -> Facts:
    facts: Facts = {}
    for name in record.__struct_fields__:
        value = getattr(record, name)
        if isinstance(value, bytes):
            value = plain(decode_table(len(value).to_bytes(4, "big") + value, 0)[0])
        if name not in ("password_hash", "hashing_algorithm", "queue_id"):
            facts[name] = value
    return facts
