"""Cluster controller of one node (pure): decides when the node starts, stops, follows and gives way.

It combines parts that each handle one thing:

    member                 membership and metadata
    lifecycle              whether the application may run
    coordinator            node failures and replica placement, while this node leads
    partitions             the connectivity of nodes
    link_placement         nodes of links to other brokers, while this node leads
    startup_discovery      the peers that a starting node waits for
    fork_recovery          forks

Link events, messages and time are its inputs. It sends messages through `send`, and it starts, stops and
resets the `ApplicationHost`. The runtime and the simulator drive the same object.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from mirrormq.bridges.link_placement import LinkPlacement
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
from mirrormq.metadata.command_versions import knows
from mirrormq.metadata.commands import AssignLinks
from mirrormq.metadata.policy_matching import PolicyMatcher

PRESENCE_MS = 1000
"""Interval of presence messages when nothing changes."""

INDIRECT_REACH_MS = 2000
"""Time that a node without a link to this one still counts as reachable while other nodes see it. When a
process fails, all of them lose it at once; a single broken connection is restored much faster."""

REDIAL_MS = 150
"""Grace period to reconnect before a peer counts as down.

In a mode in which a minority may continue, two nodes whose connection breaks would otherwise each continue
alone. The failure of a process costs this delay, and no more.
"""

ControllerMessage = Presence | ForkRecoveryMessage


class Send(Protocol):
    """Function that sends a message to a node, if there is a link to it."""

    def __call__(self, peer: str, message: ControllerMessage, urgent: bool) -> None: ...


class ApplicationHost(ForkRecoveryHost, Protocol):
    """Application as the cluster controller drives it."""

    @property
    def clients(self) -> int:
        """Number of open connections."""

    def partition_started(self) -> None:
        """Write the fork indexes, because a missing node may continue without this one. Called repeatedly."""

    def partition_ended(self) -> None:
        """Drop the fork indexes: all nodes are connected and share one history."""


class ClusterController:
    """Cluster controller of one node."""

    def __init__(
        self,
        member: Member,
        handling: PartitionHandling,
        application: ApplicationHost,
        choose: Callable[[int], int],
        send: Send,
        alarms_heard: Callable[[dict[str, tuple[str, ...]]], None],
        promotion_timeout_ms: int = PROMOTION_TIMEOUT_MS,
    ) -> None:
        state = member.metadata.state
        self.member = member
        self.handling = handling
        """Partition handling in force."""
        self.coordinator = Coordinator(
            member.name, state, PolicyMatcher(state), choose, promotion_timeout_ms, member.limits
        )
        self.link_placement = LinkPlacement(state)
        self.presences: dict[str, Presence] = {}
        """Last presence of each connected node."""
        index = self.coordinator.replica_index
        self.serving = ApplicationLifecycle(member, self, application, index, self.presences)
        self.own_alarms: tuple[str, ...] = ()
        """Resource alarms of this node, set by the application."""
        self.own_usage: tuple[tuple[str, str, int], ...] = ()
        """Usage of this node's clients that counts towards cluster-wide limits."""
        self._alarms_heard = alarms_heard
        """Called with the alarms of other nodes when they have changed."""
        self._alarms: dict[str, tuple[str, ...]] = {}
        self._application, self._send = application, send
        self._connectivity = ConnectivityMatrix()
        self._fork_recovery = ForkRecovery(member, handling, self.presences, self.serving, application, send)
        self._now_ms = self._presence_sent_ms = 0
        self._presence_sent: Presence | None = None
        self._discovery = StartupDiscovery(member, self.presences)
        self._broken_ms: dict[str, int] = {}
        """Time at which the connection to each of these nodes broke."""
        self._lingering: dict[str, int] = {}
        """Nodes in their grace period to reconnect. The member still counts them as linked."""
        self._led_ms = 0
        """Last time at which this node had a leader, or no connected node followed a leader out of its
        sight."""
        self.apart = False
        """Whether other nodes may continue without this one. An application that starts meanwhile must know
        it."""
        member.metadata.listeners += [self.coordinator.follow, self.link_placement.follow]
        self._start_blocker = "it waits for its peers"
        """Reason why the application must not start, as of the last tick. Between ticks the inputs are
        incomplete."""

    # -- input ----------------------------------------------------------------------------------

    def up(self, peer: str, session: int, stated: DurableState | None = None) -> None:
        """Process a new link to a node, with the durable state that the node states."""
        self._discovery.met(peer)
        self._broken_ms.pop(peer, None)
        if self._lingering.pop(peer, None) is not None:
            self.member.down(peer)
        self.member.up(peer, session, stated)
        if self._presence_sent is not None:
            self._send(peer, self._presence_sent, urgent=True)
        self._survey()

    def down(self, peer: str, *, silent: bool) -> None:
        """Process the loss of the link to a node: `silent` if the failure detector closed it."""
        # A silent peer has used up its time already, and with a strict majority neither side of a broken
        # link can continue alone. Only then is it safe to drop the peer at once.
        if silent or self._strict:
            self.member.down(peer)
        else:
            self._lingering[peer] = self._now_ms
        self.presences.pop(peer, None)
        self._update_alarms()
        self._connectivity.forget(peer)
        self._fork_recovery.down(peer)
        if not silent:
            self._broken_ms[peer] = self._now_ms
        self.tell_presence()
        self._survey()

    def receive(self, peer: str, message: ClusterMessage | ControllerMessage) -> None:
        """Process a message from a node's link."""
        match message:
            case Presence():
                before = self.presences.get(peer)
                self.presences[peer] = message
                if message.durable is not None:
                    self.member.peer_stated(message.durable)
                self._update_alarms()
                self._connectivity.report(peer, message.reachable)
                # Presences arrive all the time; survey only if this one may change the result.
                current = (message.serving, message.incarnation)
                if self._broken_ms or before is None or (before.serving, before.incarnation) != current:
                    self._survey()
            case LoserNotice() | StateRequest() | StateChunk():
                self._fork_recovery.receive(peer, message)
            case _:
                self.member.receive(peer, message)

    def tick(self, now_ms: int) -> None:
        """Advance all timeouts. Call this every `TICK_MS`, or `ALONE_TICK_MS` if the node is alone."""
        self._now_ms = now_ms
        if self.member.leader is not None or not self._leader_on_other_side():
            self._led_ms = now_ms
        self._discovery.tick(now_ms)
        self.coordinator.tick(now_ms)
        for peer in [name for name, since in self._lingering.items() if now_ms - since >= REDIAL_MS]:
            del self._lingering[peer]
            self.member.down(peer)
        self.member.tick()
        self.tell_presence()
        if not self._fork_recovery.goes_on(now_ms):
            self._start_blocker = self._find_start_blocker()
            self._fork_recovery.seek(now_ms, lambda: self.presence)
        self._survey()

    @property
    def alone(self) -> bool:
        """Whether this node serves, and is the only member of its cluster."""
        member = self.member
        only = member.leading and not member.linked and len(member.consensus.members.everyone) == 1
        return only and self.serving.running

    def want(self, wanted: bool) -> None:
        """Start or stop the application, as the operator requests."""
        self._start_blocker = self._find_start_blocker()
        self.serving.want(wanted, self._now_ms)

    def set_handling(self, handling: PartitionHandling) -> None:
        """Change the partition handling and the quorum, as `force_boot` does. Fork recovery keeps the
        configured handling."""
        self.handling = handling
        self.member.set_rule(handling.quorum())

    def work(self) -> bool:
        """Process metadata work that is due. Return whether this node applied a change."""
        changed = self.member.work(sliced=True)
        self.reconcile()
        if self.member.behind:
            return changed
        if self.coordinator.pending:
            for command in self.coordinator.work():
                self.member.metadata.write(command, leading=True)
        if self.link_placement.pending:
            for assignment in self.link_placement.work():
                self.member.metadata.write(assignment, leading=True)
        return self.member.work(sliced=True) or changed

    @property
    def work_pending(self) -> bool:
        """Whether the leader has decisions to make."""
        return self.coordinator.pending or self.link_placement.pending

    def reconcile(self) -> None:
        """Update coordinator and lifecycle after a metadata change or a change of leader."""
        self.coordinator.lead(self.member.leading, self.member.consensus.term)
        places_links = self.member.leading and knows(self.member.metadata.state, AssignLinks)
        self.link_placement.lead(places_links, self.member.consensus.term)
        self.serving.reconcile(self._now_ms)

    def _survey(self) -> None:
        """Report the reachable nodes to the coordinator.

        A forked node counts as unreachable for the rings: what it acknowledges is no part of this history.
        """
        member = self.member
        nodes_to_isolate: frozenset[str] = frozenset()
        if member.leading:
            running = [node.name for node in member.metadata.state.nodes.values() if node.running]
            nodes_to_isolate = self._connectivity.nodes_to_isolate(running, self._now_ms)
        self._update_fork_indexes()
        # Nodes that a peer still sees, or that may connect at any moment, keep their masters.
        seen = member.linked - nodes_to_isolate | self._seen_by_peers() | self._discovery.expected
        serving: dict[str, int] = {}
        idle: dict[str, int] = {}
        if member.name in member.metadata.state.nodes:
            (serving if self.serving.running else idle)[member.name] = self.serving.last_incarnation
            for presence in self.presences.values():
                (serving if presence.serving else idle)[presence.node] = presence.incarnation
        self.coordinator.reach(seen - member.consensus.forks.keys(), serving, idle)
        self.reconcile()

    def _seen_by_peers(self) -> frozenset[str]:
        """Return nodes whose connection to this node broke recently and that other nodes still reach."""
        now = self._now_ms
        self._broken_ms = {
            name: since for name, since in self._broken_ms.items() if now - since < INDIRECT_REACH_MS
        }
        return frozenset(
            name
            for name in self._broken_ms
            if any(name in presence.reachable for presence in self.presences.values())
        )

    @property
    def _strict(self) -> bool:
        """Return whether only a majority ever continues (pause_minority)."""
        voters = self.member.consensus.members.voters
        return self.handling.in_force(voters) == partitions.PAUSE_MINORITY

    # -- connected nodes ------------------------------------------------------------------------

    @property
    def partitions(self) -> list[str]:
        """Nodes that this node is partitioned from."""
        member = self.member
        running = frozenset(node.name for node in member.metadata.state.nodes.values() if node.running)
        return partitions.partitioned(member.name, member.linked, member.consensus.forks, running)

    @property
    def peer_alarms(self) -> dict[str, tuple[str, ...]]:
        """Alarms of the connected nodes that serve clients."""
        return {
            name: presence.alarms
            for name, presence in self.presences.items()
            if presence.serving and presence.alarms
        }

    def _update_alarms(self) -> None:
        now = self.peer_alarms
        if now != self._alarms:
            self._alarms = now
            self._alarms_heard(now)

    @property
    def companions(self) -> list[str]:
        """Other connected nodes on this node's side of a fork."""
        forks = self.member.consensus.forks
        return [name for name in self.presences if name in self.member.linked and name not in forks]

    @property
    def presence(self) -> Presence:
        """Current presence of this node."""
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
            member.version,
            member.static_shovels,
        )

    def tell_presence(self) -> None:
        """Send this node's presence to its peers if it has changed, or if `PRESENCE_MS` have passed."""
        now = self.presence
        sent = self._presence_sent
        if sent is not None and self._now_ms - self._presence_sent_ms < PRESENCE_MS:
            # These fields change all the time; the periodic presence is soon enough for them.
            unchanged = msgspec.structs.replace(
                now, clients=sent.clients, history=sent.history, durable=sent.durable
            )
            if unchanged == sent:
                return
        self._presence_sent, self._presence_sent_ms = now, self._now_ms
        self._connectivity.report(self.member.name, now.reachable)
        for peer in sorted(self.member.linked):
            self._send(peer, now, urgent=True)

    def _update_fork_indexes(self) -> None:
        """Write the fork indexes when a node is missing, and drop them when all nodes share one leader
        again."""
        member = self.member
        voters = member.consensus.members.voters
        if self._strict:
            return
        linked = member.linked - self._lingering.keys()
        if not linked >= set(voters) - {member.name} or member.consensus.forks or not member.consensus.whole:
            self.partition_started()
        elif member.leader is not None:
            leaders = {presence.leader for presence in self.presences.values()}
            if leaders <= {member.leader} and self.presences.keys() >= set(voters) - {member.name}:
                self.apart = False
                self._application.partition_ended()

    def partition_started(self) -> None:
        """Let the application write its fork indexes: another side may continue without this node, or this
        node begins to continue with a minority."""
        self.apart = True
        self._application.partition_started()

    # -- reasons for the application lifecycle --------------------------------------------------

    def hold_reason(self) -> str:
        """Return the state transfer in progress, or why the node waits for its peers."""
        return self._fork_recovery.under_way or self._start_blocker

    def _find_start_blocker(self) -> str:
        return self._fork_recovery.start_blocker or self._discovery.awaits(self._strict)

    def _leader_on_other_side(self) -> str:
        """Return the leader that nodes of this side follow and this node cannot reach; empty if there is
        none."""
        followed = {self.presences[name].leader for name in self.companions}
        return min(followed - self.member.linked - {"", self.member.name}, default="")

    def isolation_reason(self) -> str:
        """Return why this node cannot follow the metadata although it sees enough nodes; empty if it can.

        The leader counts this node as lost because it does not see it, and the nodes that both see do not
        relay. Without this check the node would never learn of it, could commit nothing, and would keep its
        clients waiting.
        """
        if self.member.leader is not None or self._now_ms - self._led_ms < INDIRECT_REACH_MS:
            return ""
        return f"the node cannot reach {self._leader_on_other_side()}, the leader of its peers"

    def idle_nodes(self) -> dict[str, int]:
        """Return nodes that report that they do not serve, with their last known incarnation. A later one may
        have begun."""
        return {
            name: presence.incarnation for name, presence in self.presences.items() if not presence.serving
        }
