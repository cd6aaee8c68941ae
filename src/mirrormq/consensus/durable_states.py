"""Detection of nodes whose disk went backwards: an operator restored an older copy of a data directory.

Raft rests on disks that do not forget. A restored node has forgotten its term, its vote and entries that it
had acknowledged. Committed entries are lost if it votes twice in one term, or votes for a shorter log.

Each node therefore states its durable state when a link comes up, and repeats it now and then. The
statement holds its number of starts, a random number drawn for this start, its term, its last entry on
disk, and what its latest starts found on the disk. Peers keep the highest statement of each node in their
own hard state. (A lower statement of the same start is only late.) A link shows a restored disk if

*   the stated starts lack the start that the stored statement is of, or
*   the start after that one loaded less than was stored.

What the node has written since does not matter: a restored node may have led alone before it met a peer, and
its term and its log may look later than what it lost. Such a node is *behind*:

*   Its peers do not count its votes and acknowledgements, and do not vote for it.
*   A peer reports the stored state to it. The node enters that term and continues its number of starts from
    there, so that its proposal numbers are new. It neither votes nor stands until its log reaches that state
    and, if it had written more on its own, goes beyond that: the next entry comes from a leader.
*   Then it adds the start that it had lost to its starts. Its votes count again when its peers see that.
    The membership does not change.

A peer also records what a node acknowledged, and what a leader sent: entries are on the sender's disk
before they leave it. A node that has just started neither votes nor stands until every voter has compared
its disk, or `STARTUP_TICKS` have passed (`cluster.member`). It waits for voters that it remembers as stopped,
too: a restored disk remembers a time at which other nodes ran.

An entry below the stored one is a regression only within the same term: a leader of a later term, or the
winner of a fork, may shorten a follower's log.

Two cases stay undetected: a restored node that starts more than `STARTS_KEPT` times before it meets a peer
that saw more of it, and a restored node whose only witnesses are down. A witness that comes back finds that
its own log is forked from that of the others (`log_history`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mirrormq.consensus.log_history import NOTHING
from mirrormq.consensus.raft_messages import DiskStart, DurableState

if TYPE_CHECKING:
    from mirrormq.consensus.raft_state import RaftState

STARTS = 1 << 30
"""Range of the random number of a start. It tells two starts with equal counts apart."""

STARTS_KEPT = 8
"""Starts of a node that its hard state holds. Each metadata write repeats them, 20 bytes each."""


def went_back(known: DurableState, stated: DurableState) -> bool:
    """Tell whether a statement shows a disk that lost part of what an earlier one of the same node states."""
    # A lower statement of the same start was only delayed on its way.
    if stated.start == known.start:
        return False
    starts = [start.start for start in stated.starts]
    if known.start in starts:
        # A start that was lost and made up for is stated twice; the later statement counts. The start that
        # made up for it is stated again behind it, with the state that the log had reached by then.
        after = len(starts) - starts[::-1].index(known.start)
        for place in range(after, len(starts)):
            if starts[place] in starts[:place] and not _is_less(stated.starts[place], known):
                after = place + 1
        return after < len(starts) and _is_less(stated.starts[after], known)
    # Older starts are no longer stated. The oldest stated one must have found what is known, and more.
    oldest = stated.starts[0] if stated.starts else stated
    return oldest.boots <= known.boots or _is_less(oldest, known)


def _is_less(loaded: DiskStart | DurableState, known: DurableState) -> bool:
    # Within a term a log only grows. A leader of a later term may have shortened it.
    return loaded.term < known.term or (loaded.term == known.term and loaded.last < known.last)


class DurableStates:
    """Durable states of this node and its peers."""

    def __init__(self, state: RaftState) -> None:
        self._state = state
        self._start = state.choose(STARTS)
        found = DiskStart(state.boots, self._start, state.term, self._last)
        self.starts = (*state.saved.starts, found)[-STARTS_KEPT:]
        self.known: dict[str, DurableState] = {peer.name: peer for peer in state.saved.peers}
        self.behind: set[str] = set()
        """Peers whose disks went back and that have not caught up."""
        self.forgotten: dict[int, DurableState] = {}
        """States that this node lost, as peers report them, by start. The node does not vote until its log
        reaches them."""
        self._needed = (0, NOTHING)
        """Term and index that the last entry must reach while states are forgotten."""
        self._regained: dict[int, tuple[int, int]] = {}
        """Starts that were forgotten until the log reached them, with the last entry at that time. A report
        of no more than that is late."""
        self.unmet = False
        """Set after a start while a link to some voter is missing. That voter may know a later state of this
        node."""

    @property
    def own(self) -> DurableState:
        """Durable state that this node states to its peers."""
        state = self._state
        return DurableState(state.name, state.boots, self._start, state.term, self._last, self.starts)

    @property
    def _last(self) -> tuple[int, int]:
        """Term and index of the last entry on disk."""
        log = self._state.log
        writer = log.writer(log.stable)
        return (writer[0] if writer is not None else 0, log.stable)

    @property
    def abstains(self) -> bool:
        """Whether this node must not vote: its log has not reached its earlier state, or some voter has not
        yet had the chance to report that state."""
        return self.unmet or bool(self.forgotten)

    def persisted(self) -> None:
        """Count this node's disk as whole again once its log has reached the states that it lost."""
        if not self.forgotten or self._last < self._needed:
            return
        state = self._state
        lost = [
            DiskStart(found.boots, found.start, found.term, found.last) for found in self.forgotten.values()
        ]
        now = DiskStart(state.boots, self._start, state.term, self._last)
        self.starts = (*self.starts, *lost, now)[-STARTS_KEPT:]
        self._regained |= dict.fromkeys(self.forgotten, self._last)
        self.forgotten.clear()

    def linked(self, statement: DurableState) -> DurableState | None:
        """Record the statement of a peer whose link came up. Return the stored state if the peer's disk went
        back."""
        name, known = statement.name, self.known.get(statement.name)
        if known is None or not went_back(known, statement):
            self.stated(statement)
            return None
        self.behind.add(name)
        return known

    def stated(self, statement: DurableState) -> None:
        """Record a later statement of a peer. A peer whose disk went back counts again once it has
        caught up."""
        name, known = statement.name, self.known.get(statement.name)
        if known is not None and name in self.behind:
            if went_back(known, statement):
                return  # the peer has not caught up
        elif known is not None and _is_less(statement, known):
            return  # the statement was delayed on its way
        self.behind.discard(name)
        self.known[name] = msgspec.structs.replace(statement, starts=())

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
        regained = self._regained.get(remembered.start)
        if regained is not None and remembered.last <= regained:
            return {}
        reported = self.forgotten.get(remembered.start)
        if reported is not None:
            # Peers saw different parts of the same start. This node counts again for all of them only when
            # it has reached the furthest part.
            self._needed = max(self._needed, remembered.last)
        else:
            # An entry that this node wrote on its own since may look later than what it lost. Only a further
            # one, of a leader that other nodes elected, shows that its log has been replaced.
            own = self._last
            needed = remembered.last if own < remembered.last else (own[0], own[1] + 1)
            self._needed = max(self._needed, needed)
        if reported is None or _is_less(reported, remembered):
            self.forgotten[remembered.start] = remembered
        if state.leader in (None, state.name) or remembered.term > state.term:
            # This node stands or leads with a log that lacks entries it acknowledged: step down.
            state.follow(max(state.term, remembered.term), None)
        if remembered.boots < state.boots:
            return {}
        state.boots = remembered.boots + 1
        return state.proposals.renumber()
