"""Application lifecycle of one node: one state machine for every start and every stop.

    IDLE ──claim──▶ CLAIMING ──agreed──▶ RUNNING ──▶ LEAVING ──▶ STOPPING ──▶ IDLE
                                            └──────────────────────▲

The node *claims* an incarnation in the metadata before it serves clients. It drops the queues that did not
survive its last incarnation. If no other node runs, it also drops everything that does not survive a
restart of the whole cluster. It then writes that it runs, with an incarnation one higher than any before.
It serves clients only when that is committed, so no node ever deals with an incarnation that the cluster
does not know.

An incarnation ends for one of three reasons: the operator stops the application (LEAVING: its masters are
moved first), the other nodes count this node as lost, or the partition mode requires it. Unless the
operator stopped it, the node then waits until it may run again, and claims its next incarnation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Protocol

import msgspec

from mirrormq.cluster.autoheal import Presence
from mirrormq.cluster.master_moves import drain, still_to_leave
from mirrormq.cluster.member import Member
from mirrormq.cluster.metadata_repair import MetadataRepair
from mirrormq.cluster.partitions import PartitionHandling, may_start
from mirrormq.metadata import commands as c
from mirrormq.metadata.records import Node
from mirrormq.replication.replica_index import ReplicaIndex

LEAVING_MS = 10_000
"""Time that a stopping node waits for other nodes to take its masters: RabbitMQ's limit for a single
queue."""

SEND_AFTER_DRAIN_MS = 100
"""Time that the node stays up after that, to send its consumers' open deliveries to the new masters. Nodes
ignore messages of an ended incarnation."""

STOPPED_BY_OPERATOR = "the node is stopped"
TOO_FEW = "the node reaches too few of its peers"


class LifecycleHost(Protocol):
    """Application that serves clients."""

    def start(self, incarnation: int) -> None:
        """Start to serve clients."""

    def stop(self, reason: str) -> None:
        """Close clients and queues at once. `ApplicationLifecycle.stopped` is called when that is done."""


class LifecycleConditions(Protocol):
    """Conditions of a start and of an end that the lifecycle does not know itself."""

    @property
    def handling(self) -> PartitionHandling:
        """Partition handling in force."""

    def hold_reason(self) -> str:
        """Return why the application must not start although it could; empty if it may."""

    def isolation_reason(self) -> str:
        """Return why the node cannot follow the metadata although it sees enough nodes; empty if it can."""

    def idle_nodes(self) -> dict[str, int]:
        """Return the other nodes that report that they do not serve, with their last incarnations."""


class LifecyclePhase(Enum):
    """Phase of the application."""

    IDLE = "idle"
    CLAIMING = "claiming"
    RUNNING = "running"
    LEAVING = "leaving"
    STOPPING = "stopping"


class ApplicationLifecycle:
    """Lifecycle of one node's application through all its incarnations."""

    def __init__(
        self,
        member: Member,
        conditions: LifecycleConditions,
        application: LifecycleHost,
        replica_index: ReplicaIndex,
        presences: Mapping[str, Presence],
    ) -> None:
        self.phase = LifecyclePhase.IDLE
        self.incarnation = 0
        """Current or last incarnation."""
        self.wanted = False
        self._member = member
        self._conditions = conditions
        self._application = application
        self._replica_index = replica_index
        self._leave_by_ms = 0
        self._shutdown_written = False
        self._drained_since_ms: int | None = None
        self._metadata_repair = MetadataRepair(member, presences)
        self._proceed: Callable[[], None] | None = None

    # -- queries --------------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Return whether clients are served."""
        return self.phase in (LifecyclePhase.RUNNING, LifecyclePhase.LEAVING)

    @property
    def last_incarnation(self) -> int:
        """Highest incarnation known to this node, including those of earlier processes and of histories that
        it discarded. Peers remember by its number what an incarnation has sent, so none is used twice."""
        record, discarded = self._record, self._member.consensus.state.discarded_incarnation
        return max(self.incarnation, discarded, record.incarnation if record is not None else 0)

    @property
    def _start(self) -> int:
        return self._member.consensus.durable_state.start

    @property
    def _record(self) -> Node | None:
        return self._member.metadata.state.nodes.get(self._member.name)

    def start_blocker(self) -> str:
        """Return why the application may not start yet; empty if it may."""
        member = self._member
        if reason := self._conditions.hold_reason():
            return reason
        if not member.joined:
            return "it belongs to no cluster yet"
        if not self._may_go_on():
            return "it reaches too few of its peers"
        if member.leader is None:
            return "the cluster has no leader"
        running = [node.name for node in member.metadata.state.nodes.values() if node.running]
        if not may_start(member.name, running, member.linked):
            unseen = sorted(set(running) - member.linked - {member.name})
            return f"it cannot reach {', '.join(unseen)}"
        return ""

    def _may_go_on(self) -> bool:
        member = self._member
        voters = member.consensus.members.voters
        return self._conditions.handling.may_go_on(member.name, voters, member.linked)

    def _verdict(self) -> str:
        """Return why the incarnation must end; empty if it need not."""
        record = self._record
        if record is None:
            return "the node was removed from its cluster"
        if (record.incarnation, record.start) != (self.incarnation, self._start) or not record.running:
            return "the other nodes count this node as lost"
        if not self._may_go_on():
            return TOO_FEW
        return self._conditions.isolation_reason()

    # -- input ----------------------------------------------------------------------------------

    def want(self, wanted: bool, now_ms: int) -> None:
        """Start or stop the application, as the operator requests."""
        self.wanted = wanted
        if not wanted and self.phase is LifecyclePhase.RUNNING:
            self._leave(now_ms)
        self.reconcile(now_ms)

    def reconcile(self, now_ms: int) -> None:
        """Start or stop the application if the state of the cluster requires it."""
        self._give_way_now()
        if self.running:
            if verdict := self._verdict():
                self._stop(verdict if self.wanted else STOPPED_BY_OPERATOR)
            elif self.phase is LifecyclePhase.LEAVING:
                self._shut_down_if_drained(now_ms)
            else:
                self._metadata_repair.look(self.incarnation)
        elif self.phase is LifecyclePhase.IDLE and self.wanted and not self.start_blocker():
            self._claim()

    def stopped(self) -> None:
        """Record that the application has stopped."""
        self.phase = LifecyclePhase.IDLE

    def give_way(self, proceed: Callable[[], None]) -> None:
        """Call `proceed` to stop the application, as soon as no other stop is in progress. It calls `stopped`
        in the end."""
        self._proceed = proceed
        self._give_way_now()

    def _give_way_now(self) -> None:
        if self._proceed is not None and self.phase is not LifecyclePhase.STOPPING:
            proceed, self._proceed = self._proceed, None
            self.phase = LifecyclePhase.STOPPING
            proceed()

    # -- start ----------------------------------------------------------------------------------

    def _claim(self) -> None:
        self.phase = LifecyclePhase.CLAIMING
        self._metadata_repair.reset()
        incarnation = self.last_incarnation + 1
        member = self._member
        claim = Node(
            member.name, member.address, incarnation, running=True, start=self._start, version=member.version,
            static_shovels=member.static_shovels,
        )  # fmt: skip
        member.metadata.write(c.DropTransient(member.name, list(self._conditions.idle_nodes().items())))
        member.metadata.write(c.PutNode(claim), lambda: self._claimed(incarnation))

    def _claimed(self, incarnation: int) -> None:
        if self.phase is not LifecyclePhase.CLAIMING:
            return
        self.phase, self.incarnation = LifecyclePhase.IDLE, incarnation
        if self.wanted and not self._verdict() and not self._conditions.hold_reason():
            self.phase = LifecyclePhase.RUNNING
            self._application.start(incarnation)
        elif not self.wanted:
            # The operator stopped the application while the claim was uncommitted: withdraw it.
            self._write_shutdown()

    # -- stop -----------------------------------------------------------------------------------

    def _leave(self, now_ms: int) -> None:
        record = self._record
        self.phase = LifecyclePhase.LEAVING
        self._leave_by_ms = now_ms + LEAVING_MS
        self._shutdown_written = False
        self._drained_since_ms = None
        if record is not None and self._member.leader is not None:
            self._member.metadata.write(drain(record))

    def _shut_down_if_drained(self, now_ms: int) -> None:
        """Write the shutdown once the node has no masters left, or its time is over. `reconcile` then ends
        the incarnation."""
        member, record = self._member, self._record
        late_ms = now_ms - self._leave_by_ms
        # Without a leader, or a second period later, the shutdown cannot be committed: stop without it.
        if late_ms >= 0 and (member.leader is None or late_ms >= LEAVING_MS):
            self._stop(STOPPED_BY_OPERATOR)
            return
        if record is None or member.leader is None or self._shutdown_written:
            return
        if late_ms >= 0 or (record.maintenance and self._has_drained(now_ms)):
            self._shutdown_written = True
            self._write_shutdown()

    def _write_shutdown(self) -> None:
        record = self._record
        if record is not None:
            stopped = msgspec.structs.replace(record, running=False, shutdown=True, maintenance=False)
            self._member.metadata.write(c.PutNode(stopped))

    def _has_drained(self, now_ms: int) -> bool:
        member = self._member
        if any(still_to_leave(member.metadata.state, self._replica_index, member.name)):
            self._drained_since_ms = None
        elif self._drained_since_ms is None:
            self._drained_since_ms = now_ms
        if self._drained_since_ms is None:
            return False
        return not member.linked or now_ms - self._drained_since_ms >= SEND_AFTER_DRAIN_MS

    def _stop(self, reason: str) -> None:
        self.phase = LifecyclePhase.STOPPING
        self._application.stop(reason)
