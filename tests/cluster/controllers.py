"""Cluster controllers in one process: real members on simulated disks and links, recording applications."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec

from mirrormq.cluster.cluster_messages import ClusterMessage
from mirrormq.cluster.controller import ControllerMessage
from mirrormq.cluster.partitions import PartitionHandling
from mirrormq.consensus import Snapshot, founded
from mirrormq.metadata import commands as c
from mirrormq.metadata.copy_records import CopyReport
from mirrormq.metadata.records import Node as NodeRecord
from mirrormq.metadata.records import Policy, Queue, Vhost
from mirrormq.metadata.state import MetadataState
from mirrormq.simulator.network import LATENCY_MS, Network
from mirrormq.simulator.simulated_node import SimulatedNode
from mirrormq.simulator.tight_limits import RunLimits
from mirrormq.simulator.virtual_time import VirtualTime


class Notes:
    """Application that only records the calls of its controller."""

    def __init__(self, node: SimulatedNode) -> None:
        self.node = node
        self.clients = 0
        self.calls: list[str] = []
        self.incarnation = 0
        self.serving = False
        self.alarms: dict[str, tuple[str, ...]] = {}

    def start(self, incarnation: int) -> None:
        self.incarnation, self.serving = incarnation, True
        self.calls.append(f"start {incarnation}")

    def stop(self, reason: str) -> None:
        self.serving = False
        self.calls.append(f"stop: {reason}")
        self.node.later(5, self.node.controller.serving.stopped)

    def discard_state(self, winner: MetadataState, common: int, done: Callable[[], None]) -> None:
        self.serving = False
        self.calls.append(f"give up to {len(winner.queues)} queues")
        self.node.later(5, done)

    def partition_started(self) -> None:
        self._note_once("part")

    def partition_ended(self) -> None:
        self._note_once("whole")

    def _note_once(self, word: str) -> None:
        if [call for call in self.calls if call in ("part", "whole")][-1:] != [word]:
            self.calls.append(word)

    def up(self, peer: str) -> None: ...
    def down(self, peer: str) -> None: ...

    def peer_alarms(self, alarms: dict[str, tuple[str, ...]]) -> None:
        self.alarms = alarms

    def receive(self, peer: str, message: Any) -> bool:
        return False

    def turn(self) -> bool:
        """Report the copies of queues that are down, as a broker does."""
        metadata, name = self.node.member.metadata, self.node.name
        for queue in metadata.state.queues.values() if self.serving else ():
            reported = any((copy.node, copy.incarnation) == (name, self.incarnation) for copy in queue.copies)
            if queue.waits_for and name in queue.ring.members and not reported:
                copy = CopyReport(name, self.incarnation, 1, 0, 0)
                metadata.write(c.ReportCopies([(queue.queue_id, copy)]))
        return False


class Cluster:
    """Cluster of nodes a, b, c …"""

    def __init__(
        self,
        count: int,
        handling: PartitionHandling | None = None,
        seed: int = 1,
        limits: RunLimits | None = None,
        latency_ms: int = LATENCY_MS,
    ) -> None:
        self.handling = handling or PartitionHandling()
        self.limits = limits or RunLimits()
        self.timeline = VirtualTime()
        self.choice = random.Random(seed)
        encoder, decoder = (
            msgspec.msgpack.Encoder(),
            msgspec.msgpack.Decoder(ClusterMessage | ControllerMessage),
        )
        self.network = Network(
            self.timeline, self.choice.randrange, encoder.encode, decoder.decode, latency_ms
        )
        self.names = [chr(ord("a") + number) for number in range(count)]
        self.nodes = {name: SimulatedNode(self, name, f"{seed} {name}") for name in self.names}
        for node in self.nodes.values():
            node.start()
        self.until(lambda: self.serving() == self.names)
        self.write("a", c.PutVhost(Vhost("/")))

    def first_state(self) -> Snapshot:
        state = MetadataState()
        for name in self.names:
            state.apply(c.PutNode(NodeRecord(name, f"{name}:1", running=True)))
        return founded(self.names, 77, state.snapshot())

    def make_application(self, node: SimulatedNode) -> Notes:
        return Notes(node)

    # -- events ---------------------------------------------------------------------------------

    def run(self, milliseconds: int) -> None:
        self.timeline.run_until(self.timeline.now_ms + milliseconds)

    def until(self, condition: Callable[[], object], most_ms: int = 60_000) -> int:
        """Advance time until a condition holds, and return the time it took."""
        began = self.timeline.now_ms
        while not condition():
            assert self.timeline.now_ms - began < most_ms, f"not in {most_ms} ms:\n{self.describe()}"
            self.run(1)
        return self.timeline.now_ms - began

    def cut(self, *groups: str) -> None:
        """Cut the links between the groups, in both directions."""
        for one in self.names:
            for other in self.names:
                if one != other and not any(one in group and other in group for group in groups):
                    self.network.cut(one, other)

    def heal(self) -> None:
        for one, other in list(self.network.cuts):
            self.network.mend(one, other)

    def write(self, name: str, command: c.Command) -> None:
        done: list[bool] = []
        self.nodes[name].member.metadata.write(command, lambda: done.append(True))
        self.until(lambda: done)

    def mirror_all(self, name: str = "a", **more: object) -> None:
        self.write(name, c.PutPolicy(Policy("/", "ha", ".*", definition={"ha-mode": "all", **more})))

    def declare(self, queue: str, at: str) -> None:
        self.write(at, c.PutQueue(Queue("/", queue, node=at)))

    def synchronise(self, queue: str, at: str) -> None:
        """Report all mirrors of a queue as synchronised, as its master."""
        record = self.state(at).queues["/", queue]
        view = record.ring.with_sync_generation(frozenset(record.ring.members), {})
        self.write(at, c.ChangeViews([c.ViewChange(record.queue_id, view)]))

    # -- queries --------------------------------------------------------------------------------

    def application(self, name: str) -> Notes:
        application = self.nodes[name].application
        assert isinstance(application, Notes)
        return application

    def state(self, name: str) -> MetadataState:
        return self.nodes[name].member.metadata.state

    def serving(self) -> list[str]:
        """Return the nodes whose applications run."""
        return [name for name, node in self.nodes.items() if node.running and self.application(name).serving]

    def ring(self, queue: str, at: str) -> str:
        """Return the members as a node knows them: master first, synchronised ones in capitals."""
        record = self.state(at).queues.get(("/", queue))
        if record is None:
            return ""
        view = record.ring
        return "".join(name.upper() if name in view.in_sync else name for name in view.members)

    def describe(self) -> str:
        found = []
        for name, node in self.nodes.items():
            if not node.running:
                found.append(f"{name}: down")
                continue
            serving, core = node.controller.serving, node.member.consensus
            incarnations = [
                f"{n.name}:{n.incarnation}{'+' if n.running else '-'}"
                for n in self.state(name).nodes.values()
            ]
            found.append(
                f"{name}: {serving.phase.name} {serving.incarnation} {serving.start_blocker()!r}, "
                f"{core.role.name} "
                f"term {core.term} leader {core.leader}, linked {sorted(node.member.linked)}, forks "
                f"{sorted(core.forks)}, nodes {' '.join(incarnations)}"
            )
        return "\n".join(found)
