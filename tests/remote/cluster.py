"""Several real brokers in one process, joined by links that lose what is on them when they are cut.

    cluster = Cluster("a", "b", "c")
    cluster.declare("q", "b")                    b is master; the others have its face
    cluster.declare("m", "b", "c")               b is master, c its mirror
    client = cluster.connect("a")
    client.publish("q", b"hello")
    cluster.settle()                             turns and links, until nothing moves

Everything that goes over a link is encoded and decoded again. The metadata is the same on every node: what is
written reaches the others with `settle`, or one of them earlier if a test says so. Who is master, and
who is dead, is said by the test, in the place of a coordinator.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from mirrormq.broker.broker import Environment
from mirrormq.metadata import commands, records
from mirrormq.metadata.ring_view import View
from mirrormq.metadata.store import WriteResult
from mirrormq.queues.queue import Queue
from mirrormq.remote.remote_endpoint import RemoteEndpoint
from mirrormq.remote.remote_messages import RemoteMessage
from mirrormq.replication.ring_messages import RingBatch
from mirrormq.wire.fields import encode_table, table_of
from tests.harness import Client, Node

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(RemoteMessage | RingBatch).decode
ROUNDS_MAX = 10_000


class Link:
    """Both ways between two nodes."""

    def __init__(self, one: str, other: str) -> None:
        self.up = False
        self.lanes: dict[str, deque[bytes]] = {one: deque(), other: deque()}
        """By the node at which they end."""


class LinkedNode(Node):
    """A node that can speak to others."""

    def __init__(self, member: Member) -> None:
        self._member = member
        super().__init__(seed=sum(member.name.encode()), name=member.name)

    def outside(self) -> Environment:
        return super().outside()._replace(send=self._member.send)


class Member:
    """A node, and how much of the metadata it has heard of."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.name = name
        self.cluster = cluster
        self.alive = True
        self.heard = 0
        """Commands of the cluster's log that it has applied."""
        self.node = LinkedNode(self)
        self.watch()

    def watch(self) -> None:
        """Tell the cluster what this node writes."""
        self.node.metadata.observers.append(lambda written: self.cluster.written(self, written))

    def send(self, peer: str, message: RemoteMessage | RingBatch) -> None:
        link = self.cluster.links.get(frozenset((self.name, peer)))
        if link is not None and link.up:
            link.lanes[peer].append(_encode(message))

    @property
    def remote(self) -> RemoteEndpoint:
        return self.node.broker.remote

    @property
    def vhost(self) -> Any:
        return self.node.broker.vhosts["/"]


class Cluster:
    """Members and their links, all of them up."""

    def __init__(self, *names: str) -> None:
        self.links: dict[frozenset[str], Link] = {}
        self.log: list[commands.Command] = []
        self._applying = False
        self.members = {name: Member(self, name) for name in names}
        for name in names:
            self.write(commands.PutNode(records.Node(name, "", 1, running=True)))
        for one in names:
            for other in names:
                if one < other:
                    self.links[frozenset((one, other))] = Link(one, other)
                    self.join(one, other)

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    def living(self) -> list[Member]:
        return [member for member in self.members.values() if member.alive]

    # -- links ----------------------------------------------------------------------------------

    def link(self, one: str, other: str) -> Link:
        return self.links[frozenset((one, other))]

    def join(self, one: str, other: str) -> None:
        """A new link."""
        self.link(one, other).up = True
        self[one].node.broker.link_up(other)
        self[other].node.broker.link_up(one)

    def cut(self, one: str, other: str) -> None:
        """The link is gone, with everything on it."""
        link = self.link(one, other)
        if link.up:
            link.up = False
            for lane in link.lanes.values():
                lane.clear()
            self[one].node.broker.link_down(other)
            self[other].node.broker.link_down(one)

    def carry(self, one: str, other: str, count: int = 1 << 30) -> bool:
        """Let messages arrive at `other`; False if there are none."""
        lane = self.link(one, other).lanes[other]
        found = bool(lane)
        while lane and count:
            count -= 1
            self[other].node.broker.link_message(one, _decode(lane.popleft()))
        return found

    # -- metadata -------------------------------------------------------------------------------

    def written(self, member: Member, written: WriteResult) -> None:
        """A node's own doing becomes everybody's."""
        if not self._applying and written.changes:
            self.spread(only=[member.name])
            self.log.append(written.command)
            member.heard = len(self.log)

    def write(self, command: commands.Command, only: Sequence[str] = ()) -> None:
        """Something is agreed on; everybody hears of it at once, or only some do."""
        self.log.append(command)
        self.spread(only)

    def spread(self, only: Sequence[str] = ()) -> bool:
        """Apply committed commands on all running nodes, or on some of them."""
        spread = False
        for member in self.living():
            while member.heard < len(self.log) and (not only or member.name in only):
                spread = True
                member.heard += 1
                before, self._applying = self._applying, True
                member.node.metadata.write(self.log[member.heard - 1])
                self._applying = before
        return spread

    # -- time, lives ----------------------------------------------------------------------------

    def settle(self) -> None:
        """Until nothing moves."""
        for _ in range(ROUNDS_MAX):
            moved = self.spread()
            for member in self.living():
                member.node.turn()
                for client in list(member.node.clients):
                    assert isinstance(client, RemoteTestClient)
                    client.collect()
            for pair in list(self.links):
                one, other = sorted(pair)
                moved |= self.carry(one, other) | self.carry(other, one)
            if not moved:
                return
        raise AssertionError("it does not come to rest")

    def die(self, name: str) -> None:
        """A node is gone, and its life with it."""
        for other in self.members:
            if other != name:
                self.cut(name, other)
        self[name].alive = False
        self.write(
            commands.PutNode(records.Node(name, "", self[name].node.broker.incarnation, running=False))
        )

    def revive(self, name: str) -> None:
        """Start the node again from its disk, in its next incarnation."""
        member = self[name]
        member.alive = True
        incarnation = member.node.broker.incarnation + 1
        self.write(commands.PutNode(records.Node(name, "", incarnation, running=True)))
        member.node.restart("power")
        member.watch()
        for other in self.members:
            if other != name:
                self.join(name, other)

    # -- queues ---------------------------------------------------------------------------------

    def declare(self, name: str, *ring: str, durable: bool = True, **arguments: Any) -> None:
        """A queue with its master, and mirrors if there are more names."""
        view = View(1, 0, ring, frozenset(ring)) if len(ring) > 1 else None
        self.put(records.Queue("/", name, 0, durable, False, False, _table(arguments), ring[0], view))

    def put(self, record: records.Queue) -> None:
        self.write(commands.PutQueue(record))

    def record(self, name: str) -> records.Queue:
        return self.living()[0].node.metadata.state.queues["/", name]

    def move(self, name: str, *ring: str, only: Sequence[str] = (), waits_for: tuple[str, ...] = ()) -> None:
        """Another node becomes master; some nodes may hear of it before the others."""
        record = self.record(name)
        before = record.ring
        incarnations = frozenset((member, self[member].node.broker.incarnation) for member in ring)
        view = before.with_members(ring, epoch=before.epoch + 1)
        view = view._replace(in_sync=frozenset(ring), incarnations=incarnations)
        change = commands.ViewChange(record.queue_id, view, waits_for)
        self.write(commands.ChangeViews([change]), only)

    def queue(self, name: str) -> Queue:
        """The live queue at its master."""
        found = self[self.record(name).ring.master].vhost.queues[name]
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
        if turn:
            self.cluster.settle()
        return super().read(turn=turn)


def _table(arguments: dict[str, Any]) -> bytes:
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    return encode_table(table_of(named))[4:] if named else b""
