"""Quorum rules. The operator's partition mode changes nothing else in the consensus core.

A rule returns the *electorate* of an election: a strict majority of it elects a leader, and a strict
majority of it commits until that leader's term ends. `Majority` always returns all voters: two electorates
then overlap, and Raft's proofs hold. `Reachable` returns all voters while a majority of them can be
reached. Otherwise it returns only the reachable ones, down to one node alone. Two electorates may then be
disjoint, and both sides of a partition continue; `log_history.py` tells their logs apart.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

Names = frozenset[str]

PAIR = 2
"""Number of voters at which a majority cannot lose one of them."""


class QuorumRule(Protocol):
    """Rule that returns the electorate, given the voters, the reachable nodes without a fork, and this
    node."""

    def electorate(self, voters: Names, reachable: Names, me: str) -> Names: ...

    def may_go_on(self, voters: Names, reachable: Names, me: str) -> bool:
        """Tell whether this node may become candidate or stay leader at all."""


class Majority:
    """Quorum of a strict majority of all voters (partition mode pause_minority)."""

    def electorate(self, voters: Names, reachable: Names, me: str) -> Names:
        return voters

    def may_go_on(self, voters: Names, reachable: Names, me: str) -> bool:
        return True


class Reachable:
    """Quorum of all voters if a majority is reachable, else of the reachable voters (modes ignore and
    autoheal)."""

    def electorate(self, voters: Names, reachable: Names, me: str) -> Names:
        present = voters & (reachable | {me})
        return voters if is_quorum(present, voters) else present

    def may_go_on(self, voters: Names, reachable: Names, me: str) -> bool:
        return True


class Automatic(Reachable):
    """Quorum of all voters in clusters of three or more, of the reachable voters in a pair (mode auto)."""

    def electorate(self, voters: Names, reachable: Names, me: str) -> Names:
        return voters if len(voters) > PAIR else super().electorate(voters, reachable, me)


def is_quorum(agreeing: Collection[str], electorate: Names) -> bool:
    """Tell whether a strict majority of the electorate agrees."""
    return 2 * len(electorate.intersection(agreeing)) > len(electorate)


def agreed_index(matched: Mapping[str, int], electorate: Names) -> int:
    """Return the highest index that a strict majority of the electorate has."""
    indexes = sorted((matched.get(name, -1) for name in electorate), reverse=True)
    return indexes[len(indexes) // 2] if indexes else -1
