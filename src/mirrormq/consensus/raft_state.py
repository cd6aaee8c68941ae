"""Shared state of one Raft node: term, vote, role, log and outgoing messages.

The parts (elections, replication, …) hold this object and reach each other through it. Only methods of this
class change a term or a role.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING

from mirrormq.consensus.durable_states import DurableStates
from mirrormq.consensus.log_history import TermRun
from mirrormq.consensus.quorum import PAIR, QuorumRule
from mirrormq.consensus.raft_log import RaftLog
from mirrormq.consensus.raft_messages import HardState, Message, Snapshot
from mirrormq.consensus.raft_settings import RaftSettings
from mirrormq.consensus.raft_storage import RaftStorage

if TYPE_CHECKING:
    from mirrormq.consensus.elections import Elections
    from mirrormq.consensus.forks import Forks
    from mirrormq.consensus.leader_replication import LeaderReplication
    from mirrormq.consensus.membership import Membership
    from mirrormq.consensus.proposals import Proposals
    from mirrormq.consensus.snapshot_transfer import SnapshotTransfer

Choose = Callable[[int], int]
"""Random source: `choose(n)` returns a number from 0 to n - 1. All randomness of a node comes from it."""


class RaftRole(Enum):
    """Role of a node in its term."""

    FOLLOWER = "follower"
    PRECANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


class RaftState:
    elections: Elections
    forks: Forks
    membership: Membership
    proposals: Proposals
    replication: LeaderReplication
    transfer: SnapshotTransfer

    def __init__(
        self, name: str, storage: RaftStorage, rule: QuorumRule, choose: Choose, settings: RaftSettings
    ) -> None:
        stored = storage.load()
        self.name = name
        self.storage = storage
        self.rule = rule
        self.choose = choose
        self.settings = settings
        self.term = stored.hard_state.term
        self.vote = stored.hard_state.vote
        self.boots = stored.hard_state.boots + 1
        self.discarded_incarnation = stored.hard_state.discarded_incarnation
        self.log = RaftLog(stored.snapshot, stored.entries, stored.hard_state.commit)
        self.role = RaftRole.FOLLOWER
        self.leader: str | None = None
        self.reachable: frozenset[str] | None = None
        """Nodes that the failure detector reports as reachable. None before its first report: all count as
        reachable."""
        self.outbox: list[tuple[str, Message]] = []
        self.saved = stored.hard_state
        """Hard state that was last handed out to be persisted."""
        self.snapshot: Snapshot | None = None
        """Snapshot that is still to be handed out to be persisted."""
        self.restoring = False
        self.durable_states = DurableStates(self)

    @property
    def leading(self) -> bool:
        return self.role is RaftRole.LEADER

    @property
    def voters(self) -> frozenset[str]:
        return frozenset(self.log.members.voters)

    @property
    def peers(self) -> tuple[str, ...]:
        return tuple(name for name in self.log.members.everyone if name != self.name)

    @property
    def present(self) -> frozenset[str]:
        """Voters that are reachable, not forked, and whose disks did not go back."""
        return self._linked - self.durable_states.behind

    @property
    def _linked(self) -> frozenset[str]:
        reachable = self.voters if self.reachable is None else self.voters & self.reachable
        return (reachable - self.forks.known.keys()) | ({self.name} & self.voters)

    @property
    def electorate(self) -> frozenset[str]:
        """Voters of which a majority elects, by the quorum rule.

        In a pair, this node alone is enough if the other's disk went back. Both had to agree on every
        committed entry, so this node has them all.
        """
        if len(self.voters) == PAIR and self.voters - {self.name} <= self.durable_states.behind:
            return frozenset({self.name})
        return self.rule.electorate(self.voters, self.present, self.name)

    @property
    def may_go_on(self) -> bool:
        """Whether the quorum rule lets this node be candidate or leader."""
        return self.rule.may_go_on(self.voters, self._linked, self.name)

    @property
    def run(self) -> TermRun:
        return self.log.last_run

    def hard_state(self) -> HardState:
        peers = tuple(sorted(self.durable_states.known.values(), key=lambda peer: peer.name))
        starts = self.durable_states.starts
        return HardState(
            self.term, self.vote, self.boots, self.log.commit, peers, starts, self.discarded_incarnation
        )

    def send(self, to: str, message: Message) -> None:
        """Queue a message. It leaves after the current Ready has been persisted."""
        self.outbox.append((to, message))

    def enter(self, term: int) -> None:
        """Enter a higher term, without a vote."""
        if term > self.term:
            self.term, self.vote = term, None

    def follow(self, term: int, leader: str | None) -> None:
        """Become a follower (without a leader, if `leader` is None)."""
        deposed = self.leading and leader is None and term > self.term
        self.enter(term)
        if self.leading:
            self.replication.stop()
        self.role = RaftRole.FOLLOWER
        if leader is not None and leader != self.leader:
            self.leader = leader
            self.proposals.resend()
        self.leader = leader
        self.elections.rest()
        if deposed:
            self.elections.start_pre_vote_soon()
