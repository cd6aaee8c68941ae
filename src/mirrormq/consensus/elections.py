"""How a leader is made: silence, a question first, then votes.

Pre-vote: a node asks whether it would be elected before it enters a new term, so a node that was cut
off comes back without disturbing anyone. Nobody grants that (or a vote) while it hears its leader.
A vote, our own included, counts only when it is on disk: ours is counted in `advance()`.
"""

from __future__ import annotations

from mirrormq.consensus.log_history import LogRelation
from mirrormq.consensus.quorum import is_quorum
from mirrormq.consensus.raft_messages import Branch, Nothing, PreVote, Vote, VoteReply
from mirrormq.consensus.raft_settings import BRANCH_IDS
from mirrormq.consensus.raft_state import RaftRole, RaftState

NOT_STANDING = 0
"""The term of a question that nobody grants: only the histories matter."""


class Elections:
    """One node's part in elections, as candidate and as voter."""

    def __init__(self, state: RaftState) -> None:
        self._state = state
        self._ticks = 0
        self._granted: set[str] = set()
        self._electorate: frozenset[str] = frozenset()
        self.rest()

    def rest(self) -> None:
        """Something was heard: wait a new, random while before missing a leader."""
        self.silence = 0
        ticks = self._state.settings.election_ticks
        self._patience = ticks + self._state.choose(ticks)

    def tick(self) -> None:
        """Time passes, and this node does not lead."""
        self._ticks += 1
        if self._state.forks.known and self._ticks % self._state.settings.heartbeat_ticks == 0:
            self._compare_notes()
        self.silence += 1
        if self.silence >= self._patience:
            self.stand()

    def _compare_notes(self) -> None:
        """Ask those who went another way for their history. A leader hears it in the answers to its
        heartbeats; two who follow would never learn that they follow the same one again."""
        state = self._state
        for peer in sorted(state.forks.known):
            state.send(peer, PreVote(NOT_STANDING, state.log.history()))

    def flush_now(self) -> None:
        """The failure detector says that there is no leader: the first of those who are left stands at once,
        the others one after another, in case it cannot win. Later attempts are at random again."""
        state = self._state
        state.leader = None
        if state.name not in state.voters:
            return
        if not self._stagger():
            self.stand()

    def _stagger(self) -> int:
        """Stand soon, one after another by name; says at which place. Also after a refusal by another
        candidate or because of a later term: that need not wait for as long as for a leader."""
        state = self._state
        place = sum(name < state.name for name in state.present)
        self.silence, self._patience = 0, place * state.settings.stagger_ticks
        return place

    def peer_returned(self) -> None:
        """A peer that went another way is back, and its vote may be the one that was missing."""
        if self._state.leader is None:
            self._stagger()

    def stand_again(self) -> None:
        """This node led, and somebody is in a later term who may not want to lead: one that has come back
        from a fork, or that was cut off. The others need not find out by their patience that nobody leads."""
        self._patience = self._state.settings.stagger_ticks

    def stand(self) -> None:
        """Ask first whether an election could be won."""
        state = self._state
        abstains = state.durable_states.abstains
        if state.name not in state.voters or state.leading or not state.may_go_on or abstains:
            return self.rest()
        state.role, state.leader = RaftRole.PRECANDIDATE, None
        self._begin({state.name})
        question = PreVote(state.term + 1, state.log.history())
        for voter in sorted(state.voters - {state.name}):
            state.send(voter, question)
        return self._tally()

    def campaign(self, transfer: bool = False) -> None:
        """Enter a new term and ask for votes."""
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
        """What we voted is on disk now, so our own vote counts."""
        state = self._state
        if state.role is RaftRole.CANDIDATE and (term, vote) == (state.term, state.name):
            self._granted.add(state.name)
            self._tally()

    def _tally(self) -> None:
        state = self._state
        whole = is_quorum(self._granted, state.voters)
        if not whole and not is_quorum(self._granted, self._electorate):
            return
        if state.role is RaftRole.PRECANDIDATE:
            self.campaign()
        elif state.role is RaftRole.CANDIDATE:
            self._win(whole)

    def _win(self, whole: bool) -> None:
        """Lead. Unless the branch goes on whole, open another one."""
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

    def asked_early(self, sender: str, question: PreVote) -> None:
        state = self._state
        willing = state.forks.judge(sender, question.history).verdict is LogRelation.FOLLOW
        granted = willing and question.term > state.term and not self._content(sender)
        granted = granted and self._both_count(sender)
        term = question.term if granted else state.term
        state.send(sender, VoteReply(term, granted, True, state.log.history()))

    def asked(self, sender: str, request: Vote) -> None:
        state = self._state
        verdict = state.forks.judge(sender, request.history).verdict
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
        """Whether neither this node nor the candidate has forgotten what it promised."""
        durable_states = self._state.durable_states
        return sender not in durable_states.behind and not durable_states.abstains

    def _content(self, sender: str) -> bool:
        """Whether we have a leader that others must not disturb."""
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
