"""Host of replication: the parts of a broker and of its vhosts that replicas, repairs and placement use.

Replication lies below the broker, so it knows the broker by protocols only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from mirrormq.clock import Clock
from mirrormq.events.log_buffer import LogBuffer
from mirrormq.metadata import records
from mirrormq.metadata.policy_matching import PolicyMatcher
from mirrormq.metadata.store import MetadataStore
from mirrormq.queues.backing import BackingQueue
from mirrormq.queues.memory_budget import MemoryBudget
from mirrormq.queues.message import Message
from mirrormq.queues.queue import Queue
from mirrormq.queues.queue_host import QueueHost
from mirrormq.queues.queue_interface import Pumped, QueueInterface, Subscriber
from mirrormq.remote.remote_endpoint import RemoteEndpoint
from mirrormq.replication.placement import Choose
from mirrormq.replication.replica import Replica
from mirrormq.storage.journal import Journal


class PlacementSettings(Protocol):
    """Settings that decide on which nodes new queues are."""

    @property
    def name(self) -> str: ...
    @property
    def queue_master_locator(self) -> str: ...


class PlacementHost(Protocol):
    """Node that places new queues."""

    @property
    def settings(self) -> PlacementSettings: ...
    @property
    def metadata(self) -> MetadataStore: ...
    @property
    def policies(self) -> PolicyMatcher: ...
    @property
    def choose(self) -> Choose: ...


class ReplicatedVhost(Protocol):
    """Vhost with the live queues of a node."""

    @property
    def queues(self) -> Mapping[str, QueueInterface]: ...
    def local_queue(self, name: str) -> Queue | None: ...


class Replicas(Protocol):
    """Replicas of a node, by queue id."""

    @property
    def replicas(self) -> Mapping[int, Replica]: ...
    def lead(self, record: records.Queue, queue: Queue) -> None: ...
    def promote(self, record: records.Queue, make: Callable[[BackingQueue], Queue]) -> Queue | None: ...
    def mirror(self, record: records.Queue) -> None: ...
    def leave(self, queue_id: int) -> None: ...
    def erased(self, queue_id: int) -> None: ...
    def mark_delivered(self, queue_id: int, sequence: int) -> None: ...
    def give_up(self, queue_id: int, sequences: list[int]) -> None: ...


class ReplicationHost(PlacementHost, Protocol):
    """Broker whose queues are mirrored."""

    @property
    def clock(self) -> Clock: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def log_entries(self) -> LogBuffer: ...
    @property
    def remote(self) -> RemoteEndpoint: ...
    @property
    def vhosts(self) -> Mapping[str, ReplicatedVhost]: ...
    @property
    def replica_manager(self) -> Replicas: ...
    def wake(self, queue: Pumped) -> None: ...


class RecordFollower(Protocol):
    """Part of a node that follows the record of a queue whose master is another node."""

    def follow(self, record: records.Queue) -> None: ...


class PendingReports(Protocol):
    """Reports of durable copies that a node has still to write."""

    def add(self, record: records.Queue) -> None: ...


class Leases(Protocol):
    """Leases of the queues whose master is this node."""

    def begin(self, record: records.Queue, queue: Queue) -> None: ...


class RangeRequests(Protocol):
    """Range requests of clients."""

    @property
    def leases(self) -> Leases: ...


class RoleHost(ReplicationHost, Protocol):
    """Broker whose vhosts have an object for each queue."""

    @property
    def incarnation(self) -> int: ...
    @property
    def hot_budget(self) -> MemoryBudget: ...
    @property
    def copy_reports(self) -> PendingReports: ...
    @property
    def rescues(self) -> RecordFollower: ...
    @property
    def range_requests(self) -> RangeRequests: ...
    def deliveries_of(self, queue: Queue) -> Iterable[tuple[Message, Subscriber | None]]: ...


class Routes(Protocol):
    """Routes of a vhost to its queues."""

    def invalidate(self) -> None: ...


class RoleVhost(QueueHost, Protocol):
    """Vhost with one object for each queue name."""

    @property
    def broker(self) -> RoleHost: ...
    @property
    def name(self) -> str: ...
    @property
    def queues(self) -> dict[str, QueueInterface]: ...
    @property
    def router(self) -> Routes: ...
    def owner_of(self, name: str) -> object | None: ...
    def dead_letters_later(self) -> AbstractContextManager[None]: ...
