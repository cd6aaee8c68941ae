"""Cluster member: one node's part in the metadata's consensus; it joins, leaves and admits other nodes.

Pure: `tick`, `up`, `down`, `receive` and `MetadataStore.write` are the input; messages leave through `send`,
durable state through the `RaftStorage`. Input only schedules: each call requests `work` through `wake`, and
the runtime calls `work` at the end of its turn, so that one disk write serves a whole turn. A node that is
the whole cluster waits for no other node: its write is applied when `MetadataStore.write` returns, unless the
writer lets it wait for the writes of other clients in the same turn.

**A node that starts** may have missed changes of the others. Under a quorum rule that lets a minority
continue, it must not begin its own fork only because its links are not up yet. So until it has met a leader,
it follows that rule only if no other node ran by its last knowledge. Otherwise it waits for a majority, or
until the operator calls `force`. RabbitMQ's nodes wait for the last node that stopped in the same way.
"""

from __future__ import annotations

from collections.abc import Callable

from mirrormq.cluster.apply_barrier import ApplyBarrier
from mirrormq.cluster.cluster_limits import DEFAULT_LIMITS, ClusterLimits
from mirrormq.cluster.cluster_messages import (
    ClusterMessage,
    DurableStateReply,
    ForgottenNotice,
    JoinRefused,
    JoinRequest,
    RaftMessage,
    Reach,
)
from mirrormq.cluster.member_events import (
    CaughtUp,
    Forgotten,
    ForkFound,
    ForkHealed,
    LeaderChanged,
    MemberEvent,
    MembersChanged,
    Refused,
    WentBack,
)
from mirrormq.cluster.membership_changes import MembershipChanges, Send
from mirrormq.consensus import (
    Busy,
    Consensus,
    DurableState,
    Majority,
    NotLeader,
    QuorumRule,
    RaftRole,
    RaftStorage,
    Ready,
    Snapshot,
    decode_message,
    encode_message,
)
from mirrormq.consensus.raft_messages import Chunk, Command
from mirrormq.metadata import commands
from mirrormq.metadata.state import MetadataState
from mirrormq.metadata.store import MetadataStore, Unreadable, read_entry
from mirrormq.protocol_version import PROTOCOL_VERSION

TICK_MS = 25
"""Interval of `tick`: bounds the delay of a candidate."""

ALONE_TICK_MS = 100
"""Interval of `tick` on a node that has no peers and serves: there is no candidate to wait for. 40 ticks per
second take 1.1 % of a processor core, 3 to 6 µs of each message at 2,000 messages per second."""

STARTUP_TICKS = 80
"""Ticks that a starting node waits for the other voters before it votes: 2 s, ten times what a link takes.
One of them may remember more of its disk than is on it (`durable_states`)."""


def _discard(peer: str, message: ClusterMessage, urgent: bool) -> None:
    """Drop a message: `send` of a node without links."""


def _no_wake() -> None:
    """Schedule nothing: the owner of the member calls `work` itself."""


def _no_fork_index() -> None:
    """Write no fork index: `minority_begins` of a member without queues."""


class Member:
    """Member of a cluster. Implements `metadata.store.ReplicationGroup`."""

    version = PROTOCOL_VERSION
    static_shovels: tuple[str, ...] = ()
    """Names of the shovels in this node's settings, sorted."""
    _outdated = False
    """Flag: a peer has reported that this node's data directory went back."""

    def __init__(
        self,
        name: str,
        storage: RaftStorage,
        rule: QuorumRule,
        choose: Callable[[int], int],
        send: Send = _discard,
        wake: Callable[[], None] = _no_wake,
        *,
        address: str = "",
        limits: ClusterLimits = DEFAULT_LIMITS,
        minority_begins: Callable[[], None] = _no_fork_index,
    ) -> None:
        """Create a member. `choose(n)` returns a number below n; `wake` schedules `work`. This node calls
        `minority_begins` when it starts to continue beside another side of a partition."""
        self.name, self.address, self.limits = name, address, limits
        self.listeners: list[Callable[[MemberEvent], None]] = []
        self._storage = storage
        self._rule = rule
        self._send = send
        self._wake = wake
        stored = storage.load()
        self._log_bytes = 0
        snapshot = stored.snapshot.state
        self._snapshot_bytes = len(snapshot)
        state = MetadataState.from_snapshot(snapshot) if snapshot else MetadataState()
        self.consensus = Consensus(name, storage, Majority(), choose, limits.raft)
        self.metadata = MetadataStore(state, self)
        self._linked: set[str] = set()
        self._met: set[str] = set()  # peers that have compared this node's disk with what they remember
        self._leader: str | None = None
        self._introduced = False  # whether this incarnation has met a leader
        self._startup_ticks = STARTUP_TICKS
        self._promise: object = None
        self._sync = False
        self._taken = False
        self._idle = False  # nothing has happened since the last `work`
        self._working = False
        self._failure: Exception | None = None
        self._events: list[MemberEvent] = []
        self._minority_begins = minority_begins
        self._membership_changes = MembershipChanges(self, send)
        self._apply_barrier = ApplyBarrier(send, self._companions)
        if self.consensus.state.voters == {name}:
            self.consensus.campaign()
        self.work()
        self._running_before = self._running_at_the_end()
        if not self._single:
            self._presence_changed()

    # -- queries --------------------------------------------------------------------------------

    @property
    def cluster_id(self) -> str:
        """Identity of the cluster since its foundation; empty while the node belongs to none."""
        return f"{self.consensus.cluster:016x}" if self.consensus.cluster else ""

    @property
    def joined(self) -> bool:
        """Return whether this node belongs to a cluster, as far as it knows."""
        return self.name in self.consensus.state.log.members.everyone

    @property
    def leader(self) -> str | None:
        """Name of the leader; None while the quorum is unreachable, so that nothing can be decided."""
        return self.consensus.leader

    @property
    def leading(self) -> bool:
        """Return whether this node leads."""
        return self.consensus.role is RaftRole.LEADER

    @property
    def linked(self) -> frozenset[str]:
        """Nodes with a link to this one."""
        return frozenset(self._linked)

    @property
    def awaited(self) -> list[str]:
        """Nodes that ran by this node's last knowledge, and that it waits for before it begins."""
        return [] if self._introduced else self._running_before

    def state_at_the_end(self) -> MetadataState:
        """Return the state by the end of the log, with queues that are deleted there. A crash makes a node
        forget how much is committed, so queues whose messages it confirmed may not be applied."""
        log, now = self.consensus.state.log, self.metadata.state
        state = MetadataState.from_snapshot(now.snapshot())
        for entry in log.between(log.applied, log.last):
            if isinstance(entry.payload, Command):
                state.apply(read_entry(entry.payload.data)[1], entry.index)
        for queue in now.queues.values():
            if queue.queue_id not in state.queue_keys:
                state.store(queue)
        return state

    def _running_at_the_end(self) -> list[str]:
        """Return the other nodes that ran by the end of the log. A crash makes a node forget how much of it
        is committed."""
        log, state = self.consensus.state.log, MetadataState()
        for node in self.metadata.state.nodes.values():
            state.store(node)
        for entry in log.between(log.applied, log.last):
            command = read_entry(entry.payload.data)[1] if isinstance(entry.payload, Command) else None
            if isinstance(command, commands.PutNode | commands.DeleteNode):
                state.apply(command)
        return sorted(node.name for node in state.nodes.values() if node.running and node.name != self.name)

    # -- input ----------------------------------------------------------------------------------

    def tick(self) -> None:
        """Advance the clock by one tick."""
        self._idle = False
        if self._startup_ticks:
            self._startup_ticks -= 1
            if not self._startup_ticks:
                self._presence_changed()  # it may become candidate now
        self.consensus.tick()
        self._membership_changes.tick()
        self._apply_barrier.tick()
        self._wake()

    def up(self, peer: str, session: int = 0, stated: DurableState | None = None) -> None:
        """Record a link to a node, which has stated how far its disk is."""
        if stated is not None:
            self._judge(stated)
        else:
            self._met.add(peer)
        self._linked.add(peer)
        self._presence_changed()
        if not self.joined:
            self._membership_changes.request_join()

    def _judge(self, stated: DurableState) -> None:
        """Compare a peer's disk with its remembered state, and send the result before any other message."""
        if stated.name not in self.consensus.state.log.members.everyone:
            return
        was_behind = stated.name in self.consensus.behind
        lost = self.consensus.peer_linked(stated)
        self._send(stated.name, DurableStateReply(lost), urgent=True)
        if lost is not None:
            self._events.append(WentBack(stated.name))
        if lost is not None and not was_behind:
            # A process that starts after the restored one, while that has not caught up, adds no damage.
            self.metadata.write(commands.ReportOutdated(stated.name, stated.start))

    def _durable_state_reply(self, lost: DurableState | None) -> None:
        """Record that a peer has compared this node's disk with its remembered state."""
        if lost is not None:
            self._events.append(WentBack(self.name))
            self.metadata.renumber(self.consensus.state_lost(lost))
            self._report_outdated()
        self._presence_changed()

    def _report_outdated(self) -> None:
        """Report once that this node's data directory, and so its journal, went back."""
        if not self._outdated:
            self._outdated = True
            self.metadata.write(commands.ReportOutdated(self.name, self.consensus.durable_state.start))

    def peer_stated(self, stated: DurableState) -> None:
        """Record the durable state that a peer states."""
        behind = stated.name in self.consensus.behind
        self.consensus.peer_stated(stated)
        if behind and stated.name not in self.consensus.behind:
            self._idle = False
            self._events.append(CaughtUp(stated.name))
            self._presence_changed()

    def down(self, peer: str) -> None:
        """Record that the link to a node is gone."""
        self._linked.discard(peer)
        self._met.discard(peer)
        self._apply_barrier.down(peer)
        self._presence_changed()

    def receive(self, peer: str, message: ClusterMessage) -> None:
        """Handle a message from a node's link."""
        self._idle = False
        match message:
            case RaftMessage():
                if self._membership_changes.confirm_member(peer):
                    self.consensus.step(peer, decode_message(message.data))
            case Reach():
                self._apply_barrier.receive(peer, message)
            case JoinRequest():
                self._membership_changes.admit(peer, message)
            case JoinRefused():
                if not self.joined:
                    self._events.append(Refused(peer, message.reason))
            case DurableStateReply():
                self._met.add(peer)
                self._durable_state_reply(message.lost)
            case ForgottenNotice():
                if self.leader is None:
                    self._events.append(Forgotten(peer))
        self._wake()

    def set_rule(self, rule: QuorumRule) -> None:
        """Change the quorum rule after the operator has changed the partition mode."""
        self._rule = rule
        if self._introduced:
            self.consensus.set_rule(rule)

    def force(self) -> None:
        """Stop waiting for missing nodes: the operator asserts that they will not come back
        (`force_boot`)."""
        self._introduce()
        self._presence_changed()

    def reset_to(self, snapshot: Snapshot) -> None:
        """Replace this node's history with that of a fork's winner."""
        self._idle = False
        own = self.state_at_the_end().nodes.get(self.name)
        self.consensus.reset_to(snapshot, own.incarnation if own is not None else 0)

    def hand_over(self) -> None:
        """Transfer leadership to another node before this one stops, so that the cluster needs no election
        timeout."""
        if not self.leading:
            return
        voters = self.consensus.state.voters
        successors = sorted(name for name in voters & self._linked if name != self.name)
        if successors:
            self.consensus.transfer_leadership(successors[0])
            self._idle = False
            self._wake()

    def _note_unmet(self) -> None:
        """End the startup wait when every voter has been met. A voter that did not run by this node's last
        knowledge may have seen more of its disk, if that is an older copy."""
        if not self.consensus.state.voters - {self.name} - self._met:
            self._startup_ticks = 0
        self.consensus.set_unmet(self._startup_ticks > 0)

    def _presence_changed(self) -> None:
        self._idle = False
        self._note_unmet()
        if not self.awaited:
            self._introduce()
        if self._introduced or self._linked:
            self.consensus.set_reachable(frozenset(self._linked))
        self._wake()

    def _introduce(self) -> None:
        if not self._introduced:
            self._introduced = True
            self.consensus.set_rule(self._rule)

    def forget(self, name: str) -> None:
        """Remove a node from the cluster."""
        self.metadata.write(commands.DeleteNode(name))

    # -- proposals (the store's group) ----------------------------------------------------------

    @property
    def alone(self) -> bool:
        """Return whether this node is the whole cluster, with no proposal pending."""
        log = self.consensus.state.log
        return self._single and self.leading and log.applied == log.last

    @property
    def _single(self) -> bool:
        return self.consensus.state.log.members.everyone == (self.name,)

    def propose(self, entry: bytes, sync: bool, otherwise: bytes | None = None) -> int | None:
        self._idle = False
        try:
            number = self.consensus.propose(entry, otherwise)
        except (Busy, NotLeader):
            return None
        self._sync = self._sync or sync
        self._taken = True
        return number

    def postpone(self) -> bool:
        if self._wake is _no_wake:
            return False
        self._idle = False
        self._wake()
        return True

    def proposed(self) -> None:
        self._idle = False
        if self._single:
            self.work()
        else:
            self._wake()

    def wait_applied_on_all(self, callback: Callable[[], None]) -> None:
        """Call back when every connected node has applied what this one has."""
        if not self._companions():
            callback()
            return
        self._idle = False
        self._apply_barrier.wait(self.consensus.state.log.commit, callback)
        self._wake()

    def _companions(self) -> set[str]:
        """Return the connected members that share this node's history."""
        state = self.consensus.state
        return self._linked.intersection(state.log.members.everyone).difference(state.forks.known)

    # -- work -----------------------------------------------------------------------------------

    @property
    def behind(self) -> bool:
        """Return whether committed changes wait to be applied here."""
        return self.consensus.applied_index < self.consensus.commit_index

    def work(self, *, sliced: bool = False) -> bool:
        """Persist, send and apply pending changes; return whether anything was applied here.

        If `sliced`, apply one slice of the committed changes (`committed_bytes_max`) and leave the
        rest to the next call, so that clients are served in between.

        A failure of the disk is final. A failure of a metadata subscriber is raised when all work is done.
        """
        if self._failure is not None:
            raise self._failure
        if self._working or self._idle:
            return False
        self._working = self._idle = True
        trouble: list[Exception] = []
        version = self.metadata.state.version
        try:
            while True:
                ready = self.consensus.ready()
                if not ready.empty:
                    self._carry_out(ready, trouble)
                    if sliced and self.behind:
                        self._idle = False
                        self._wake()
                        break
                    continue
                self.consensus.advance()
                if not self._take_more():
                    break
            self._notice_leader()
        finally:
            self._working = False
        due = self._apply_barrier.work(self.consensus.state.log.applied)
        for callback in due:
            _survive(trouble, callback)
        self._tell(trouble)
        if trouble:
            raise trouble[0]
        return bool(due) or version != self.metadata.state.version

    def _take_more(self) -> bool:
        """Let the store propose commands that have waited for room."""
        self._taken = False
        self.metadata.proceed()
        return self._taken

    def _carry_out(self, ready: Ready, trouble: list[Exception]) -> None:
        ready.must_sync = self._must_sync(ready)
        try:
            if ready.parts:
                self._minority_begins()
            self._storage.save(ready)
            for peer, message in ready.messages:
                self._send(peer, RaftMessage(encode_message(message)), urgent=not isinstance(message, Chunk))
            self._apply(ready, trouble)
        except BaseException as error:
            self._failure = error if isinstance(error, Exception) else None
            raise
        self.consensus.advance()
        if ready.members is not None:
            self._events.append(MembersChanged(ready.members))
        self._events += [ForkFound(fork) for fork in ready.forks]
        self._events += [ForkHealed(peer) for peer in ready.healed]
        self._compact_if_due()

    def _apply(self, ready: Ready, trouble: list[Exception]) -> None:
        if ready.restore:
            assert ready.snapshot is not None
            self._log_bytes, self._snapshot_bytes = 0, len(ready.snapshot.state)
            _survive(trouble, self.metadata.restore, ready.snapshot.state, ready.settled)
        for entry in ready.committed:
            self._log_bytes += len(entry.data)
            number = entry.number if entry.origin == self.name else None
            _survive(trouble, self.metadata.apply, entry.data, number, entry.index)

    def _must_sync(self, ready: Ready) -> bool:
        """Return whether the disk must be synced. A node that is the whole cluster need not sync changes that
        a restart would undo."""
        wanted, self._sync = self._sync, False
        hard_state = ready.hard_state
        promise = self._promise
        if hard_state is not None:
            self._promise = hard_state.promise
        if not self._single or ready.restore or promise != self._promise:
            return ready.must_sync
        only_commands = all(isinstance(entry.payload, Command) for entry in ready.entries)
        return ready.must_sync and (wanted or not only_commands)

    def _compact_if_due(self) -> None:
        if self._log_bytes > max(self.limits.log_bytes_max, self._snapshot_bytes):
            blob = self.metadata.state.snapshot()
            self.consensus.compact(self.consensus.applied_index, blob)
            self._log_bytes, self._snapshot_bytes = 0, len(blob)

    def _notice_leader(self) -> None:
        if self.consensus.leader == self._leader:
            return
        self._leader = self.consensus.leader
        if self._leader is not None:
            self._introduce()
        self._events.append(LeaderChanged(self._leader, self.consensus.term))

    def _tell(self, trouble: list[Exception]) -> None:
        events, self._events = self._events, []
        for event in events:
            for listener in self.listeners:
                _survive(trouble, listener, event)


def _survive(trouble: list[Exception], call: Callable[..., None], *arguments: object) -> None:
    """Call a subscriber and collect its exception, so that the node completes its work first. A node that
    cannot apply a committed entry must fail, however."""
    try:
        call(*arguments)
    except Unreadable:
        raise
    except Exception as error:
        trouble.append(error)
