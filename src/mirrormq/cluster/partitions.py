"""Partition modes: who may go on when nodes lose sight of each other.

    pause_minority      only a strict majority of the members; the others close their clients and wait
    pause_if_all_down   only who sees one of the listed nodes
    ignore              everybody, on the nodes they can see, until somebody restarts a side
    autoheal            everybody; when the sides meet again one of them wins (`healing`)
    auto                pause_minority from three members on, autoheal with two

Two questions are answered here, and the rest follows from the answers: may this node serve clients now, and
how many have to agree before the metadata changes. A member counts whether it runs or not, as in RabbitMQ:
of three nodes, one alone is a minority even if the other two were stopped in good order.

`ConnectivityMatrix` is about a third kind of trouble: A sees B and C, but B and C do not see each other.
Nobody is cut off and no mode applies, yet a ring that goes from B to C stands still. The leader, who sees
both, lets one of them go.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from mirrormq.consensus.quorum import PAIR, Automatic, Majority, Names, QuorumRule, Reachable, is_quorum

IGNORE, PAUSE_MINORITY, PAUSE_IF_ALL_DOWN, AUTOHEAL, AUTO = (
    "ignore",
    "pause_minority",
    "pause_if_all_down",
    "autoheal",
    "auto",
)

DISAGREEMENT_MS = 5000
"""How long two nodes may be out of each other's sight before one of them has to go: longer than the failure
detector takes on either side, and than a link takes to be dialled again."""


class PartitionHandling(NamedTuple):
    """`cluster_partition_handling` and what belongs to it."""

    mode: str = AUTO
    nodes: frozenset[str] = frozenset()
    """pause_if_all_down: the nodes of which one must be seen."""
    recover: str = IGNORE
    """pause_if_all_down: what becomes of two sides that both saw one."""

    def in_force(self, members: Collection[str]) -> str:
        """The mode for a cluster of these members."""
        if self.mode != AUTO:
            return self.mode
        return PAUSE_MINORITY if len(members) > PAIR else AUTOHEAL

    def may_go_on(self, me: str, members: Collection[str], reachable: Collection[str]) -> bool:
        """May this node serve clients, given whom it can reach?"""
        mode = self.in_force(members)
        seen = frozenset(members) & {me, *reachable}
        if mode == PAUSE_MINORITY:
            return is_quorum(seen, frozenset(members))
        if mode == PAUSE_IF_ALL_DOWN:
            listed = self.nodes.intersection(members)
            return not listed or bool(listed & seen)
        return True

    def heals(self, members: Collection[str]) -> bool:
        """Does one side win by itself when two meet again?"""
        mode = self.in_force(members)
        return mode == AUTOHEAL or (mode == PAUSE_IF_ALL_DOWN and self.recover == AUTOHEAL)

    def quorum(self) -> QuorumRule:
        """Who has to agree on the metadata."""
        if self.mode == PAUSE_MINORITY:
            return Majority()
        if self.mode == AUTO:
            return Automatic()
        return ReachableIf(self) if self.mode == PAUSE_IF_ALL_DOWN else Reachable()


class ReachableIf(Reachable):
    """As `Reachable`, for nodes that may go on."""

    def __init__(self, handling: PartitionHandling) -> None:
        self._handling = handling

    def may_go_on(self, voters: Names, reachable: Names, me: str) -> bool:
        return self._handling.may_go_on(me, voters, reachable)


def partitioned(me: str, reachable: Collection[str], forked: Collection[str], running: Names) -> list[str]:
    """The nodes that this one is partitioned from, for `cluster_status` and `/api/nodes`: those whose
    metadata went another way, and those that run, as the others say, but cannot be reached from here."""
    return sorted({*forked, *(name for name in running if name != me and name not in reachable)})


class ConnectivityMatrix:
    """The leader's: who sees whom, and who has to go so that all others see each other."""

    def __init__(self) -> None:
        self._seen: dict[str, frozenset[str]] = {}
        self._apart_since: dict[tuple[str, str], int] = {}

    def heard(self, node: str, reachable: Collection[str]) -> None:
        """A node says whom it can reach."""
        self._seen[node] = frozenset(reachable)

    def forget(self, node: str) -> None:
        """A node is out of sight itself, or gone: what it said does not matter."""
        self._seen.pop(node, None)

    def nodes_to_isolate(self, running: Collection[str], now_ms: int) -> frozenset[str]:
        """Nodes that must stop serving until they see everybody again."""
        apart = self._apart(running)
        self._apart_since = {pair: self._apart_since.get(pair, now_ms) for pair in apart}
        lasting = {pair for pair, since in self._apart_since.items() if now_ms - since >= DISAGREEMENT_MS}
        found: set[str] = set()
        while lasting:
            victim = self._weakest({name for pair in lasting for name in pair}, running, found)
            found.add(victim)
            lasting = {pair for pair in lasting if victim not in pair}
        return frozenset(found)

    def _apart(self, running: Collection[str]) -> list[tuple[str, str]]:
        there = sorted(name for name in running if name in self._seen)
        return [
            (one, other)
            for at, one in enumerate(there)
            for other in there[at + 1 :]
            if other not in self._seen[one] or one not in self._seen[other]
        ]

    def _weakest(self, names: Collection[str], running: Collection[str], gone: set[str]) -> str:
        """Who has the fewest links; of several, the one with the greatest name."""
        left = [name for name in running if name not in gone]
        links: Mapping[str, int] = {
            name: sum(
                name in self._seen.get(other, ()) and other in self._seen[name]
                for other in left
                if other != name
            )
            for name in names
        }
        fewest = min(links.values())
        return max(name for name, count in links.items() if count == fewest)


def may_start(me: str, running: Collection[str], reachable: Collection[str]) -> bool:
    """May this node's application start? Only if it sees everybody who serves: a node that was told to go
    because it did not comes back when it does."""
    return all(name == me or name in reachable for name in running)
