"""Log history: a log described by a few numbers, enough to tell whether two logs agree or have forked.

Each leader writes its entries under a pair (term, branch) that no other leader ever has. A log is therefore
described by its *runs*: which pair begins at which index. If the pairs of two logs agree at an index, the
logs agree up to that index. The last such index is the **common** index of two nodes. Two nodes compute it
from the runs alone, without further messages.

Branches. An election by a strict majority of all voters is *whole*; a term has at most one whole leader. An
election by fewer voters is not whole, and two sides may hold one each, in the same term. Such a leader
draws a new branch number. The next whole leader after it draws one as well: a branch that is not whole may
have a different end on the other side. `compare` rests on two consequences:

*  A branch that is not whole has exactly one leader. Nothing in it ever conflicts with itself.
*  In a whole branch all leaders were elected by majorities of all voters, so Raft's argument holds in it:
   when two logs diverge inside it, the one with the lower term was never committed from there on,
   unless its holder later opened another branch on top and committed it there.

**Substance.** Entries that open a term or a branch do not change the state machine. `worth` is the index
of the last entry that does. A side whose worth is not beyond the common index changed nothing on its own:
it may drop the rest and follow. If both sides have substance of their own, consensus must not choose between
them: that is a fork. The comparison does not rest on whether that substance was committed. A node forgets
in a crash how far it had committed, and the only other node that knew may never come back.

**Committed entries.** Raft's argument fails if the disk of a voter went back and no living node can tell
(`durable_states`): a majority with that voter elects a leader without committed entries. A node that knows
that its own tail is committed never follows such a leader. If both tails are committed, that is a fork.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from enum import Enum

import msgspec

NOTHING = -1
"""Index before the first: the common index of unrelated logs, and the position of a joining node."""


class TermRun(msgspec.Struct, frozen=True, array_like=True):
    """Run of entries from `first` on, written by the one leader of this term and branch."""

    term: int
    branch: int
    first: int
    whole: bool

    @property
    def writer(self) -> tuple[int, int]:
        return self.term, self.branch


class LogHistory(msgspec.Struct, frozen=True, array_like=True):
    """Runs of a log, its last index, and the index of its last entry with substance (`worth`)."""

    runs: tuple[TermRun, ...]
    last: int
    worth: int
    committed: int = NOTHING
    """Last entry with substance that the node knows to be committed. Nodes of version 2 do not send it."""

    @property
    def rank(self) -> tuple[int, int, int]:
        """Raft's order of logs: last term before last index. The branch only breaks a tie."""
        return (self.runs[-1].term, self.last, self.runs[-1].branch) if self.runs else (-1, self.last, -1)

    def since(self, index: int) -> tuple[TermRun, ...]:
        """Return the runs that have entries after an index."""
        return tuple(run for number, run in enumerate(self.runs) if self._end(number) > index)

    def _end(self, number: int) -> int:
        return self.runs[number + 1].first - 1 if number + 1 < len(self.runs) else self.last


class LogRelation(Enum):
    """Result of comparing a node's history with a peer's."""

    FOLLOW = "the peer may lead: this node loses nothing"
    LEAD = "the peer lacks entries of this node"
    FORK = "each has entries that the other lacks, and neither may drop them silently"


class LogComparison(msgspec.Struct, frozen=True):
    """Relation of two histories, and the last index that they share."""

    verdict: LogRelation
    common: int


def run_at(runs: Sequence[TermRun], index: int) -> TermRun | None:
    """Return the run that an index belongs to; None before the first known run."""
    number = bisect_right(runs, index, key=lambda run: run.first)
    return runs[number - 1] if number else None


def common_index(one: LogHistory, other: LogHistory) -> int:
    """Return the last index up to which two logs are equal."""
    index = min(one.last, other.last)
    while index > NOTHING:
        here, there = run_at(one.runs, index), run_at(other.runs, index)
        if here is None or there is None:
            return NOTHING
        if here.writer == there.writer:
            return index
        # Both runs cover every index from the later start on, so the logs differ on all of them.
        index = max(here.first, there.first) - 1
    return NOTHING


def owns(one: LogHistory, other: LogHistory, common: int) -> bool:
    """Tell whether `one` has substance beyond the common index that it would lose by following `other`."""
    if one.worth <= common:
        return False
    if one.committed > common:
        return True
    own, others = one.since(common), other.since(common)
    if not others or {run.branch for run in own} != {others[0].branch}:
        return True
    if all(run.branch == others[0].branch for run in others):
        return False  # both tails lie in one whole branch: Raft's order of logs decides
    # The own tail stayed in the shared branch, the other opened a branch on top of it. An own tail of a lower
    # term was never committed.
    return own[-1].term > others[0].term


def compare(mine: LogHistory, theirs: LogHistory) -> LogComparison:
    """Compare a peer's history with this node's. Both sides reach the same verdict from the same two
    histories."""
    common = common_index(mine, theirs)
    mine_counts, theirs_counts = owns(mine, theirs, common), owns(theirs, mine, common)
    if mine_counts and theirs_counts:
        verdict = LogRelation.FORK
    elif mine_counts or theirs_counts:
        verdict = LogRelation.LEAD if mine_counts else LogRelation.FOLLOW
    else:
        verdict = LogRelation.FOLLOW if theirs.rank >= mine.rank else LogRelation.LEAD
    return LogComparison(verdict, common)
