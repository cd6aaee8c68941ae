"""Forked peers of one node. Every log history that arrives is compared here.

A forked peer counts as unreachable. Neither side votes for the other or accepts its entries. Its term does
not raise ours, because otherwise the two sides would raise each other's terms without end. Only histories
pass in both directions, so that each side notices when the other has been reset.
"""

from __future__ import annotations

from mirrormq.consensus.log_history import LogComparison, LogHistory, LogRelation, compare
from mirrormq.consensus.raft_state import RaftState
from mirrormq.consensus.ready import Forked


class Forks:
    """Registry of the peers that are forked from this node."""

    def __init__(self, state: RaftState) -> None:
        self._state = state
        self.known: dict[str, Forked] = {}
        self.found: list[Forked] = []
        self.healed: list[str] = []

    def judge(self, peer: str, theirs: LogHistory) -> LogComparison:
        """Compare a peer's history with this node's and record whether the peer is forked."""
        mine = self._state.log.history()
        judged = compare(mine, theirs)
        if judged.verdict is LogRelation.FORK:
            self._note(self._describe(peer, judged.common, mine, theirs))
        elif self.known.pop(peer, None) is not None:
            self.healed.append(peer)
            self._state.elections.peer_returned()
        return judged

    def forget(self) -> None:
        """Forget all forks, because this node's own history was replaced."""
        self.healed.extend(self.known)
        self.known.clear()
        self.found.clear()

    def _note(self, fork: Forked) -> None:
        before = self.known.get(fork.peer)
        self.known[fork.peer] = fork
        if before is None or (before.common, before.branch, before.peer_branch) != (
            fork.common,
            fork.branch,
            fork.peer_branch,
        ):
            self.found.append(fork)

    @staticmethod
    def _describe(peer: str, common: int, mine: LogHistory, theirs: LogHistory) -> Forked:
        ours, others = mine.since(common)[-1], theirs.since(common)[-1]
        return Forked(peer, common, ours.branch, mine.worth, others.branch, theirs.worth)
