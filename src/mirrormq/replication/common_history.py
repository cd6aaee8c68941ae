"""History of a ring member: the epochs that it has followed. It shows what two members have in common.

An operation is identified by its number, and numbers continue from one epoch to the next. But a new master
continues where its own log ends, so two masters without contact give one number to two operations. A
history tells them apart: up to the first difference, equal numbers are equal operations.
"""

from __future__ import annotations

History = list[tuple[int, int]]
"""Pairs (epoch, last operation before it), oldest first."""

NOT_AT_ALL = -1
"""Value in place of an operation: not even the state before the first one."""


def agreed(mine: History, theirs: History) -> int | None:
    """Return the operation up to which two histories are equal; None if neither diverges."""
    common = [entry for entry in mine if entry in theirs]
    if not common:
        return NOT_AT_ALL
    after = [history[history.index(common[-1]) + 1 :] for history in (mine, theirs)]
    return min((entries[0][1] for entries in after if entries), default=None)
