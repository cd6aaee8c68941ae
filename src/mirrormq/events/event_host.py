"""Host of events and log entries: the parts of a broker and of its clients that events describe.

Events lie below broker, channels and connections, so they know these by protocols only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from mirrormq.auth.client_peer import Peer
from mirrormq.clock import Clock
from mirrormq.events.log_buffer import LogBuffer
from mirrormq.metadata import records
from mirrormq.metadata.policy_matching import PolicyMatcher
from mirrormq.metadata.store import MetadataStore
from mirrormq.queues.queue import Queue
from mirrormq.queues.queue_interface import QueueInterface
from mirrormq.storage.journal import Journal
from mirrormq.wire.fields import Table
from mirrormq.wire.properties import BasicProperties


class NumberedConnection(Protocol):
    """Connection with the number of its pid; 0 until the pid is first used."""

    number: int


class NumberedChannel(Protocol):
    """Channel whose pid contains its number and that of its connection."""

    @property
    def number(self) -> int: ...
    @property
    def connection(self) -> NumberedConnection: ...


class PidSource(Protocol):
    """Pids of a node's connections, channels and replicas."""

    def of_connection(self, connection: NumberedConnection) -> str: ...
    def of_channel(self, channel: NumberedChannel) -> str: ...
    def of_replica(self, record: records.Queue, node: str) -> str: ...


class NodeSettings(Protocol):
    """Settings that events contain."""

    @property
    def name(self) -> str: ...
    @property
    def default_vhost(self) -> str: ...


class LogHost(Protocol):
    """Node that collects log entries about its clients."""

    @property
    def settings(self) -> NodeSettings: ...
    @property
    def pids(self) -> PidSource: ...
    @property
    def log_entries(self) -> LogBuffer: ...


class EventConnection(NumberedConnection, Protocol):
    """Client connection as events and log entries describe it."""

    @property
    def broker(self) -> LogHost: ...
    @property
    def peer(self) -> Peer: ...
    @property
    def name(self) -> str: ...
    @property
    def user(self) -> records.User: ...
    @property
    def vhost_name(self) -> str: ...
    @property
    def mechanism(self) -> str: ...
    @property
    def client_properties(self) -> Table: ...
    @property
    def connected_at_ms(self) -> int: ...
    @property
    def channel_max(self) -> int: ...
    @property
    def frame_max(self) -> int: ...
    @property
    def heartbeat_s(self) -> int: ...


class EventVhost(Protocol):
    """Vhost that events are published in."""

    @property
    def name(self) -> str: ...
    def publish(self, exchange: str, routing_key: str, properties: BasicProperties, body: bytes) -> None: ...
    def bindings_from(self, exchange: str) -> bool: ...
    def local_queue(self, name: str) -> Queue | None: ...


class EventChannel(NumberedChannel, Protocol):
    """Channel as events describe it."""

    @property
    def broker(self) -> LogHost: ...
    @property
    def connection(self) -> EventConnection: ...
    @property
    def user(self) -> records.User: ...
    @property
    def vhost(self) -> EventVhost: ...


class EventConsumer(Protocol):
    """Consumer as events describe it."""

    @property
    def channel(self) -> EventChannel: ...
    @property
    def queue(self) -> QueueInterface: ...
    @property
    def tag(self) -> str: ...
    @property
    def arguments(self) -> Table: ...
    @property
    def prefetch(self) -> int: ...
    @property
    def no_ack(self) -> bool: ...
    @property
    def exclusive(self) -> bool: ...


class RaisedAlarms(Protocol):
    """Alarms in force on a node."""

    @property
    def raised(self) -> Collection[str]: ...


class PromotionCounter(Protocol):
    """Counter of promotions that may have lost messages."""

    promotions_incomplete: int


class EventHost(LogHost, Protocol):
    """Broker whose changes become events and log entries."""

    @property
    def clock(self) -> Clock: ...
    @property
    def metadata(self) -> MetadataStore: ...
    @property
    def policies(self) -> PolicyMatcher: ...
    @property
    def vhosts(self) -> Mapping[str, EventVhost]: ...
    @property
    def alarms(self) -> RaisedAlarms: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def events(self) -> PromotionCounter: ...
