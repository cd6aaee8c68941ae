"""Interface of a running node that the control commands use."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from mirrormq.config.settings import Settings
from mirrormq.control.control_protocol import Request
from mirrormq.metadata.commands import PutQueue
from mirrormq.metadata.store import MetadataStore

if TYPE_CHECKING:
    from mirrormq.cluster.orphan_restorer import OrphanRestorer


class AppState(enum.Enum):
    """State of the application, the part of a node that serves clients."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


class LiveObjects(Protocol):
    """Live objects of a node as rows of plain values under rabbitmqctl's column names."""

    def queues(self, vhost: str) -> list[dict[str, Any]]:
        """Return a row for each queue of a vhost."""

    def local_queues(self, vhost: str) -> Iterator[dict[str, Any]]:
        """Yield a row for each queue whose master is this node; each row is built when it is requested."""

    def queue(self, vhost: str, name: str) -> dict[str, Any] | None:
        """Return the row of one queue."""

    def critical_queues(self) -> list[dict[str, Any]]:
        """Return the mirrored queues of this node without a synchronised mirror; their messages depend on
        this node."""

    def connections(self) -> list[dict[str, Any]]:
        """Return a row for each client connection."""

    def channels(self) -> list[dict[str, Any]]:
        """Return a row for each channel."""

    def consumers(self, vhost: str) -> list[dict[str, Any]]:
        """Return a row for each consumer of a vhost."""

    def purge_queue(self, vhost: str, name: str) -> int | None:
        """Remove a queue's ready messages and return their number; None if the queue does not exist."""

    @property
    def orphans(self) -> OrphanRestorer:
        """Orphans that this node keeps from partitions whose losing side it was on."""

    def leases(self, vhost: str, *, masterless: bool = False) -> list[dict[str, Any]]:
        """Return a row for each lease of this node's queues in a vhost, or of queues without a master."""

    def release_lease(self, vhost: str, queue: str, name: str) -> int | None:
        """Release a lease and return its number of messages; None if it does not exist."""

    def links(self) -> list[dict[str, Any]]:
        """Return a row for each link of shovels and federation that runs on this node."""

    def scrub(self, start: bool) -> dict[str, Any]:
        """Return the progress of the journal scrub; start a pass first if `start`."""

    def synchronise(self, vhost: str, name: str, wanted: bool) -> bool:
        """Start or stop the synchronisation of a queue's mirrors; return False if this node is not master
        of such a ring."""

    def synchronising(self, vhost: str, name: str) -> bool:
        """Return whether this node synchronises mirrors of a queue now."""

    def declaration(self, vhost: str, name: str, source: str | None) -> PutQueue | None:
        """Return the command that declares a durable queue, as a copy of `source` if given; None if it
        exists."""

    def logins(self) -> list[dict[str, Any]]:
        """Return a row for each protocol with login attempts."""

    def forget_logins(self) -> None:
        """Reset the counters of login attempts."""

    def events_after(self, number: int | None) -> tuple[int, list[dict[str, Any]]]:
        """Return the number of the latest event and the events after `number`. The call keeps event
        collection active for a while."""

    def memory_parts(self, total_bytes: int) -> dict[str, int]:
        """Return the estimated memory use per category, under RabbitMQ's names."""

    def close_connections(
        self, explanation: str, *, pid: str = "", user: str = "", vhost: str = "", limit: int = 0
    ) -> int:
        """Close the connections that match the given criteria with reply code 320, and return their
        number."""


class NodeState(Protocol):
    """Status and limits of the node as a whole."""

    def status(self) -> dict[str, Any]:
        """Return the values of `mirrormqctl status` under RabbitMQ's names."""

    def set_memory_watermark(self, relative: float | None, absolute_bytes: int | None) -> None:
        """Change the memory watermark until the next restart."""

    def set_disk_free_limit(self, relative: float | None, absolute_bytes: int | None) -> None:
        """Change the disk limit until the next restart."""

    def stop(self) -> None:
        """Start a graceful stop after the reply has been sent."""


class ControlledNode(NodeState, Protocol):
    """Running node as the control commands see it."""

    settings: Settings

    @property
    def metadata(self) -> MetadataStore: ...
    @property
    def serving(self) -> bool:
        """Whether the listeners are open."""

    @property
    def live(self) -> LiveObjects:
        """Live objects; available only while the application runs."""


class ClusterInterface(Protocol):
    """Cluster as one of its nodes sees it, with the operations that change its membership.

    An operation that is not possible raises ControlError with rabbitmqctl's text.
    """

    @property
    def members(self) -> list[str]:
        """Names of all members, this node included."""

    @property
    def running(self) -> list[str]:
        """Names of the members that serve clients and are reachable from this node."""

    @property
    def partitions(self) -> dict[str, list[str]]:
        """Peers that each partitioned node cannot reach; nodes without a partition are absent."""

    @property
    def address(self) -> str:
        """Address at which other nodes reach this one, as HOST:PORT; empty if it has no cluster listener."""

    async def ask(self, peer: str, request: Request, timeout_s: float | None = None) -> Any:
        """Return the result of a command on another node; raise ControlError if no reply arrives in time."""

    async def ask_other_nodes(self, request: Request) -> list[Any]:
        """Run a command on all other running nodes and return the results of those that reply."""

    async def join(self, name: str, address: str) -> bool:
        """Discard this node's state and join another node's cluster; return False if it is already a
        member. The address may be empty if it can be derived from the name."""

    async def reset(self, *, force: bool) -> None:
        """Leave the cluster and discard all state; with `force`, without notifying the other members."""

    async def forget(self, name: str) -> None:
        """Remove a stopped node from the cluster."""

    def force_boot(self) -> None:
        """Start the application next time without waiting for peers."""

    def membership(self, name: str) -> dict[str, Any]:
        """Return the facts that another node needs before it joins."""


class LogSwitches(Protocol):
    """Log of the node."""

    def set_level(self, category: str, level: str) -> None:
        """Set a level until the node stops; `default` applies to all categories without a level of their
        own."""

    def reopen(self) -> None:
        """Open new log files after the old ones were moved away."""

    @property
    def files(self) -> list[str]:
        """Paths of the log files."""

    @property
    def has_console(self) -> bool:
        """Whether log lines go to standard error."""

    def lines_after(self, number: int | None) -> tuple[int, list[str]]:
        """Return the number of lines logged so far and the lines after `number`, or all kept lines if
        None."""


class NodeShell(ControlledNode, Protocol):
    """Node process with its application, which may be running or stopped."""

    @property
    def logs(self) -> LogSwitches: ...
    @property
    def cluster(self) -> ClusterInterface: ...
    @property
    def app_state(self) -> AppState: ...

    async def start_app(self) -> None:
        """Start the application; return when clients can connect."""

    async def stop_app(self) -> None:
        """Stop the application; return when all clients are disconnected and the files are closed."""

    async def suspend_listeners(self) -> None:
        """Accept no new clients until the node stops or `resume_listeners` is called."""

    async def resume_listeners(self) -> None:
        """Accept new clients again."""

    async def discover_peers(self) -> list[str]:
        """Return the names of the nodes that peer discovery shows."""

    async def resolve(self, host: str, version: int) -> list[str]:
        """Return the IPv4 or IPv6 addresses of a host; raise OSError if there are none."""

    async def settled(self) -> None:
        """Return when the metadata written so far is committed."""

    async def manage(self, kind: str, options: dict[str, Any]) -> str:
        """Return the reply to another node's HTTP API, as JSON."""
