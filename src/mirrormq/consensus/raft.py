"""Raft without a clock, a network or a disk: one node's part in agreeing on a log.

The guarantee
=============
Proposals come out of `Ready.committed` on every node in the same order, each at most once, and never
change their place; those of one origin in the order in which it made them. A proposal that came out
anywhere is on the disks of a strict majority of the voters (with the rule `Majority`), so it comes out
everywhere in the end, whoever crashes in between.

With the rule `Reachable` the nodes that can be reached are enough, down to one alone. Then two sides
of a partition may each go on, and the guarantee is: what came out on a node is never taken back there
without `reset_to`; two sides that both did something find out as soon as they talk, report `Forked`,
and exchange nothing until one of them is reset; a side that did nothing follows the other by itself.

What is not guaranteed
======================
*  That a proposal is applied at all: its origin may crash, with nobody the wiser.
*  Anything about reads. Reading the applied state locally may be behind the leader's.
*  Progress without a quorum, or when messages take longer than an election timeout.
*  Anything against nodes that lie. Against disks that forget what they said was safe: only what
   `durable_states.py` says.
*  That each fork reported is a loss for somebody. An entry that was written on one side and never
   committed looks like any other from outside; the side that has it is told rather than trusted.

How to drive it
===============
Call `tick()` at a steady pace, `step()` with what arrives, `propose()` for clients, `set_reachable()` when
the failure detector changes its mind. After any of these: `ready()`, do what it says in its order, and
`advance()`. Nothing inside waits, reads a clock or draws a number: chance comes in as `choose(n)`.

    ready = node.ready()
    storage.save(ready)                    # all of it, synced if ready.must_sync, before the next line
    for name, message in ready.messages: links[name].send(message)
    if ready.restore: machine.load(ready.snapshot.state)
    for entry in ready.committed: machine.apply(entry)
    node.advance()

Invariants
==========
 1. A term and the vote given in it are on disk before a message of that term leaves. So is our own vote
    for ourselves before it is counted: that happens in `advance()`.
 2. Entries are on disk before they are acknowledged. The leader's own copy counts from `advance()` on.
 3. The hard state's `boots` is on disk before a proposal of this life leaves, so no proposal number is
    ever used twice.
 4. A snapshot is on disk before it is acknowledged; the entries it replaces go after it is there.
 5. An entry is known by (index, term, branch). At most one leader ever writes under one (term, branch).
 6. A leader never changes or drops an entry of its own log.
 7. Entries of the leader's own term are committed by counting disks, earlier ones only along with them.
 8. The quorum of a leader's commits is the quorum of its election: the electorate never shrinks in a
    term. To need fewer, it must be elected again, by fewer, and open a branch.
 9. A log is cut only for a leader whose history was compared with ours (`history.py`), and never below
    what is committed, except for entries without substance. `RaftLog.guard` stops the node otherwise.
10. A message from a forked peer changes nothing here: not the term, not the leader, not the log.
11. A membership differs from the one before by one voter, and that one was committed.
12. Which proposals were applied is part of the replicated state and of every snapshot.

Where it differs from the paper
===============================
*  Pre-vote and check-quorum (Ongaro's thesis, 9.6 and 6.2) are always on, leader transfer is there (3.10).
*  The paper finds the place where logs agree by going back one entry at a time. Here a refusal carries the
   whole history (a few numbers per change of leader), and the place is computed.
*  Branches, forks and electorates. In a cluster that always had its majority there is one branch, the
   comparison of histories is the paper's "at least as up-to-date", and the rest is never used.
*  Everything is sent after everything is persisted; the leader does not overlap its disk with its followers'.
*  A proposal may be made anywhere and is forwarded; duplicates are recognised when applied.
*  A failure detector is listened to, never believed. When it says that the leader is gone, candidates
   stand at once, one after another by name, instead of after a silence; they still ask first, so one that
   is wrong is refused. A leader that it says has lost its quorum steps down before the silence proves it.
"""

from __future__ import annotations

from mirrormq.consensus.consensus_errors import ConsensusError, NotLeader
from mirrormq.consensus.elections import Elections
from mirrormq.consensus.follower import FollowerRole
from mirrormq.consensus.forks import Forks
from mirrormq.consensus.leader_replication import LeaderReplication
from mirrormq.consensus.membership import Membership
from mirrormq.consensus.proposals import Proposals
from mirrormq.consensus.quorum import QuorumRule
from mirrormq.consensus.raft_messages import (
    Append,
    AppendReply,
    Chunk,
    ChunkReply,
    Committed,
    DurableState,
    Forward,
    HardState,
    Members,
    Message,
    PreVote,
    Snapshot,
    StandNow,
    Vote,
    VoteReply,
)
from mirrormq.consensus.raft_settings import RaftSettings
from mirrormq.consensus.raft_state import Choose, RaftRole, RaftState
from mirrormq.consensus.raft_storage import RaftStorage
from mirrormq.consensus.ready import Forked, Ready
from mirrormq.consensus.snapshot_transfer import SnapshotTransfer


class Consensus:
    """One node. The parts may be replaced in a subclass, which is how tests break them on purpose."""

    elections_type: type[Elections] = Elections
    following_type: type[FollowerRole] = FollowerRole
    forks_type: type[Forks] = Forks
    proposals_type: type[Proposals] = Proposals
    replication_type: type[LeaderReplication] = LeaderReplication

    def __init__(
        self,
        name: str,
        storage: RaftStorage,
        rule: QuorumRule,
        choose: Choose,
        settings: RaftSettings | None = None,
    ) -> None:
        state = self.state = RaftState(name, storage, rule, choose, settings or RaftSettings())
        state.forks = self.forks_type(state)
        state.elections = self.elections_type(state)
        state.replication = self.replication_type(state)
        state.membership = Membership(state)
        state.proposals = self.proposals_type(state)
        state.transfer = SnapshotTransfer(state)
        self._following = self.following_type(state)
        self._handed_out = False

    @property
    def name(self) -> str:
        return self.state.name

    @property
    def role(self) -> RaftRole:
        return self.state.role

    @property
    def term(self) -> int:
        return self.state.term

    @property
    def leader(self) -> str | None:
        """Who leads, as far as this node knows."""
        return self.state.leader

    @property
    def members(self) -> Members:
        """The committed membership."""
        return self.state.membership.committed

    @property
    def forks(self) -> dict[str, Forked]:
        """The peers that are forked from this node now."""
        return dict(self.state.forks.known)

    @property
    def commit_index(self) -> int:
        return self.state.log.commit

    @property
    def applied_index(self) -> int:
        """The last index that was handed out to be applied: what `compact` takes."""
        return self.state.log.applied

    @property
    def cluster(self) -> int:
        """What this node's cluster was founded as; 0 while it has not joined one."""
        return self.state.log.cluster

    @property
    def whole(self) -> bool:
        """Whether the log's last leader had a majority of all voters; if not, a fork is possible."""
        return not self.state.log.runs or self.state.run.whole

    @property
    def lateness(self) -> tuple[int, int]:
        """By what the histories of two forks are ordered: the term of the last leader, the last change."""
        log = self.state.log
        return (log.runs[-1].term if log.runs else 0, log.worth)

    def tick(self) -> None:
        """A tick has passed."""
        if self.state.leading:
            self.state.replication.tick()
        else:
            self.state.elections.tick()
        self.state.proposals.tick()

    def step(self, sender: str, message: Message) -> None:
        """A message has arrived over `sender`'s link. It may be old, doubled or out of order."""
        state = self.state
        if sender == state.name or (sender in state.forks.known and not _tells_history(message)):
            return
        match message:
            case Append():
                self._following.append(sender, message)
            case AppendReply():
                state.replication.answered(sender, message)
            case Forward():
                state.proposals.forwarded(sender, message)
            case PreVote():
                state.elections.asked_early(sender, message)
            case Vote():
                state.elections.asked(sender, message)
            case VoteReply():
                state.elections.answered(sender, message)
            case Chunk():
                self._following.chunk(sender, message)
            case ChunkReply():
                state.replication.chunk_wanted(sender, message)
            case StandNow():
                if message.term == state.term and sender == state.leader:
                    state.elections.campaign(transfer=True)

    def propose(self, data: bytes, otherwise: bytes | None = None) -> int:
        """Propose; returns the number by which `Ready.committed` (origin: this node) will name it.

        It is sent again, also to later leaders, until it is applied. With `otherwise` it is a
        leader's decision: once this node does not lead any more, that is proposed in its place. Raises
        NotLeader when nobody is known to lead, Busy when too many are on their way.
        """
        return self.state.proposals.propose(data, otherwise)

    def propose_members(self, *, add: str | None = None, remove: str | None = None) -> int:
        """Leader only: let a node join (as a learner, then as a voter by itself) or leave; returns the
        index of the change. Raises NotLeader, ChangePending, or ValueError for what makes no sense."""
        return self.state.membership.propose(add, remove)

    def campaign(self) -> None:
        """Stand for election now instead of after a silence."""
        self.state.elections.stand()

    def transfer_leadership(self, to: str) -> None:
        """Leader only: hand over to a voter as soon as it has everything; given up after an election
        timeout. Proposals wait meanwhile."""
        if not self.state.leading:
            raise NotLeader(self.state.leader)
        self.state.replication.hand_over(to)

    def set_reachable(self, names: frozenset[str]) -> None:
        """What the failure detector thinks now."""
        state = self.state
        before, state.reachable = state.reachable, names
        if state.leading:
            state.replication.presence_changed(names - (before or frozenset()))
        elif state.leader is None or state.leader not in names:
            state.elections.flush_now()

    @property
    def durable_state(self) -> DurableState:
        """What this node states of its disk when a link comes up."""
        return self.state.durable_states.own

    def peer_linked(self, statement: DurableState) -> DurableState | None:
        """A link is up, with the peer's statement. Returns what this node remembers of it if the peer's disk
        went back: the peer must be told (`state_lost`) before anything else."""
        found = self.state.durable_states.linked(statement)
        if found is not None and self.state.leading:
            self.state.replication.presence_changed(frozenset())
        return found

    def peer_stated(self, statement: DurableState) -> None:
        """A peer states how far its disk is by now."""
        self.state.durable_states.stated(statement)

    def state_lost(self, remembered: DurableState) -> dict[int, int]:
        """A peer remembers more of this node's disk than is on it. Returns new numbers of proposals."""
        return self.state.durable_states.lost(remembered)

    def set_unmet(self, unmet: bool) -> None:
        """Whether this node has just started and lacks a link to a voter: until then it does not vote."""
        self.state.durable_states.unmet = unmet

    @property
    def behind(self) -> frozenset[str]:
        """Peers whose disks went back and that have not caught up since."""
        return frozenset(self.state.durable_states.behind)

    def set_rule(self, rule: QuorumRule) -> None:
        """Another quorum rule, from the next election on."""
        self.state.rule = rule

    def ready(self) -> Ready:
        """What is to be done now, in the order of its fields. `advance()` must follow when it is done."""
        if self._handed_out:
            raise ConsensusError("advance() must follow ready()")
        self._handed_out = True
        state, log = self.state, self.state.log
        if state.leading:
            state.replication.flush()
        committed = self._take_committed()
        if state.membership.changed:
            state.durable_states.forget_others(state.membership.committed.everyone)
        ready = Ready(
            snapshot=state.snapshot,
            restore=state.restoring,
            entries=log.between(log.handed, log.last),
            messages=state.outbox,
            committed=committed,
            settled=state.proposals.settled,
            members=state.membership.committed if state.membership.changed else None,
            forks=state.forks.found,
            healed=state.forks.healed,
        )
        now, before = self.hard_state(), state.saved
        if now != before:
            ready.hard_state = now
        durable = (now.term, now.vote, now.boots) != (before.term, before.vote, before.boots)
        ready.must_sync = durable or ready.restore or bool(ready.entries)
        self._handed(now)
        return ready

    def _take_committed(self) -> list[Committed]:
        state, log = self.state, self.state.log
        entries = log.between(log.applied, log.commit)
        log.applied = log.commit
        return state.proposals.apply(entries)

    def _handed(self, hard_state: HardState) -> None:
        state = self.state
        state.saved = hard_state
        state.outbox, state.proposals.settled = [], []
        state.forks.found, state.forks.healed = [], []
        state.snapshot, state.restoring, state.membership.changed = None, False, False
        state.log.handed = state.log.persisting = state.log.last

    def hard_state(self) -> HardState:
        """What this node must remember of itself."""
        return self.state.hard_state()

    def advance(self) -> None:
        """The last Ready is persisted, sent and applied."""
        if not self._handed_out:
            raise ConsensusError("ready() must come before advance()")
        self._handed_out = False
        state = self.state
        state.log.stable = state.log.persisting
        state.elections.own_vote_persisted(state.saved.term, state.saved.vote)
        if state.leading:
            state.replication.count()

    def compact(self, index: int, data: bytes) -> None:
        """Replace the log up to `index`, which must be the applied index, by the state after it. The next
        Ready has the snapshot to persist."""
        snapshot = self._snapshot_at(index, data)
        if snapshot.index > self.state.log.snapshot_index:
            self.state.log.compact(snapshot.index, self.state.settings.trailing_bytes)
            self.state.snapshot = snapshot

    def export(self, data: bytes) -> Snapshot:
        """The same as a value, for a loser's `reset_to`; `data` is the state at `applied_index`."""
        return self._snapshot_at(self.state.log.applied, data)

    def _snapshot_at(self, index: int, data: bytes) -> Snapshot:
        log = self.state.log
        if self._handed_out or index != log.applied:
            raise ValueError(f"a snapshot is taken after advance(), at {log.applied}, not at {index}")
        index = log.settled_index(index)
        rows = self.state.proposals.applied.rows()
        return Snapshot(index, log.members_at(index), log.runs_until(index), rows, data, log.cluster)

    def reset_to(self, snapshot: Snapshot) -> None:
        """Give up this node's own history for that of a fork's winner (its `export`). The next Ready
        restores it. Whatever only this node had must have been set aside before."""
        state = self.state
        state.follow(max(state.term, snapshot.runs[-1].term) + 1, None)
        state.transfer.install(snapshot)
        state.forks.forget()


def _tells_history(message: Message) -> bool:
    return getattr(message, "history", None) is not None
