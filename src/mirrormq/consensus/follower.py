"""Raft follower: accepts a leader, appends its entries, refuses entries of a forked log."""

from __future__ import annotations

from mirrormq.consensus.log_history import LogComparison, LogHistory, LogRelation
from mirrormq.consensus.raft_messages import Append, AppendReply, Chunk, Entry
from mirrormq.consensus.raft_state import RaftState


class FollowerRole:
    """Handler of the messages that only a leader sends."""

    def __init__(self, state: RaftState) -> None:
        self._state = state

    def append(self, sender: str, message: Append) -> None:
        judged = self._judge(sender, message.history)
        if not self._accept(sender, message, judged):
            return None
        state, log = self._state, self._state.log
        if log.writer(message.previous) != (message.previous_term, message.previous_branch):
            return self._refuse(sender, message.previous)
        entries = message.entries
        known = 0
        while known < len(entries) and log.writer(entries[known].index) == _writer(entries[known]):
            known += 1
        if known < len(entries):
            if entries[known].index <= log.last:
                # Truncate only for a leader whose history was compared with ours (invariant 9 in `raft.py`).
                if judged is None or judged.verdict is not LogRelation.FOLLOW:
                    return self._refuse(sender, message.previous)
                log.truncate(entries[known].index - 1)
            log.extend(entries[known:])
        agreed = message.previous + len(entries)
        log.commit = max(log.commit, min(message.commit, agreed))
        if (writer := log.writer(agreed)) is not None:
            state.durable_states.wrote(sender, (writer[0], agreed))
        history = log.history() if message.history is not None else None
        return state.send(sender, AppendReply(state.term, True, agreed, history))

    def chunk(self, sender: str, message: Chunk) -> None:
        judged = self._judge(sender, message.history)
        if judged is not None and self._accept(sender, message, judged):
            self._state.transfer.receive(sender, message, judged)

    def _judge(self, sender: str, history: LogHistory | None) -> LogComparison | None:
        return None if history is None else self._state.forks.judge(sender, history)

    def _accept(self, sender: str, message: Append | Chunk, judged: LogComparison | None) -> bool:
        """Return whether the sender is, or now becomes, this node's leader. Send a refusal if not."""
        state = self._state
        refused = message.previous if isinstance(message, Append) else message.index
        forked = judged is not None and judged.verdict is LogRelation.FORK
        if forked or message.term < state.term:
            self._refuse(sender, refused)
            return False
        if self._lacks_ours(message, judged):
            if message.term > state.term:
                state.follow(message.term, None)
            self._refuse(sender, refused)
            return False
        if message.term == state.term and self._taken(sender, judged):
            return False
        if message.term > state.term or sender != state.leader:
            state.follow(message.term, sender)
        state.elections.silence = 0
        return True

    @staticmethod
    def _lacks_ours(message: Append | Chunk, judged: LogComparison | None) -> bool:
        """Tell whether the sender was elected without this node and lacks entries of it.

        A leader whose message is only old does not: its history ends at the common index.
        """
        if judged is None or message.history is None:
            return False
        return judged.verdict is LogRelation.LEAD and judged.common < message.history.last

    def _taken(self, sender: str, judged: LogComparison | None) -> bool:
        """Tell whether this node already follows another leader of the same term, elected by a smaller
        electorate."""
        state = self._state
        if state.leading:
            return judged is None or judged.verdict is not LogRelation.FOLLOW
        heard = state.elections.silence < state.settings.election_ticks
        return state.leader not in (None, sender) and heard

    def _refuse(self, sender: str, index: int) -> None:
        state = self._state
        state.send(sender, AppendReply(state.term, False, index, state.log.history()))


def _writer(entry: Entry) -> tuple[int, int]:
    return entry.term, entry.branch
