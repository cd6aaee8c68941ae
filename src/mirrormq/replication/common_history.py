"""Which epochs a member of a ring has followed: how two members find out what they have in common.

An operation is known by its number, and numbers go on from one epoch to the next. But a new master goes on
from where its own log ends, so two masters that did not hear of each other give one number to two
operations. A history tells them apart: up to the first difference, equal numbers are equal operations.
"""

from __future__ import annotations

HISTORY_MAX = 64
"""Epochs that a history tells of. Who has heard of none of them begins again."""

History = list[tuple[int, int]]
"""(epoch, the last operation before it), oldest first."""

NOT_AT_ALL = -1
"""Instead of an operation: not even the state before the first one."""


def agreed(mine: History, theirs: History) -> int | None:
    """The operation up to which two histories are the same; None: as far as both go."""
    common = [entry for entry in mine if entry in theirs]
    if not common:
        return NOT_AT_ALL
    after = [history[history.index(common[-1]) + 1 :] for history in (mine, theirs)]
    return min((entries[0][1] for entries in after if entries), default=None)
