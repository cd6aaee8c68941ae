"""Several members in one process: real logs on simulated disks, ordered links, cuts and crashes.

Time advances in milliseconds, and nothing takes longer than stated: a message takes `delay_ms`, the end of
a connection is noticed as fast (a killed node closes its sockets), a disk takes no time.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

import msgspec

from mirrormq.cluster.bootstrap import new_cluster
from mirrormq.cluster.cluster_limits import DEFAULT_LIMITS, ClusterLimits
from mirrormq.cluster.cluster_messages import ClusterMessage
from mirrormq.cluster.member import TICK_MS, Member
from mirrormq.cluster.member_events import MemberEvent
from mirrormq.consensus import Automatic, QuorumRule, Snapshot
from mirrormq.metadata import commands as c
from mirrormq.metadata import records as r
from mirrormq.metadata.store import Defaults
from mirrormq.storage.consensus_log import ConsensusLog
from mirrormq.storage.simulated_disk import SimulatedDisk

_decode = msgspec.msgpack.Decoder(ClusterMessage).decode
_encode = msgspec.msgpack.Encoder().encode


class Node:
    """Node whose disk survives a crash and whose member does not."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.disk = SimulatedDisk(random.Random(f"{world.seed} {name}").randrange)
        self.member: Member | None = None
        self.events: list[MemberEvent] = []
        self.frozen = False
        self.awake = False
        self.phase_ms = world.random.randrange(TICK_MS)

    def start(self, first: Callable[[], Snapshot]) -> None:
        log = ConsensusLog(self.disk, "data/metadata")
        log.open(first)
        world = self.world

        def send(peer: str, message: ClusterMessage, urgent: bool) -> None:
            world.post(self.name, peer, message)

        def wake() -> None:
            self.awake = True

        choose = random.Random(world.random.random()).randrange
        address = f"{self.name}:25672"
        rule, limits = world.rule(), world.limits
        self.member = Member(self.name, log, rule, choose, send, wake, address=address, limits=limits)
        self.member.listeners.append(self.events.append)
        self.awake = True


class World:
    """Nodes and the links between them."""

    def __init__(
        self,
        *,
        seed: int = 0,
        rule: Callable[[], QuorumRule] = Automatic,
        delay_ms: int = 1,
        limits: ClusterLimits = DEFAULT_LIMITS,
    ) -> None:
        self.limits = limits
        self.seed, self.rule, self.delay_ms = seed, rule, delay_ms
        self.random = random.Random(seed)
        self.now_ms = 0
        self.nodes: dict[str, Node] = {}
        self.sessions: dict[frozenset[str], int] = {}
        """Session number of the link between each connected pair."""
        self.cuts: set[frozenset[str]] = set()
        self._lanes: dict[tuple[str, str], deque[tuple[int, int, bytes]]] = {}
        self._count = 0
        self.lost = 0
        """Messages that were in flight when a link went down."""

    def __getitem__(self, name: str) -> Member:
        member = self.nodes[name].member
        assert member is not None, f"{name} is down"
        return member

    # -- nodes ----------------------------------------------------------------------------------

    def found(self, name: str) -> None:
        """Start the first node of a cluster."""
        node = self.nodes[name] = Node(self, name)
        node.start(lambda: new_cluster(name, self.random.randrange))
        self[name].metadata.boot(Defaults(r.User("guest")))
        self[name].metadata.write(c.PutNode(r.Node(name, f"{name}:25672", incarnation=1, running=True)))
        self.link()

    def join(self, name: str) -> None:
        """Start a fresh node that joins the others."""
        self.nodes[name] = Node(self, name)
        self.nodes[name].start(Snapshot)
        self.link()

    def crash(self, name: str) -> None:
        """Cut the power of a machine: everything that was not synced is lost."""
        self.end(name)
        self.nodes[name].disk.crash()

    def end(self, name: str) -> None:
        """Kill the process."""
        self.nodes[name].member = None
        for other in self.nodes:
            self._unlink(name, other)

    def restart(self, name: str) -> None:
        """Start again on the same disk."""
        self.nodes[name].disk.kill()
        self.nodes[name].start(lambda: self._fail(name))
        self.link()

    @staticmethod
    def _fail(name: str) -> Snapshot:
        raise AssertionError(f"{name} has lost its log")

    def freeze(self, name: str) -> None:
        """Freeze a node: it does nothing, and its sockets stay open."""
        self.nodes[name].frozen = True

    def suspect(self, name: str) -> None:
        """Let the failure detectors of all other nodes report a node as down."""
        for other in self.nodes:
            self._unlink(name, other)

    # -- links ----------------------------------------------------------------------------------

    def cut(self, *groups: Iterable[str]) -> None:
        """Cut the links between groups at once; nodes that are not named are alone."""
        group = {name: f"alone {name}" for name in self.nodes}
        group |= {name: str(number) for number, names in enumerate(groups) for name in names}
        names = list(self.nodes)
        for one in names:
            for other in names:
                if group[one] != group[other]:
                    self.cuts.add(frozenset((one, other)))
                    self._unlink(one, other)

    def heal(self) -> None:
        self.cuts.clear()
        self.link()

    def link(self) -> None:
        """Connect all pairs of nodes that can be connected."""
        names = list(self.nodes)
        for number, one in enumerate(names):
            for other in names[number + 1 :]:
                pair = frozenset((one, other))
                both = self.nodes[one].member is not None and self.nodes[other].member is not None
                if both and pair not in self.sessions and pair not in self.cuts:
                    self._count += 1
                    self.sessions[pair] = self._count
                    stated = {name: self[name].consensus.durable_state for name in pair}
                    self[one].up(other, self._count, stated[other])
                    self[other].up(one, self._count, stated[one])

    def _unlink(self, one: str, other: str) -> None:
        if self.sessions.pop(frozenset((one, other)), None) is None:
            return
        for pair in ((one, other), (other, one)):
            self.lost += len(self._lanes.pop(pair, ()))
            node = self.nodes[pair[0]]
            if node.member is not None and not node.frozen:
                node.member.down(pair[1])

    def post(self, sender: str, peer: str, message: ClusterMessage) -> None:
        session = self.sessions.get(frozenset((sender, peer)))
        if session is not None:
            lane = self._lanes.setdefault((sender, peer), deque())
            lane.append((self.now_ms + self.delay_ms, session, _encode(message)))

    # -- time -----------------------------------------------------------------------------------

    def step(self) -> None:
        """Advance time by a millisecond."""
        self.now_ms += 1
        for (sender, peer), lane in list(self._lanes.items()):
            node = self.nodes[peer]
            while lane and lane[0][0] <= self.now_ms and not node.frozen:
                _, session, data = lane.popleft()
                if node.member is not None and self.sessions.get(frozenset((sender, peer))) == session:
                    node.member.receive(sender, _decode(data))
        for node in self.nodes.values():
            if node.member is None or node.frozen:
                continue
            if (self.now_ms + node.phase_ms) % TICK_MS == 0:
                node.member.tick()
            while node.awake:
                node.awake = False
                node.member.work()

    def run(self, milliseconds: int) -> None:
        for _ in range(milliseconds):
            self.step()

    def until(self, condition: Callable[[], object], most_ms: int = 20_000) -> int:
        """Advance time until a condition holds, and return the time it took."""
        began_ms = self.now_ms
        while not condition():
            assert self.now_ms - began_ms < most_ms, f"did not come about in {most_ms} ms: {self.describe()}"
            self.step()
        return self.now_ms - began_ms

    # -- queries --------------------------------------------------------------------------------

    def alive(self) -> list[str]:
        return [name for name, node in self.nodes.items() if node.member is not None and not node.frozen]

    def leader(self, *names: str) -> str:
        """Wait until these nodes (or all live ones) agree on a leader, and return it."""
        seen = names or tuple(self.alive())
        self.until(lambda: self.leader_now(*seen))
        return str(self[seen[0]].leader)

    def leader_now(self, *names: str) -> bool:
        known = {self[name].leader for name in names}
        return len(known) == 1 and None not in known and self[str(next(iter(known)))].leading

    def settled(self, *names: str) -> bool:
        """Tell whether all nodes have the same metadata, and no message is in flight."""
        members = [self[name] for name in names or self.alive()]
        tables = {tables_of(member) for member in members}
        return len(tables) == 1 and not any(member.metadata.unsettled for member in members)

    def write(self, name: str, command: c.Command, most_ms: int = 20_000) -> int:
        """Write on a node, wait until it is done there, and return the time it took."""
        done: list[bool] = []
        self[name].metadata.write(command, lambda: done.append(True))
        return self.until(lambda: done, most_ms)

    def describe(self) -> str:
        found = []
        for name, node in self.nodes.items():
            if node.member is None:
                found.append(f"{name}: down")
                continue
            core, log = node.member.consensus, node.member.consensus.state.log
            found.append(
                f"{name}: {core.role.name} of term {core.term}, leader {core.leader}, log {log.last}, commit "
                f"{log.commit}, members {log.members}, linked {sorted(node.member.linked)}, forks "
                f"{sorted(core.forks)}, awaits {node.member.awaited}, unsettled "
                f"{node.member.metadata.unsettled}"
            )
        return "\n".join(found)


def tables_of(member: Member) -> bytes:
    """Return the metadata as a value, without versions, which count local events."""
    state = member.metadata.state
    tables = [
        sorted(map(_encode, getattr(state, name).values()))
        for name in ("vhosts", "users", "permissions", "exchanges", "queues", "bindings", "nodes")
    ]
    return _encode([state.next_queue_id, tables])


def _votes(member: Member, name: str) -> bool:
    """Whether the member counts `name` as a voter."""
    return name in member.consensus.members.voters


def cluster(count: int, **options: object) -> World:
    """Return a settled cluster of nodes a, b, c …"""
    world = World(**options)  # type: ignore[arg-type]
    names = [chr(ord("a") + number) for number in range(count)]
    world.found(names[0])
    for name in names[1:]:
        world.join(name)
        world.until(partial(_votes, world[names[0]], name))
        node = world[name].metadata.state.nodes[name]
        world.write(
            name, c.PutNode(msgspec.structs.replace(node, incarnation=node.incarnation + 1, running=True))
        )
    world.until(world.settled)
    world.leader()
    return world


def declare(name: str, **options: object) -> c.PutQueue:
    return c.PutQueue(r.Queue("/", name, **options))  # type: ignore[arg-type]
