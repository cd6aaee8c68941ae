"""World of nodes that hold one mirrored queue: real replicas, real journals on simulated disks.

An oracle stands for the metadata. It adopts proposals if nothing has changed meanwhile, notices failed
members after a while, promotes by the real rules, and lets failed nodes return. Nodes receive views one by
one. Links are FIFO and break when either end fails; a node that was cut off continues with its old view.
One seed decides everything.
"""

from __future__ import annotations

import random
from collections import deque

from mirrormq.metadata.ring_view import View
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.memory_budget import MemoryBudget
from mirrormq.queues.message import Message
from mirrormq.queues.paged_queue import PagedQueue
from mirrormq.replication.mirror_sync import MirrorSynchroniser
from mirrormq.replication.promotion import MemberStatus, PromotionRules, QueueDown, settle
from mirrormq.replication.replica import Replica, ReplicaOptions
from mirrormq.replication.ring_messages import ReplicaMessage
from mirrormq.replication.synchronisation import first_sequence
from mirrormq.storage.journal import Journal
from mirrormq.storage.simulated_disk import SimulatedDisk
from mirrormq.wire.content import body_of, build_frames
from mirrormq.wire.methods import encode_basic_publish
from mirrormq.wire.properties import BasicProperties, encode_properties

NAMES = ("a", "b", "c")
PUBLISH = encode_basic_publish("", "q")
PERSISTENT = encode_properties(BasicProperties(delivery_mode=2))
QUEUE_ID = 7


class Node:
    """Process and its disk."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.disk = SimulatedDisk(world.choice.randrange)
        self.views: deque[View] = deque()
        self.replica: Replica | None = None
        self.unflushed: list[tuple[int, str]] = []
        self.waiting: deque[tuple[int, str]] = deque()
        """Pairs (operation, body) of publishes that the master has not confirmed."""

    def start(self, view: View) -> None:
        """Open the journal and join the ring."""
        self.journal = Journal(self.disk, "journal", make_envelope, segment_bytes=16 * 1024)
        self.journal.open()
        store = self.journal.queue(QUEUE_ID)
        self.budget = MemoryBudget(1 << 30)

        def make_backing(delivered_up_to: int, stored_counts: bool = True) -> PagedQueue:
            sequences = store.held()
            backing = PagedQueue(
                store, self.budget, durable=True,
                next_sequence=max([store.next_sequence - 1, *sequences]) + 1,
                redelivered_up_to=max(delivered_up_to, store.delivered_up_to),
            )  # fmt: skip
            backing.recover(sequences, store.live_bytes)
            return backing

        self.views.clear()
        options = ReplicaOptions(durable=True)
        self.replica = Replica(QUEUE_ID, self.name, view, store, self.budget, options, make_backing)
        if self.replica.ring.is_master:
            backing = make_backing(0)
            backing.next_sequence = max(backing.next_sequence, first_sequence(view.epoch))
            self.replica.wrap(backing, [])
        self.waiting.clear()

    def stop(self) -> None:
        """Fail: data that was not synced may be lost."""
        self.replica = None
        self.disk.crash()


class World:
    """Nodes, links and the oracle."""

    service_class: type[MirrorSynchroniser] = MirrorSynchroniser
    rules = PromotionRules(on_failure_always=False)
    syncs = True

    def __init__(self, seed: int) -> None:
        self.choice = random.Random(seed)
        self.view = View(1, 1, NAMES, frozenset(NAMES))
        self.down: QueueDown | None = None
        self.nodes = {name: Node(self, name) for name in NAMES}
        for node in self.nodes.values():
            node.start(self.view)
        self.links: dict[tuple[str, str], deque[ReplicaMessage]] = {}
        self.cut: set[str] = set()
        self.confirmed: set[str] = set()
        self.acknowledged: set[str] = set()
        self.published = 0
        self.now_ms = 0
        self.masters: dict[int, str] = {1: "a"}

    # -- steps ----------------------------------------------------------------------------------

    def step(self) -> None:
        actions = [
            (20, self.publish), (10, self.consume), (50, self.deliver), (15, self.flush),
            (15, self.hear_view), (2, self.crash), (2, self.cut_off), (4, self.come_back), (4, self.notice),
            (2, self.hand_over),
        ]  # fmt: skip
        total = sum(weight for weight, _ in actions)
        at = self.choice.randrange(total)
        for weight, action in actions:
            if at < weight:
                action()
                return
            at -= weight

    def running(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.replica is not None]

    def masters_now(self) -> list[Node]:
        return [
            node
            for node in self.running()
            if node.replica and node.replica.backing and node.replica.ring.is_master
        ]

    def publish(self) -> None:
        for node in self.masters_now():
            assert node.replica is not None and node.replica.backing is not None
            bodies = [f"m{self.published + offset}" for offset in range(self.choice.randint(1, 3))]
            self.published += len(bodies)
            envelope = make_envelope(PUBLISH, PERSISTENT)
            messages = [Message(envelope, build_frames(1, PERSISTENT, body.encode(), 0)) for body in bodies]
            node.replica.backing.publish(messages)
            node.waiting.extend((node.replica.backing.last_number, body) for body in bodies)
            self.collect(node)

    def consume(self) -> None:
        for node in self.masters_now():
            assert node.replica is not None and node.replica.backing is not None
            messages = node.replica.backing.fetch(self.choice.randint(1, 3))
            if messages:
                self.acknowledged.update(body(message) for message in messages)
                node.replica.backing.acknowledge(messages)
                self.collect(node)

    def deliver(self) -> None:
        busy = [link for link, waiting in self.links.items() if waiting and not self.cut & set(link)]
        if busy:
            sender, receiver = self.choice.choice(busy)
            message = self.links[sender, receiver].popleft()
            node = self.nodes[receiver]
            if node.replica is not None:
                node.replica.receive(sender, message)
                self.collect(node)

    def flush(self) -> None:
        nodes = self.running()
        if nodes:
            node = self.choice.choice(nodes)
            node.journal.flush(sync=self.syncs)
            assert node.replica is not None
            node.replica.flushed()
            self.collect(node)

    def hear_view(self) -> None:
        nodes = [node for node in self.running() if node.views and node.name not in self.cut]
        if nodes:
            node = self.choice.choice(nodes)
            assert node.replica is not None
            node.replica.change(node.views.popleft())
            if not node.replica.ring.is_master:
                node.waiting.clear()
            self.collect(node)

    def collect(self, node: Node) -> None:
        assert node.replica is not None
        self.now_ms += 1
        work = node.replica.take(
            self.now_ms, reporting=self.choice.random() < 0.7, idle=self.choice.random() < 0.5
        )
        for receiver, message in work.sends:
            self.links.setdefault((node.name, receiver), deque()).append(message)
        proposal, may = work.proposal, node.name == self.view.master and node.name not in self.cut
        if proposal is not None and proposal.version == self.view.version + 1 and may:
            self.adopt(proposal)
        if work.completed is not None:
            while node.waiting and node.waiting[0][0] <= work.completed.durable:
                self.confirmed.add(node.waiting.popleft()[1])

    # -- faults and the oracle ------------------------------------------------------------------

    def adopt(self, view: View) -> None:
        if view.epoch != self.view.epoch:
            assert view.epoch not in self.masters, "one master per epoch"
            self.masters[view.epoch] = view.master
        self.view = view
        for node in self.nodes.values():
            node.views.append(view)

    def crash(self) -> None:
        nodes = self.running()
        if len(nodes) > 1:
            self.kill(self.choice.choice(nodes))

    def kill(self, node: Node) -> None:
        node.stop()
        self.break_links(node.name)
        self.cut.discard(node.name)

    def break_links(self, name: str) -> None:
        for link in [link for link in self.links if name in link]:
            self.links[link].clear()

    def cut_off(self) -> None:
        whole = [node.name for node in self.running() if node.name not in self.cut]
        if len(whole) > 1:
            self.cut.add(self.choice.choice(whole))

    def notice(self) -> None:
        """Remove a failed or isolated member from the ring, as the failure detector would."""
        reachable = [node.name for node in self.running() if node.name not in self.cut]
        statuses = {
            name: MemberStatus.ALIVE if name in reachable else MemberStatus.GONE for name in self.view.members
        }
        after = settle(self.view, statuses, self.rules, shutdown=False)
        if isinstance(after, QueueDown):
            self.down = after
        elif isinstance(after, View) and after is not self.view:
            self.adopt(after)

    def hand_over(self) -> None:
        """Move the master role to a mirror; the old master stays a member."""
        able = [name for name in self.view.members[1:] if name in self.view.in_sync]
        if able:
            successor = self.choice.choice(able)
            others = tuple(name for name in self.view.members if name != successor)
            after = self.view.with_members((successor, *others), epoch=self.view.epoch + 1)
            self.adopt(after._replace(joining=frozenset()))

    def come_back(self) -> None:
        """Restart a failed node, or one that was cut off and is notified that it must restart."""
        gone = [node for node in self.nodes.values() if node.replica is None or node.name in self.cut]
        if not gone:
            return
        node = self.choice.choice(gone)
        if node.replica is not None:
            if node.name in self.view.members:
                self.cut.discard(node.name)
                return
            self.kill(node)
        self.rejoin(node)

    def rejoin(self, node: Node) -> None:
        if node.name == self.view.master:
            again = rejoined(self.view, node.name)
            members = (node.name, *(name for name in again.members if name != node.name))
            only = frozenset({node.name})
            view = again._replace(epoch=again.epoch + 1, members=members, in_sync=only, joining=frozenset())
        else:
            view = rejoined(self.view, node.name)
        self.adopt(view)
        node.start(view)
        self.collect(node)

    # -- final state ----------------------------------------------------------------------------

    def settle(self) -> None:
        """Start all nodes and deliver everything."""
        for name in list(self.cut):
            if name in self.view.members:
                self.cut.discard(name)
            else:
                self.kill(self.nodes[name])
        for _ in range(40):
            for node in self.nodes.values():
                if node.replica is None:
                    self.rejoin(node)
            self.quiesce()
            if self.view.in_sync == frozenset(NAMES):
                break
        master = self.nodes[self.view.master]
        assert master.replica is not None and master.replica.backing is not None
        assert self.view.in_sync == frozenset(NAMES), f"not everybody is synchronised: {self.view}"
        self.check(master.replica)

    def quiesce(self) -> None:
        for _ in range(4000):
            self.hear_view()
            self.flush()
            self.deliver()
            for node in self.running():
                self.collect(node)
            if not any(self.links.values()) and not any(node.views for node in self.nodes.values()):
                return

    def check(self, master: Replica) -> None:
        """Check that nothing confirmed is lost, and every mirror has the master's messages."""
        assert master.backing is not None
        live = list(master.backing.held().numbers())
        bodies = [body(message) for message in master.backing.load(live)]
        lost = self.confirmed - self.acknowledged - set(bodies)
        assert not lost, f"confirmed and lost: {sorted(lost)[:5]}"
        assert len(set(bodies)) == len(bodies), "a message is there twice"
        for node in self.nodes.values():
            if node.replica is not None and node.replica.copy is not None:
                assert list(node.replica.copy.held().numbers()) == live, f"{node.name} differs"
                copy = node.journal.queue(QUEUE_ID)
                assert [body(message) for message in copy.load(live)] == bodies


def rejoined(view: View, name: str) -> View:
    """Return the next view, in which a returned member is the youngest and is not synchronised."""
    others = tuple(member for member in view.members if member != name)
    without = view.with_members(others)
    return without._replace(version=view.version).with_members((*others, name))


def body(message: Message) -> str:
    return body_of(message.frames).decode()
