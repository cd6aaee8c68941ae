"""Disk faults: a journal that is lost, a record that is garbled, an older copy of a node's whole disk.

Each hits one node, alone or while every node is stopped at once. The guarantee (G1) covers them as long as
another member that is in sync keeps its disk, so a fault waits until that holds for every durable queue of
its victim, and does not happen if it never does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mirrormq.metadata.state import MetadataState
from mirrormq.simulator.fault_plan import Fault
from mirrormq.simulator.membership_churn import ChurnHost
from mirrormq.simulator.network import Network
from mirrormq.simulator.simulated_node import METADATA, SimulatedNode
from mirrormq.storage.simulated_disk import SimulatedDisk

JOURNAL = "journal"
DIRECTORIES = (METADATA, JOURNAL, "orphanage")
"""Everything on a node's disk."""

RETRY_MS = 50
RETRIES = 60
"""A fault that the guarantee does not cover is tried again for three seconds."""


class DiskSnapshots(ChurnHost, Protocol):
    """Nodes with disks, and the links between them."""

    network: Network


class DiskFaults:
    """Disk faults of one run; `stop` ends a process, `start` begins one."""

    def __init__(
        self, cabinet: DiskSnapshots, stop: Callable[[str, bool], None], start: Callable[[str, int], None]
    ) -> None:
        self._cabinet = cabinet
        self._stop = stop
        self._start = start
        self._older: dict[int, dict[str, dict[str, bytes]]] = {}
        """Copies of disks, by the number of the fault that will put them back."""
        self.happened = 0
        """Faults that were carried out."""

    def begin(self, fault: Fault) -> None:
        """Take the copy that is put back later."""
        disk = self._cabinet.nodes[fault.nodes[0]].disk
        self._older[fault.number] = {name: disk.snapshot(name) for name in DIRECTORIES}

    def end(self, fault: Fault, retries: int = RETRIES) -> None:
        """Stop the victim, or every node, spoil the victim's disk, and start what was stopped."""
        victim = fault.nodes[0]
        if not self._covered(victim):
            if retries:
                self._cabinet.timeline.after(RETRY_MS, lambda: self.end(fault, retries - 1))
            return
        names = [*fault.nodes[1:], victim] if fault.kind == "disks" else [victim]
        if fault.dice & 1:
            names.reverse()
        for name in names:
            self._stop(name, bool(fault.dice & 2) and name != victim)
        self._spoil(self._cabinet.nodes[victim].disk, fault)
        self.happened += 1
        for place, name in enumerate(names):
            self._start(name, 1 + place * (fault.dice >> 8) % 1500)

    def _spoil(self, disk: SimulatedDisk, fault: Fault) -> None:
        way = (fault.dice >> 2) % 3
        if way == 0:
            self._cabinet.note(f"{fault.nodes[0]} loses its journal")
            disk.lose_directory(JOURNAL)
        elif way == 1:
            self._cabinet.note(f"{fault.nodes[0]} has a garbled journal")
            disk.garble_record(JOURNAL)
        else:
            self._cabinet.note(f"{fault.nodes[0]} gets an older copy of its disk")
            for directory, files in self._older[fault.number].items():
                disk.restore(directory, files)

    def _covered(self, victim: str) -> bool:
        """Does every node serve, in one history, and is every durable queue in sync on another one?"""
        nodes, frozen = self._cabinet.nodes.values(), self._cabinet.network.frozen
        if frozen or not all(node.running and node.controller.serving.running for node in nodes):
            return False
        if len({node.member.leader for node in nodes}) > 1 or any(
            node.member.consensus.forks for node in nodes
        ):
            return False
        return all(_is_on_other_node(node, victim) for node in nodes)


def _is_on_other_node(node: SimulatedNode, victim: str) -> bool:
    """Does a node know of every durable queue of the victim that another living member is in sync?"""
    state: MetadataState = node.member.metadata.state
    living = {(found.name, found.incarnation) for found in state.nodes.values() if found.running}
    for queue in state.queues.values():
        ring = queue.ring
        if victim not in ring.members or not queue.survives_restart:
            continue
        others = ring.in_sync - {victim}
        if queue.waits_for or not any((name, ring.incarnation_of(name)) in living for name in others):
            return False
    return True
