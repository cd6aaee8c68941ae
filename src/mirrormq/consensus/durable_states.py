"""Detection of nodes whose disk went backwards: an older copy of a data directory was put in place.

Raft rests on disks that do not forget. A restored node has forgotten its term, its vote and entries that it
had acknowledged; with its second vote in one term, or its vote for a shorter log, committed entries are lost.

So each node states its durable state when a link comes up, and now and then afterwards: how often it has
started, a number drawn for this start, its term, and its last entry on disk. Its peers remember the highest
statement of each node in their own hard state. A link whose statement is lower than the remembered one, and
of another start, shows a restored disk. (A lower statement of the same start is only late.) Such a node is
*behind*:

*   Its peers do not count its votes and acknowledgements, and do not vote for it.
*   It is told the remembered state. It enters that term, counts its starts from there (so that its proposal
    numbers are new), and neither votes nor stands until its log has reached that state.
*   When its statement has reached what the peers remember, it counts again. No membership changes.

A peer also remembers what it acknowledged, and what a leader sent: entries are on the sender's disk before
they leave it. A node that has just started neither votes nor stands until it has a link to every voter, or
`STARTUP_TICKS` have passed (`cluster.member`): one of them may have to tell it that it went back.

An entry below the remembered one is a regression only within the same term: a leader of a later term, or the
winner of a fork, may shorten a follower's log. A restored node that reaches a later term before any peer sees
its statement is not found. Neither is one whose only witnesses are down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mirrormq.consensus.raft_messages import DurableState

if TYPE_CHECKING:
    from mirrormq.consensus.raft_state import RaftState

STARTS = 1 << 30
"""Numbers that a start draws from: two starts with one count tell each other apart."""


def went_back(known: DurableState, stated: DurableState) -> bool:
    """Whether a statement is lower than an earlier one of the same node."""
    if (stated.boots, stated.start) == (known.boots, known.start):
        return False
    if stated.boots <= known.boots or stated.term < known.term:
        return True
    return stated.term == known.term and stated.last < known.last


def merged(known: DurableState, stated: DurableState) -> DurableState:
    """The state that a node has to reach which went back from `known` to `stated`."""
    return msgspec.structs.replace(
        known,
        boots=max(known.boots, stated.boots),
        term=max(known.term, stated.term),
        last=max(known.last, stated.last),
    )


class DurableStates:
    """Statements of the other nodes, and this node's own."""

    def __init__(self, state: RaftState) -> None:
        self._state = state
        self._start = state.choose(STARTS)
        self.known: dict[str, DurableState] = {peer.name: peer for peer in state.saved.peers}
        self.behind: set[str] = set()
        """Peers that went back and have not caught up."""
        self.forgotten: DurableState | None = None
        """The state that this node has lost, as a peer remembers it; until then it does not vote."""
        self.unmet = False
        """This node has just started and has no link to some voter yet, which may remember more of it."""

    @property
    def own(self) -> DurableState:
        """This node's statement."""
        state, log = self._state, self._state.log
        writer = log.writer(log.stable)
        last = (writer[0] if writer is not None else 0, log.stable)
        return DurableState(state.name, state.boots, self._start, state.term, last)

    @property
    def abstains(self) -> bool:
        """Whether this node must not vote: its log has not reached what it had before, or nobody has told it
        yet how far that was."""
        if self.unmet:
            return True
        if self.forgotten is None:
            return False
        own = self.own
        if own.last >= self.forgotten.last and own.term >= self.forgotten.term:
            self.forgotten = None
        return self.forgotten is not None

    def linked(self, statement: DurableState) -> DurableState | None:
        """A link to a peer is up, with its statement. Returns what is remembered of it if it went back."""
        name, known = statement.name, self.known.get(statement.name)
        if known is None or not went_back(known, statement):
            self.stated(statement)
            return self.known[name] if name in self.behind else None
        self.behind.add(name)
        self.known[name] = merged(known, statement)
        return self.known[name]

    def stated(self, statement: DurableState) -> None:
        """A peer that was not found to have gone back states that it is further."""
        name, known = statement.name, self.known.get(statement.name)
        lower = known is not None and (statement.last < known.last or statement.term < known.term)
        if lower and known is not None and (name in self.behind or statement.term <= known.term):
            return  # it has not caught up, or the statement is late
        self.behind.discard(name)
        self.known[name] = statement

    def wrote(self, name: str, last: tuple[int, int]) -> None:
        """A peer has an entry on disk: it acknowledged it, or sent it as leader."""
        known = self.known.get(name)
        if known is not None and known.last < last and name not in self.behind:
            self.known[name] = msgspec.structs.replace(
                known, last=last, term=max(known.term, self._state.term)
            )

    def forget_others(self, members: tuple[str, ...]) -> None:
        """Nodes that left the cluster may come back with an empty disk."""
        for name in self.known.keys() - set(members):
            del self.known[name]
            self.behind.discard(name)

    def lost(self, remembered: DurableState) -> dict[int, int]:
        """A peer says that this node went back. Returns new numbers of proposals (`Proposals.renumber`)."""
        state = self._state
        self.forgotten = remembered if self.forgotten is None else merged(self.forgotten, remembered)
        if state.leader in (None, state.name) or remembered.term > state.term:
            state.follow(
                max(state.term, remembered.term), None
            )  # it stands or leads with a log that went back
        if remembered.boots < state.boots:
            return {}
        state.boots = remembered.boots + 1
        return state.proposals.renumber()
