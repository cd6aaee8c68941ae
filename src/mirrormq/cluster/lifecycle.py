"""May this node's application run, and in which life? One road for every start and every stop.

    IDLE ──claim──▶ CLAIMING ──agreed──▶ RUNNING ──▶ LEAVING ──▶ STOPPING ──▶ IDLE
                                            └──────────────────────▲

A life is *claimed* in the metadata before it begins: the node drops the queues that did not survive its
last one (and, if nobody else runs, all that does not survive the end of the whole cluster), and writes that
it runs, with a life one higher than any before. Only when that has been agreed
upon does it serve clients. So nobody ever deals with a life that the cluster does not know of.

A life ends because the operator wants it to (LEAVING: its masters are handed over first), because the others
have given the node up as lost, or because the partition mode says so. Then, unless the operator stopped it,
the node waits until it may run again, and claims its next life.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Protocol

import msgspec

from mirrormq.cluster.master_moves import drain, still_to_leave
from mirrormq.cluster.member import Member
from mirrormq.cluster.partitions import PartitionHandling, may_start
from mirrormq.metadata import commands as c
from mirrormq.metadata.records import Node
from mirrormq.replication.replica_index import ReplicaIndex

LEAVING_MS = 10_000
"""How long a node that stops waits for others to take its masters: what RabbitMQ gives a single queue."""

LAST_WORDS_MS = 100
"""How long it stays after that, for what it has to tell the new masters: what its consumers had of them. A
life that is over is not listened to any more."""

STOPPED_BY_OPERATOR = "the node is stopped"
TOO_FEW = "the node sees too few of the others"


class LifecycleHost(Protocol):
    """What serves clients."""

    def start(self, incarnation: int) -> None:
        """Begin to serve."""

    def stop(self, reason: str) -> None:
        """Close clients and queues, at once; `ApplicationLifecycle.stopped` is called when that is done."""


class LifecyclePhase(Enum):
    """Where the application is."""

    IDLE = "idle"
    CLAIMING = "claiming"
    RUNNING = "running"
    LEAVING = "leaving"
    STOPPING = "stopping"


class ApplicationLifecycle:
    """One node's application, through all of its lives."""

    def __init__(
        self,
        member: Member,
        handling: PartitionHandling,
        application: LifecycleHost,
        replica_index: ReplicaIndex,
    ) -> None:
        self.handling = handling
        self.phase = LifecyclePhase.IDLE
        self.incarnation = 0
        """The present life, or the last one."""
        self.wanted = False
        self.hold_reason: Callable[[], str] = str
        """Why it must not start although it could; empty: it may."""
        self.idle: Callable[[], dict[str, int]] = dict
        """The other nodes that say themselves that they do not serve, and their last lives."""
        self.isolation_reason: Callable[[], str] = str
        """Why it cannot learn what the others agree on, although it sees enough of them; empty: it can."""
        self._member = member
        self._application = application
        self._replica_index = replica_index
        self._leave_by_ms = 0
        self._said_goodbye = False
        self._free_since_ms: int | None = None
        self._proceed: Callable[[], None] | None = None

    # -- questions ------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Are clients served?"""
        return self.phase in (LifecyclePhase.RUNNING, LifecyclePhase.LEAVING)

    @property
    def last_incarnation(self) -> int:
        """The present life, or the last one that this node can know of, although another process lived it."""
        record = self._record
        return max(self.incarnation, record.incarnation if record is not None else 0)

    @property
    def _start(self) -> int:
        return self._member.consensus.durable_state.start

    @property
    def _record(self) -> Node | None:
        return self._member.metadata.state.nodes.get(self._member.name)

    def start_blocker(self) -> str:
        """What it waits for before it may start; empty if nothing."""
        member = self._member
        if why := self.hold_reason():
            return why
        if not member.joined:
            return "it belongs to no cluster yet"
        if not self._may_go_on():
            return "it sees too few of the others"
        if member.leader is None:
            return "nobody leads the cluster"
        running = [node.name for node in member.metadata.state.nodes.values() if node.running]
        if not may_start(member.name, running, member.linked):
            unseen = sorted(set(running) - member.linked - {member.name})
            return f"it does not see {', '.join(unseen)}"
        return ""

    def _may_go_on(self) -> bool:
        member = self._member
        return self.handling.may_go_on(member.name, member.consensus.members.voters, member.linked)

    def _verdict(self) -> str:
        """Why a life must end; empty if it need not."""
        record = self._record
        if record is None:
            return "the node was taken out of its cluster"
        if (record.incarnation, record.start) != (self.incarnation, self._start) or not record.running:
            return "the other nodes gave this one up as lost"
        if not self._may_go_on():
            return TOO_FEW
        return self.isolation_reason()

    # -- what happens ---------------------------------------------------------------------------

    def want(self, wanted: bool, now_ms: int) -> None:
        """The operator starts or stops the application."""
        self.wanted = wanted
        if not wanted and self.phase is LifecyclePhase.RUNNING:
            self._leave(now_ms)
        self.reconcile(now_ms)

    def reconcile(self, now_ms: int) -> None:
        """Something has changed, or time has passed."""
        self._give_way_now()
        if self.running:
            if verdict := self._verdict():
                self._stop(verdict if self.wanted else STOPPED_BY_OPERATOR)
            elif self.phase is LifecyclePhase.LEAVING:
                self._go_if_free(now_ms)
        elif self.phase is LifecyclePhase.IDLE and self.wanted and not self.start_blocker():
            self._claim()

    def stopped(self) -> None:
        """The application has stopped."""
        self.phase = LifecyclePhase.IDLE

    def give_way(self, proceed: Callable[[], None]) -> None:
        """Let somebody else stop the application, as soon as it is not being stopped anyway; who does so says
        `stopped` in the end."""
        self._proceed = proceed
        self._give_way_now()

    def _give_way_now(self) -> None:
        if self._proceed is not None and self.phase is not LifecyclePhase.STOPPING:
            proceed, self._proceed = self._proceed, None
            self.phase = LifecyclePhase.STOPPING
            proceed()

    # -- beginning ------------------------------------------------------------------------------

    def _claim(self) -> None:
        self.phase = LifecyclePhase.CLAIMING
        incarnation = self.last_incarnation + 1
        member = self._member
        claim = Node(member.name, member.address, incarnation, running=True, start=self._start)
        member.metadata.write(c.DropTransient(member.name, list(self.idle().items())))
        member.metadata.write(c.PutNode(claim), lambda: self._claimed(incarnation))

    def _claimed(self, incarnation: int) -> None:
        if self.phase is not LifecyclePhase.CLAIMING:
            return
        self.phase, self.incarnation = LifecyclePhase.IDLE, incarnation
        if self.wanted and not self._verdict() and not self.hold_reason():
            self.phase = LifecyclePhase.RUNNING
            self._application.start(incarnation)
        elif not self.wanted:
            self._say_goodbye()

    # -- ending ---------------------------------------------------------------------------------

    def _leave(self, now_ms: int) -> None:
        record = self._record
        self.phase = LifecyclePhase.LEAVING
        self._leave_by_ms = now_ms + LEAVING_MS
        self._said_goodbye = False
        self._free_since_ms = None
        if record is not None and self._member.leader is not None:
            self._member.metadata.write(drain(record))

    def _go_if_free(self, now_ms: int) -> None:
        """Say goodbye when nobody needs this node any more, or when it has waited long enough. What is
        said is heard by `look`, as any other end of this life."""
        member, record = self._member, self._record
        late_ms = now_ms - self._leave_by_ms
        if late_ms >= 0 and (member.leader is None or late_ms >= LEAVING_MS):
            self._stop(STOPPED_BY_OPERATOR)
            return
        if record is None or member.leader is None or self._said_goodbye:
            return
        if late_ms >= 0 or (record.maintenance and self._has_been_free(now_ms)):
            self._said_goodbye = True
            self._say_goodbye()

    def _say_goodbye(self) -> None:
        record = self._record
        if record is not None:
            gone = msgspec.structs.replace(record, running=False, shutdown=True, maintenance=False)
            self._member.metadata.write(c.PutNode(gone))

    def _has_been_free(self, now_ms: int) -> bool:
        member = self._member
        if any(still_to_leave(member.metadata.state, self._replica_index, member.name)):
            self._free_since_ms = None
        elif self._free_since_ms is None:
            self._free_since_ms = now_ms
        if self._free_since_ms is None:
            return False
        return not member.linked or now_ms - self._free_since_ms >= LAST_WORDS_MS

    def _stop(self, reason: str) -> None:
        self.phase = LifecyclePhase.STOPPING
        self._application.stop(reason)
