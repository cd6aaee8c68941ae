"""Several real brokers in one process, joined by links that lose what is on them when they are cut.

    cluster = Cluster("a", "b", "c")
    cluster.declare("q", "b")                    b is master, the others have its face
    client = cluster.connect("a")
    client.publish("q", b"hello")
    cluster.settle()                             turns and links, until nothing moves

Everything that goes over a link is encoded and decoded again. Who is master of what is said by the test, in
the place of the metadata's views; what clients write to the metadata reaches the other nodes with `settle`.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import msgspec

from mirrormq.metadata import commands, records
from mirrormq.metadata.store import Written
from mirrormq.queues.queue import Queue
from mirrormq.remote.handover import Handover, hand_over
from mirrormq.remote.messages import RemoteMessage
from mirrormq.remote.place import Place
from mirrormq.remote.remote import Remote
from mirrormq.remote.remote_queue import RemoteQueue
from mirrormq.wire.fields import encode_table, table_of
from tests.harness import Client, Node

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(RemoteMessage).decode
ROUNDS_MAX = 10_000


class Link:
    """Both ways between two nodes."""

    def __init__(self) -> None:
        self.up = False
        self.lanes: dict[str, deque[bytes]] = {}

    def clear(self) -> None:
        for lane in self.lanes.values():
            lane.clear()


class Member:
    """A node, and its part in the others' queues."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.name = name
        self.life = 1
        self.cluster = cluster
        self.alive = True
        self.node = Node(seed=hash(name) % 1000, name=name)
        self.begin()

    def begin(self) -> None:
        """Begin a life."""
        self.remote = Remote(self.name, self.life, self.node.broker, self._send)
        self.node.broker.remote = self.remote
        self.node.metadata.observers.append(self._written)

    def _written(self, written: Written) -> None:
        self.cluster.replicate(self, written)

    def _send(self, peer: str, message: RemoteMessage) -> None:
        link = self.cluster.link(self.name, peer)
        if link.up:
            link.lanes[peer].append(_encode(message))

    @property
    def vhost(self) -> Any:
        return self.node.broker.vhosts["/"]


class Cluster:
    """Members and their links, all of them up."""

    def __init__(self, *names: str, linked: bool = True) -> None:
        self.links: dict[frozenset[str], Link] = {}
        self.members = {name: Member(self, name) for name in names}
        self.masters: dict[str, tuple[str, int]] = {}
        """Queue → (master, epoch)."""
        self._unreplicated: deque[tuple[Member, commands.Command]] = deque()
        self._replicating = False
        for one in names:
            for other in names:
                if one < other:
                    link = self.links[frozenset((one, other))] = Link()
                    link.lanes = {one: deque(), other: deque()}
                    if linked:
                        self.join(one, other)

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    # -- links ----------------------------------------------------------------------------------

    def link(self, one: str, other: str) -> Link:
        return self.links[frozenset((one, other))]

    def join(self, one: str, other: str) -> None:
        """A new link."""
        self.link(one, other).up = True
        self[one].remote.up(other)
        self[other].remote.up(one)

    def cut(self, one: str, other: str) -> None:
        """The link is gone, with everything on it."""
        link = self.link(one, other)
        if link.up:
            link.up = False
            link.clear()
            self[one].remote.down(other)
            self[other].remote.down(one)

    def carry(self, one: str, other: str, count: int = 1 << 30) -> bool:
        """Let messages arrive at `other`; False if there are none."""
        lane = self.link(one, other).lanes[other]
        found = bool(lane)
        while lane and count:
            count -= 1
            self[other].remote.receive(one, _decode(lane.popleft()))
        return found

    def die(self, name: str) -> None:
        """A node is gone for good, as far as the others are concerned."""
        for other in self.members:
            if other != name:
                self.cut(name, other)
        self[name].alive = False
        for other in self.living():
            other.remote.lost(name, self[name].life)

    def living(self) -> list[Member]:
        return [member for member in self.members.values() if member.alive]

    # -- time -----------------------------------------------------------------------------------

    def settle(self) -> None:
        """Until nothing moves."""
        for _ in range(ROUNDS_MAX):
            moved = self.spread()
            for member in self.living():
                member.node.turn()
                for client in list(member.node.clients):
                    client.collect()
            for pair in list(self.links):
                one, other = sorted(pair)
                moved |= self.carry(one, other) | self.carry(other, one)
            if not moved:
                return
        raise AssertionError("it does not come to rest")

    # -- metadata -------------------------------------------------------------------------------

    def replicate(self, member: Member, written: Written) -> None:
        if not self._replicating and written.changes:
            self._unreplicated.append((member, written.command))

    def spread(self) -> bool:
        """What was written on one node reaches the others."""
        found = bool(self._unreplicated)
        while self._unreplicated:
            source, command = self._unreplicated.popleft()
            self._replicating = True
            for member in self.living():
                if member is not source:
                    member.node.metadata.write(command)
            self._replicating = False
        return found

    def write(self, command: commands.Command) -> None:
        """On every node."""
        self._replicating = True
        for member in self.living():
            member.node.metadata.write(command)
        self._replicating = False

    # -- queues ---------------------------------------------------------------------------------

    def declare(self, name: str, master: str, *, durable: bool = True, **arguments: Any) -> None:
        """A queue whose master is `master`."""
        self.put(records.Queue("/", name, 0, durable, False, False, _table(arguments), master), master)

    def put(self, record: records.Queue, master: str, owner: object | None = None) -> None:
        self.write(commands.PutQueue(record))
        self.masters[record.name] = (master, 1)
        for member in self.living():
            self._begin_tenure(member, record.name)

    def _begin_tenure(self, member: Member, name: str) -> None:
        """What the vhost will do: the right object behind the name, and word to `remote`."""
        master, epoch = self.masters[name]
        record = member.node.metadata.state.queues["/", name]
        vhost = member.vhost
        if member.name == master:
            member.remote.serve(record.queue_id, epoch, vhost.queues[name])
            return
        place = Place(record.queue_id, epoch, "/", name)
        settings = vhost.queues[name].settings
        vhost.queues[name] = member.remote.remote_queue(place, master, self[master].life, settings)
        vhost.router.invalidate()

    def move(self, name: str, master: str) -> None:
        """Another node becomes master; it finds the queue in its own store, in whatever state a test has
        left it there."""
        _, epoch = self.masters[name]
        self.masters[name] = (master, epoch + 1)
        for member in self.living():
            self.follow(member, name)

    def follow(self, member: Member, name: str) -> None:
        """One node hears of a new master."""
        master, _ = self.masters[name]
        record = member.node.metadata.state.queues["/", name]
        vhost = member.vhost
        before = vhost.queues[name]
        if isinstance(before, RemoteQueue):
            handover = before.retire()
        else:
            member.remote.stop_serving(record.queue_id)
            handover = Handover(consumers=[each for each in before.consumers.all if hasattr(each, "queue")])
        if member.name == master:
            from mirrormq.broker.queue_factory import make_queue

            vhost.queues[name] = make_queue(vhost, record)
        self._begin_tenure(member, name)
        vhost.router.invalidate()
        hand_over(handover, vhost.queues[name])

    def queue(self, name: str) -> Queue:
        """The live queue at its master."""
        found = self[self.masters[name][0]].vhost.queues[name]
        assert isinstance(found, Queue)
        return found

    def counts(self, name: str) -> tuple[int, int]:
        """Ready and unacknowledged, at the master."""
        backing = self.queue(name).backing
        return backing.ready_count, backing.unacked_count

    def connect(self, name: str) -> RemoteTestClient:
        """A client of one node."""
        return RemoteTestClient(self, self[name].node)


class RemoteTestClient(Client):
    """A client whose answers may take a while."""

    def __init__(self, cluster: Cluster, node: Node) -> None:
        self.cluster = cluster
        super().__init__(node)

    def collect(self) -> None:
        """Read what is there, without waiting."""
        self._decode(b"".join(self.connection.take_output()))
        self.connection.resume()

    def read(self, *, turn: bool = True) -> list[Any]:
        """Everything that comes until nothing moves."""
        if turn and hasattr(self, "connection") and self.node.broker.remote is not None:
            self.cluster.settle()
        return super().read(turn=turn)


def _table(arguments: dict[str, Any]) -> bytes:
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    return encode_table(table_of(named))[4:] if named else b""


def shuffled(seed: int) -> random.Random:
    """The chance of one test."""
    return random.Random(seed)
