"""Simulated world for the consensus core: nodes, forgetful disks, and a network driven by a seed.

Time advances in rounds. In each round nodes tick (some miss one, so clocks drift) and due messages arrive
in any order. `Weather` sets how many messages are lost, duplicated and late. Checkers watch every step.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import msgspec

from mirrormq.consensus import (
    Consensus,
    ConsensusError,
    Majority,
    Message,
    RaftRole,
    RaftSettings,
    Ready,
    decode_message,
    encode_message,
    founded,
)
from tests.consensus import checkers
from tests.consensus.disk import ForgetfulDisk

Key = tuple[str, int]

SMALL = RaftSettings(append_bytes_max=200, inflight_max=4, chunk_bytes_max=64, trailing_bytes=200)
"""Small limits, so that a short run reaches them."""


class Weather(msgspec.Struct, frozen=True):
    """Treatment of messages by the network: chances in percent, delays in rounds."""

    loss: int = 0
    doubling: int = 0
    delay: int = 0
    missed_ticks: int = 0


class Node:
    """Node with its state machine: the list of applied commands."""

    def __init__(self, name: str, disk: ForgetfulDisk) -> None:
        self.name = name
        self.disk = disk
        self.core: Consensus | None = None
        self.machine: list[Key] = []
        self.ready_log: list[Ready] = []
        """Readys with something for the runtime to know: forks, healed, settled, members."""

    def state(self) -> bytes:
        return msgspec.msgpack.encode(self.machine)


class World:
    """Nodes in one simulated network."""

    def __init__(
        self,
        names: Iterable[str] = "ABC",
        *,
        rule: Callable[[], object] = Majority,
        seed: int = 0,
        node_type: type[Consensus] = Consensus,
        settings: RaftSettings = SMALL,
        weather: Weather | None = None,
    ) -> None:
        self.random = random.Random(seed)
        self.rule, self.node_type, self.settings = rule, node_type, settings
        self.weather = weather or Weather()
        self.names = list(names)
        self.now = 0
        self.group: dict[str, int] = {}
        self.drop: Callable[[str, str, Message], bool] = lambda sender, to, message: False
        self.crash_chance = 0
        """Chance of a crash while one Ready is processed, in per mille."""
        self._mail: list[tuple[int, str, str, bytes]] = []
        self._watch(rule is Majority)
        self.nodes = {name: Node(name, ForgetfulDisk(founded(self.names))) for name in self.names}
        for name in self.names:
            self.restart(name)

    def _watch(self, majority: bool) -> None:
        self.matching = checkers.LogMatching()
        self.once = checkers.ExactlyOnce()
        self.kept = checkers.NothingTakenBack()
        self._looking: list[object] = [checkers.ElectionSafety(majority), checkers.LeaderAppendOnly()]
        self._applying: list[object] = [self.once]
        if majority:
            self._looking.append(checkers.LeaderCompleteness())
            self._applying.append(checkers.StateMachineSafety())

    # Node events

    def join(self, name: str) -> None:
        """Start a new, empty node."""
        self.names.append(name)
        self.nodes[name] = Node(name, ForgetfulDisk(None))
        self.restart(name)

    def restart(self, name: str) -> None:
        node = self.nodes[name]
        chance = random.Random(self.random.random())
        choose = chance.randrange
        node.core = self.node_type(name, node.disk, self.rule(), choose, self.settings)  # type: ignore[arg-type]
        node.machine = self._decoded(node.disk.snapshot().state)
        self.pump(node)

    def crash(self, name: str) -> None:
        node = self.nodes[name]
        node.core = None
        node.disk.crash(self.random.randrange)

    def partition(self, *groups: str, notify: bool = True) -> None:
        """Partition the network into groups; nodes that are not named are alone."""
        self.group = {name: -1 - number for number, name in enumerate(self.names)}
        self.group |= {name: number for number, group in enumerate(groups) for name in group}
        if notify:
            self.tell_reachable()

    def heal(self) -> None:
        self.group = {}
        self.tell_reachable()

    def connected(self, one: str, other: str) -> bool:
        return self.group.get(one) == self.group.get(other)

    def tell_reachable(self) -> None:
        """Update all failure detectors to the current links."""
        for name in self.names:
            self.notify(name)

    def notify(self, name: str) -> None:
        core = self.nodes[name].core
        if core is not None:
            alive = (other for other in self.names if self.nodes[other].core is not None)
            core.set_reachable(frozenset(other for other in alive if self.connected(name, other)))
            self.pump(self.nodes[name])

    def reset(self, loser: str, winner: str) -> None:
        """Reset a node to the winner's state, as the partition mode decides."""
        self.kept.reset(loser)
        self[loser].reset_to(self[winner].export(self.nodes[winner].state()))
        self.pump(self.nodes[loser])

    def propose(self, name: str) -> Key | None:
        """Propose a command; return None if the node refuses it now."""
        try:
            number = self[name].propose(b"x" * self.random.randrange(40))
        except ConsensusError:
            return None
        self.once.proposed((name, number))
        self.pump(self.nodes[name])
        return name, number

    # Time

    def round(self) -> None:
        self.now += 1
        for name in self.names:
            core = self.nodes[name].core
            if core is not None and self.random.randrange(100) >= self.weather.missed_ticks:
                core.tick()
                self.pump(self.nodes[name])
        due = [letter for letter in self._mail if letter[0] <= self.now]
        self._mail = [letter for letter in self._mail if letter[0] > self.now]
        self.random.shuffle(due)
        for _, sender, to, data in due:
            self._deliver(sender, to, data)

    def run(self, rounds: int) -> None:
        for _ in range(rounds):
            self.round()

    def until(self, condition: Callable[[], object], rounds: int = 400) -> None:
        """Advance time until a condition holds."""
        for _ in range(rounds):
            if condition():
                return
            self.round()
        raise checkers.Violation(f"did not come about in {rounds} rounds: {self.describe()}")

    def _deliver(self, sender: str, to: str, data: bytes) -> None:
        node, message = self.nodes[to], decode_message(data)
        if node.core is None or not self.connected(sender, to) or self.drop(sender, to, message):
            return
        node.core.step(sender, message)
        self.pump(node)

    def _post(self, sender: str, to: str, message: Message) -> None:
        data, chance = encode_message(message), self.random.randrange
        copies = 1 + (chance(100) < self.weather.doubling)
        for _ in range(copies):
            if to in self.nodes and chance(100) >= self.weather.loss:
                self._mail.append((self.now + chance(self.weather.delay + 1), sender, to, data))

    def pump(self, node: Node) -> None:
        """Process a node's Readys until it has no work left."""
        while node.core is not None:
            self._look(node)
            ready = node.core.ready()
            if ready.empty:
                return node.core.advance()
            if not self._work(node, ready):
                return self.crash(node.name)
            node.core.advance()
        return None

    def _work(self, node: Node, ready: Ready) -> bool:
        """Process one Ready in its order. Return False if the node crashed meanwhile."""
        crash_at = self.random.randrange(3) if self.random.randrange(1000) < self.crash_chance else None
        for entry in ready.entries:
            self.matching.wrote(node, entry)
        if crash_at == 0:
            node.disk.write(ready)
            return False
        node.disk.save(ready)
        for number, (to, message) in enumerate(ready.messages):
            if crash_at == 1 and number >= len(ready.messages) // 2:
                return False
            self._post(node.name, to, message)
        if crash_at is not None:
            return False
        self._apply(node, ready)
        if ready.forks or ready.healed or ready.settled or ready.members:
            node.ready_log.append(ready)
        return True

    def _apply(self, node: Node, ready: Ready) -> None:
        if ready.restore:
            assert ready.snapshot is not None
            node.machine = self._decoded(ready.snapshot.state)
        for entry in ready.committed:
            for checker in self._applying:
                checker.applied(node, entry.index, (entry.origin, entry.number))  # type: ignore[attr-defined]
            node.machine.append((entry.origin, entry.number))
        if ready.restore or ready.committed:
            self.kept.changed(node)

    def _look(self, node: Node) -> None:
        for checker in self._looking:
            checker.look(node)  # type: ignore[attr-defined]

    @staticmethod
    def _decoded(state: bytes) -> list[Key]:
        return msgspec.msgpack.decode(state, type=list[Key]) if state else []

    # Queries

    def __getitem__(self, name: str) -> Consensus:
        core = self.nodes[name].core
        assert core is not None, f"{name} is down"
        return core

    def leaders(self) -> list[str]:
        return [
            n for n, node in self.nodes.items() if node.core is not None and node.core.role is RaftRole.LEADER
        ]

    def leader(self) -> str:
        """Wait for the one leader that all live nodes know and that has committed an entry; return it."""
        self.until(self._agreed)
        return self.leaders()[0]

    def _agreed(self) -> bool:
        known = {node.core.leader for node in self.nodes.values() if node.core is not None}
        if len(known) != 1 or known != set(self.leaders()):
            return False
        core = self[self.leaders()[0]]
        return core.state.log.writer(core.commit_index) == core.state.run.writer

    def settle(self, *names: str) -> None:
        """Wait until the nodes (all, if none is named) have applied the same commands."""
        self.until(lambda: self.equal(*names), 1000)

    def equal(self, *names: str) -> bool:
        nodes = [self.nodes[name] for name in names or self.names]
        logs = {(self[n.name].state.log.last, self[n.name].commit_index) for n in nodes}
        same = all(node.machine == nodes[0].machine for node in nodes)
        return same and len(logs) == 1 and all(last == commit for last, commit in logs)

    def write(self, name: str) -> Key:
        """Propose a command, and wait until its origin has applied it."""
        made: list[Key] = []

        def done() -> bool:
            if not made and (key := self.propose(name)) is not None:
                made.append(key)
            return bool(made) and made[0] in self.nodes[name].machine

        self.until(done)
        return made[0]

    def describe(self) -> str:
        parts = []
        for name, node in self.nodes.items():
            if node.core is None:
                parts.append(f"{name}: down")
                continue
            core, log = node.core, node.core.state.log
            parts.append(
                f"{name}: {core.role.name} term {core.term} leader {core.leader} log {log.last} "
                f"commit {log.commit} run {log.runs[-1:]} forks {sorted(core.forks)}"
            )
        return "\n".join(parts)
