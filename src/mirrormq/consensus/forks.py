"""Which peers live in another story than ours. Every history that arrives is judged here.

A forked peer counts as unreachable: it gets no vote from us and we take none from it, its term does
not move ours (or the two sides would chase each other's terms for ever), its entries are refused.
Only histories still pass both ways, so that either side notices when the other has been reset.
"""

from __future__ import annotations

from mirrormq.consensus.log_history import LogComparison, LogHistory, LogRelation, compare
from mirrormq.consensus.raft_state import RaftState
from mirrormq.consensus.ready import Forked


class Forks:
    """The peers that are forked from this node."""

    def __init__(self, state: RaftState) -> None:
        self._state = state
        self.known: dict[str, Forked] = {}
        self.found: list[Forked] = []
        self.healed: list[str] = []

    def judge(self, peer: str, theirs: LogHistory) -> LogComparison:
        """Compare a peer's history with ours and remember whether it is forked."""
        mine = self._state.log.history()
        judged = compare(mine, theirs)
        if judged.verdict is LogRelation.FORK:
            self._note(self._describe(peer, judged.common, mine, theirs))
        elif self.known.pop(peer, None) is not None:
            self.healed.append(peer)
            self._state.elections.peer_returned()
        return judged

    def forget(self) -> None:
        """Our own history was replaced: nothing that was known about peers holds."""
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
