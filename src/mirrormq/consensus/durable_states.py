"""Detection of nodes whose disk went backwards: an operator restored an older copy of a data directory.

Raft rests on disks that do not forget. A restored node has forgotten its term, its vote and entries that it
had acknowledged. Committed entries are lost if it votes twice in one term, or votes for a shorter log.

Each node therefore states its durable state when a link comes up, and repeats it now and then. The
statement holds its number of starts, a random number drawn for this start, its term, and its last entry on
disk. Peers keep the highest statement of each node in their own hard state. A link whose statement is lower
than the stored one, and of another start, shows a restored disk. (A lower statement of the same start is
only late.) Such a node is *behind*:

*   Its peers do not count its votes and acknowledgements, and do not vote for it.
*   A peer reports the stored state to it. The node enters that term and continues its number of starts from
    there, so that its proposal numbers are new. It neither votes nor stands until its log reaches that state.
*   Its votes count again when its statement reaches what the peers store. The membership does not change.

A peer also records what a node acknowledged, and what a leader sent: entries are on the sender's disk
before they leave it. A node that has just started neither votes nor stands until it has a link to every
voter, or `STARTUP_TICKS` have passed (`cluster.member`): one of the voters may have to report that its disk
went back.

An entry below the stored one is a regression only within the same term: a leader of a later term, or the
winner of a fork, may shorten a follower's log.

Two cases stay undetected: a restored node that reaches a later term before any peer sees its statement, and
a restored node whose only witnesses are down.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mirrormq.consensus.raft_messages import DurableState

if TYPE_CHECKING:
    from mirrormq.consensus.raft_state import RaftState

STARTS = 1 << 30
"""Range of the random number of a start. It tells two starts with equal counts apart."""


def went_back(known: DurableState, stated: DurableState) -> bool:
    """Tell whether a statement is lower than an earlier one of the same node."""
    # A lower statement of the same start was only delayed on its way.
    if (stated.boots, stated.start) == (known.boots, known.start):
        return False
    if stated.boots <= known.boots or stated.term < known.term:
        return True
    return stated.term == known.term and stated.last < known.last


def merged(known: DurableState, stated: DurableState) -> DurableState:
    """Return the state that a node must reach after it went back from `known` to `stated`."""
    return msgspec.structs.replace(
        known,
        boots=max(known.boots, stated.boots),
        term=max(known.term, stated.term),
        last=max(known.last, stated.last),
    )


class DurableStates:
    """Durable states of this node and its peers."""

    def __init__(self, state: RaftState) -> None:
        self._state = state
        self._start = state.choose(STARTS)
        self.known: dict[str, DurableState] = {peer.name: peer for peer in state.saved.peers}
        self.behind: set[str] = set()
        """Peers whose disks went back and that have not caught up."""
        self.forgotten: DurableState | None = None
        """State that this node lost, as a peer reports it. The node does not vote until its log reaches that
        state."""
        self.unmet = False
        """Set after a start while a link to some voter is missing. That voter may know a later state of this
        node."""

    @property
    def own(self) -> DurableState:
        """Durable state that this node states to its peers."""
        state, log = self._state, self._state.log
        writer = log.writer(log.stable)
        last = (writer[0] if writer is not None else 0, log.stable)
        return DurableState(state.name, state.boots, self._start, state.term, last)

    @property
    def abstains(self) -> bool:
        """Whether this node must not vote: its log has not reached its earlier state, or some voter has not
        yet had the chance to report that state."""
        if self.unmet:
            return True
        if self.forgotten is None:
            return False
        own = self.own
        if own.last >= self.forgotten.last and own.term >= self.forgotten.term:
            self.forgotten = None
        return self.forgotten is not None

    def linked(self, statement: DurableState) -> DurableState | None:
        """Record the statement of a peer whose link came up. Return the stored state if the peer's disk went
        back."""
        name, known = statement.name, self.known.get(statement.name)
        if known is None or not went_back(known, statement):
            self.stated(statement)
            return self.known[name] if name in self.behind else None
        self.behind.add(name)
        self.known[name] = merged(known, statement)
        return self.known[name]

    def stated(self, statement: DurableState) -> None:
        """Record a later statement of a peer. A peer whose disk went back counts again once it has
        caught up."""
        name, known = statement.name, self.known.get(statement.name)
        lower = known is not None and (statement.last < known.last or statement.term < known.term)
        if lower and known is not None and (name in self.behind or statement.term <= known.term):
            return  # the peer has not caught up, or the statement was delayed on its way
        self.behind.discard(name)
        self.known[name] = statement

    def wrote(self, name: str, last: tuple[int, int]) -> None:
        """Record an entry that is on a peer's disk: the peer acknowledged it, or sent it as leader."""
        known = self.known.get(name)
        if known is not None and known.last < last and name not in self.behind:
            self.known[name] = msgspec.structs.replace(
                known, last=last, term=max(known.term, self._state.term)
            )

    def forget_others(self, members: tuple[str, ...]) -> None:
        """Forget nodes that left the cluster. They may rejoin with an empty disk."""
        for name in self.known.keys() - set(members):
            del self.known[name]
            self.behind.discard(name)

    def lost(self, remembered: DurableState) -> dict[int, int]:
        """Accept a peer's report that this node's disk went back. Return new numbers of proposals
        (`Proposals.renumber`)."""
        state = self._state
        self.forgotten = remembered if self.forgotten is None else merged(self.forgotten, remembered)
        if state.leader in (None, state.name) or remembered.term > state.term:
            # This node stands or leads with a log that lacks entries it acknowledged: step down.
            state.follow(max(state.term, remembered.term), None)
        if remembered.boots < state.boots:
            return {}
        state.boots = remembered.boots + 1
        return state.proposals.renumber()
