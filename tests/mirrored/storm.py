"""Load and faults on a cluster of whole brokers, drawn from one seed, and what must hold at the end.

Nothing runs by itself: each step lets one thing happen, a turn of one node, a message on one link, a view
received by one node, a client's publish, and now and then a kill, a cut, a change of policy or of master.

What is checked, over all that clients have seen:

    lost          confirmed, persistent, not acknowledged, and no longer delivered
    unexpected    delivered, never published
    unmarked      delivered twice by one master, the second time without a mark (a master that is
                  deposed and does not know it yet cannot mark it; failovers have tests of their own)
    double        in the queue twice at the end, although a node that knew both copies was always up
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from typing import Any

import pytest

from mirrormq.channels.consumer import Consumer
from mirrormq.metadata import commands as c
from mirrormq.queues.message import Message
from mirrormq.queues.queue_interface import QueueInterface
from mirrormq.remote.remote_queue import RemoteQueue
from mirrormq.replication.replica_manager import TICK_MS
from mirrormq.wire import methods
from tests.harness import deliveries
from tests.mirrored.cluster import Cluster, Member, MirroredClient

NAMES = ("a", "b", "c")
POLICIES: tuple[dict[str, Any], ...] = (
    {"ha-mode": "all"},
    {"ha-mode": "all"},
    {"ha-mode": "exactly", "ha-params": 2},
    {"ha-mode": "nodes", "ha-params": ["b", "c"]},
)

NO_HOLES = {"ha-promote-on-failure": "when-synced"}
"""Else a mirror that lacks messages may become master, and lose them."""


class LoadClient(MirroredClient):
    """A client that remembers what it published and was given."""

    def __init__(self, storm: Storm, name: str) -> None:
        self.storm = storm
        self.bodies: dict[int, bytes] = {}
        super().__init__(storm.cluster, storm.cluster[name])
        # Before it consumes: messages that are ready are delivered at once.
        storm.load_clients.append(self)
        self.send(methods.encode_confirm_select(), methods.encode_basic_qos(0, 4))
        self.epochs: deque[int] = deque()
        """Of the masters that sent what has not been read yet."""
        self.send(methods.encode_basic_consume("q", "c"))

    def is_sent(self, queue: QueueInterface, count: int) -> None:
        """Remember which master's messages are on their way."""
        served = self.node.broker.remote.served_epoch(self.storm.cluster.record("q").queue_id)
        self.epochs.extend([queue.place.epoch if isinstance(queue, RemoteQueue) else served] * count)

    def read_events(self) -> None:
        """Read what is there."""
        self.collect()
        found, self._unread = self._unread, []
        for one in found:
            before = set(self.confirmed)
            self._note(one.method)
            self.storm.confirmed |= {self.bodies[number] for number in self.confirmed - before}
        for tag, body, redelivered in deliveries(found):
            self.storm.delivered(body or b"", redelivered, self.epochs.popleft())
            if self.storm.choice.random() < 0.7:
                self.storm.acknowledged.add(body or b"")
                self.send(methods.encode_basic_ack(tag, False))
            elif self.storm.choice.random() < 0.5:
                self.send(methods.encode_basic_nack(tag, False, True))

    def act(self) -> None:
        """Publish a few messages."""
        storm = self.storm
        persistent = storm.choice.random() < 0.7
        found = []
        for _ in range(storm.choice.randint(1, 3)):
            storm.count += 1
            found.append(b"%d" % storm.count)
            self.bodies[len(self.bodies) + 1] = found[-1]
            (storm.persistent if persistent else storm.transient).add(found[-1])
        self.publish("q", *found, persistent=persistent)


class Storm:
    """One history."""

    def __init__(self, seed: int) -> None:
        self.cluster = Cluster(*NAMES, seed=seed)
        self.choice = self.cluster.choice
        self.count = 0
        self.persistent: set[bytes] = set()
        self.transient: set[bytes] = set()
        self.confirmed: set[bytes] = set()
        self.acknowledged: set[bytes] = set()
        self.seen: set[tuple[bytes, int]] = set()
        self.load_clients: list[LoadClient] = []
        self.cluster.mirror_all(**NO_HOLES)
        self.cluster.connect("a").declare("q")
        for name in NAMES:
            LoadClient(self, name)

    def delivered(self, body: bytes, redelivered: bool, epoch: int) -> None:
        assert body in self.persistent | self.transient, f"unexpected: {body!r}"
        assert redelivered or (body, epoch) not in self.seen, f"unmarked: {body!r}"
        self.seen.add((body, epoch))

    # -- steps ----------------------------------------------------------------------------------

    def step(self) -> None:
        actions = [
            (30, self.publish), (30, self.read), (60, self.turn), (90, self.carry), (20, self.hear),
            (10, self.coordinate), (4, self.wait), (2, self.flap), (2, self.kill), (3, self.start),
            (1, self.isolate), (2, self.hand_over), (1, self.change_policy),
        ]  # fmt: skip
        (action,) = self.choice.choices([one for _, one in actions], [weight for weight, _ in actions])
        action()

    def present(self) -> list[LoadClient]:
        return [
            client
            for client in self.load_clients
            if client.node.alive and client in client.node.clients  # type: ignore[attr-defined]
        ]

    def publish(self) -> None:
        if load_clients := self.present():
            self.choice.choice(load_clients).act()

    def read(self) -> None:
        if load_clients := self.present():
            self.choice.choice(load_clients).read_events()

    def turn(self) -> None:
        if living := self.cluster.living():
            self.choice.choice(living).broker.turn(commit=self.choice.random() < 0.6)

    def carry(self) -> None:
        lanes = [pair for pair, lane in self.cluster.lanes.items() if lane]
        if lanes:
            self.cluster.carry(*self.choice.choice(lanes), count=self.choice.randint(1, 3))

    def hear(self) -> None:
        able = [member for member in self.cluster.living() if self.cluster.follows(member)]
        if able:
            self.choice.choice(able).catch_up()

    def coordinate(self) -> None:
        self.cluster.coordinate()

    def wait(self) -> None:
        for member in self.cluster.living():
            member.clock.now_ms += TICK_MS
            member.clock.run_due()

    def flap(self) -> None:
        """A link is cut and there again before anybody has drawn conclusions."""
        if self.cluster.lanes:
            one, other = self.choice.choice(list(self.cluster.lanes))
            self.cluster.cut(one, other)
            for _ in range(self.choice.randrange(4)):
                self.choice.choice([self.publish, self.turn, self.carry])()
            self.cluster.join(one, other)

    def kill(self) -> None:
        living = [member.name for member in self.cluster.living()]
        if len(living) == len(NAMES):
            self.cluster.kill(self.choice.choice(living), self.choice.choice(["kill", "power"]))

    def start(self) -> None:
        for member in self.cluster.members.values():
            if not member.alive:
                self.cluster.start(member.name)
                LoadClient(self, member.name)
                return
            if self.is_over(member):
                self.cluster.kill(member.name, "kill")
                return

    def is_over(self, member: Member) -> bool:
        """Is this node cut off, or has it been given up as lost? Then it must begin a new life."""
        if not self.cluster.follows(member):
            return True
        member.catch_up()
        record = member.metadata.state.nodes[member.name]
        return not record.running or record.incarnation != member.incarnation

    def isolate(self) -> None:
        """A node is cut off, and goes on as if nothing had happened until it is started anew."""
        if len(self.cluster.lanes) == len(NAMES) * (len(NAMES) - 1):
            self.cluster.isolate(self.choice.choice(NAMES))

    def hand_over(self) -> None:
        if not self.cluster.living():
            return
        view = self.cluster.record("q").ring
        able = [name for name in view.members[1:] if name in view.in_sync]
        if able:
            successor = self.choice.choice(able)
            others = tuple(name for name in view.members if name != successor)
            after = view.with_members((successor, *others), epoch=view.epoch + 1)._replace(
                joining=frozenset()
            )
            self.cluster.propose_view("q", after)

    def change_policy(self) -> None:
        policy = {**self.choice.choice(POLICIES), "ha-sync-mode": "automatic", **NO_HOLES}
        self.cluster.policy(policy, settle=False)

    # -- the end --------------------------------------------------------------------------------

    def settle(self) -> None:
        """Restart every node and drain every queue."""
        cluster = self.cluster
        for one, other in combinations(NAMES, 2):
            if cluster[one].alive and cluster[other].alive and not cluster.linked(one, other):
                cluster.join(one, other)
        for _ in range(3):
            for member in cluster.members.values():
                if member.alive and self.is_over(member):
                    cluster.kill(member.name, "kill")
                if not member.alive:
                    cluster.start(member.name)
            cluster.mirror_all(**NO_HOLES)
        for _ in range(6):
            for load_client in self.present():
                load_client.read_events()
            cluster.advance(TICK_MS)
        for load_client in self.present():
            load_client.read_events()
            load_client.send(methods.encode_basic_cancel("c", True), methods.encode_basic_recover(True))
        cluster.settle()
        for load_client in self.present():
            load_client.read_events()
        cluster.settle()

    def memory_was_lost(self) -> bool:
        """Did a queue ever go on from a disk alone? What publishers had sent before is not known there, and
        what they send again is kept again."""
        views = [
            change.view
            for command, _, _ in self.cluster.line
            if isinstance(command, c.ChangeViews)
            for change in command.changes
        ]
        incarnations: dict[str, set[int]] = {}
        for view in views:
            incarnations.setdefault(view.master, set()).add(view.incarnation_of(view.master))
        return any(len(found) > 1 for found in incarnations.values())

    def check(self) -> None:
        cluster = self.cluster
        assert cluster.record("q").ring.in_sync == set(NAMES), cluster.record("q").ring
        cluster.check_equal("q")
        assert cluster.counts("q")[1] == 0
        left = cluster.connect("b").drain("q")
        assert len(set(left)) == len(left) or self.memory_was_lost(), "double"
        assert set(left) <= self.persistent | self.transient, "unexpected"
        lost = (self.confirmed & self.persistent) - self.acknowledged - set(left)
        assert not lost, f"lost: {sorted(lost)[:5]}"


@contextmanager
def watching(storm: Storm) -> Iterator[None]:
    """Note deliveries to the clients of a storm when they are sent."""
    deliver = Consumer.deliver

    def watched(consumer: Consumer, messages: list[Message]) -> None:
        for load_client in storm.load_clients:
            if load_client.connection is consumer.channel.connection:
                load_client.is_sent(consumer.queue, len(messages))
        deliver(consumer, messages)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Consumer, "deliver", watched)
        yield


def run(seed: int, steps: int = 400) -> Storm:
    """One history, from beginning to end."""
    storm = Storm(seed)
    with watching(storm):
        for _ in range(steps):
            storm.step()
        storm.settle()
        storm.check()
    return storm
