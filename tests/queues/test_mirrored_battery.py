"""Test battery for the backing queue of a mirrored master, compared with its mirror.

The machine is that of the ordinary backing queues. Meanwhile the queue becomes mirrored and ceases to be,
with unacknowledged messages that are readable or not, and a mirror's copy applies every operation.
"""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test

from mirrormq.queues.memory_budget import MemoryBudget
from mirrormq.queues.message import Message
from mirrormq.replication.mirror_copy import MirrorCopy
from mirrormq.replication.mirror_sync import runs
from mirrormq.replication.replicating_backing import ReplicatingBackingQueue
from tests.queues.support import TINY_LIMITS, make_disk, open_journal
from tests.queues.test_backing_battery import BUDGET_BYTES, EXAMPLES, KINDS, Battery

MIRRORED_KINDS = ("Durable", "Transient", "DurablePriorities", "TransientPriorities", "DurableLazy")


class MirroredBattery(Battery):
    """Backing queue of a mirrored master with one mirror; mirrored for some of the time."""

    durable_copy = False

    def opened(self) -> None:
        self.put_on([])
        assert isinstance(self.queue, ReplicatingBackingQueue) and not self.queue.unseen

    @precondition(lambda self: not isinstance(self.queue, ReplicatingBackingQueue))
    @rule(shown=st.booleans())
    def wrap(self, shown: bool) -> None:
        """Make the queue mirrored; `shown` says whether the unacknowledged messages are readable."""
        self.put_on([message for _, message in self.unacked.values()] if shown else [])
        assert isinstance(self.queue, ReplicatingBackingQueue)
        assert 0 <= self.queue.unseen <= (0 if shown else len(self.unacked))

    def put_on(self, out: list[Message]) -> None:
        store = self.journal.queue(self.queue_id)
        self.elsewhere = open_journal(make_disk())
        self.copy_budget = MemoryBudget(BUDGET_BYTES, TINY_LIMITS)
        self.copy = MirrorCopy(self.elsewhere.queue(1), self.copy_budget, durable=self.durable_copy)
        self.copy.begin_synchronisation()
        self.queue = ReplicatingBackingQueue(
            self.queue, store, self.tell, appeared=self.appeared, out=out, limits=TINY_LIMITS
        )
        self.copy.synchronise(runs(self.queue.load(list(self.queue.held().numbers()))))

    @precondition(lambda self: isinstance(self.queue, ReplicatingBackingQueue))
    @rule()
    def unwrap(self) -> None:
        assert isinstance(self.queue, ReplicatingBackingQueue)
        self.queue = self.queue.inner

    def tell(self, operation: bytes) -> int:
        """Apply an operation of the master to the mirror at once."""
        self.copy.apply([operation])
        return 1

    def appeared(self, sequence: int) -> None:
        assert isinstance(self.queue, ReplicatingBackingQueue)
        self.copy.synchronise(runs(self.queue.load([sequence])))

    @invariant()
    def the_mirror_holds_what_the_master_holds(self) -> None:
        if not isinstance(self.queue, ReplicatingBackingQueue):
            return
        self.queue.flush_operations()
        held = self.queue.held()
        assert self.copy.held().spans() == held.spans()
        assert held.count == self.queue.ready_count + self.queue.unacked_count - self.queue.unseen

    @precondition(lambda self: isinstance(self.queue, ReplicatingBackingQueue))
    @rule()
    def compare(self) -> None:
        """Compare master and mirror byte for byte."""
        assert isinstance(self.queue, ReplicatingBackingQueue)
        self.queue.flush_operations()
        numbers = list(self.queue.held().numbers())
        self.copy.page_out()
        mirrored = self.elsewhere.queue(1).load(numbers)
        for one, other in zip(self.queue.load(numbers), mirrored, strict=True):
            assert (one.frames, one.expires_at) == (other.frames, other.expires_at)
            assert one.envelope.publish == other.envelope.publish
        assert self.copy_budget.used_bytes == 0


class DurableMirrorBattery(MirroredBattery):
    """Mirror that keeps persistent messages in its journal."""

    durable_copy = True


@pytest.mark.parametrize("kind", MIRRORED_KINDS)
@pytest.mark.parametrize("mirror", [MirroredBattery, DurableMirrorBattery])
def test_the_mirrored_keeper_does_them_too_and_its_mirror_has_the_same_messages(
    kind: str, mirror: type[MirroredBattery]
) -> None:
    machine = type("Mirrored" + kind, (mirror,), {"kind": KINDS[kind]})
    profile = settings(max_examples=EXAMPLES, stateful_step_count=30, deadline=None)
    run_state_machine_as_test(machine, settings=profile)
