"""Leader election: election timeout, pre-vote, then votes.

Pre-vote: a node sends pre-vote requests to its peers before it enters a new term. A node that returns
from a partition therefore does not depose a working leader. No node grants a pre-vote or a vote while it
receives heartbeats from its leader. A vote counts only when it is on disk; `advance()` counts the node's
own.
"""

from __future__ import annotations

from mirrormq.consensus.log_history import LogRelation
from mirrormq.consensus.quorum import is_quorum
from mirrormq.consensus.raft_messages import Branch, Nothing, PreVote, Vote, VoteReply
from mirrormq.consensus.raft_settings import BRANCH_IDS
from mirrormq.consensus.raft_state import RaftRole, RaftState

NOT_STANDING = 0
"""Term of a pre-vote that no node grants. The request only exchanges log histories."""


class Elections:
    """Election state of one node, as candidate and as voter."""

    def __init__(self, state: RaftState) -> None:
        self._state = state
        self._ticks = 0
        self._granted: set[str] = set()
        self._electorate: frozenset[str] = frozenset()
        self.rest()

    def rest(self) -> None:
        """Restart the election timeout with a new random length."""
        self.silence = 0
        ticks = self._state.settings.election_ticks
        self._patience = ticks + self._state.choose(ticks)

    def tick(self) -> None:
        """Advance the election timeout of a node that does not lead by one tick."""
        self._ticks += 1
        if self._state.forks.known and self._ticks % self._state.settings.heartbeat_ticks == 0:
            self._exchange_histories()
        self.silence += 1
        if self.silence >= self._patience:
            self.start_pre_vote()

    def _exchange_histories(self) -> None:
        """Request the log histories of forked peers.

        A leader receives them in the replies to its heartbeats. Two followers of one leader would otherwise
        never learn that their fork has healed.
        """
        state = self._state
        for peer in sorted(state.forks.known):
            state.send(peer, PreVote(NOT_STANDING, state.log.history()))

    def flush_now(self) -> None:
        """Stand for election because the failure detector reports that the leader is gone.

        The first remaining voter by name stands at once. The others follow one after another, in case it
        cannot win. Later attempts are random again.
        """
        state = self._state
        state.leader = None
        if state.name not in state.voters:
            return
        if not self._stagger():
            self.start_pre_vote()

    def _stagger(self) -> int:
        """Shorten the election timeout by this node's place among the voters present; return that place.

        A candidate also does this after a refusal by another candidate, or because of a later term: no leader
        exists that it must wait for.
        """
        state = self._state
        place = sum(name < state.name for name in state.present)
        self.silence, self._patience = 0, place * state.settings.stagger_ticks
        return place

    def peer_returned(self) -> None:
        """Start a pre-vote soon, because the vote of a peer that was forked may be the missing one."""
        if self._state.leader is None:
            self._stagger()

    def start_pre_vote_soon(self) -> None:
        """Start a pre-vote soon after this leader saw a later term.

        The node in that term may not want to lead: it returned from a fork or a partition. Without this, the
        cluster waits for a full election timeout.
        """
        self._patience = self._state.settings.stagger_ticks

    def start_pre_vote(self) -> None:
        """Send pre-vote requests: find out whether an election can be won before entering a new term."""
        state = self._state
        abstains = state.durable_states.abstains
        if state.name not in state.voters or state.leading or not state.may_go_on or abstains:
            return self.rest()
        state.role, state.leader = RaftRole.PRECANDIDATE, None
        self._begin({state.name})
        request = PreVote(state.term + 1, state.log.history())
        for voter in sorted(state.voters - {state.name}):
            state.send(voter, request)
        return self._tally()

    def campaign(self, transfer: bool = False) -> None:
        """Enter a new term and request votes."""
        state = self._state
        if state.name not in state.voters or state.durable_states.abstains:
            return
        if state.leading:
            state.replication.stop()
        state.enter(state.term + 1)
        state.role, state.vote, state.leader = RaftRole.CANDIDATE, state.name, None
        self._begin(set())
        request = Vote(state.term, state.log.history(), transfer)
        for voter in sorted(state.voters - {state.name}):
            state.send(voter, request)

    def _begin(self, granted: set[str]) -> None:
        state = self._state
        self._granted = granted
        self._electorate = state.electorate
        self.rest()

    def own_vote_persisted(self, term: int, vote: str | None) -> None:
        """Count this node's own vote, which is on disk now."""
        state = self._state
        if state.role is RaftRole.CANDIDATE and (term, vote) == (state.term, state.name):
            self._granted.add(state.name)
            self._tally()

    def _tally(self) -> None:
        state = self._state
        # Votes of a majority make the term whole, even if the electorate was smaller when the election began.
        whole = is_quorum(self._granted, state.voters)
        if not whole and not is_quorum(self._granted, self._electorate):
            return
        if state.role is RaftRole.PRECANDIDATE:
            self.campaign()
        elif state.role is RaftRole.CANDIDATE:
            self._win(whole)

    def _win(self, whole: bool) -> None:
        """Become leader. Open a new branch unless a majority of all voters continues a whole branch."""
        state = self._state
        state.role, state.leader = RaftRole.LEADER, state.name
        if whole and state.run.whole:
            state.log.write(state.term, state.run.branch, Nothing())
        else:
            opened = Branch(1 + state.choose(BRANCH_IDS), state.run.branch, state.log.last, whole)
            state.log.write(state.term, opened.branch, opened)
        state.replication.start(None if whole else self._electorate)
        state.proposals.lead()
        self.silence = 0

    def asked_early(self, sender: str, request: PreVote) -> None:
        state = self._state
        verdict = state.forks.judge(sender, request.history).verdict
        willing = verdict is LogRelation.FOLLOW
        granted = willing and request.term > state.term and not self._content(sender)
        granted = granted and self._both_count(sender)
        term = request.term if granted else state.term
        state.send(sender, VoteReply(term, granted, True, state.log.history()))
        standing = request.term != NOT_STANDING and state.role is not RaftRole.CANDIDATE
        if verdict is LogRelation.LEAD and state.leader is None and standing and not self._stands_soon:
            # The sender cannot win against this longer log, and may have become able to vote only now.
            self._stagger()

    @property
    def _stands_soon(self) -> bool:
        """Whether the election timeout is short. Another shortening would begin it anew, and candidates that
        ask again and again would keep this node from standing."""
        state = self._state
        return self._patience - self.silence <= len(state.present) * state.settings.stagger_ticks

    def asked(self, sender: str, request: Vote) -> None:
        state = self._state
        verdict = state.forks.judge(sender, request.history).verdict
        # A forked or unneeded candidate must not raise our term: it would depose a working leader.
        if verdict is not LogRelation.FORK and not (self._content(sender) and not request.transfer):
            if request.term > state.term:
                state.follow(request.term, None)
            if self._may_vote(sender, request, verdict):
                state.vote = sender
                self.rest()
                return state.send(sender, VoteReply(state.term, True, False, state.log.history()))
        return state.send(sender, VoteReply(state.term, False, False, state.log.history()))

    def _may_vote(self, sender: str, request: Vote, verdict: LogRelation) -> bool:
        state = self._state
        free = state.vote in (None, sender) and state.leader is None and self._both_count(sender)
        return verdict is LogRelation.FOLLOW and request.term == state.term and free

    def _both_count(self, sender: str) -> bool:
        """Tell whether neither this node nor the candidate has lost part of its durable state."""
        durable_states = self._state.durable_states
        return sender not in durable_states.behind and not durable_states.abstains

    def _content(self, sender: str) -> bool:
        """Tell whether this node has a live leader that other candidates must not depose."""
        state = self._state
        if state.leading:
            return True
        heard = self.silence < state.settings.election_ticks
        return state.leader not in (None, sender) and heard

    def answered(self, sender: str, reply: VoteReply) -> None:
        state = self._state
        if state.forks.judge(sender, reply.history).verdict is LogRelation.FORK:
            return
        if reply.granted and sender not in state.durable_states.behind:
            asked = (
                (RaftRole.PRECANDIDATE, state.term + 1) if reply.early else (RaftRole.CANDIDATE, state.term)
            )
            if (state.role, reply.term) == asked:
                self._granted.add(sender)
                self._tally()
        elif reply.term > state.term:
            state.follow(reply.term, None)
            self._stagger()
        elif not reply.early and (state.role, reply.term) == (RaftRole.CANDIDATE, state.term):
            self._stagger()
