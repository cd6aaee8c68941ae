"""Simulated machine: a disk that survives, and a process on it that may fail.

The process is the real code without sockets and files: consensus log, member, cluster controller, and the
application that the controller starts and stops. As in the runtime, input for the application is followed by
a turn of the broker, and input for the controller by its work.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Protocol

from mirrormq.cluster.controller import ApplicationHost, ClusterController
from mirrormq.cluster.member import TICK_MS, Member
from mirrormq.cluster.partitions import PartitionHandling
from mirrormq.consensus import DurableState, Snapshot
from mirrormq.protocol_version import PROTOCOL_VERSION
from mirrormq.simulator.network import Network
from mirrormq.simulator.older_metadata import make_older
from mirrormq.simulator.tight_limits import RunLimits
from mirrormq.simulator.virtual_time import VirtualTime
from mirrormq.storage.consensus_log import ConsensusLog
from mirrormq.storage.simulated_disk import SimulatedDisk

METADATA = "metadata"
"""Directory of the consensus log on a node's disk."""


class HostedApplication(ApplicationHost, Protocol):
    """Application, as the simulated process drives it."""

    def up(self, peer: str) -> None:
        """Process a new link."""

    def down(self, peer: str) -> None:
        """Process a lost link."""

    def receive(self, peer: str, message: Any) -> bool:
        """Process a message. Return False if it is not for the application."""

    def peer_alarms(self, alarms: dict[str, tuple[str, ...]]) -> None:
        """Process a change of the other nodes' alarms."""

    def turn(self) -> bool:
        """End a turn. Return True if more work is due at once."""


class SimulatedHost(Protocol):
    """Simulated world, as its nodes see it."""

    timeline: VirtualTime
    network: Network
    handling: PartitionHandling
    limits: RunLimits

    def first_state(self) -> Snapshot:
        """Return the initial state of a node with an empty disk."""

    def make_application(self, node: SimulatedNode) -> HostedApplication:
        """Return the application of a starting process."""


def plain_log(node: SimulatedNode) -> ConsensusLog:
    """Return the consensus log of a node."""
    return ConsensusLog(node.disk, METADATA)


class SimulatedNode:
    def __init__(
        self,
        world: SimulatedHost,
        name: str,
        seed: str,
        make_log: Callable[[SimulatedNode], ConsensusLog] = plain_log,
    ) -> None:
        self.world = world
        self._make_log = make_log
        self.name = name
        self.choice = random.Random(seed)
        self.disk = self._new_disk()
        self._newcomer = False
        """Whether the node belongs to no cluster until one admits it."""
        self.running = False
        self.version = PROTOCOL_VERSION
        """Protocol version of the next process."""
        self.flush_ms = 0
        """Longest duration of a turn on a slow disk, which delays everything."""
        self._boots = 0
        self._turn_planned = False
        self._work_planned = False
        self._wake_planned_ms: int | None = None
        self._busy_until_ms = 0
        self.log: ConsensusLog
        self.member: Member
        self.application: HostedApplication
        self.controller: ClusterController

    # -- process --------------------------------------------------------------------------------

    def start(self) -> None:
        """Start a process on this disk."""
        world = self.world
        self._boots += 1
        self.running = True
        self._turn_planned = self._work_planned = False
        self._wake_planned_ms = None
        self._busy_until_ms = 0
        self.log = self._make_log(self)
        # As in the runtime, the clock gives each start new proposal numbers, on a wiped or restored disk too.
        self.log.open(Snapshot if self._newcomer else world.first_state, boots=world.timeline.now_ms)
        rule, choose = world.handling.quorum(), self.choice.randrange
        self.member = Member(
            self.name, self.log, rule, choose, self.send, self.mark_dirty,
            address=f"{self.name}:1", limits=world.limits.cluster,
            minority_begins=self._minority_begins,
        )  # fmt: skip
        self.member.version = self.version
        if self.version < PROTOCOL_VERSION:
            make_older(self.member.metadata.state)
        self.application = world.make_application(self)
        self.controller = ClusterController(
            self.member, world.handling, self.application, choose, self.send, self.application.peer_alarms
        )
        world.network.attach(self.name, self)
        self.controller.want(True)
        self._tick()

    def die(self, *, power: bool) -> None:
        """Kill the process, or cut the machine's power, which may lose data that was not synced."""
        if not self.running:
            return
        self.running = False
        self.world.network.detach(self.name, silently=power)
        if power:
            self.disk.crash()
        else:
            self.disk.kill()

    def compact(self) -> None:
        """Replace the applied part of the metadata log by a snapshot."""
        member = self.member
        member.consensus.compact(member.consensus.applied_index, member.metadata.state.snapshot())
        member.tick()
        member.work()

    def wipe(self) -> None:
        """Replace the disk of a stopped machine by an empty one. The node then belongs to no cluster."""
        self.disk = self._new_disk()
        self._newcomer = True

    def _new_disk(self) -> SimulatedDisk:
        disk = SimulatedDisk(self.choice.randrange)
        disk.now_ms = lambda: self.world.timeline.now_ms
        return disk

    def later(self, delay_ms: int, action: Callable[[], None]) -> None:
        """Run an action of this process after a delay, if the process still runs then."""
        boots = self._boots

        def do() -> None:
            if not self.running or self._boots != boots:
                return
            if self.name in self.world.network.frozen:
                self.world.timeline.after(1 + self.choice.randrange(20), do)
            else:
                action()

        self.world.timeline.after(delay_ms, do)

    def _tick(self) -> None:
        self.controller.tick(self.world.timeline.now_ms)
        self.later(TICK_MS, self._tick)

    def _minority_begins(self) -> None:
        self.controller.partition_started()

    # -- links ----------------------------------------------------------------------------------

    def send(self, peer: str, message: Any, urgent: bool = True) -> None:
        """Send a message to another node, if there is a link."""
        self.world.network.send(self.name, peer, message, urgent)

    def statement(self) -> DurableState:
        return self.member.consensus.durable_state

    def up(self, peer: str, session: int, stated: DurableState | None) -> None:
        self.controller.up(peer, session, stated)
        self.application.up(peer)
        self.mark_dirty()
        self.wake()

    def down(self, peer: str, *, silent: bool) -> None:
        self.controller.down(peer, silent=silent)
        self.application.down(peer)
        self.mark_dirty()
        self.wake()

    def receive(self, peer: str, message: Any) -> None:
        if self.application.receive(peer, message):
            self.wake()
        else:
            self.controller.receive(peer, message)
            self.mark_dirty()

    # -- turns ----------------------------------------------------------------------------------

    def wake(self) -> None:
        """Schedule a turn of the application."""
        if not self._turn_planned:
            self._turn_planned = True
            self.later(self._busy_ms, self._turn)

    def mark_dirty(self) -> None:
        """Schedule work of the cluster controller."""
        if not self._work_planned:
            self._work_planned = True
            self.later(self._busy_ms, self._work)

    @property
    def _busy_ms(self) -> int:
        return max(0, self._busy_until_ms - self.world.timeline.now_ms)

    def wake_at(self, when_ms: int) -> None:
        """Schedule a turn at a later time."""
        planned = self._wake_planned_ms
        if planned is None or when_ms < planned or planned <= self.world.timeline.now_ms:
            self._wake_planned_ms = when_ms
            self.later(when_ms - self.world.timeline.now_ms, self.wake)

    def _turn(self) -> None:
        self._turn_planned = False
        if self.application.turn():
            self.wake()
        self._rest()

    def _work(self) -> None:
        self._work_planned = False
        if self.controller.work():
            self.wake()
        if self.controller.work_pending:
            self.mark_dirty()
        self._rest()

    def _rest(self) -> None:
        if self.flush_ms:
            self._busy_until_ms = self.world.timeline.now_ms + self.choice.randrange(self.flush_ms)
