"""The leader's work: bring everyone's log up to its own, and say what is committed.

Messages are made when a Ready is asked for, not when a proposal comes in, so that everything proposed in
between shares them. A refused message comes back with the follower's history: the place to go on from
is known at once. An entry is committed when it is of the leader's own term and a strict majority of
the term's electorate has it on disk; the leader's own disk counts when `advance()` says so.
"""

from __future__ import annotations

from mirrormq.consensus.follower_progress import Mode, Progress
from mirrormq.consensus.log_history import NOTHING, LogRelation
from mirrormq.consensus.quorum import agreed_index, is_quorum
from mirrormq.consensus.raft_messages import Append, AppendReply, ChunkReply, StandNow
from mirrormq.consensus.raft_state import RaftState


class LeaderReplication:
    """What a node does while it leads."""

    def __init__(self, state: RaftState) -> None:
        self._state = state
        self.followers: dict[str, Progress] = {}
        self._electorate: frozenset[str] | None = None
        """The voters that count in this term, if it is not whole."""
        self._voters: frozenset[str] = frozenset()
        self._since_heartbeat = 0
        self._since_check = 0
        self._successor: str | None = None
        self._handing_ticks = 0

    @property
    def handing_over(self) -> bool:
        return self._successor is not None

    @property
    def partial(self) -> bool:
        """Whether fewer than a majority of the voters elected this leader."""
        return self._electorate is not None

    @property
    def electorate(self) -> frozenset[str]:
        voters = self._state.voters
        return voters if self._electorate is None else self._electorate & voters

    def start(self, electorate: frozenset[str] | None) -> None:
        """A term as leader begins."""
        self._electorate, self._voters = electorate, self._state.voters
        self.followers = {peer: Progress(next=self._state.log.last) for peer in self._state.peers}
        self._since_heartbeat = self._since_check = 0

    def stop(self) -> None:
        self.followers.clear()
        self._electorate = self._successor = None
        self._state.transfer.forget()

    def members_changed(self) -> None:
        """A new membership was written: it counts at once."""
        peers = self._state.peers
        self.followers = {
            peer: self.followers.get(peer) or Progress(next=self._state.log.last) for peer in peers
        }
        if self._electorate is not None:
            self._electorate |= self._state.voters - self._voters
        self._voters = self._state.voters

    def close(self, learner: str) -> bool:
        """Whether a learner has nearly all of the log."""
        progress, lag = self.followers[learner], self._state.settings.promotion_lag_entries
        return progress.mode is Mode.STREAM and progress.match + lag >= self._state.log.last

    def tick(self) -> None:
        settings = self._state.settings
        self._since_heartbeat += 1
        if self._since_heartbeat >= settings.heartbeat_ticks:
            self._since_heartbeat = 0
            for progress in self.followers.values():
                progress.due, progress.asked = True, False
        self._handing_ticks += 1
        if self._handing_ticks >= settings.election_ticks:
            self._successor = None
        self._since_check += 1
        if self._since_check >= settings.election_ticks:
            self._since_check = 0
            self._check_quorum()

    def _check_quorum(self) -> None:
        """Step down without a quorum."""
        state = self._state
        heard = self._heard()
        for progress in self.followers.values():
            progress.active = False
        if not is_quorum(heard, self.electorate) or not state.may_go_on:
            state.follow(state.term, None)

    def _heard(self) -> set[str]:
        """Who has answered since the last check."""
        heard = {peer for peer, progress in self.followers.items() if progress.active}
        return heard - self._state.durable_states.behind | {self._state.name}

    def _seek_majority(self) -> None:
        """Stand again when a majority is there: what only a few agree on might fork from what others do."""
        state = self._state
        if self.partial and is_quorum(self._heard() & state.present, state.voters):
            state.elections.campaign()

    def presence_changed(self, back: frozenset[str]) -> None:
        """The failure detector spoke: do not wait for the next check. Those who are back have lost what
        was on its way to them."""
        state = self._state
        if not state.may_go_on:
            return state.follow(state.term, None)
        if is_quorum(state.present, self.electorate):
            for peer in back & self.followers.keys():
                self.followers[peer].probe(max(self.followers[peer].match, 0) + 1)
            return None
        smaller = state.electorate
        if is_quorum(state.present, smaller):
            return state.elections.campaign()
        return state.follow(state.term, None)

    def hand_over(self, to: str) -> None:
        """Let `to` lead as soon as it has everything."""
        if to not in self.followers or to not in self._state.voters:
            raise ValueError(f"{to} is not another voter")
        self._successor, self._handing_ticks = to, 0
        self._hand_over_if_caught_up(to)

    def _hand_over_if_caught_up(self, peer: str) -> None:
        if peer == self._successor and self.followers[peer].match == self._state.log.last:
            self._state.send(peer, StandNow(self._state.term))

    def flush(self) -> None:
        """Make the messages that are due."""
        for peer, progress in self.followers.items():
            if peer in self._state.forks.known and progress.mode is not Mode.PROBE:
                progress.probe(self._state.log.last)
            if progress.mode is Mode.STREAM:
                self._stream(peer, progress)
            elif not progress.asked:
                progress.asked = True
                if progress.mode is Mode.SNAPSHOT or not self._send(peer, progress):
                    self._send_snapshot(peer, progress)
            progress.due = False

    def _send_snapshot(self, peer: str, progress: Progress) -> None:
        """Begin, or begin again if a whole heartbeat has passed without a question for more."""
        if not progress.moving:
            self._state.transfer.send(peer, 0)
        progress.mode, progress.moving = Mode.SNAPSHOT, False

    def _stream(self, peer: str, progress: Progress) -> None:
        log, settings = self._state.log, self._state.settings
        while progress.next <= log.last and len(progress.inflight) < settings.inflight_max:
            if not self._send(peer, progress):
                return progress.probe(progress.next)
        if progress.due or progress.commit_sent < min(log.commit, progress.next - 1):
            self._send(peer, progress, empty=True)
        return None

    def _send(self, peer: str, progress: Progress, empty: bool = False) -> bool:
        """Send what comes next; False if the log does not go back that far."""
        state, log = self._state, self._state.log
        previous = progress.next - 1
        writer = log.writer(previous)
        probing = progress.mode is Mode.PROBE
        empty = empty or peer in state.forks.known
        if writer is None or (previous < log.offset and not empty):
            return False
        entries = () if empty else log.batch(previous, state.settings.append_bytes_max)
        history = log.history() if probing else None
        state.send(peer, Append(state.term, previous, *writer, entries, log.commit, history))
        progress.commit_sent, progress.due = log.commit, False
        if not probing and entries:
            progress.next = entries[-1].index + 1
            progress.inflight.append(entries[-1].index)
        return True

    def answered(self, sender: str, reply: AppendReply) -> None:
        """A follower accepted or refused an Append, or has installed a snapshot."""
        state = self._state
        common = NOTHING
        if reply.history is not None:
            judged = state.forks.judge(sender, reply.history)
            common = judged.common
            if judged.verdict is LogRelation.FORK:
                return None  # it is shown our history with each heartbeat, and nothing else
            if state.leading and judged.verdict is LogRelation.FOLLOW and common < state.log.last:
                return state.follow(max(state.term, reply.term), None)
        if reply.term > state.term:
            return state.follow(reply.term, None)
        progress = self.followers.get(sender)
        if not state.leading or reply.term < state.term or progress is None:
            return None
        progress.active = True
        if reply.accepted:
            progress.accepted(reply.index)
            if (writer := state.log.writer(reply.index)) is not None:
                state.durable_states.wrote(sender, (writer[0], reply.index))
            self.count()
            state.membership.promote_caught_up()
            self._hand_over_if_caught_up(sender)
            return self._seek_majority()
        if not progress.stale_refusal(reply.index):
            progress.refused(common)
        return None

    def chunk_wanted(self, sender: str, reply: ChunkReply) -> None:
        state, progress = self._state, self.followers.get(sender)
        if reply.term > state.term:
            return state.follow(reply.term, None)
        if state.leading and reply.term == state.term and progress is not None:
            progress.active = True
            if progress.mode is Mode.SNAPSHOT:
                progress.asked = progress.moving = True
                state.transfer.wanted(sender, reply)
        return None

    def count(self) -> None:
        """Commit what a majority of the electorate has, if this term wrote it."""
        state = self._state
        behind = state.durable_states.behind
        matched = {peer: progress.match for peer, progress in self.followers.items() if peer not in behind}
        matched[state.name] = state.log.stable
        agreed = agreed_index(matched, self.electorate)
        if agreed > state.log.commit and self.countable(agreed):
            state.log.commit = agreed

    def countable(self, index: int) -> bool:
        """Raft, section 5.4.2: entries of earlier terms are only committed by one of ours above them."""
        return self._state.log.writer(index) == (self._state.term, self._state.run.branch)
