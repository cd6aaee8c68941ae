"""Host of orphans: the parts of a broker that set messages aside and republish them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from mirrormq.metadata.commands import Command
from mirrormq.queues.message import Message
from mirrormq.queues.queue import Queue
from mirrormq.replication.replication_host import ReplicationHost

if TYPE_CHECKING:
    from mirrormq.cluster.rescues import Rescues


class OrphanHost(ReplicationHost, Protocol):
    """Broker whose queues may have orphans."""

    @property
    def rescues(self) -> Rescues: ...
    def write(self, command: Command, user: str, then: Callable[[], object]) -> None: ...
    def unacked_of(self, queue: Queue, queue_id: int) -> list[Message]: ...
