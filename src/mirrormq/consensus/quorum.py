"""Who has to agree. The only thing that the operator's partition mode changes in the core.

A rule names the *electorate* of an election: a strict majority of it elects, and a strict majority of it
commits for as long as that leader's term lasts. `Majority` always names all voters: two electorates
then overlap, and Raft's proofs hold. `Reachable` names all voters while a majority of them can be
reached, and only the reachable ones otherwise, down to a node alone: two electorates may then be
disjoint, both sides of a partition go on, and `history.py` is what keeps the two stories apart.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

Names = frozenset[str]

PAIR = 2
"""So many nodes have no majority that can lose one."""


class QuorumRule(Protocol):
    """Names the electorate, given the voters, who can be reached (and is not forked), and who asks."""

    def electorate(self, voters: Names, reachable: Names, me: str) -> Names: ...

    def may_go_on(self, voters: Names, reachable: Names, me: str) -> bool:
        """Whether this node may stand, or stay leader, at all."""


class Majority:
    """Nothing less than a strict majority of all voters: pause_minority."""

    def electorate(self, voters: Names, reachable: Names, me: str) -> Names:
        return voters

    def may_go_on(self, voters: Names, reachable: Names, me: str) -> bool:
        return True


class Reachable:
    """All voters if a majority of them can be reached, else those who can: ignore, autoheal."""

    def electorate(self, voters: Names, reachable: Names, me: str) -> Names:
        present = voters & (reachable | {me})
        return voters if is_quorum(present, voters) else present

    def may_go_on(self, voters: Names, reachable: Names, me: str) -> bool:
        return True


class Automatic(Reachable):
    """A majority where there can be one without everybody, the reachable ones of two: auto."""

    def electorate(self, voters: Names, reachable: Names, me: str) -> Names:
        return voters if len(voters) > PAIR else super().electorate(voters, reachable, me)


def is_quorum(agreeing: Collection[str], electorate: Names) -> bool:
    """Whether a strict majority of the electorate is among those who agree."""
    return 2 * len(electorate.intersection(agreeing)) > len(electorate)


def agreed_index(matched: Mapping[str, int], electorate: Names) -> int:
    """The highest index that a strict majority of the electorate has."""
    indexes = sorted((matched.get(name, -1) for name in electorate), reverse=True)
    return indexes[len(indexes) // 2] if indexes else -1
