"""Disk faults: a lost journal, a damaged record, an older copy of a node's whole disk.

Each hits one node: alone, while every node is stopped at once, or after all were stopped in good order and
the victim was the last one. The guarantee (confirmed-is-kept, G1) covers them as long as another synchronised
member keeps its disk. So a fault waits until that holds for every durable queue of its victim, and does not
happen if it never does. Messages that are confirmed while nodes are stopped in order may be on the victim's
disk only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from mirrormq.cluster.lifecycle import LifecyclePhase
from mirrormq.metadata.state import MetadataState
from mirrormq.simulator.fault_plan import Fault
from mirrormq.simulator.membership_churn import ChurnHost
from mirrormq.simulator.network import ROUND_MS, Network
from mirrormq.simulator.simulated_application import SimulatedApplication
from mirrormq.simulator.simulated_node import METADATA, SimulatedNode
from mirrormq.storage.simulated_disk import SimulatedDisk

JOURNAL = "journal"
DIRECTORIES = (METADATA, JOURNAL, "orphanage")
"""Directories on a node's disk."""

RETRY_MS = 50
RETRIES = 60
"""Retries of a fault that the guarantee does not cover: three seconds."""

SHUTDOWN_MS = 3000
"""Time limit of a stop in good order; then the node is killed. A node without a leader waits for one."""


class DiskSnapshots(ChurnHost, Protocol):
    """Nodes with disks, and the links between them."""

    network: Network

    def single_copy(self, from_ms: int, to_ms: int) -> None:
        """Excuse messages confirmed in this time: they may have been on one disk only, which failed."""

    def excuse_reports(self, from_ms: int, to_ms: int) -> None:
        """Excuse reports of deliveries in this time: no disk may have them."""


class _DiskCopy(NamedTuple):
    """Copy of a node's durable files, by directory."""

    taken_ms: int
    unsynced_since_ms: int
    """Time of the oldest change that the copy lacks because it was not synced."""
    files: dict[str, dict[str, bytes]]


class _Shutdown(NamedTuple):
    """Stop of all nodes, with the counts of earlier changes and disk faults."""

    began_ms: int
    changes: int
    happened: int


class DiskFaults:
    """Disk faults of one run; `stop` ends a process, `start` begins one. `changes` counts the operator's
    changes: a policy or the membership may remove a copy that a fault relies on."""

    def __init__(
        self,
        cabinet: DiskSnapshots,
        stop: Callable[[str, bool], None],
        start: Callable[[str, int], None],
        changes: Callable[[], int],
    ) -> None:
        self._cabinet = cabinet
        self._stop = stop
        self._start = start
        self._changes = changes
        self._older: dict[int, _DiskCopy] = {}
        """Copies of disks, by the number of the fault that will put them back."""
        self.happened = 0
        """Number of faults that were carried out, and damaged something."""

    def begin(self, fault: Fault) -> None:
        """Take the disk copy that `end` puts back."""
        disk, now = self._cabinet.nodes[fault.nodes[0]].disk, self._cabinet.timeline.now_ms
        files = {name: disk.snapshot(name) for name in DIRECTORIES}
        self._older[fault.number] = _DiskCopy(now, disk.unsynced_since_ms(), files)

    def end(self, fault: Fault, retries: int = RETRIES) -> None:
        """Stop the victim, or every node, damage the victim's disk, and start the stopped nodes."""
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
        for place, name in enumerate(names):
            self._start(name, 1 + place * (fault.dice >> 8) % 1500)

    def shut_down(self, fault: Fault, retries: int = RETRIES) -> None:
        """Stop all nodes in good order, the victim last; damage its disk, and start all of them."""
        victim, *others = fault.nodes
        if not self._covered(victim) or not self._is_mirrored(victim):
            if retries:
                self._cabinet.timeline.after(RETRY_MS, lambda: self.shut_down(fault, retries - 1))
            return
        now = self._cabinet.timeline.now_ms
        self._stop_in_order(fault, [*others, victim], _Shutdown(now, self._changes(), self.happened))

    def _stop_in_order(self, fault: Fault, left: list[str], shutdown: _Shutdown) -> None:
        """Stop the first of the remaining nodes, and wait for it."""
        if not left:
            self._end_shutdown(fault, shutdown)
            return
        node, now = self._cabinet.nodes[left[0]], self._cabinet.timeline.now_ms
        if node.running:
            node.controller.want(False)
            node.mark_dirty()
        self._await_stop(fault, left, shutdown, now + SHUTDOWN_MS)

    def _await_stop(self, fault: Fault, left: list[str], shutdown: _Shutdown, until_ms: int) -> None:
        node, timeline = self._cabinet.nodes[left[0]], self._cabinet.timeline
        stops = node.running and node.controller.serving.phase is not LifecyclePhase.IDLE
        if stops and timeline.now_ms < until_ms:
            timeline.after(RETRY_MS, lambda: self._await_stop(fault, left, shutdown, until_ms))
            return
        self._cabinet.note(f"{node.name} has stopped{', not in good order' if stops else ''}")
        self._stop(node.name, False)
        self._stop_in_order(fault, left[1:], shutdown)

    def _end_shutdown(self, fault: Fault, shutdown: _Shutdown) -> None:
        if (self._changes(), self.happened) == (shutdown.changes, shutdown.happened):
            self._cabinet.single_copy(shutdown.began_ms, self._cabinet.timeline.now_ms)
            self._spoil(self._cabinet.nodes[fault.nodes[0]].disk, fault)
        names = fault.nodes if fault.dice & 1 else fault.nodes[::-1]
        for place, name in enumerate(names):
            self._start(name, 1 + place * (fault.dice >> 8) % 1500)

    def _is_mirrored(self, victim: str) -> bool:
        """Return whether the policy in force wants mirrors."""
        policies = self._cabinet.nodes[victim].member.metadata.state.policies.values()
        return all("ha-mode" in policy.definition for policy in policies)

    def _spoil(self, disk: SimulatedDisk, fault: Fault) -> None:
        way, name = (fault.dice >> 2) % 3, fault.nodes[0]
        if way == 0:
            self._cabinet.note(f"{name} loses its journal")
            disk.lose_directory(JOURNAL)
        elif way == 1 and disk.garble_record(JOURNAL) is None:
            self._cabinet.note(f"{name} has no message that could be damaged")
            return
        elif way == 1:
            self._cabinet.note(f"{name} has a garbled journal")
        else:
            self._cabinet.note(f"{name} gets an older copy of its disk")
            copy = self._older[fault.number]
            # A delivery does not wait for the disk, so the copy may lack its record.
            self._cabinet.excuse_reports(copy.unsynced_since_ms - ROUND_MS, copy.taken_ms)
            for directory, files in copy.files.items():
                disk.restore(directory, files)
        self.happened += 1

    def _covered(self, victim: str) -> bool:
        """Return whether every node serves, in one history, every durable queue is in sync on another node,
        and the victim has no orphans."""
        nodes, frozen = self._cabinet.nodes.values(), self._cabinet.network.frozen
        application = self._cabinet.nodes[victim].application
        if isinstance(application, SimulatedApplication) and application.has_orphans():
            return False  # no other node has them
        if frozen or not all(node.running and node.controller.serving.running for node in nodes):
            return False
        if len({node.member.leader for node in nodes}) > 1 or any(
            node.member.consensus.forks for node in nodes
        ):
            return False
        return all(_is_on_other_node(node, victim) for node in nodes)


def _is_on_other_node(node: SimulatedNode, victim: str) -> bool:
    """Return whether a node knows for every durable queue of the victim that another living member is in
    sync."""
    state: MetadataState = node.member.metadata.state
    living = {(found.name, found.incarnation) for found in state.nodes.values() if found.running}
    for queue in state.queues.values():
        ring = queue.ring
        holders = {*ring.members, *(former.node for former in queue.former)}
        if victim not in holders or not queue.survives_restart:
            continue
        others = ring.in_sync - {victim}
        if queue.waits_for or not any((name, ring.incarnation_of(name)) in living for name in others):
            return False
    return True
