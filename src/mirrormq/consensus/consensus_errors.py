"""What the core refuses, and the one thing it must never live through.

ConsensusError
├── NotLeader          ask the node named in `leader`, or wait for one
├── Busy               too much of this node's own is on its way; wait for some of it
├── ChangePending      one membership change at a time, and this is not yet the time
└── UnsafeTruncation   a bug or a damaged disk: the node stops rather than forget what it applied
"""

from __future__ import annotations


class ConsensusError(Exception):
    """Anything this package refuses to do."""


class NotLeader(ConsensusError):
    """Somebody else leads, or nobody does (`leader` is None)."""

    def __init__(self, leader: str | None) -> None:
        super().__init__(f"the leader is {leader}" if leader else "no leader is known")
        self.leader = leader


class Busy(ConsensusError):
    """The window of proposals that are not settled is full, or leadership is being handed over."""


class ChangePending(ConsensusError):
    """A membership change is not committed yet, or the leader's own term has nothing committed."""


class UnsafeTruncation(ConsensusError):
    """Following this leader would drop applied entries. Never caught: the node must stop."""
