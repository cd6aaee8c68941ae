"""What the verbs need of a running node: the seam between control and runtime."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from mirrormq.config.settings import Settings
from mirrormq.control.control_protocol import Request
from mirrormq.metadata.commands import PutQueue
from mirrormq.metadata.store import MetadataStore

if TYPE_CHECKING:
    from mirrormq.broker.orphan_restorer import OrphanRestorer


class AppState(enum.Enum):
    """What the part of a node that serves clients is doing."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


class LiveObjects(Protocol):
    """What is going on, as rows of plain values under rabbitmqctl's column names."""

    def queues(self, vhost: str) -> list[dict[str, Any]]:
        """A row for each queue of a vhost."""

    def local_queues(self, vhost: str) -> Iterator[dict[str, Any]]:
        """Only those whose messages are asked for at this node, one by one, as they are when it is their
        turn."""

    def queue(self, vhost: str, name: str) -> dict[str, Any] | None:
        """The row of one queue."""

    def critical_queues(self) -> list[dict[str, Any]]:
        """Mirrored queues of this node without a synchronised mirror: they would be lost with it."""

    def connections(self) -> list[dict[str, Any]]:
        """A row for each client connection."""

    def channels(self) -> list[dict[str, Any]]:
        """A row for each channel."""

    def consumers(self, vhost: str) -> list[dict[str, Any]]:
        """A row for each consumer of a vhost."""

    def purge_queue(self, vhost: str, name: str) -> int | None:
        """Drop a queue's ready messages; None if there is no such queue."""

    @property
    def orphans(self) -> OrphanRestorer:
        """What this node keeps of partitions that its side has lost."""

    def leases(self, vhost: str, *, masterless: bool = False) -> list[dict[str, Any]]:
        """A row for each lease of this node's queues in a vhost, or of queues that nobody is master of."""

    def release_lease(self, vhost: str, queue: str, name: str) -> int | None:
        """Give a lease up; says how many messages it had, None if there is none."""

    def scrub(self, start: bool) -> dict[str, Any]:
        """Progress of the scrub of this node's journal; begins a pass first if so wanted."""

    def synchronise(self, vhost: str, name: str, wanted: bool) -> bool:
        """Bring a queue's mirrors up to date, or stop doing so; False if this node masters no such ring."""

    def declaration(self, vhost: str, name: str, source: str | None) -> PutQueue | None:
        """The command that makes a durable queue, a copy of `source` if there is one; None if it is there."""

    def logins(self) -> list[dict[str, Any]]:
        """A row for each protocol that somebody has tried to log in by."""

    def forget_logins(self) -> None:
        """Count them from nought again."""

    def events_after(self, number: int | None) -> tuple[int, list[dict[str, Any]]]:
        """How many events there have been while somebody watched, and those after the one so numbered. Who
        asks watches, for a while."""

    def memory_parts(self, total_bytes: int) -> dict[str, int]:
        """What the node's memory is used for, as far as it can be reckoned, under RabbitMQ's names."""

    def close_connections(
        self, explanation: str, *, pid: str = "", user: str = "", vhost: str = "", limit: int = 0
    ) -> int:
        """Close, with 320, the connections that fit what is given; says how many they were."""


class NodeState(Protocol):
    """What the node as a whole can tell and be told."""

    def status(self) -> dict[str, Any]:
        """The values of `mirrormqctl status` under RabbitMQ's names."""

    def set_memory_watermark(self, relative: float | None, absolute_bytes: int | None) -> None:
        """Change the memory watermark until the next restart."""

    def set_disk_free_limit(self, relative: float | None, absolute_bytes: int | None) -> None:
        """Change the disk limit until the next restart."""

    def stop(self) -> None:
        """Begin a graceful stop, after the reply has gone out."""


class ControlledNode(NodeState, Protocol):
    """A node that serves clients, as its operator sees it."""

    settings: Settings

    @property
    def metadata(self) -> MetadataStore: ...
    @property
    def serving(self) -> bool:
        """Are the listeners open?"""

    @property
    def live(self) -> LiveObjects:
        """Only while the application runs."""


class ClusterInterface(Protocol):
    """The cluster as one of its nodes sees it, and the ways into it and out of it.

    What cannot be done is refused with a ControlError in rabbitmqctl's words.
    """

    @property
    def members(self) -> list[str]:
        """Everybody who belongs to it, this node too, by name."""

    @property
    def running(self) -> list[str]:
        """Those who serve clients and can be reached from here, by name."""

    @property
    def partitions(self) -> dict[str, list[str]]:
        """Which node is partitioned from which others; only those that are."""

    @property
    def address(self) -> str:
        """Where other nodes reach this one, as HOST:PORT; empty if it listens to none."""

    async def ask(self, peer: str, request: Request, timeout_s: float | None = None) -> Any:
        """The result of a verb on another node; a ControlError if it does not answer in time."""

    async def ask_others(self, request: Request) -> list[Any]:
        """The results of a verb on all other nodes that run; of those that answer."""

    async def join(self, name: str, address: str) -> bool:
        """Give up what this node has and become a member of another's cluster; False if it is one already.
        The address may be left empty where it can be known."""

    async def reset(self, *, force: bool) -> None:
        """Leave the cluster and forget everything. By force: without telling the others."""

    async def forget(self, name: str) -> None:
        """Take a stopped node out of the cluster."""

    def force_boot(self) -> None:
        """Start the next time without waiting for anybody."""

    def membership(self, name: str) -> dict[str, Any]:
        """What another node has to know before it joins."""


class LogSwitches(Protocol):
    """The node's log."""

    def set_level(self, category: str, level: str) -> None:
        """From now on until the node stops; `default` for all categories that have none of their own."""

    def reopen(self) -> None:
        """Go on in new files, where the old ones were moved away."""

    @property
    def files(self) -> list[str]:
        """The files that lines go to."""

    @property
    def has_console(self) -> bool:
        """Do lines go to standard error?"""

    def lines_after(self, number: int | None) -> tuple[int, list[str]]:
        """How many lines there have been, and those after the one so numbered, or all that are kept."""


class NodeShell(ControlledNode, Protocol):
    """The same whether or not it serves clients, with the switch for that."""

    @property
    def logs(self) -> LogSwitches: ...
    @property
    def cluster(self) -> ClusterInterface: ...
    @property
    def app_state(self) -> AppState: ...

    async def start_app(self) -> None:
        """Serve clients; returns when they can come."""

    async def stop_app(self) -> None:
        """Serve no clients; returns when they are gone and the files are closed."""

    async def suspend_listeners(self) -> None:
        """Let no new clients in, until the node stops or `resume_listeners`."""

    async def resume_listeners(self) -> None:
        """Let clients in again."""

    async def resolve(self, host: str, version: int) -> list[str]:
        """The addresses of a host, of IP's version 4 or 6; OSError if there are none."""

    async def settled(self) -> None:
        """Returns when the metadata that was written has been agreed on."""

    async def manage(self, kind: str, question: dict[str, Any]) -> str:
        """What another node's HTTP API wants to know, as JSON."""
