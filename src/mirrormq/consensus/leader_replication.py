"""Raft leader: replicates its log to the followers and advances the commit index.

The leader builds messages in `ready()`, not when a proposal arrives, so that all proposals since the last
call share them. A refusal carries the follower's log history; the leader computes the next index from it at
once. An entry is committed when it is of the leader's own term and a strict majority of the term's
electorate has it on disk. The leader's own disk counts from `advance()` on.
"""

from __future__ import annotations

from mirrormq.consensus.follower_progress import Mode, Progress
from mirrormq.consensus.log_history import NOTHING, LogRelation
from mirrormq.consensus.quorum import agreed_index, is_quorum
from mirrormq.consensus.raft_messages import Append, AppendReply, ChunkReply, TimeoutNow
from mirrormq.consensus.raft_state import RaftState


class LeaderReplication:
    """Replication state of a node while it leads."""

    def __init__(self, state: RaftState) -> None:
        self._state = state
        self.followers: dict[str, Progress] = {}
        self._electorate: frozenset[str] | None = None
        """Electorate of this term if it is smaller than all voters, else None."""
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
        """Whether fewer than a majority of all voters elected this leader."""
        return self._electorate is not None

    @property
    def electorate(self) -> frozenset[str]:
        voters = self._state.voters
        return voters if self._electorate is None else self._electorate & voters

    def start(self, electorate: frozenset[str] | None) -> None:
        """Start a term as leader."""
        self._electorate, self._voters = electorate, self._state.voters
        self.followers = {peer: Progress(next=self._state.log.last) for peer in self._state.peers}
        self._since_heartbeat = self._since_check = 0

    def stop(self) -> None:
        self.followers.clear()
        self._electorate = self._successor = None
        self._state.transfer.forget()

    def members_changed(self) -> None:
        """Apply a new membership, which takes effect when it is written."""
        peers = self._state.peers
        self.followers = {
            peer: self.followers.get(peer) or Progress(next=self._state.log.last) for peer in peers
        }
        if self._electorate is not None:
            self._electorate |= self._state.voters - self._voters
        self._voters = self._state.voters

    def close(self, learner: str) -> bool:
        """Tell whether a learner has nearly all of the log."""
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
        """Step down if fewer than a quorum of the electorate replied since the last check."""
        state = self._state
        heard = self._heard()
        for progress in self.followers.values():
            progress.active = False
        if not is_quorum(heard, self.electorate) or not state.may_go_on:
            state.follow(state.term, None)

    def _heard(self) -> set[str]:
        """Return the nodes that have replied since the last check, this node included."""
        heard = {peer for peer, progress in self.followers.items() if progress.active}
        return heard - self._state.durable_states.behind | {self._state.name}

    def _seek_majority(self) -> None:
        """Stand for election again when a majority is present. A leader of a minority may fork from the other
        side."""
        state = self._state
        if self.partial and is_quorum(self._heard() & state.present, state.voters):
            state.elections.campaign()

    def presence_changed(self, back: frozenset[str]) -> None:
        """React to the failure detector without waiting for the next quorum check.

        Peers that are back have lost the messages that were in flight to them, so the leader probes them
        again.
        """
        state = self._state
        if not state.may_go_on:
            return state.follow(state.term, None)
        if is_quorum(state.present, self.electorate):
            for peer in back & self.followers.keys():
                self.followers[peer].probe(max(self.followers[peer].match, 0) + 1)
            return None
        # The electorate never shrinks within a term (invariant 8): fewer voters need a new election.
        smaller = state.electorate
        if is_quorum(state.present, smaller):
            return state.elections.campaign()
        return state.follow(state.term, None)

    def hand_over(self, to: str) -> None:
        """Transfer leadership to `to` as soon as its log is complete."""
        if to not in self.followers or to not in self._state.voters:
            raise ValueError(f"{to} is not another voter")
        self._successor, self._handing_ticks = to, 0
        self._hand_over_if_caught_up(to)

    def _hand_over_if_caught_up(self, peer: str) -> None:
        if peer == self._successor and self.followers[peer].match == self._state.log.last:
            self._state.send(peer, TimeoutNow(self._state.term))

    def flush(self) -> None:
        """Build the messages that are due."""
        for peer, progress in self.followers.items():
            # Only a probe carries the history; its reply shows when a forked peer has been reset.
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
        """Send the first snapshot chunk; restart if the follower requested no chunk during a whole
        heartbeat."""
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
        """Send the next entries. Return False if the log no longer holds them."""
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
        """Process a follower's reply to an Append or to a snapshot."""
        state = self._state
        common = NOTHING
        if reply.history is not None:
            judged = state.forks.judge(sender, reply.history)
            common = judged.common
            if judged.verdict is LogRelation.FORK:
                return None  # a forked follower receives our history with each heartbeat, and nothing else
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
        """Commit the entries that a majority of the electorate has on disk, if this term wrote the last of
        them."""
        state = self._state
        behind = state.durable_states.behind
        matched = {peer: progress.match for peer, progress in self.followers.items() if peer not in behind}
        matched[state.name] = state.log.stable
        agreed = agreed_index(matched, self.electorate)
        if agreed > state.log.commit and self.countable(agreed):
            state.log.commit = agreed

    def countable(self, index: int) -> bool:
        """Tell whether this term wrote `index`. Entries of earlier terms are only committed by a later one of
        ours (Raft, section 5.4.2)."""
        return self._state.log.writer(index) == (self._state.term, self._state.run.branch)
