"""Partition modes: which nodes continue when nodes lose their links to each other.

    pause_minority      only a strict majority of the members; the others close their clients and wait
    pause_if_all_down   only nodes that see one of the listed nodes
    ignore              all nodes, with the nodes they can see, until an operator restarts a side
    autoheal            all nodes; when the sides meet again one of them wins (`autoheal`)
    auto                pause_minority from three members on, autoheal with two

A mode decides two things: whether this node may serve clients now, and how many voters must agree before
the metadata changes. A member counts whether it runs or not, as in RabbitMQ: of three nodes, one alone is a
minority even if the other two were stopped in good order.

`ConnectivityMatrix` handles a third case: A sees B and C, but B and C do not see each other. No mode
applies, because no node is cut off, yet a ring that goes from B to C makes no progress. The leader, which
sees both, isolates one of them.
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
"""Time that two nodes may be disconnected before one of them is isolated: longer than the failure detectors
of both sides take, and than a link takes to be dialled again."""


class PartitionHandling(NamedTuple):
    """Setting `cluster_partition_handling` with its parameters."""

    mode: str = AUTO
    nodes: frozenset[str] = frozenset()
    """Nodes of which one must be seen (pause_if_all_down)."""
    recover: str = IGNORE
    """Mode for two sides that both saw a listed node (pause_if_all_down)."""

    def in_force(self, members: Collection[str]) -> str:
        """Return the mode for a cluster of these members."""
        if self.mode != AUTO:
            return self.mode
        return PAUSE_MINORITY if len(members) > PAIR else AUTOHEAL

    def may_go_on(self, me: str, members: Collection[str], reachable: Collection[str]) -> bool:
        """Return whether this node may serve clients, given the nodes that it can reach."""
        mode = self.in_force(members)
        seen = frozenset(members) & {me, *reachable}
        if mode == PAUSE_MINORITY:
            return is_quorum(seen, frozenset(members))
        if mode == PAUSE_IF_ALL_DOWN:
            listed = self.nodes.intersection(members)
            return not listed or bool(listed & seen)
        return True

    def heals(self, members: Collection[str]) -> bool:
        """Return whether the arbiter chooses a winner by itself when two sides meet again."""
        mode = self.in_force(members)
        return mode == AUTOHEAL or (mode == PAUSE_IF_ALL_DOWN and self.recover == AUTOHEAL)

    def quorum(self) -> QuorumRule:
        """Return the quorum rule of the metadata."""
        if self.mode == PAUSE_MINORITY:
            return Majority()
        if self.mode == AUTO:
            return Automatic()
        return ReachableIf(self) if self.mode == PAUSE_IF_ALL_DOWN else Reachable()


class ReachableIf(Reachable):
    """Quorum rule `Reachable`, limited to nodes that may continue."""

    def __init__(self, handling: PartitionHandling) -> None:
        self._handling = handling

    def may_go_on(self, voters: Names, reachable: Names, me: str) -> bool:
        return self._handling.may_go_on(me, voters, reachable)


def partitioned(me: str, reachable: Collection[str], forked: Collection[str], running: Names) -> list[str]:
    """Return the nodes that this node is partitioned from, for `cluster_status` and `/api/nodes`: forked
    nodes, and nodes that run according to the metadata but cannot be reached."""
    return sorted({*forked, *(name for name in running if name != me and name not in reachable)})


class ConnectivityMatrix:
    """Links between nodes, as the leader knows them, and the nodes to isolate so that all others see each
    other."""

    def __init__(self) -> None:
        self._seen: dict[str, frozenset[str]] = {}
        self._apart_since: dict[tuple[str, str], int] = {}

    def report(self, node: str, reachable: Collection[str]) -> None:
        """Record the nodes that a node can reach."""
        self._seen[node] = frozenset(reachable)

    def forget(self, node: str) -> None:
        """Drop the report of a node that is unreachable itself, or gone."""
        self._seen.pop(node, None)

    def nodes_to_isolate(self, running: Collection[str], now_ms: int) -> frozenset[str]:
        """Return the nodes that must stop serving until they see all other nodes again."""
        apart = self._apart(running)
        self._apart_since = {pair: self._apart_since.get(pair, now_ms) for pair in apart}
        lasting = {pair for pair, since in self._apart_since.items() if now_ms - since >= DISAGREEMENT_MS}
        isolated: set[str] = set()
        # Greedy: isolating a node resolves all of its pairs, so the node with the fewest links goes first.
        while lasting:
            weakest = self._weakest({name for pair in lasting for name in pair}, running, isolated)
            isolated.add(weakest)
            lasting = {pair for pair in lasting if weakest not in pair}
        return frozenset(isolated)

    def _apart(self, running: Collection[str]) -> list[tuple[str, str]]:
        reporting = sorted(name for name in running if name in self._seen)
        return [
            (node, other)
            for position, node in enumerate(reporting)
            for other in reporting[position + 1 :]
            if other not in self._seen[node] or node not in self._seen[other]
        ]

    def _weakest(self, names: Collection[str], running: Collection[str], gone: set[str]) -> str:
        """Return the node with the fewest links; of several, the one with the greatest name."""
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
    """Return whether this node's application may start: it must reach every running node. An isolated node
    restarts when it does."""
    return all(name == me or name in reachable for name in running)
