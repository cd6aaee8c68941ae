"""The steward of a node: whatever its cluster wants of it, decided in one place, without touching anything.

It brings together the parts that each know one thing: the membership and its metadata (`member`), whether
the application may run (`serving`), what has become of nodes and where replicas belong, while this node leads
(`coordinator`), who sees whom (`partitions`), whom a node that starts waits for (`discovery`), and what
happens when two sides meet (`fork_recovery`).

Links, messages and time come in; messages go out through `send`, and the `Application` is told to start, to
stop, to give up. The runtime and the simulator drive the same object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from mirrormq.cluster import partitions
from mirrormq.cluster.autoheal import LoserNotice, Presence
from mirrormq.cluster.cluster_messages import ClusterMessage
from mirrormq.cluster.coordinator import PROMOTION_TIMEOUT_MS, Coordinator
from mirrormq.cluster.fork_recovery import ForkRecovery, ForkRecoveryHost, ForkRecoveryMessage
from mirrormq.cluster.lifecycle import ApplicationLifecycle
from mirrormq.cluster.member import Member
from mirrormq.cluster.partitions import ConnectivityMatrix, PartitionHandling
from mirrormq.cluster.startup_discovery import StartupDiscovery
from mirrormq.cluster.state_transfer import StateChunk, StateRequest
from mirrormq.consensus.raft_messages import DurableState
from mirrormq.metadata.policy_matching import PolicyMatcher

PRESENCE_MS = 1000
"""How often a node tells the others of itself when nothing changes."""

HEARSAY_MS = 2000
"""How long a node that this one has lost its link to is not given up while others still see it. When a
process dies all of them lose it in the same moment; one connection that breaks is made again much faster."""

SILENT_PEER = "nothing heard"
"""How the failure detector's reasons begin: who was silent for so long is not waited for."""

REDIAL_MS = 150
"""Where a few may go on without the rest, two nodes whose connection breaks would each go on alone. So they
are given the time it takes to connect again; a process that is dead costs that much, and no more."""

ControllerMessage = Presence | ForkRecoveryMessage


class Send(Protocol):
    """Send a message to a node, if there is a link to it."""

    def __call__(self, peer: str, message: ControllerMessage, urgent: bool) -> None: ...


class ApplicationHost(ForkRecoveryHost, Protocol):
    """The application, with all that a steward asks of it."""

    @property
    def clients(self) -> int:
        """Open connections."""

    def partition_started(self) -> None:
        """Somebody is missing who may go on without this node: mark what is shared (`apart`). Said often."""

    def partition_ended(self) -> None:
        """Everybody is here and of one mind: marks are not needed."""


class ClusterController:
    """One node's."""

    def __init__(
        self,
        member: Member,
        handling: PartitionHandling,
        application: ApplicationHost,
        choose: Callable[[int], int],
        send: Send,
        promotion_timeout_ms: int = PROMOTION_TIMEOUT_MS,
    ) -> None:
        state = member.metadata.state
        self.member = member
        self.handling = handling
        self.coordinator = Coordinator(member.name, state, PolicyMatcher(state), choose, promotion_timeout_ms)
        self.serving = ApplicationLifecycle(member, handling, application, self.coordinator.replica_index)
        self.presences: dict[str, Presence] = {}
        """What the nodes that there is a link to last said of themselves."""
        self.own_alarms: tuple[str, ...] = ()
        """What this node is short of; the application says so."""
        self.own_usage: tuple[tuple[str, str, int], ...] = ()
        """What of this node's clients is limited and counts."""
        self.alarms_heard: Callable[[dict[str, tuple[str, ...]]], None] = lambda alarms: None
        """Told when the alarms of other nodes have changed."""
        self._alarms: dict[str, tuple[str, ...]] = {}
        self._application = application
        self._send = send
        self._connectivity = ConnectivityMatrix()
        self._fork_recovery = ForkRecovery(member, handling, self.presences, self.serving, application, send)
        self._now_ms = 0
        self._told: Presence | None = None
        self._told_ms = 0
        self._discovery = StartupDiscovery(member, self.presences)
        self._broken_ms: dict[str, int] = {}
        """Nodes to which a connection broke, and when."""
        self._lingering: dict[str, int] = {}
        """Those that the member has not been told of yet."""
        self._led_ms = 0
        """When this node last had a leader, or nobody it sees followed one that it does not see."""
        self.apart = False
        """May others go on without this node? An application that starts meanwhile has to know."""
        member.metadata.listeners.append(self.coordinator.follow)
        member.parting = self._part
        self._start_blocker = "it looks for the others"
        """Why the application must not start, as of the last tick: in between half of it is known."""
        self.serving.hold_reason = self._hold_reason
        self.serving.idle = self._idle
        self.serving.isolation_reason = self._isolation_reason

    # -- what happens ---------------------------------------------------------------------------

    def up(self, peer: str, session: int, stated: DurableState | None = None) -> None:
        """There is a link to a node, which has stated how far its disk is."""
        self._discovery.met(peer)
        self._broken_ms.pop(peer, None)
        if self._lingering.pop(peer, None) is not None:
            self.member.down(peer, "replaced")
        self.member.up(peer, session, stated)
        if self._told is not None:
            self._send(peer, self._told, urgent=True)
        self._survey()

    def down(self, peer: str, reason: str) -> None:
        """The link to a node is gone."""
        if reason.startswith(SILENT_PEER) or self._strict:
            self.member.down(peer, reason)
        else:
            self._lingering[peer] = self._now_ms
        self.presences.pop(peer, None)
        self._hear_alarms()
        self._connectivity.forget(peer)
        self._fork_recovery.down(peer)
        if not reason.startswith(SILENT_PEER):
            self._broken_ms[peer] = self._now_ms
        self.tell_presence()
        self._survey()

    def receive(self, peer: str, message: ClusterMessage | ControllerMessage) -> None:
        """A message has come over a node's link."""
        match message:
            case Presence():
                before = self.presences.get(peer)
                self.presences[peer] = message
                if message.durable is not None:
                    self.member.peer_stated(message.durable)
                self._hear_alarms()
                self._connectivity.heard(peer, message.reachable)
                said = (message.serving, message.incarnation)
                if self._broken_ms or before is None or (before.serving, before.incarnation) != said:
                    self._survey()
            case LoserNotice() | StateRequest() | StateChunk():
                self._fork_recovery.receive(peer, message)
            case _:
                self.member.receive(peer, message)

    def tick(self, now_ms: int) -> None:
        """Time passes: call it every `member.TICK_MS`."""
        self._now_ms = now_ms
        if self.member.leader is not None or not self._leader_on_other_side():
            self._led_ms = now_ms
        self._discovery.tick(now_ms)
        self.coordinator.tick(now_ms)
        for peer in [name for name, at in self._lingering.items() if now_ms - at >= REDIAL_MS]:
            del self._lingering[peer]
            self.member.down(peer, "broken")
        self.member.tick()
        self.tell_presence()
        if not self._fork_recovery.goes_on(now_ms):
            self._start_blocker = self._look_around()
            self._fork_recovery.seek(now_ms, self.presence)
        self._survey()

    def want(self, wanted: bool) -> None:
        """The operator starts or stops the application."""
        self._start_blocker = self._look_around()
        self.serving.want(wanted, self._now_ms)

    def work(self) -> bool:
        """Do what is to be done about the metadata; says whether anything was applied here."""
        changed = self.member.work()
        self.reconcile()
        if self.coordinator.pending:
            for command in self.coordinator.work():
                self.member.metadata.write(command, leading=True)
        return self.member.work() or changed

    def reconcile(self) -> None:
        """Something may have been agreed upon, or somebody else may lead."""
        self.coordinator.lead(self.member.leading, self.member.consensus.term)
        self.serving.reconcile(self._now_ms)

    def _survey(self) -> None:
        """Somebody may have come into sight, or gone out of it. Who went another way is out of it for the
        rings: what it agrees to is no part of this history."""
        member = self.member
        nodes_to_isolate: frozenset[str] = frozenset()
        if member.leading:
            running = [node.name for node in member.metadata.state.nodes.values() if node.running]
            nodes_to_isolate = self._connectivity.nodes_to_isolate(running, self._now_ms)
        self._mark()
        seen = member.linked - nodes_to_isolate | self._rumoured() | self._discovery.expected
        own = self.presence
        said = [own, *self.presences.values()] if own.node in member.metadata.state.nodes else []
        self.coordinator.reach(
            seen - member.consensus.forks.keys(),
            {presence.node: presence.incarnation for presence in said if presence.serving},
            {presence.node: presence.incarnation for presence in said if not presence.serving},
        )
        self.reconcile()

    def _rumoured(self) -> frozenset[str]:
        """Nodes to which a connection broke a moment ago, and that others still see."""
        now = self._now_ms
        self._broken_ms = {name: at for name, at in self._broken_ms.items() if now - at < HEARSAY_MS}
        return frozenset(
            name
            for name in self._broken_ms
            if any(name in presence.reachable for presence in self.presences.values())
        )

    @property
    def _strict(self) -> bool:
        """Does only a majority ever go on?"""
        voters = self.member.consensus.members.voters
        return self.handling.in_force(voters) == partitions.PAUSE_MINORITY

    # -- who is there ---------------------------------------------------------------------------

    @property
    def partitions(self) -> list[str]:
        """The nodes that this one is partitioned from."""
        member = self.member
        running = frozenset(node.name for node in member.metadata.state.nodes.values() if node.running)
        return partitions.partitioned(member.name, member.linked, member.consensus.forks, running)

    @property
    def peer_alarms(self) -> dict[str, tuple[str, ...]]:
        """The alarms of the nodes that are in touch and serve."""
        return {
            name: found.alarms for name, found in self.presences.items() if found.serving and found.alarms
        }

    def _hear_alarms(self) -> None:
        now = self.peer_alarms
        if now != self._alarms:
            self._alarms = now
            self.alarms_heard(now)

    @property
    def companions(self) -> list[str]:
        """The other nodes of this one's side that are in touch."""
        forks = self.member.consensus.forks
        return [name for name in self.presences if name in self.member.linked and name not in forks]

    @property
    def presence(self) -> Presence:
        """What this node says of itself."""
        member, serving = self.member, self.serving
        return Presence(
            member.name,
            serving.last_incarnation,
            serving.running,
            self._application.clients if serving.running else 0,
            member.leader or "",
            tuple(sorted(member.linked)),
            tuple(sorted(member.consensus.forks)),
            self.own_alarms if serving.running else (),
            self.own_usage if serving.running else (),
            member.consensus.lateness,
            member.consensus.durable_state,
        )

    def tell_presence(self) -> None:
        """Tell the others what is new of this node, and now and then what is not."""
        now = self.presence
        told = self._told
        if told is not None and self._now_ms - self._told_ms < PRESENCE_MS:
            unchanged = msgspec.structs.replace(
                now, clients=told.clients, history=told.history, durable=told.durable
            )
            if unchanged == told:
                return
        self._told, self._told_ms = now, self._now_ms
        self._connectivity.heard(self.member.name, now.reachable)
        for peer in sorted(self.member.linked):
            self._send(peer, now, urgent=True)

    def _mark(self) -> None:
        """Where two sides may go on, know from where on they differ."""
        member = self.member
        voters = member.consensus.members.voters
        if self._strict:
            return
        linked = member.linked - self._lingering.keys()
        if not linked >= set(voters) - {member.name} or member.consensus.forks or not member.consensus.whole:
            self._part()
        elif member.leader is not None:
            leaders = {presence.leader for presence in self.presences.values()}
            if leaders <= {member.leader} and self.presences.keys() >= set(voters) - {member.name}:
                self.apart = False
                self._application.partition_ended()

    def _part(self) -> None:
        self.apart = True
        self._application.partition_started()

    # -- what the application is told ----------------------------------------------------------

    def _hold_reason(self) -> str:
        return self._fork_recovery.under_way or self._start_blocker

    def _look_around(self) -> str:
        return self._fork_recovery.start_blocker or self._discovery.awaits(self._strict)

    def _leader_on_other_side(self) -> str:
        """Whom others of this side follow that this node cannot reach."""
        followed = {self.presences[name].leader for name in self.companions}
        return min(followed - self.member.linked - {"", self.member.name}, default="")

    def _isolation_reason(self) -> str:
        """A leader gives up whom it does not see, and those that both see are of no help: who is given up so
        never hears of it, could not have anything agreed on, and would keep its clients waiting."""
        if self.member.leader is not None or self._now_ms - self._led_ms < HEARSAY_MS:
            return ""
        return f"the node does not see {self._leader_on_other_side()}, which leads the others"

    def _idle(self) -> dict[str, int]:
        """Who says that it does not serve, and the last life that it knows of. A later one may have begun."""
        return {
            name: presence.incarnation for name, presence in self.presences.items() if not presence.serving
        }
