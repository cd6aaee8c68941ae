"""Host of replication: the parts of a broker and of its vhosts that replicas, repairs and placement use.

Replication lies below the broker, so it knows the broker by protocols only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from mirrormq.clock import Clock
from mirrormq.events.log_buffer import LogBuffer
from mirrormq.metadata.policy_matching import PolicyMatcher
from mirrormq.metadata.store import MetadataStore
from mirrormq.queues.queue import Queue
from mirrormq.queues.queue_interface import Pumped, QueueInterface
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
