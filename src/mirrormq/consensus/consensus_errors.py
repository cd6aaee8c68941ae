"""Errors of the consensus core.

ConsensusError
├── NotLeader          retry on the node named in `leader`, or wait until a leader is elected
├── Busy               too many proposals of this node are in flight; wait until some are applied
├── ChangePending      one membership change at a time; retry once the earlier one is committed
└── UnsafeTruncation   a bug or a damaged disk: the node stops rather than drop applied entries
"""

from __future__ import annotations


class ConsensusError(Exception):
    """Base class of the errors that the consensus core raises."""


class NotLeader(ConsensusError):
    """Refusal because another node leads, or because no leader is known (`leader` is None)."""

    def __init__(self, leader: str | None) -> None:
        super().__init__(f"the leader is {leader}" if leader else "no leader is known")
        self.leader = leader


class Busy(ConsensusError):
    """Refusal because the window of unapplied proposals is full, or a leadership transfer is in progress."""


class ChangePending(ConsensusError):
    """Refusal because a membership change is uncommitted, or the leader has no committed entry of its own
    term."""


class UnsafeTruncation(ConsensusError):
    """Request of a leader that would drop applied entries. Never caught: the node must stop."""
