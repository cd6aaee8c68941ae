"""Interface of a node that the management API needs beyond that of `mirrormqctl`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from mirrormq.control.control_protocol import Request
from mirrormq.control.node_interface import ClusterInterface, ControlledNode
from mirrormq.metadata.records import User

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.connections.connection import Connection
    from mirrormq.management.failover_timeline import FailoverTimeline
    from mirrormq.queues.message import Message
    from mirrormq.storage.disk_stats import DiskStats


GONE = "mirrormq.gone"
"""Key in a request's scope: a future that is done when the client has disconnected or the reply is
complete."""

ROLE = "mirrormq.role"
"""Key in a request's scope: the role of the listener that accepted it."""

MANAGEMENT = "management"
"""Role of listeners that serve the API and the page, and metrics if these have no listener."""

METRICS = "metrics"
"""Role of the listener that serves only metrics."""


class ClientGone(OSError):
    """Disconnection of the client that waits for the reply."""


class TooManyLogins(Exception):
    """Refusal of a login: too many logins of an address or user wait for a password check."""


class DirectChannel(Protocol):
    """Channel without a socket, with one user's permissions in one vhost; it raises AmqpError like a real
    channel."""

    async def declare_queue(
        self, name: str, *, durable: bool, auto_delete: bool, arguments: Mapping[str, Any]
    ) -> None: ...
    async def delete_queue(self, name: str, *, if_unused: bool, if_empty: bool) -> None: ...
    async def purge_queue(self, name: str) -> None: ...
    async def declare_exchange(
        self,
        name: str,
        kind: str,
        *,
        durable: bool,
        auto_delete: bool,
        internal: bool,
        arguments: Mapping[str, Any],
    ) -> None: ...
    async def delete_exchange(self, name: str, *, if_unused: bool) -> None: ...
    async def bind(
        self, source: str, kind: str, destination: str, key: str, arguments: Mapping[str, Any]
    ) -> None: ...
    async def unbind(self, source: str, kind: str, destination: str, key: str, arguments: bytes) -> None: ...
    async def publish(self, exchange: str, key: str, properties: bytes, body: bytes) -> bool:
        """Publish with a confirm; return whether the message was routed."""

    async def get(self, queue: str, count: int, mode: str, most_bytes: int) -> list[tuple[Message, int]]:
        """Return messages, each with the number of ready messages behind it; `mode` determines their
        settlement."""


class ManagedNode(ControlledNode, Protocol):
    """Node as the API sees it."""

    @property
    def broker(self) -> Broker: ...
    @property
    def started_at_s(self) -> float: ...

    @property
    def disk(self) -> DiskStats:
        """Disk statistics of the journal."""

    @property
    def handles_max(self) -> int:
        """Limit of open file handles."""

    @property
    def sockets_max(self) -> int:
        """Limit of client connections."""

    @property
    def cluster(self) -> ClusterInterface: ...
    @property
    def cluster_id(self) -> str:
        """Permanent identifier of the cluster."""

    @property
    def net_ticktime_s(self) -> float:
        """Silence after which another node is considered down."""

    @property
    def log_files(self) -> list[str]:
        """Paths of the log files."""

    @property
    def timeline(self) -> FailoverTimeline:
        """Failover timeline of this node."""

    async def carry_out(self, request: Request, where: str = "") -> Any:
        """Run a control command on this node or on `where`; raise ControlError if it fails."""

    def pending_bytes(self, connection: Connection) -> int:
        """Return the bytes of output that a client has not received yet."""

    def direct(self, user: User, vhost: str) -> DirectChannel:
        """Return a channel for one request."""

    async def authenticate(
        self, name: str, password: bytes, host: str, gone: asyncio.Future[None]
    ) -> User | None:
        """Return the user if the password is correct and the address is allowed, else None.

        Raise TooManyLogins beyond the limits, and ClientGone if the client disconnects meanwhile.
        """

    def longest_turn_s(self, window_s: int) -> float:
        """Return the longest turn of the event loop in the last seconds, without fsync."""

    def count_refusal(self) -> None:
        """Count a refused request of an authenticated user as a failed login, as RabbitMQ does."""

    def warn(self, line: str) -> None:
        """Write a warning to the log."""

    def changed(self) -> None:
        """Mark the node dirty, so that the end of the turn completes the change."""

    async def settled(self) -> None:
        """Return when the written metadata is applied on this node; raise TimeoutError if that takes too
        long."""
