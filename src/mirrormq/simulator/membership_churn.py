"""Membership churn: a node leaves its cluster and joins again with an empty disk, during other faults.

    stop      its application, in good order: its masters are handed over
    forget    it: when no queue needs it, its process ends, and another node executes `forget`
    wipe      its disk, when every node has applied that
    join      the process that is started on the empty disk sends join requests to the others

`reset` and `join_cluster` do the same. The steps cannot be undone after the request to forget. Only one node
leaves at a time, and only in modes where a majority always decides: two sides that forget each other are two
clusters.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from mirrormq.cluster.partitions import PAUSE_MINORITY, PartitionHandling
from mirrormq.metadata.records import Queue
from mirrormq.metadata.state import MetadataState
from mirrormq.simulator.simulated_node import SimulatedNode
from mirrormq.simulator.virtual_time import VirtualTime

CHECK_MS = 50
NODES_MIN = 3
"""Minimum size of the cluster: without one of two nodes the other is alone."""


class ChurnHost(Protocol):
    """Environment in which nodes leave and join."""

    timeline: VirtualTime
    nodes: dict[str, SimulatedNode]
    handling: PartitionHandling

    def note(self, text: str) -> None:
        """Record an event in the trace."""


class MembershipChurn:
    """State of the node that leaves or has left."""

    def __init__(self, cluster: ChurnHost, held_down: Counter[str]) -> None:
        self._cluster = cluster
        self._held_down = held_down
        self._who = ""
        self._asked = False
        """Flag: another node has received the request to forget the node."""
        self._wanted_back = False

    @property
    def under_way(self) -> bool:
        """Return whether a node is leaving, or has left and is not back."""
        return bool(self._who)

    def begin(self, name: str) -> None:
        """Start the departure of a node."""
        cluster = self._cluster
        strict = cluster.handling.mode == PAUSE_MINORITY and len(cluster.nodes) >= NODES_MIN
        if not strict or self._who or not cluster.nodes[name].running:
            return
        self._who, self._asked, self._wanted_back = name, False, False
        self._want(False)
        self._pursue()

    def end(self, name: str) -> None:
        """Start the return of the node."""
        if name == self._who:
            self._wanted_back = True

    def _want(self, wanted: bool) -> None:
        node = self._cluster.nodes[self._who]
        if node.running:
            node.controller.want(wanted)
            node.mark_dirty()

    def _pursue(self) -> None:
        """Continue as far as possible now, and schedule the next attempt."""
        others = [node for node in self._cluster.nodes.values() if node.name != self._who]
        if self._asked and all(self._is_forgotten_by(node) for node in others):
            self._cluster.note(f"{self._who} has left: its disk is wiped")
            self._cluster.nodes[self._who].wipe()
            self._return()
            return
        if not self._asked and self._wanted_back:
            self._want(True)
            self._who = ""
            return
        for node in others:
            if node.running and node.controller.serving.running and node.member.leader:
                if self._is_complete(node) and spares(node.member.metadata.state, self._who):
                    self._ask(node)
                break
        self._cluster.timeline.after(CHECK_MS, self._pursue)

    def _is_complete(self, node: SimulatedNode) -> bool:
        """Return whether every node has a vote. While one is still joining, the loss of another may cost the
        majority."""
        return len(node.member.consensus.members.voters) == len(self._cluster.nodes)

    def _is_forgotten_by(self, node: SimulatedNode) -> bool:
        """Return whether a node has applied the removal. Before all have, a node with an empty disk could be
        mistaken for its predecessor. (The runtime distinguishes them in the handshake.)"""
        if not node.running:
            return False
        member = node.member
        return self._who not in {*member.metadata.state.nodes, *member.consensus.members.everyone}

    def _ask(self, node: SimulatedNode) -> None:
        if not self._asked:
            self._asked = True
            self._held_down[self._who] += 1
            self._cluster.nodes[self._who].die(power=False)
        node.member.forget(self._who)
        node.mark_dirty()

    def _return(self) -> None:
        if not self._wanted_back:
            self._cluster.timeline.after(CHECK_MS, self._return)
            return
        node, self._who = self._cluster.nodes[self._who], ""
        self._held_down[node.name] -= 1
        if not self._held_down[node.name]:
            node.start()


def spares(state: MetadataState, name: str) -> bool:
    """Return whether a node does not run, and no queue needs its copies."""
    record = state.nodes.get(name)
    return (
        record is not None
        and not record.running
        and all(_outlives(queue, state, name) for queue in state.queues.values())
    )


def _outlives(queue: Queue, state: MetadataState, name: str) -> bool:
    """Return whether a queue has a master and a synchronised copy on another node."""
    ring = queue.ring
    alive = {
        member
        for member in ring.in_sync - {name}
        if (node := state.nodes.get(member))
        and node.running
        and node.incarnation == ring.incarnation_of(member)
    }
    return ring.master in alive and not queue.waits_for
