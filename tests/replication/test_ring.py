"""Guarantee of the ring on a network that delays and breaks, with members that fail at any moment.

An oracle stands for the metadata: only it makes views. Links are FIFO, and messages in flight are lost when
either end fails. Each step delivers one message, persists on one node, broadcasts, kills, or adds a member.
Some members that count as failed are only cut off: they continue with their old view, and their messages
arrive late.
"""

from __future__ import annotations

import os
import random
from collections import deque

import msgspec
import pytest

from mirrormq.metadata.ring_view import View
from mirrormq.replication.member_states import MemberState
from mirrormq.replication.ring import Ring
from mirrormq.replication.ring_messages import OperationBatch, ProgressReport, ResendRequest
from mirrormq.replication.ring_operations import DeliveredOperation, decode, encode
from tests.replication.world import rejoined

SEEDS = int(os.environ.get("SEEDS", "300"))
NAMES = ("a", "b", "c", "d", "e")


class World:
    """Nodes, the links between them, and the operations that each has applied."""

    def __init__(self, seed: int) -> None:
        self.choice = random.Random(seed)
        self.view = View(1, 1, NAMES[:3], frozenset(NAMES[:3]))
        self.rings = {name: Ring(1, name, self.view) for name in self.view.members}
        self.applied: dict[str, list[int]] = {name: [] for name in NAMES}
        self.links: dict[tuple[str, str], deque[OperationBatch | ProgressReport | ResendRequest]] = {}
        self.views: dict[str, deque[View]] = {name: deque() for name in NAMES}
        self.sent = 0
        self.confirmed = 0
        self.dead: set[str] = set()
        self.zombies: dict[str, Ring] = {}

    # -- steps ----------------------------------------------------------------------------------

    def step(self) -> None:
        action = self.choice.random()
        if action < 0.25:
            self.broadcast()
        elif action < 0.70:
            self.deliver()
        elif action < 0.85:
            self.persist()
        elif action < 0.95:
            self.hear_view()
        elif action < 0.975:
            self.kill()
        else:
            self.join()

    def broadcast(self) -> None:
        masters = [ring for ring in (*self.rings.values(), *self.zombies.values()) if ring.is_master]
        if masters:
            ring = self.choice.choice(masters)
            for _ in range(self.choice.randint(1, 3)):
                self.sent += 1
                number = ring.broadcast(encode(DeliveredOperation(self.sent)))
                assert number == len(self.applied[ring.me]) + 1
                self.applied[ring.me].append(self.sent)
            self.collect(ring)

    def deliver(self) -> None:
        busy = [link for link, operation_batches in self.links.items() if operation_batches]
        if not busy:
            return
        sender, receiver = self.choice.choice(busy)
        message = self.links[sender, receiver].popleft()
        ring = self.rings.get(receiver) or self.zombies.get(receiver)
        if ring is None:
            return
        if isinstance(message, OperationBatch):
            ring.receive(sender, message)
        elif isinstance(message, ProgressReport):
            ring.report(sender, message)
        else:
            ring.send_again(sender)
        self.collect(ring)

    def persist(self) -> None:
        ring = self.choice.choice([*self.rings.values(), *self.zombies.values()])
        ring.persisted(ring.received)
        self.collect(ring)

    def hear_view(self) -> None:
        waiting = [name for name in self.rings if self.views[name]]
        if waiting:
            name = self.choice.choice(waiting)
            self.rings[name].change(self.views[name].popleft())
            self.collect(self.rings[name])

    def collect(self, ring: Ring) -> None:
        work = ring.take()
        assert not work.diverged or not self.view.awaits_confirms_of(ring.me)
        if work.diverged and ring.me in self.rings:
            self.restart(ring)
            return
        for data in work.operations:
            operation = decode(data)
            assert isinstance(operation, DeliveredOperation)
            self.applied[ring.me].append(operation.sequence)
        for receiver, operation_batch in work.operation_batches:
            self.send(ring, receiver, operation_batch)
        if work.report is not None:
            self.send(ring, ring.view.master, work.report)
        if work.lacking and ring.left is not None:
            self.send(ring, ring.left, ResendRequest(1, ring.view.epoch))
        if ring.is_master:
            assert ring.completed.durable <= ring.completed.received <= ring.received
            if ring.view == self.view:
                self.confirm(ring)
            else:
                self.confirm_late(ring)

    def send(
        self, ring: Ring, receiver: str, message: OperationBatch | ProgressReport | ResendRequest
    ) -> None:
        self.links.setdefault((ring.me, receiver), deque()).append(message)

    # -- oracle ---------------------------------------------------------------------------------

    def publish_view(self, view: View) -> None:
        self.view = view
        for name in self.rings:
            self.views[name].append(view)

    def kill(self) -> None:
        if len(self.rings) < 2 or len(self.view.in_sync & self.rings.keys()) < 2:
            return
        victim = self.choice.choice(list(self.rings))
        ring = self.rings.pop(victim)
        self.dead.add(victim)
        if self.choice.random() < 0.5:
            self.zombies[victim] = ring
        else:
            for link in [link for link in self.links if victim in link]:
                self.links[link].clear()
        alive = tuple(name for name in self.view.members if name != victim)
        in_sync = self.view.in_sync - {victim}
        epoch = self.view.epoch
        if victim == self.view.master:
            epoch += 1
            master = next(name for name in alive if name in in_sync)
            alive = (master, *(name for name in alive if name != master))
            self.lose_unconfirmed(master)
        self.publish_view(self.view.with_members(alive, epoch=epoch))

    def join(self) -> None:
        new = [name for name in NAMES if name not in self.view.members and name not in self.dead]
        if new:
            name = self.choice.choice(new)
            view = self.view.with_members((*self.view.members, name))
            self.rings[name] = Ring(1, name, view)
            self.publish_view(view)
            self.views[name].clear()

    def restart(self, ring: Ring) -> None:
        """Restart a member that has diverged from its master, at the end of the ring."""
        view = rejoined(self.view, ring.me)
        self.rings[ring.me] = Ring(1, ring.me, view)
        self.applied[ring.me] = []
        for link in [link for link in self.links if ring.me in link]:
            self.links[link].clear()
        self.publish_view(view)
        self.views[ring.me].clear()

    # -- checkers -------------------------------------------------------------------------------

    def confirm(self, ring: Ring) -> None:
        """Check that every synchronised member has what the master may confirm, in the same order."""
        durable = max(0, ring.completed.durable)
        expected = self.applied[ring.me][:durable]
        for name in self.view.in_sync:
            member = self.rings.get(name)
            if member is not None:
                assert max(0, member.durable) >= durable, (name, member.durable, durable)
                assert self.applied[name][:durable] == expected
        self.confirmed = max(self.confirmed, durable)

    def confirm_late(self, ring: Ring) -> None:
        """Check that the present master has what a former master may still confirm."""
        durable = max(0, ring.completed.durable)
        assert self.applied[self.view.master][:durable] == self.applied[ring.me][:durable]

    def lose_unconfirmed(self, master: str) -> None:
        """Check that a new master has everything that was ever confirmed."""
        assert len(self.applied[master]) >= self.confirmed

    def settle(self) -> None:
        """Deliver everything without further faults."""
        for _ in range(3000):
            self.hear_view()
            for ring in self.rings.values():
                ring.persisted(ring.received)
                self.collect(ring)
            self.deliver()
            if not any(self.links.values()) and not any(self.views[name] for name in self.rings):
                break
        master = self.rings[self.view.master]
        history = self.applied[master.me]
        for name, ring in self.rings.items():
            if ring.state is MemberState.FRESH:
                continue
            assert self.applied[name] == history[ring.start :], name
            assert ring.received == master.received
        assert master.completed == (master.received, master.received)


def run(seed: int, steps: int = 300) -> World:
    world = World(seed)
    for _ in range(steps):
        world.step()
    world.settle()
    return world


@pytest.mark.parametrize("block", range(10))
def test_every_operation_reaches_every_member_once_and_in_order(block: int) -> None:
    confirmed = 0
    for seed in range(block * SEEDS // 10, (block + 1) * SEEDS // 10):
        confirmed += run(seed).confirmed
    assert confirmed > 0


class ConfirmsBeforeTheDisk(Ring):
    """Reports received operations as durable."""

    def next_report(self) -> ProgressReport | None:
        truth, self.durable = self.durable, self.received
        report = super().next_report()
        self.durable = truth
        return report


class ForgetsToSendAgain(Ring):
    """Does not bring a new neighbour up to date, and requests nothing."""

    def change(self, view: View) -> None:
        passed = self._passed
        super().change(view)
        self._passed = passed

    def _must_request(self) -> bool:
        return False


class ListensToTheDead(Ring):
    """Accepts operation batches from any node, whatever the view and their history are."""

    def receive(self, sender: str, operation_batch: OperationBatch) -> None:
        view = self.view
        operation_batch = msgspec.structs.replace(
            operation_batch, epoch=view.epoch, version=view.version, history=self.history
        )
        super().receive(self.left or sender, operation_batch)


class BeginsAnywhere(Ring):
    """Begins at the first operation batch that it receives."""

    def receive(self, sender: str, operation_batch: OperationBatch) -> None:
        if self.state is MemberState.FRESH and self.left == sender:
            operation_batch = msgspec.structs.replace(operation_batch, stable=operation_batch.first - 1)
        super().receive(sender, operation_batch)


class ForgetsTooSoon(Ring):
    """Cuts its log at the mark of the fastest member."""

    def settle(self) -> bool:
        grows = super().settle()
        if self.reports:
            self.log.cut(max(report.received for report in self.reports.values()))
        return grows


@pytest.mark.parametrize(
    "mutant", [ConfirmsBeforeTheDisk, ForgetsToSendAgain, ListensToTheDead, BeginsAnywhere, ForgetsTooSoon]
)
def test_the_checkers_catch_a_ring_that_breaks_its_promise(
    mutant: type[Ring], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "Ring", mutant)
    with pytest.raises(AssertionError):
        for seed in range(300):
            run(seed)
