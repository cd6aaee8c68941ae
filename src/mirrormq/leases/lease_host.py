"""Host of range requests: the parts of a broker and of its clients that leases and range reads use.

Leases lie below broker, channels and connections, so they know these by protocols only.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Literal, Protocol

from mirrormq.auth.permissions import Access, Permissions
from mirrormq.clock import Clock
from mirrormq.metadata import records
from mirrormq.metadata.commands import Command
from mirrormq.metadata.store import MetadataStore
from mirrormq.queues.message import Envelope
from mirrormq.queues.queue import Queue
from mirrormq.queues.queue_interface import Pumped, QueueInterface
from mirrormq.replication.replica import Replica
from mirrormq.storage.journal import Journal


class RequestConnection(Hashable, Protocol):
    """Client connection that a reply is sent on."""

    @property
    def frame_max(self) -> int: ...


class RequestVhost(Protocol):
    """Vhost of a request."""

    @property
    def name(self) -> str: ...
    def find_queue(self, name: str) -> records.Queue | None: ...
    def local_queue(self, name: str) -> Queue | None: ...
    def accessible_queue(self, name: str, connection: object) -> QueueInterface: ...


class RequestChannel(Protocol):
    """Channel that a request came from."""

    @property
    def number(self) -> int: ...
    @property
    def user(self) -> records.User: ...
    @property
    def vhost(self) -> RequestVhost: ...
    @property
    def connection(self) -> RequestConnection: ...
    def check_permission(self, kind: Literal["queue", "exchange"], name: str, access: Access) -> None: ...


class NodeName(Protocol):
    """Settings that requests use."""

    @property
    def name(self) -> str: ...


class ReplicaSource(Protocol):
    """Replicas of a node, by queue id."""

    @property
    def replicas(self) -> Mapping[int, Replica]: ...


class LeaseHost(Protocol):
    """Broker of the node that serves range requests."""

    @property
    def settings(self) -> NodeName: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def metadata(self) -> MetadataStore: ...
    @property
    def permissions(self) -> Permissions: ...
    @property
    def journal(self) -> Journal: ...
    @property
    def vhosts(self) -> Mapping[str, RequestVhost]: ...
    @property
    def replica_manager(self) -> ReplicaSource: ...
    @property
    def incarnation(self) -> int: ...
    @property
    def pumped(self) -> int: ...
    def wake(self, queue: Pumped) -> None: ...
    def write(self, command: Command, user: str, then: Callable[[], object]) -> None: ...
    def deliver_reply(self, name: str, envelope: Envelope, contents: list[bytes]) -> None: ...
