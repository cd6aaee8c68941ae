"""Mutants of the consensus core, each with one fault, to show that the checkers notice it."""

from __future__ import annotations

import msgspec

from mirrormq.consensus import Consensus, Ready
from mirrormq.consensus.elections import Elections
from mirrormq.consensus.forks import Forks
from mirrormq.consensus.leader_replication import LeaderReplication
from mirrormq.consensus.log_history import LogComparison, LogHistory, LogRelation, common_index
from mirrormq.consensus.proposals import AppliedOnce, Proposals
from mirrormq.consensus.raft_messages import Command, PreVote, Vote, VoteReply


class ForgetsVotes(Consensus):
    """Does not persist the vote."""

    def ready(self) -> Ready:
        ready = super().ready()
        if ready.hard_state is not None:
            ready.hard_state = msgspec.structs.replace(ready.hard_state, vote=None)
        return ready


class CountsAnything(LeaderReplication):
    def countable(self, index: int) -> bool:
        return True


class CountsOldTerms(Consensus):
    """Commits entries of earlier terms by counting."""

    replication_type = CountsAnything


class PlainOrder(Forks):
    def judge(self, peer: str, theirs: LogHistory) -> LogComparison:
        mine = self._state.log.history()
        verdict = LogRelation.FOLLOW if theirs.rank >= mine.rank else LogRelation.LEAD
        return LogComparison(verdict, common_index(mine, theirs))


class IgnoresBranches(Consensus):
    """Compares logs as plain Raft does; the last guard is still active."""

    forks_type = PlainOrder


class MergesSilently(IgnoresBranches):
    """Compares logs as plain Raft does, without the last guard."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.state.log.guard = lambda index: None  # type: ignore[method-assign]


class NeverSyncs(Consensus):
    """Acknowledges entries before they are synced."""

    def ready(self) -> Ready:
        ready = super().ready()
        ready.must_sync = False
        return ready


class Forgetful(AppliedOnce):
    def has(self, origin: str, number: int) -> bool:
        return False

    def add(self, command: Command, index: int) -> bool:
        super().add(command, index)
        return True


class ForgetfulProposals(Proposals):
    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.applied = Forgetful(self.applied.rows())


class AppliesTwice(Consensus):
    """Does not recognise duplicates."""

    proposals_type = ForgetfulProposals


class Gullible(Elections):
    def asked_early(self, sender: str, request: PreVote) -> None:
        state = self._state
        granted = request.term > state.term and not self._content(sender)
        term = request.term if granted else state.term
        state.send(sender, VoteReply(term, granted, True, state.log.history()))

    def _may_vote(self, sender: str, request: Vote, verdict: LogRelation) -> bool:
        return self._state.vote in (None, sender) and request.term == self._state.term


class VotesForAnyone(Consensus):
    """Ignores the candidate's log."""

    elections_type = Gullible
