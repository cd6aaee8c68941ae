"""Raft without a clock, a network or a disk: one node's part in replicating a log.

The guarantee
=============
Every node receives proposals from `Ready.committed` in the same order, each at most once, at an index that
never changes. Proposals of one origin keep the order in which it made them. With the rule `Majority`, an
applied proposal is on the disks of a strict majority of the voters. Every node therefore applies it in the
end, no matter which nodes crash in between.

With the rule `Reachable` the reachable nodes are enough, down to one node alone. Both sides of a partition
may then continue, and the guarantee is weaker:

*  A node never takes back what it applied, except in `reset_to`.
*  Two sides that both changed the state notice it as soon as they exchange messages. They report `Forked`
   and exchange nothing else until one of them is reset.
*  A side that changed nothing follows the other by itself.

What is not guaranteed
======================
*  That a proposal is applied at all: its origin may crash before any other node has it.
*  Anything about reads. The locally applied state may be behind the leader's.
*  Progress without a quorum, or when messages take longer than an election timeout.
*  Anything against Byzantine nodes. Against disks that lose what they reported as safe: only what
   `durable_states.py` describes.
*  That each reported fork is a loss. An entry that one side wrote and never committed looks like any other
   from outside; the core reports it instead of dropping it.

How to drive it
===============
Call `tick()` at a steady pace, `step()` with each message, `propose()` for clients, and `set_reachable()`
when the failure detector changes its verdict. After any of these call `ready()`, do what it says in its
order, and call `advance()`. The core never waits, reads a clock or draws a number: randomness comes from
`choose(n)`.

    ready = node.ready()
    storage.save(ready)                    # all of it, synced if ready.must_sync, before the next line
    for name, message in ready.messages: links[name].send(message)
    if ready.restore: machine.load(ready.snapshot.state)
    for entry in ready.committed: machine.apply(entry)
    node.advance()

Invariants
==========
 1. A term and the vote given in it are on disk before a message of that term leaves. A candidate's own vote
    is on disk before it is counted: that happens in `advance()`.
 2. Entries are on disk before they are acknowledged. The leader's own copy counts from `advance()` on.
 3. The hard state's `boots` is on disk before a proposal of this incarnation leaves, so no proposal number
    is ever used twice.
 4. A snapshot is on disk before it is acknowledged. The entries it replaces are deleted after that.
 5. An entry is identified by (index, term, branch). At most one leader ever writes under one (term, branch).
 6. A leader never changes or drops an entry of its own log.
 7. Entries of the leader's own term are committed by counting disks, earlier ones only along with them.
 8. The quorum of a leader's commits is the quorum of its election: the electorate never shrinks in a
    term. To need fewer voters, the leader must be elected again, by fewer, and open a branch.
 9. A log is truncated only for a leader whose history was compared with ours (`log_history.py`), and never
    below the commit index, except for entries without substance. `RaftLog.guard` stops the node otherwise.
10. A message from a forked peer changes neither the term, nor the leader, nor the log.
11. A membership differs from the one before by one voter, and that one was committed.
12. The table of applied proposals is part of the replicated state and of every snapshot.

Differences from the paper
==========================
*  Pre-vote and check-quorum (Ongaro's thesis, 9.6 and 6.2) are always on. Leader transfer (3.10) exists.
*  The paper finds the index where logs agree by going back one entry at a time. Here a refusal carries the
   whole history (a few numbers per change of leader), and the leader computes the index.
*  Branches, forks and electorates. A cluster that always had its majority has one branch. The comparison of
   histories is then the paper's "at least as up-to-date", and the rest is never used.
*  Messages leave after everything is persisted: the leader does not overlap its disk with its followers'.
*  Any node accepts proposals and forwards them; duplicates are recognised when applied.
*  The failure detector is a hint, never proof. When it reports the leader gone, candidates start at once, one
   after another by name, instead of after an election timeout. Pre-votes still come first, so peers refuse a
   wrong candidate. A leader that lost its quorum by its own detector steps down before the timeout proves it.
   A node without a leader also stands soon when a candidate asks that lacks its entries.
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
    TimeoutNow,
    Vote,
    VoteReply,
)
from mirrormq.consensus.raft_settings import RaftSettings
from mirrormq.consensus.raft_state import Choose, RaftRole, RaftState
from mirrormq.consensus.raft_storage import RaftStorage
from mirrormq.consensus.ready import Forked, Ready
from mirrormq.consensus.snapshot_transfer import SnapshotTransfer


class Consensus:
    """Raft node. A subclass may replace its parts, which is how tests inject faults into them."""

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
        """Leader of the current term, as far as this node knows."""
        return self.state.leader

    @property
    def members(self) -> Members:
        """Committed membership."""
        return self.state.membership.committed

    @property
    def forks(self) -> dict[str, Forked]:
        """Peers that are forked from this node now."""
        return dict(self.state.forks.known)

    @property
    def commit_index(self) -> int:
        return self.state.log.commit

    @property
    def applied_index(self) -> int:
        """Last index that was handed out to be applied. `compact` takes this index."""
        return self.state.log.applied

    @property
    def cluster(self) -> int:
        """Cluster id given at bootstrap; 0 while this node has not joined a cluster."""
        return self.state.log.cluster

    @property
    def whole(self) -> bool:
        """Whether a majority of all voters elected the log's last leader. A fork is possible if not."""
        return not self.state.log.runs or self.state.run.whole

    @property
    def lateness(self) -> tuple[int, int]:
        """Order of the histories of two forks: term of the last leader, index of the last change."""
        log = self.state.log
        return (log.runs[-1].term if log.runs else 0, log.worth)

    def tick(self) -> None:
        """Advance all timeouts by one tick."""
        if self.state.leading:
            self.state.replication.tick()
        else:
            self.state.elections.tick()
        self.state.proposals.tick()

    def step(self, sender: str, message: Message) -> None:
        """Process a message that arrived on `sender`'s link. It may be old, duplicated or out of order."""
        state = self.state
        # Only a history may pass a fork: it shows when the peer has been reset (invariant 10).
        if sender == state.name or (sender in state.forks.known and not _carries_history(message)):
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
            case TimeoutNow():
                if message.term == state.term and sender == state.leader:
                    state.elections.campaign(transfer=True)

    def propose(self, data: bytes, otherwise: bytes | None = None) -> int:
        """Propose a command. Return its number, which `Ready.committed` (origin: this node) repeats.

        The node resends the proposal, also to later leaders, until it is applied. A proposal with `otherwise`
        is a leader's decision: `otherwise` replaces it once this node no longer leads. Raises NotLeader when
        no leader is known, and Busy when too many proposals are in flight.
        """
        return self.state.proposals.propose(data, otherwise)

    def propose_members(self, *, add: str | None = None, remove: str | None = None) -> int:
        """Add a node (as a learner, which becomes a voter by itself) or remove one; return the index of the
        change.

        Only the leader may do this. Raises NotLeader, ChangePending, or ValueError for an invalid change.
        """
        return self.state.membership.propose(add, remove)

    def campaign(self) -> None:
        """Stand for election now, without waiting for the election timeout."""
        self.state.elections.start_pre_vote()

    def transfer_leadership(self, to: str) -> None:
        """Transfer leadership to a voter as soon as its log is complete. Only the leader may do this.

        The transfer is abandoned after an election timeout. Proposals are refused meanwhile.
        """
        if not self.state.leading:
            raise NotLeader(self.state.leader)
        self.state.replication.hand_over(to)

    def set_reachable(self, names: frozenset[str]) -> None:
        """Take over the failure detector's current verdict."""
        state = self.state
        before, state.reachable = state.reachable, names
        if state.leading:
            state.replication.presence_changed(names - (before or frozenset()))
        elif state.leader is None or state.leader not in names:
            state.elections.flush_now()

    @property
    def durable_state(self) -> DurableState:
        """Durable state that this node states when a link comes up."""
        return self.state.durable_states.own

    def peer_linked(self, statement: DurableState) -> DurableState | None:
        """Record the durable state that a peer states on a new link.

        Returns the stored state if the peer's disk went back: the node must send it to the peer
        (`state_lost`) before anything else.
        """
        remembered = self.state.durable_states.linked(statement)
        if remembered is not None and self.state.leading:
            self.state.replication.presence_changed(frozenset())
        return remembered

    def peer_stated(self, statement: DurableState) -> None:
        """Record a later durable state of a peer."""
        self.state.durable_states.stated(statement)

    def state_lost(self, remembered: DurableState) -> dict[int, int]:
        """Accept a peer's report of a later state of this node's disk. Return new numbers of proposals."""
        return self.state.durable_states.lost(remembered)

    def set_unmet(self, unmet: bool) -> None:
        """Set whether this node lacks a link to a voter since its start. It does not vote until then."""
        self.state.durable_states.unmet = unmet

    @property
    def behind(self) -> frozenset[str]:
        """Peers whose disks went back and that have not caught up since."""
        return frozenset(self.state.durable_states.behind)

    def set_rule(self, rule: QuorumRule) -> None:
        """Replace the quorum rule, from the next election on."""
        self.state.rule = rule

    def ready(self) -> Ready:
        """Return the work that is due, in the order of its fields. The caller must call `advance()` when it
        is done."""
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
        # A new commit index alone needs no sync: it only saves time at the next start.
        durable = now.promise != before.promise
        ready.must_sync = durable or ready.restore or bool(ready.entries)
        self._handed(now)
        return ready

    def _take_committed(self) -> list[Committed]:
        """Take committed entries up to a size limit; the rest waits for the next `ready`."""
        state, log = self.state, self.state.log
        committed: list[Committed] = []
        # Entries without a command must not end the loop: an empty `Ready` means that nothing is left to do.
        while log.applied < log.commit and not committed:
            entries = [*log.batch(log.applied, state.settings.committed_bytes_max)]
            del entries[log.commit - log.applied :]
            log.applied = entries[-1].index
            committed = state.proposals.apply(entries)
        return committed

    def _handed(self, hard_state: HardState) -> None:
        state = self.state
        state.saved = hard_state
        state.outbox, state.proposals.settled = [], []
        state.forks.found, state.forks.healed = [], []
        state.snapshot, state.restoring, state.membership.changed = None, False, False
        state.log.handed = state.log.persisting = state.log.last

    def hard_state(self) -> HardState:
        """Return the hard state: what must survive a crash beside the log."""
        return self.state.hard_state()

    def advance(self) -> None:
        """Record that the last Ready is persisted, sent and applied."""
        if not self._handed_out:
            raise ConsensusError("ready() must come before advance()")
        self._handed_out = False
        state = self.state
        state.log.stable = state.log.persisting
        state.durable_states.persisted()
        state.elections.own_vote_persisted(state.saved.term, state.saved.vote)
        if state.leading:
            state.replication.count()

    def compact(self, index: int, data: bytes) -> None:
        """Replace the log up to `index`, which must be the applied index, by the state after it. The next
        Ready carries the snapshot to persist."""
        snapshot = self._snapshot_at(index, data)
        if snapshot.index > self.state.log.snapshot_index:
            self.state.log.compact(snapshot.index, self.state.settings.trailing_bytes)
            self.state.snapshot = snapshot

    def export(self, data: bytes) -> Snapshot:
        """Return a snapshot of the applied state for a loser's `reset_to`; `data` is the state at
        `applied_index`."""
        return self._snapshot_at(self.state.log.applied, data)

    def _snapshot_at(self, index: int, data: bytes) -> Snapshot:
        log = self.state.log
        if self._handed_out or index != log.applied:
            raise ValueError(f"a snapshot is taken after advance(), at {log.applied}, not at {index}")
        index = log.settled_index(index)
        rows = self.state.proposals.applied.rows()
        return Snapshot(index, log.members_at(index), log.runs_until(index), rows, data, log.cluster)

    def reset_to(self, snapshot: Snapshot, incarnation: int = 0) -> None:
        """Replace this node's history by that of a fork's winner (its `export`). The next Ready restores it.

        The caller must first set aside whatever only this node has. `incarnation` is the last one that the
        discarded history knows of this node; the winner's may know an earlier one.
        """
        state = self.state
        state.discarded_incarnation = max(state.discarded_incarnation, incarnation)
        state.follow(max(state.term, snapshot.runs[-1].term) + 1, None)
        state.transfer.install(snapshot)
        state.forks.forget()


def _carries_history(message: Message) -> bool:
    return getattr(message, "history", None) is not None
