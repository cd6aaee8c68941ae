"""States of a ring member: its operations, compared with those of the master.

The view decides who is a member, who is master, and who is synchronised. This state is what a member knows
about its own operations. A diverged member does not recover: its replica makes a new ring, which is fresh.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class MemberState(Enum):
    """State of one node's membership in one ring."""

    FRESH = "fresh"
    """No batch has arrived yet. The member begins at the start of a neighbour's whole log (invariant 7)."""
    FOLLOWING = "following"
    """The member has the history of the epoch, and every operation is the master's."""
    BEHIND = "behind"
    """A new epoch has begun, and its history has not arrived. The member sends nothing (invariant 6)."""
    DIVERGED = "diverged"
    """The member has operations that the master lacks, or lacks some that no member can send any longer."""
    MASTER = "master"
    """The member orders the operations."""


FRESH: Final = MemberState.FRESH
FOLLOWING: Final = MemberState.FOLLOWING
BEHIND: Final = MemberState.BEHIND
DIVERGED: Final = MemberState.DIVERGED
MASTER: Final = MemberState.MASTER

TRANSITIONS: Final[Mapping[MemberState, frozenset[MemberState]]] = {
    FRESH: frozenset({FOLLOWING, BEHIND, MASTER}),
    FOLLOWING: frozenset({BEHIND, DIVERGED, MASTER}),
    BEHIND: frozenset({FOLLOWING, DIVERGED, MASTER}),
    DIVERGED: frozenset({BEHIND, MASTER}),
    MASTER: frozenset({BEHIND}),
}
"""States that may follow a state. The view of a later epoch leads to BEHIND or MASTER, a batch of the left
neighbour to FOLLOWING or DIVERGED, or to BEHIND if it lacks the history of the epoch. FRESH may become
MASTER: a policy or an operator can promote a member that is not synchronised."""
