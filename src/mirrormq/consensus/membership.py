"""Raft membership: voters and learners, changed by one log entry at a time.

A membership takes effect when it is written, committed or not. Two consecutive memberships differ by one
voter, so every majority of one overlaps every majority of the other. Two conditions keep this true across
leaders: the previous change is committed, and so is an entry of the leader's own term.

A new node starts as a learner. The leader makes it a voter when it has nearly caught up.
"""

from __future__ import annotations

from mirrormq.consensus.consensus_errors import ChangePending, NotLeader
from mirrormq.consensus.raft_messages import ChangeMembers, Members
from mirrormq.consensus.raft_state import RaftState


class Membership:
    """Proposer and observer of membership changes."""

    def __init__(self, state: RaftState) -> None:
        self._state = state
        self.committed = state.log.members_at(state.log.commit)
        self.changed = False

    def propose(self, add: str | None, remove: str | None) -> int:
        """Write a change and return its index. The change is complete when `Ready.members` reports it."""
        state = self._state
        if not state.leading:
            raise NotLeader(state.leader)
        now = state.log.members
        if (add is None) == (remove is None):
            raise ValueError("name one node, to add or to remove")
        if add is not None:
            if add in now.everyone:
                raise ValueError(f"{add} is a member already")
            return self._write(Members(now.voters, tuple(sorted({*now.learners, add}))))
        if remove not in now.everyone:
            raise ValueError(f"{remove} is not a member")
        if now.voters == (remove,):
            raise ValueError(f"{remove} is the last voter")
        if remove == state.name and state.replication.partial:
            raise ValueError(f"{remove} cannot leave before a majority of the voters is back")
        return self._write(_without(now, remove))

    def promote_caught_up(self) -> None:
        """Promote a learner that has caught up to voter."""
        state = self._state
        for learner in state.log.members.learners:
            if self.allowed and state.replication.close(learner):
                without = _without(state.log.members, learner)
                self._write(Members(tuple(sorted({*without.voters, learner})), without.learners))

    @property
    def allowed(self) -> bool:
        """Whether the previous change and an entry of the leader's own term are committed."""
        log = self._state.log
        committed = log.writer(log.commit)
        return log.members_index <= log.commit and committed == (self._state.term, self._state.run.branch)

    def _write(self, members: Members) -> int:
        state = self._state
        if not self.allowed:
            raise ChangePending("an earlier change, or the leader's first entry, is not committed yet")
        entry = state.log.write(state.term, state.run.branch, ChangeMembers(members))
        state.replication.members_changed()
        return entry.index

    def apply(self, members: Members) -> None:
        """Apply a committed change. A leader that removed itself steps down."""
        state = self._state
        self.committed, self.changed = members, True
        if state.leading and state.name not in members.voters:
            state.follow(state.term, None)

    def restored(self) -> None:
        """Take the membership of a snapshot that replaced the log."""
        members = self._state.log.members
        self.changed = self.changed or members != self.committed
        self.committed = members


def _without(members: Members, node: str) -> Members:
    return Members(
        tuple(name for name in members.voters if name != node),
        tuple(name for name in members.learners if name != node),
    )
