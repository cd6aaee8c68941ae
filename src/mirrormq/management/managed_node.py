"""What the management API needs of a node beyond what `mirrormqctl` does."""

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
"""Key of a request's scope: a future that is done when the client is gone or the answer complete."""

ROLE = "mirrormq.role"
"""Key of a request's scope: the kind of listener that it came to."""


class ClientGone(OSError):
    """No client waits for the answer any more."""


class TooManyLogins(Exception):
    """More passwords wait to be checked than an address or a user may have."""


class DirectChannel(Protocol):
    """A channel without a socket, with one user's rights in one vhost; raises AmqpError like a real one."""

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
        """Publish with a confirm; was it routed?"""

    async def get(self, queue: str, count: int, mode: str, most_bytes: int) -> list[tuple[Message, int]]:
        """Messages, each with the number that was ready behind it; `mode` says what becomes of them."""


class ManagedNode(ControlledNode, Protocol):
    """A node as the API sees it."""

    @property
    def broker(self) -> Broker: ...
    @property
    def started_at_s(self) -> float: ...

    @property
    def disk(self) -> DiskStats:
        """How the disk under the journal has been used."""

    @property
    def handles_max(self) -> int:
        """File handles that the process may have."""

    @property
    def sockets_max(self) -> int:
        """Clients that it may have."""

    @property
    def cluster(self) -> ClusterInterface: ...
    @property
    def cluster_id(self) -> str:
        """What its cluster is called as long as there is one."""

    @property
    def net_ticktime_s(self) -> float:
        """How long another node may be silent before it is given up."""

    @property
    def timeline(self) -> FailoverTimeline:
        """What happened to nodes and rings."""

    async def carry_out(self, request: Request, where: str = "") -> Any:
        """Do what `mirrormqctl` would do, at this node or another; raises ControlError."""

    def pending_bytes(self, connection: Connection) -> int:
        """Output that a client has not taken yet."""

    def direct(self, user: User, vhost: str) -> DirectChannel:
        """A channel for one request."""

    async def authenticate(
        self, name: str, password: bytes, host: str, gone: asyncio.Future[None]
    ) -> User | None:
        """Return the user, if this is the password and the address one they may come from.

        Raises TooManyLogins beyond the limits, and ClientGone if the client leaves meanwhile.
        """

    def turned_away(self) -> None:
        """Who has just logged in may not do what they asked for: RabbitMQ counts that as a failed login."""

    def warn(self, line: str) -> None:
        """A line for the log."""

    def changed(self) -> None:
        """Something was done that the end of a turn must finish."""

    async def settled(self) -> None:
        """Returns when the metadata that was written is in force here; TimeoutError if that takes long."""
