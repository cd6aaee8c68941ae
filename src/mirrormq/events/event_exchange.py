"""Event exchange: publishes broker events as messages that clients can bind to.

Events go to the topic exchange `amq.rabbitmq.event` of the default vhost, with the event's name as routing
key, its facts as headers and no body. No event is built while no queue is bound and no operator watches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from mirrormq.events import connection_events, metadata_log_entries
from mirrormq.events.churn import Churn
from mirrormq.events.event_host import EventChannel, EventConnection, EventConsumer, EventHost
from mirrormq.events.event_values import Facts, headers
from mirrormq.events.event_watch import EventWatch
from mirrormq.events.metadata_events import events_of
from mirrormq.metadata import records
from mirrormq.metadata.changes import Deleted
from mirrormq.metadata.store import INTERNAL_USER, WriteResult
from mirrormq.wire.properties import BasicProperties

EXCHANGE = "amq.rabbitmq.event"
AMQP, HTTP = "amqp091", "http"

PERSISTENT = 2


class EventExchange:
    """Publisher of broker events."""

    def __init__(self, broker: EventHost) -> None:
        self._broker = broker
        self.churn = Churn()
        """Counters of the events, also while no queue is bound."""
        self.logins: Counter[tuple[str, bool]] = Counter()
        """Number of login attempts, by protocol and success."""
        self.promotions_incomplete = 0
        """Promotions of this node without all copies of the in-sync set, or without a trusted copy."""
        self.dead_lettered: Counter[str] = Counter()
        """Messages sent to a dead-letter exchange, by reason."""
        self.watch = EventWatch()
        """Operators who watch events without a binding."""
        self._alarms: set[str] = set()
        self._lost: list[EventConsumer] = []
        """Consumers whose queue is being deleted; their channels report it afterwards."""

    @property
    def has_listeners(self) -> bool:
        """Whether a queue is bound or an operator watches."""
        return self._is_bound or self.watch.is_watched(self._broker.clock.now_ms)

    @property
    def _is_bound(self) -> bool:
        vhost = self._broker.vhosts.get(self._broker.settings.default_vhost)
        return vhost is not None and vhost.bindings_from(EXCHANGE)

    def _emit(self, name: str, facts: Facts) -> None:
        now_ms = self._broker.clock.now_ms
        table = headers({**facts, "timestamp_in_ms": now_ms})
        if self.watch.is_watched(now_ms):
            self.watch.add(name, table)
            if not self._is_bound:
                return
        properties = BasicProperties(headers=table, delivery_mode=PERSISTENT, timestamp=now_ms // 1000)
        self._broker.vhosts[self._broker.settings.default_vhost].publish(EXCHANGE, name, properties, b"")

    # -- clients --------------------------------------------------------------------------------

    def connection_created(self, connection: EventConnection) -> None:
        """Count and emit connection.created."""
        self.churn.connection_created += 1
        if self.has_listeners:
            self._emit("connection.created", connection_events.connection_created(connection))

    def connection_closed(self, connection: EventConnection) -> None:
        """Count and emit connection.closed, also for a client that never logged in."""
        self.churn.connection_closed += 1
        if self.has_listeners:
            self._emit("connection.closed", connection_events.connection_closed(connection))

    def authenticated(self, connection: EventConnection) -> None:
        """Count and emit user.authentication.success."""
        self.logins[AMQP, True] += 1
        if self.has_listeners:
            facts = connection_events.authentication(connection, connection.user.name)
            self._emit("user.authentication.success", facts)

    def authentication_failed(self, connection: EventConnection, user: str | None, reason: str) -> None:
        """Count and emit user.authentication.failure."""
        self.logins[AMQP, False] += 1
        if self.has_listeners:
            facts = connection_events.authentication(connection, user, reason)
            self._emit("user.authentication.failure", facts)

    def channel_created(self, channel: EventChannel) -> None:
        """Count and emit channel.created."""
        self.churn.channel_created += 1
        if self.has_listeners:
            self._emit("channel.created", connection_events.channel_created(channel))

    def channel_closed(self, channel: EventChannel) -> None:
        """Count and emit channel.closed."""
        self.churn.channel_closed += 1
        if self.has_listeners:
            self._emit("channel.closed", connection_events.channel_closed(channel))

    def consumer_created(self, consumer: EventConsumer) -> None:
        """Emit consumer.created."""
        if self.has_listeners:
            self._emit("consumer.created", connection_events.consumer_created(consumer))

    def consumer_deleted(self, consumer: EventConsumer, actor: str) -> None:
        """Emit consumer.deleted."""
        if self.has_listeners:
            self._emit("consumer.deleted", connection_events.consumer_deleted(consumer, actor))

    def consumer_cancelled(self, consumer: EventConsumer) -> None:
        """Emit consumer.deleted for a deleted queue. As in RabbitMQ it occurs twice: from the queue now,
        from the channel afterwards."""
        if self.has_listeners:
            write = self._broker.metadata.current_write
            self.consumer_deleted(consumer, write.actor if write is not None else INTERNAL_USER)
            self._lost.append(consumer)

    def link_changed(self, event: Callable[[], tuple[str, Facts]]) -> None:
        """Emit an event of a shovel or federation link."""
        if self.has_listeners:
            self._emit(*event())

    # -- metadata and alarms --------------------------------------------------------------------

    def observe(self, written: WriteResult) -> None:
        """Emit the events of a metadata command on the node that wrote it."""
        metadata_log_entries.observe(self._broker, written)
        if written.here:
            self._count_queues(written)
        if written.here and self.has_listeners:
            for name, facts in events_of(self._broker, written):
                self._emit(name, facts)
        lost, self._lost = self._lost, []
        for consumer in lost:
            if self.has_listeners:
                self._emit("consumer.deleted", connection_events.consumer_deleted(consumer, None))

    def _count_queues(self, written: WriteResult) -> None:
        for change in written.changes:
            if not isinstance(change.record, records.Queue):
                continue
            if isinstance(change, Deleted):
                self.churn.queue_deleted += 1
            elif change.before is None:
                self.churn.queue_created += 1

    def alarms_changed(self) -> None:
        """Emit the alarms that were raised or cleared."""
        before, self._alarms = self._alarms, set(self._broker.alarms.raised)
        if self.has_listeners:
            for source in sorted(before ^ self._alarms):
                name = "alarm.set" if source in self._alarms else "alarm.cleared"
                self._emit(name, {"node": self._broker.settings.name, "source": source})
