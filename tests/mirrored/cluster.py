"""Several whole brokers in one process, joined by links, with one metadata that all of them follow.

    cluster = Cluster("a", "b", "c")
    cluster.mirror_all()
    client = cluster.connect("a")
    client.declare("q")
    client.publish("q", b"hello", persistent=True)
    cluster.settle()                     turns, links, metadata, until nothing moves
    cluster.kill("a")                    without its last unsynced writes

Everything that goes over a link is encoded and decoded again. What anybody writes to the metadata is put in
one line and reaches every living node in that order; a real coordinator decides views there, unless the test
does. A node that starts again replays the line, begins a new life, and only then has a broker.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from mirrormq.broker.broker import Environment
from mirrormq.cluster.coordinator import Coordinator
from mirrormq.metadata import commands as c
from mirrormq.metadata import records
from mirrormq.metadata.changes import Change
from mirrormq.metadata.policy_matching import PolicyMatcher
from mirrormq.metadata.ring_view import View
from mirrormq.metadata.store import MetadataStore
from mirrormq.queues.queue import Queue
from mirrormq.remote.remote_messages import RemoteMessage
from mirrormq.replication.replica import Replica
from mirrormq.replication.replica_manager import REMOVALS_WAIT_MS
from mirrormq.replication.ring_messages import RingBatch
from mirrormq.wire import methods
from mirrormq.wire.content import body_of
from mirrormq.wire.fields import Table, table_of
from tests.harness import Client, Node, deliveries

_encode = msgspec.msgpack.Encoder().encode
decode_message = msgspec.msgpack.Decoder(RemoteMessage | RingBatch).decode
ROUNDS_MAX = 5_000
Done = Callable[[], None]


class Member(Node):
    """One node of the cluster."""

    def __init__(self, cluster: Cluster, name: str, seed: int) -> None:
        self.cluster = cluster
        self.incarnation = 0
        self.alive = True
        super().__init__(seed=seed, name=name)

    def metadata_opened(self) -> None:
        """Hear what the others have written, and begin a life."""
        self.incarnation += 1
        self.metadata_directory = f"data/metadata-{self.incarnation + 1}"
        self.apply: Callable[..., Any] = self.metadata.write
        self.heard = 0
        self.catch_up()
        claim = records.Node(self.name, incarnation=self.incarnation, running=True)
        self.cluster.line += [(c.DropTransient(self.name), None, None), (c.PutNode(claim), None, None)]
        self.catch_up()
        self.metadata.write = self.propose  # type: ignore[method-assign,assignment]

    def propose(
        self, command: c.Command, done: Done | None = None, sync: bool = True, grouped: bool = False
    ) -> None:
        self.cluster.line.append((command, self.name, done))

    def catch_up(self) -> bool:
        """Hear what is new in the line."""
        line, before = self.cluster.line, self.heard
        while self.heard < len(line):
            command, origin, done = line[self.heard]
            self.heard += 1
            self.apply(command, done if origin == self.name else None)
        return self.heard > before

    def outside(self) -> Environment:
        def send(peer: str, message: RemoteMessage | RingBatch) -> None:
            self.cluster.send(self.name, peer, message)

        return super().outside()._replace(send=send)

    def replica(self, name: str) -> Replica:
        """This node's part in a queue's ring."""
        record = self.metadata.state.queues["/", name]
        return self.broker.replica_manager.replicas[record.queue_id]

    def stored(self, name: str) -> list[bytes]:
        """The bodies of a queue that this node's journal has, oldest first."""
        store = self.journal.queue(self.metadata.state.queues["/", name].queue_id)
        return [body_of(message.frames) for message in store.load(store.held())]


class Cluster:
    """Members and their links, all of them up."""

    def __init__(self, *names: str, coordinated: bool = True, seed: int = 1) -> None:
        self.choice = random.Random(seed)
        self.line: list[tuple[c.Command, str | None, Done | None]] = []
        self.lanes: dict[tuple[str, str], deque[bytes]] = {}
        self.held: set[tuple[str, str]] = set()
        """Ways on which nothing arrives for the moment."""
        self.sent: list[tuple[str, str, Any]] = []
        """Everything that rings have said, for tests that want to know."""
        self.listening = False
        self.coordinated = coordinated
        self.members: dict[str, Member] = {}
        self.coordinator: Coordinator | None = None
        self._followed: MetadataStore | None = None
        for number, name in enumerate(names):
            self.members[name] = Member(self, name, seed * 1000 + number)
            for other in self.members:
                if other != name:
                    self.join(name, other)
        self.settle()

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    def living(self) -> list[Member]:
        return [member for member in self.members.values() if member.alive]

    # -- links ----------------------------------------------------------------------------------

    def join(self, one: str, other: str) -> None:
        """A new link."""
        for pair in ((one, other), (other, one)):
            self.lanes[pair] = deque()
        self[one].broker.link_up(other)
        self[other].broker.link_up(one)

    def cut(self, one: str, other: str) -> None:
        """The link is gone, with everything on it."""
        if self.lanes.pop((one, other), None) is not None:
            del self.lanes[other, one]
            self[one].broker.link_down(other)
            self[other].broker.link_down(one)

    def isolate(self, name: str) -> None:
        for other in self.members:
            if other != name:
                self.cut(name, other)

    def linked(self, one: str, other: str) -> bool:
        return one == other or (one, other) in self.lanes

    def send(self, sender: str, receiver: str, message: Any) -> None:
        lane = self.lanes.get((sender, receiver))
        if lane is not None:
            lane.append(_encode(message))
            if self.listening and isinstance(message, RingBatch):
                self.sent += [(sender, receiver, one) for one in message.messages]

    def carry(self, sender: str, receiver: str, count: int = 1 << 30) -> bool:
        """Let messages arrive; False if there are none."""
        lane = self.lanes.get((sender, receiver))
        if not lane or (sender, receiver) in self.held:
            return False
        while lane and count and (sender, receiver) in self.lanes:
            count -= 1
            self[receiver].broker.link_message(sender, decode_message(lane.popleft()))
        return True

    # -- lives ----------------------------------------------------------------------------------

    def kill(self, name: str, way: Literal["kill", "power"] = "power") -> None:
        """A node dies, with what was not synced or (`kill`) without losing it."""
        self.isolate(name)
        member = self[name]
        member.alive = False
        member.clients.clear()
        if way == "kill":
            member.disk.kill()
        else:
            member.disk.crash()

    def start(self, name: str) -> None:
        """A dead node starts again."""
        member = self[name]
        member.boot()
        member.alive = True
        for other in self.living():
            if other.name != name:
                self.join(name, other.name)

    # -- time and metadata ----------------------------------------------------------------------

    def settle(self) -> None:
        """Until nothing moves."""
        for _ in range(ROUNDS_MAX):
            if not self.round():
                return
        raise AssertionError("it does not come to rest")

    def round(self) -> bool:
        """Let every node act once; return False if no node had anything to do."""
        moved = self.coordinate()
        for member in self.living():
            moved |= self.follows(member) and member.catch_up()
        for member in self.living():
            moved |= member.broker.turn()
            for client in list(member.clients):
                moved |= client.collect()  # type: ignore[attr-defined]
        for sender, receiver in list(self.lanes):
            moved |= self.carry(sender, receiver)
        return moved or any(
            member.heard < len(self.line) or member.broker.replica_manager.pending
            for member in self.living()
            if self.follows(member)
        )

    def follows(self, member: Member) -> bool:
        """Can this node hear what is agreed on?"""
        return sum(self.linked(member.name, other.name) for other in self.living()) * 2 > len(self.members)

    def coordinate(self) -> bool:
        """Act as the leader."""
        able = [member for member in self.living() if self.follows(member)]
        if not self.coordinated or not able:
            return False
        leader = able[0]
        if self._followed is not leader.metadata or self.coordinator is None:
            self._lead(leader)
        assert self.coordinator is not None
        self.coordinator.reach(
            frozenset(other.name for other in self.living() if self.linked(leader.name, other.name))
        )
        found = self.coordinator.work()
        self.line += [(command, None, None) for command in found]
        return bool(found)

    def _lead(self, leader: Member) -> None:
        state = leader.metadata.state
        coordinator = Coordinator(leader.name, state, PolicyMatcher(state), self.choice.randrange)
        coordinator.lead(True)

        def follow(change: Change) -> None:
            coordinator.follow(change)

        leader.metadata.listeners.append(follow)
        self._followed, self.coordinator = leader.metadata, coordinator

    def write(self, command: c.Command, *, settle: bool = True) -> None:
        """As an operator would."""
        self.line.append((command, None, None))
        if settle:
            self.settle()

    def policy(self, definition: dict[str, Any], *, settle: bool = True) -> None:
        self.write(c.PutPolicy(records.Policy("/", "ha", ".*", "queues", definition)), settle=settle)

    def mirror_all(self, **keys: Any) -> None:
        self.policy({"ha-mode": "all", "ha-sync-mode": "automatic", **keys})

    def advance(self, milliseconds: int) -> None:
        """Time passes."""
        for member in self.living():
            member.clock.now_ms += milliseconds
            member.clock.run_due()
        self.settle()

    # -- queues ---------------------------------------------------------------------------------

    def record(self, name: str) -> records.Queue:
        able = [member for member in self.living() if self.follows(member)] or self.living()
        return able[0].metadata.state.queues["/", name]

    def master(self, name: str) -> Member:
        return self[self.record(name).ring.master]

    def queue(self, name: str) -> Queue:
        """The live queue at its master."""
        found = self.master(name).broker.vhosts["/"].queues[name]
        assert isinstance(found, Queue)
        return found

    def counts(self, name: str) -> tuple[int, int]:
        """Ready and unacknowledged, at the master."""
        backing = self.queue(name).backing
        return backing.ready_count, backing.unacked_count

    def change_view(self, name: str, **fields: Any) -> None:
        """The test decides a view."""
        record = self.record(name)
        view = record.ring
        if "members" in fields:
            members = fields.pop("members")
            epoch = view.epoch + (members[0] != view.master)
            view = view.with_members(members, epoch=epoch)._replace(**fields)
        else:
            view = view._replace(version=view.version + 1, **fields)
        self.write(c.ChangeViews([c.ViewChange(record.queue_id, view)]))

    def propose_view(self, name: str, view: View) -> None:
        """Propose this view; it counts if it is still the next one when it is applied."""
        change = c.ViewChange(self.record(name).queue_id, view)
        self.line.append((c.ChangeViews([change]), None, None))

    def check_equal(self, name: str) -> None:
        """Every mirror that is synchronised holds what the master holds, or soon will."""
        self.advance(REMOVALS_WAIT_MS)
        master = self.master(name).replica(name)
        assert master.backing is not None
        held = master.backing.held()
        bodies = [message.frames for message in master.backing.load(list(held.numbers()))]
        for member in self.living():
            if member.name in master.view.in_sync and member.name != master.me:
                copy = member.replica(name).copy
                assert copy is not None
                assert copy.held().spans() == held.spans(), f"{member.name} differs"
                copy.page_out()
                store = member.journal.queue(master.queue_id)
                assert [message.frames for message in store.load(list(held.numbers()))] == bodies

    def connect(self, name: str, **options: Any) -> MirroredClient:
        """A client of one node."""
        return MirroredClient(self, self[name], **options)


class MirroredClient(Client):
    """A client whose answers may take a while."""

    def __init__(self, cluster: Cluster, node: Node, **options: Any) -> None:
        self.cluster = cluster
        self.confirmed: set[int] = set()
        self.refused: set[int] = set()
        self._first_open = 1
        super().__init__(node, **options)

    def collect(self) -> bool:
        """Read what is there, without waiting; False if there was nothing and nothing went on."""
        waiting = self.connection.buffered_bytes
        data = b"".join(self.connection.take_output())
        self._decode(data)
        self.connection.resume()
        return bool(data) or waiting != self.connection.buffered_bytes

    def read(self, *, turn: bool = True) -> list[Any]:
        """Everything that comes until nothing moves."""
        if turn:
            self.cluster.settle()
        found = super().read(turn=turn)
        for one in found:
            self._note(one.method)
        return found

    def _note(self, method: Any) -> None:
        if isinstance(method, methods.BasicAck | methods.BasicNack):
            first = self._first_open if method.multiple else method.delivery_tag
            reported = set(range(first, method.delivery_tag + 1)) - self.confirmed - self.refused
            (self.confirmed if isinstance(method, methods.BasicAck) else self.refused).update(reported)
            while self._first_open in self.confirmed or self._first_open in self.refused:
                self._first_open += 1

    def declare(self, name: str, *, durable: bool = True, **arguments: Any) -> None:
        named: Table = table_of({f"x-{key.replace('_', '-')}": value for key, value in arguments.items()})
        self.send(methods.encode_queue_declare(name, durable=durable, arguments=named))
        (answer,) = self.read()
        assert isinstance(answer.method, methods.QueueDeclareOk), answer

    def confirm_select(self) -> None:
        assert isinstance(self.call(methods.encode_confirm_select()), methods.ConfirmSelectOk)

    def consume(self, queue: str, tag: str = "c", *, prefetch: int = 0, **arguments: Any) -> list[Any]:
        """Consume, and return the messages that are delivered at once."""
        table = table_of({f"x-{key.replace('_', '-')}": value for key, value in arguments.items()})
        if prefetch:
            self.send(methods.encode_basic_qos(0, prefetch))
        self.send(methods.encode_basic_consume(queue, tag, arguments=table))
        return deliveries(self.read())


def bodies(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]
