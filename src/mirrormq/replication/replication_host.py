"""Host of replication: the parts of a broker and of its vhosts that replicas, repairs and placement use.

Replication lies below the broker, so it knows the broker by protocols only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from mirrormq.clock import Clock
from mirrormq.events.event_host import EventHost
from mirrormq.events.log_buffer import LogBuffer
from mirrormq.metadata import records
from mirrormq.metadata.commands import Command
from mirrormq.metadata.policy_matching import PolicyMatcher
from mirrormq.metadata.store import MetadataStore
from mirrormq.queues.memory_budget import MemoryBudget
from mirrormq.queues.message import Message
from mirrormq.queues.queue import Queue
from mirrormq.queues.queue_host import QueueHost
from mirrormq.queues.queue_interface import Pumped, QueueInterface, Subscriber
from mirrormq.remote.remote_endpoint import RemoteEndpoint
from mirrormq.replication.placement import Choose
from mirrormq.sequences.sequence_set import SequenceSet
from mirrormq.storage.journal import Journal

if TYPE_CHECKING:
    from mirrormq.replication.copy_reports import CopyReports
    from mirrormq.replication.replica_manager import ReplicaManager


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
    def replica_manager(self) -> ReplicaManager: ...
    def wake(self, queue: Pumped) -> None: ...


class ReportHost(EventHost, Protocol):
    """Broker that reports its journal and its durable copies."""

    @property
    def incarnation(self) -> int: ...
    def write(self, command: Command, user: str, then: Callable[[], object]) -> None: ...


class MirroringSettings(PlacementSettings, Protocol):
    """Settings of the synchronisation of mirrors."""

    @property
    def mirroring_sync_batch_size(self) -> int: ...
    @property
    def mirroring_sync_max_throughput_bytes(self) -> int: ...


class QueueRescues(Protocol):
    """Messages that a rescue leaves behind on this node."""

    def follow(self, record: records.Queue) -> None: ...
    def keep_surplus(self, queue_id: int, surplus: SequenceSet) -> None: ...


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
    def settings(self) -> MirroringSettings: ...
    @property
    def incarnation(self) -> int: ...
    @property
    def hot_budget(self) -> MemoryBudget: ...
    @property
    def copy_reports(self) -> CopyReports: ...
    @property
    def rescues(self) -> QueueRescues: ...
    @property
    def range_requests(self) -> RangeRequests: ...
    def unacked_of(self, queue: Queue, queue_id: int) -> list[Message]: ...
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
