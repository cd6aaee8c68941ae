"""Fault injector: carries out the scheduled faults. Each begins and ends, and several may overlap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from mirrormq.metadata import commands as c
from mirrormq.metadata.records import Policy, Queue
from mirrormq.protocol_version import PROTOCOL_VERSION, PROTOCOL_VERSION_OLDEST
from mirrormq.simulator.disk_faults import DiskFaults
from mirrormq.simulator.fault_plan import UPGRADE, Fault
from mirrormq.simulator.membership_churn import ChurnHost, MembershipChurn
from mirrormq.simulator.network import ROUND_MS, SILENCE_MS, Network
from mirrormq.simulator.simulated_node import SimulatedNode

CLOG_MS = 5000
SETTLED_MS = 1000
"""Time after which a ring has closed over a process that died."""

FLUSH_MS = 80
"""Maximum duration of a turn on a slow disk."""

STARTING_MS = 1500
"""Maximum interval between the starts of nodes after a blackout."""

WRITES = 8
"""Range of the draw for a torn write: one of this many next writes and syncs is the last."""

POLICY = "ha"
"""Name of the policy that faults replace."""

MIRRORED = "^[dfimtps]"
"""Pattern of the queues that policies apply to (`workload.mirrored`)."""

POLICIES: list[dict[str, Any]] = [
    {"ha-mode": "all", "ha-sync-mode": "automatic", "ha-promote-on-failure": "when-synced"},
    {
        "ha-mode": "exactly",
        "ha-params": 2,
        "ha-sync-mode": "automatic",
        "ha-promote-on-failure": "when-synced",
    },
    {"ha-mode": "all", "ha-promote-on-failure": "when-synced"},
    {"max-length": 1_000_000},
]
"""Policies of a run. The first is in force at the beginning and at the end. None of them allows the promotion
of an unsynchronised mirror, so that no confirmed message is lost."""


class FaultScene(ChurnHost, Protocol):
    """Environment of the faults."""

    network: Network

    def policy(self, dice: int) -> dict[str, Any]:
        """Return one of the policies of this run."""

    def write(self, command: c.Command) -> None:
        """Write a command through any running node."""

    def excuse_reports(self, from_ms: int, to_ms: int) -> None:
        """Excuse reports that a node sent in this time: they may not have arrived."""

    def single_copy(self, from_ms: int, to_ms: int) -> None:
        """Excuse messages confirmed in this time: they may have been on one disk only, which failed."""


class FaultInjector:
    """Injector with all faults that are active now."""

    def __init__(self, scene: FaultScene) -> None:
        self._scene = scene
        self._held_down: Counter[str] = Counter()
        """Nodes that must not run, with the number of reasons."""
        self._cuts: Counter[tuple[str, str]] = Counter()
        self._frozen: Counter[str] = Counter()
        self._leaving = MembershipChurn(scene, self._held_down)
        self._changes = 0
        """Number of changes of policies and of the membership."""
        self.disk_faults = DiskFaults(
            scene, self._stop_for_a_while, self._start_soon, lambda: self._changes + self._leaving.under_way
        )
        self._begin: dict[str, Callable[[Fault], None]] = {
            "kill": lambda fault: self._die(fault, power=False),
            "power": lambda fault: self._die(fault, power=True),
            "torn": self._die_writing,
            "blackout": self._black_out,
            "freeze": self._freeze,
            "partition": lambda fault: self._cut(self._between(fault), 1),
            "one-way": lambda fault: self._cut([(fault.nodes[0], fault.nodes[-1])], 1),
            "clog": self._clog,
            "reset": self._reset,
            "slow-disk": lambda fault: self._slow(fault, FLUSH_MS),
            "stop": lambda fault: self._want(fault, False),
            "policy": lambda fault: self.set_policy(scene.policy(fault.dice)),
            "move": self._move,
            "leave": lambda fault: self._leaving.begin(fault.nodes[0]),
            "disk": self.disk_faults.begin,
            "disks": self.disk_faults.begin,
            "shutdown": self.disk_faults.begin,
            UPGRADE: self._begin_upgrade,
        }
        self._end: dict[str, Callable[[Fault], None]] = {
            "kill": self._start,
            "power": self._start,
            "torn": self._start_torn,
            "blackout": self._light_up,
            "freeze": self._thaw,
            "partition": lambda fault: self._cut(self._between(fault), -1),
            "one-way": lambda fault: self._cut([(fault.nodes[0], fault.nodes[-1])], -1),
            "clog": self._unclog,
            "slow-disk": lambda fault: self._slow(fault, 0),
            "stop": lambda fault: self._want(fault, True),
            "leave": lambda fault: self._leaving.end(fault.nodes[0]),
            "disk": self.disk_faults.end,
            "disks": self.disk_faults.end,
            "shutdown": self.disk_faults.shut_down,
            UPGRADE: self._end_upgrade,
        }

    def begin_older(self, faults: list[Fault]) -> None:
        """Let the nodes that will be upgraded begin with the oldest protocol version."""
        for fault in faults:
            if fault.kind == UPGRADE:
                self._scene.nodes[fault.nodes[0]].version = PROTOCOL_VERSION_OLDEST

    def plan(self, faults: list[Fault], start_ms: int) -> None:
        """Schedule the faults."""
        for fault in faults:
            self._scene.timeline.at(start_ms + fault.begins_ms, partial(self._do, fault))

    def _do(self, fault: Fault) -> None:
        self._scene.note(f"fault {fault} begins")
        now = self._scene.timeline.now_ms
        self._changes += fault.kind in ("policy", "leave")
        unheard_since = now - ROUND_MS - max(node.flush_ms for node in self._scene.nodes.values())
        if fault.kind in ("partition", "one-way", "clog", "freeze"):
            self._scene.excuse_reports(unheard_since, now + fault.ends_ms - fault.begins_ms + 2 * SILENCE_MS)
        elif fault.kind == "reset":
            self._scene.excuse_reports(unheard_since, now + SETTLED_MS)
        self._begin[fault.kind](fault)
        if fault.kind in self._end:
            self._scene.timeline.after(fault.ends_ms - fault.begins_ms, lambda: self._undo(fault))

    def _undo(self, fault: Fault) -> None:
        self._scene.note(f"fault #{fault.number} {fault.kind} ends")
        self._end[fault.kind](fault)

    # -- faults ---------------------------------------------------------------------------------

    def _die(self, fault: Fault, *, power: bool) -> None:
        name = fault.nodes[0]
        self._held_down[name] += 1
        self._kill(self._scene.nodes[name], power=power)

    def _kill(self, node: SimulatedNode, *, power: bool) -> None:
        now = self._scene.timeline.now_ms
        unnoticed = 2 * SILENCE_MS if power else SETTLED_MS
        unheard_since = now - ROUND_MS - node.flush_ms
        if power:  # the journal records a delivery a moment after the master has made it,
            # but the delivery does not wait for the disk
            unheard_since = min(unheard_since, node.disk.unsynced_since_ms() - ROUND_MS)
        self._scene.excuse_reports(unheard_since, now + unnoticed)
        node.die(power=power)

    def _stop_for_a_while(self, name: str, power: bool) -> None:
        self._held_down[name] += 1
        self._kill(self._scene.nodes[name], power=power)

    def _start_soon(self, name: str, delay_ms: int) -> None:
        self._scene.timeline.after(delay_ms, partial(self._start_one, name))

    def _begin_upgrade(self, fault: Fault) -> None:
        node = self._scene.nodes[fault.nodes[0]]
        if fault.dice & 1:
            node.later(0, node.compact)  # as an event of its own: its writes may be the node's last
        self._scene.timeline.after(1, lambda: self._die(fault, power=False))

    def _end_upgrade(self, fault: Fault) -> None:
        self._scene.nodes[fault.nodes[0]].version = PROTOCOL_VERSION
        self._start(fault)

    def _die_writing(self, fault: Fault) -> None:
        name = fault.nodes[0]
        self._held_down[name] += 1
        disk = self._scene.nodes[name].disk
        disk.crash_at_step = disk.steps + 1 + fault.dice % WRITES

    def crashed(self) -> None:
        """Handle a disk that has stopped its machine."""
        for node in self._scene.nodes.values():
            if node.running and node.disk.steps == node.disk.crash_at_step:
                self._scene.note(f"{node.name} dies while it writes")
                self._kill(node, power=True)

    def _start_torn(self, fault: Fault) -> None:
        self._scene.nodes[fault.nodes[0]].disk.crash_at_step = None
        self._start(fault)

    def _start(self, fault: Fault) -> None:
        self._start_one(fault.nodes[0])

    def _black_out(self, fault: Fault) -> None:
        for name in fault.nodes:
            self._held_down[name] += 1
            self._kill(self._scene.nodes[name], power=True)

    def _light_up(self, fault: Fault) -> None:
        """Start the nodes one after the other, in the drawn order."""
        for place, name in enumerate(fault.nodes):
            pause = place * (fault.dice % STARTING_MS)
            self._scene.timeline.after(pause, partial(self._start_one, name))

    def _start_one(self, name: str) -> None:
        self._held_down[name] -= 1
        self.start(name)

    def start(self, name: str) -> None:
        """Start a node, unless it runs or must not run."""
        if not self._held_down[name] and not self._scene.nodes[name].running:
            self._scene.nodes[name].start()

    def _freeze(self, fault: Fault) -> None:
        self._frozen[fault.nodes[0]] += 1
        self._scene.network.freeze(fault.nodes[0])

    def _thaw(self, fault: Fault) -> None:
        self._frozen[fault.nodes[0]] -= 1
        if not self._frozen[fault.nodes[0]]:
            self._scene.network.thaw(fault.nodes[0])

    def _between(self, fault: Fault) -> list[tuple[str, str]]:
        others = [name for name in self._scene.nodes if name not in fault.nodes]
        ways = [(one, other) for one in fault.nodes for other in others]
        return ways + [(other, one) for one, other in ways]

    def _cut(self, ways: list[tuple[str, str]], change: int) -> None:
        for way in ways:
            self._cuts[way] += change
            if self._cuts[way] == 0:
                self._scene.network.mend(*way)
            else:
                self._scene.network.cut(*way)

    def _clog(self, fault: Fault) -> None:
        way = (fault.nodes[0], fault.nodes[-1])
        self._scene.network.clogs[way] = fault.dice % CLOG_MS

    def _unclog(self, fault: Fault) -> None:
        self._scene.network.clogs.pop((fault.nodes[0], fault.nodes[-1]), None)

    def _reset(self, fault: Fault) -> None:
        if fault.nodes[0] != fault.nodes[-1]:
            self._scene.network.reset(fault.nodes[0], fault.nodes[-1])

    def _slow(self, fault: Fault, flush_ms: int) -> None:
        self._scene.nodes[fault.nodes[0]].flush_ms = flush_ms

    def _want(self, fault: Fault, wanted: bool) -> None:
        node = self._scene.nodes[fault.nodes[0]]
        if node.running:
            node.controller.want(wanted)
            node.mark_dirty()

    # -- operator -------------------------------------------------------------------------------

    def set_policy(self, definition: dict[str, Any]) -> None:
        """Write a policy through any running node."""
        self._scene.write(c.PutPolicy(Policy("/", POLICY, MIRRORED, definition=definition)))

    def _move(self, fault: Fault) -> None:
        from mirrormq.cluster.master_moves import CannotMove, move

        for node in self._scene.nodes.values():
            if node.running:
                state = node.member.metadata.state
                queues: list[Queue] = list(state.queues.values())
                if queues:
                    try:
                        self._scene.write(move(state, queues[fault.dice % len(queues)], fault.nodes[0]))
                    except CannotMove:
                        self._scene.note("it could not be moved")
                return
