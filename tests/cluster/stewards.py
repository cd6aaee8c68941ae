"""Stewards in one process: real members on simulated disks and links, applications that only take notes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec

from mirrormq.cluster.messages import ClusterMessage
from mirrormq.cluster.partitions import Handling
from mirrormq.cluster.steward import StewardMessage
from mirrormq.consensus import Snapshot, founded
from mirrormq.metadata import commands as c
from mirrormq.metadata.records import CopyReport, Policy, Queue, Vhost
from mirrormq.metadata.records import Node as NodeRecord
from mirrormq.metadata.state import State
from mirrormq.simulator.network import Network
from mirrormq.simulator.node import Node
from mirrormq.simulator.timeline import Timeline


class Notes:
    """An application that does nothing but note what it is told."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.clients = 0
        self.told: list[str] = []
        self.life = 0
        self.serving = False

    def start(self, life: int) -> None:
        self.life, self.serving = life, True
        self.told.append(f"start {life}")

    def stop(self, reason: str) -> None:
        self.serving = False
        self.told.append(f"stop: {reason}")
        self.node.later(5, self.node.steward.serving.stopped)

    def give_up(self, winner: State, done: Callable[[], None]) -> None:
        self.serving = False
        self.told.append(f"give up to {len(winner.queues)} queues")
        self.node.later(5, done)

    def part(self) -> None:
        self._note_once("part")

    def whole(self) -> None:
        self._note_once("whole")

    def _note_once(self, word: str) -> None:
        if [told for told in self.told if told in ("part", "whole")][-1:] != [word]:
            self.told.append(word)

    def up(self, peer: str) -> None: ...
    def down(self, peer: str) -> None: ...

    def receive(self, peer: str, message: Any) -> bool:
        return False

    def turn(self) -> bool:
        """Report the copies of queues that are down, as a broker does."""
        metadata, name = self.node.member.metadata, self.node.name
        for queue in metadata.state.queues.values() if self.serving else ():
            reported = any((copy.node, copy.life) == (name, self.life) for copy in queue.copies)
            if queue.waits_for and name in queue.ring.members and not reported:
                copy = CopyReport(name, self.life, 1, 0, 0)
                metadata.write(c.ReportCopies([(queue.queue_id, copy)]))
        return False


class Cluster:
    """Nodes a, b, c …"""

    def __init__(self, count: int, handling: Handling | None = None, seed: int = 1) -> None:
        self.handling = handling or Handling()
        self.timeline = Timeline()
        self.choice = random.Random(seed)
        encoder, decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(ClusterMessage | StewardMessage)
        self.network = Network(self.timeline, self.choice.randrange, encoder.encode, decoder.decode)
        self.names = [chr(ord("a") + number) for number in range(count)]
        self.nodes = {name: Node(self, name, f"{seed} {name}") for name in self.names}
        for node in self.nodes.values():
            node.start()
        self.until(lambda: self.serving() == self.names)
        self.write("a", c.PutVhost(Vhost("/")))

    def first_state(self) -> Snapshot:
        state = State()
        for name in self.names:
            state.apply(c.PutNode(NodeRecord(name, f"{name}:1", running=True)))
        return founded(self.names, 77, state.snapshot())

    def make_house(self, node: Node) -> Notes:
        return Notes(node)

    # -- events ---------------------------------------------------------------------------------

    def run(self, milliseconds: int) -> None:
        self.timeline.run_until(self.timeline.now_ms + milliseconds)

    def until(self, condition: Callable[[], object], most_ms: int = 60_000) -> int:
        """Let time pass until something holds; says how long that took."""
        began = self.timeline.now_ms
        while not condition():
            assert self.timeline.now_ms - began < most_ms, f"not in {most_ms} ms:\n{self.describe()}"
            self.run(1)
        return self.timeline.now_ms - began

    def cut(self, *groups: str) -> None:
        """Two-way, between the groups."""
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
        """The master says that all of its mirrors have everything."""
        record = self.state(at).queues["/", queue]
        view = record.ring.with_standing(frozenset(record.ring.members), {})
        self.write(at, c.ChangeViews([c.ViewChange(record.queue_id, view)]))

    # -- what there is --------------------------------------------------------------------------

    def house(self, name: str) -> Notes:
        house = self.nodes[name].house
        assert isinstance(house, Notes)
        return house

    def state(self, name: str) -> State:
        return self.nodes[name].member.metadata.state

    def serving(self) -> list[str]:
        """The nodes whose applications run."""
        return [name for name, node in self.nodes.items() if node.running and self.house(name).serving]

    def ring(self, queue: str, at: str) -> str:
        """Members, master first, synchronised ones in capitals, as a node knows it."""
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
            serving, core = node.steward.serving, node.member.consensus
            lives = [f"{n.name}:{n.life}{'+' if n.running else '-'}" for n in self.state(name).nodes.values()]
            found.append(
                f"{name}: {serving.phase.name} life {serving.life} {serving.hindrance()!r}, {core.role.name} "
                f"term {core.term} leader {core.leader}, linked {sorted(node.member.linked)}, forks "
                f"{sorted(core.forks)}, nodes {' '.join(lives)}"
            )
        return "\n".join(found)
