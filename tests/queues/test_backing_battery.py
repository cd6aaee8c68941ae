"""Test battery for every BackingQueue: all duties of the interface, in any order of operations.

A state machine publishes, fetches, acknowledges, requeues, purges, erases and restarts one queue on a real
journal over a simulated disk, and compares it with a plain list. Limits are tiny, so that nearly every
message is paged out and read back. Each kind of backing queue runs the same machine.

    EXAMPLES=2000 pytest tests/queues/test_backing_battery.py      for more examples
"""

from __future__ import annotations

import itertools
import os
from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mirrormq import limits
from mirrormq.queues.memory_budget import MemoryBudget
from mirrormq.queues.message import NEVER, Message
from mirrormq.queues.queue_settings import QueueSettings
from mirrormq.replication.queue_factory import make_backing_queue
from mirrormq.sequences.spans import Span, joined
from tests.queues.support import TINY_LIMITS, body, make_disk, make_message, open_journal

EXAMPLES = int(os.environ.get("EXAMPLES", "30"))
NOW_MS = 1_000
BUDGET_BYTES = 8_000
"""Memory budget of about eighteen small messages: the node exceeds it sometimes."""


@dataclass
class Entry:
    """Model of one message."""

    sequence: int
    body: bytes
    persistent: bool
    level: int
    expires_at: int
    redelivered: bool = False


@dataclass(frozen=True)
class Draft:
    """Message that a test is about to publish."""

    size: int
    persistent: bool
    priority: int
    expires_at: int


drafts = st.builds(
    Draft,
    size=st.sampled_from([0, 3, 10, 40, 120]),
    persistent=st.booleans(),
    priority=st.integers(0, 12),
    expires_at=st.sampled_from([NEVER, NEVER, NOW_MS - 1, NOW_MS, NOW_MS + 1, 5_000]),
)


def numbers_of(spans: list[Span]) -> set[int]:
    """Return the sequences of spans."""
    return {number for first, count in spans for number in range(first, first + count)}


class Battery(RuleBasedStateMachine):
    """One queue and its model; subclasses choose the kind of backing queue."""

    kind = QueueSettings()

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.warnings: list[str] = []
        self.budget = MemoryBudget(BUDGET_BYTES, TINY_LIMITS)
        self.queue_id = 0
        self.bodies = 0

    @initialize(seed=st.integers(0, 1 << 16))
    def start(self, seed: int) -> None:
        self.disk = make_disk(seed)
        self.journal = open_journal(self.disk)
        self.make_queue()

    def make_queue(self) -> None:
        """Make a new, empty queue, as after a declare."""
        self.queue_id += 1
        self.ready: list[Entry] = []
        self.unacked: dict[int, tuple[Entry, Message]] = {}
        self.leased_out: dict[int, Entry] = {}
        self.highest = 0
        self.delivered_up_to = 0
        self.requeued_up_to: dict[int, int] = {}
        """Highest sequence of each level that was requeued or returned by a lease."""
        self.open_queue()

    def open_queue(self) -> None:
        store = self.journal.queue(self.queue_id)
        self.queue = make_backing_queue(store, self.kind, self.budget, self.warnings.append)
        self.opened()

    def opened(self) -> None:
        """Hook for subclasses: the queue has been made or opened again."""

    def teardown(self) -> None:
        self.patch.undo()

    # -- model ----------------------------------------------------------------------------------

    def level(self, priority: int) -> int:
        """Return the effective priority: at most the highest one; without priorities all are equal."""
        return 0 if self.kind.max_priority is None else min(priority, self.kind.max_priority)

    def in_order(self) -> list[Entry]:
        """Return the ready messages, the next one first."""
        return sorted(self.ready, key=lambda entry: (-entry.level, entry.sequence))

    def took(self, messages: list[Message]) -> None:
        """Check fetched messages against the model, and remove them from its ready ones."""
        by_sequence = {entry.sequence: entry for entry in self.ready}
        for message in messages:
            entry = by_sequence[message.sequence]
            assert body(message) == entry.body
            assert message.body_size == len(entry.body)
            self.check_mark(message, entry)
            assert message.envelope.persistent == entry.persistent
            assert message.expires_at == entry.expires_at
            self.ready.remove(entry)
            self.unacked[message.sequence] = (entry, message)

    def check_mark(self, message: Message, entry: Entry) -> None:
        """Check the redelivered flag. Paged messages are marked up to one sequence, so a message that no
        consumer had may be marked as well, but only if a younger one of its level has come back."""
        assert message.redelivered or not entry.redelivered
        may_be_marked = entry.redelivered or entry.sequence <= self.requeued_up_to.get(entry.level, 0)
        assert may_be_marked or not message.redelivered

    def came_back(self, entries: list[Entry]) -> None:
        """Add delivered messages to the ready ones."""
        for entry in entries:
            entry.redelivered = True
            highest = self.requeued_up_to.get(entry.level, 0)
            self.requeued_up_to[entry.level] = max(highest, entry.sequence)
        self.ready += entries

    # -- operations -----------------------------------------------------------------------------

    @rule(batch=st.lists(drafts, min_size=1, max_size=9))
    def publish(self, batch: list[Draft]) -> None:
        messages = []
        for draft in batch:
            self.bodies += 1
            text = b"%d:" % self.bodies + b"x" * draft.size
            messages.append(
                make_message(
                    text, persistent=draft.persistent, priority=draft.priority, expires_at=draft.expires_at
                )
            )
        self.queue.publish(messages)
        for draft, message in zip(batch, messages, strict=True):
            self.highest += 1
            assert message.sequence == self.highest
            level = self.level(draft.priority)
            self.ready.append(Entry(self.highest, body(message), draft.persistent, level, draft.expires_at))

    @rule(limit=st.integers(1, 9), limit_bytes=st.sampled_from([1, 50, 200, 1 << 40]), deliver=st.booleans())
    def fetch(self, limit: int, limit_bytes: int, deliver: bool) -> None:
        expected = self.in_order()
        messages = self.queue.fetch(limit, limit_bytes)
        assert len(messages) <= limit
        assert bool(messages) == bool(expected), "a fetch is empty only if nothing is ready"
        sizes = [message.body_size for message in messages]
        assert len(sizes) <= 1 or sum(sizes) <= limit_bytes
        assert [message.sequence for message in messages] == [e.sequence for e in expected[: len(messages)]]
        self.took(messages)
        if deliver and messages:
            self.delivered_up_to = max(self.delivered_up_to, messages[-1].sequence)
            self.queue.delivered(messages[-1].sequence)

    @rule(limit=st.integers(1, 9), up_to=st.integers(0, 40))
    def fetch_up_to(self, limit: int, up_to: int) -> None:
        """A priority whose next message may not be fetched is passed over."""
        expected = self.in_order()
        messages = self.queue.fetch(limit, up_to=up_to)
        numbers = [message.sequence for message in messages]
        assert len(numbers) <= limit
        assert all(number <= up_to for number in numbers)
        levels = {entry.level: entry for entry in reversed(expected)}
        fitting = [level for level, entry in levels.items() if entry.sequence <= up_to]
        assert bool(numbers) == bool(fitting)
        if numbers:
            level = [entry.sequence for entry in expected if entry.level == max(fitting)]
            assert numbers == level[: len(numbers)]
        self.took(messages)

    @precondition(lambda self: self.ready)
    @rule(data=st.data())
    def reclaim(self, data: st.DataObject) -> None:
        """Ready messages from anywhere are fetched; sequences that are not ready are passed over."""
        ready = sorted(entry.sequence for entry in self.ready)
        chosen = data.draw(st.lists(st.sampled_from(ready), unique=True, min_size=1))
        others = data.draw(st.lists(st.integers(1, self.highest + 3), max_size=3))
        wanted = {*chosen, *others}
        messages = self.queue.reclaim(joined([Span(sequence, 1) for sequence in wanted]))
        assert {message.sequence for message in messages} == wanted & set(ready)
        self.took(messages)

    @rule()
    def send(self) -> None:
        self.queue.release_contents([message for _, message in self.unacked.values()])

    @rule()
    def load_contents(self) -> None:
        messages = self.queue.load_contents([message for _, message in self.unacked.values()])
        assert {message.sequence for message in messages} == set(self.unacked)
        for message in messages:
            assert body(message) == self.unacked[message.sequence][0].body

    @rule()
    def peek(self) -> None:
        expected = self.in_order()
        message = self.queue.peek()
        assert (message and message.sequence) == (expected[0].sequence if expected else None)

    @rule(now_ms=st.sampled_from([NOW_MS - 2, NOW_MS, NOW_MS + 1]), limit=st.sampled_from([1, 3, 1000]))
    def take_expired(self, now_ms: int, limit: int) -> None:
        expected = itertools.takewhile(lambda entry: NEVER < entry.expires_at <= now_ms, self.in_order())
        messages = self.queue.take_expired(now_ms, limit)
        assert [message.sequence for message in messages] == [entry.sequence for entry in expected][:limit]
        self.took(messages)

    @rule()
    def next_expiry(self) -> None:
        expected = self.in_order()
        assert self.queue.next_expiry() == (expected[0].expires_at if expected else NEVER)

    @precondition(lambda self: self.unacked)
    @rule(data=st.data())
    def acknowledge(self, data: st.DataObject) -> None:
        self.queue.acknowledge(self.choose(data)[1])

    @precondition(lambda self: self.unacked)
    @rule(data=st.data())
    def requeue(self, data: st.DataObject) -> None:
        entries, messages = self.choose(data)
        self.queue.requeue(messages)
        self.came_back(entries)

    def choose(self, data: st.DataObject) -> tuple[list[Entry], list[Message]]:
        """Choose some unacknowledged messages, in any order, and remove them from the model."""
        chosen = data.draw(st.permutations(sorted(self.unacked)), label="sequences")
        chosen = chosen[: data.draw(st.integers(1, len(chosen)), label="count")]
        pairs = [self.unacked.pop(sequence) for sequence in chosen]
        return [entry for entry, _ in pairs], [message for _, message in pairs]

    @rule(limit=st.integers(1, 9), limit_bytes=st.sampled_from([1, 50, 200, 1 << 40]))
    def lease_out(self, limit: int, limit_bytes: int) -> None:
        expected = self.in_order()
        numbers = numbers_of(self.queue.lease_out(limit, limit_bytes))
        assert len(numbers) <= limit
        assert bool(numbers) == bool(expected), "nothing is lent only if nothing is ready"
        entries = expected[: len(numbers)]
        assert len(entries) <= 1 or sum(len(entry.body) for entry in entries) <= limit_bytes
        assert numbers == {entry.sequence for entry in entries}
        self.ready = [entry for entry in self.ready if entry.sequence not in numbers]
        self.leased_out |= {entry.sequence: entry for entry in entries}
        loaded = self.journal.queue(self.queue_id).load(sorted(numbers))
        assert [body(message) for message in loaded] == [self.leased_out[n].body for n in sorted(numbers)]

    @precondition(lambda self: self.leased_out)
    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        gone = self.choose_leased(data)
        assert self.queue.settle(joined([Span(entry.sequence, 1) for entry in gone])) == len(gone)

    @precondition(lambda self: self.leased_out)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        back = self.choose_leased(data)
        assert self.queue.return_leased(joined([Span(entry.sequence, 1) for entry in back])) == len(back)
        self.came_back(back)

    def choose_leased(self, data: st.DataObject) -> list[Entry]:
        """Choose some leased messages and remove them from the model."""
        chosen = data.draw(st.lists(st.sampled_from(sorted(self.leased_out)), unique=True, min_size=1))
        return [self.leased_out.pop(sequence) for sequence in chosen]

    @rule(first=st.integers(0, 40), size=st.integers(1, 40), limit=st.integers(1, 9))
    def look(self, first: int, size: int, limit: int) -> None:
        """Check that exactly the ready and leased messages are visible, in memory or in the store."""
        store = self.journal.queue(self.queue_id)
        here = [entry.sequence for entry in [*self.ready, *self.leased_out.values()]]
        wanted = sorted(number for number in here if first <= number < first + size)[:limit]
        seen = [message.sequence for message in self.queue.peek_unstored(first, first + size, limit)]
        assert seen == sorted(seen)
        stored = [n for n in store.between(first, first + size, 99) if n not in self.unacked]
        assert sorted({*seen, *stored})[:limit] == wanted
        assert not set(seen) & set(stored)

    @rule()
    def purge(self) -> None:
        assert self.queue.purge() == len(self.ready)
        self.ready.clear()

    @rule()
    def erase(self) -> None:
        self.queue.erase()
        assert (self.queue.ready_count, self.queue.unacked_count) == (0, 0)
        assert (self.queue.ready_bytes, self.queue.unacked_bytes) == (0, 0)
        assert self.budget.used_bytes == 0
        self.journal.flush(sync=True)
        assert self.journal.queue(self.queue_id).live_count == 0
        self.make_queue()

    @rule(lazy=st.booleans())
    def change_mode(self, lazy: bool) -> None:
        self.queue.lazy = lazy

    @rule(sync=st.booleans())
    def flush(self, sync: bool) -> None:
        self.journal.flush(sync=sync)

    @rule()
    def housekeeping(self) -> None:
        self.journal.flush(sync=True)
        self.journal.housekeeping(4_000)

    @precondition(lambda self: self.kind.durable)
    @rule(way=st.sampled_from(["stop", "kill", "power"]))
    def restart(self, way: str) -> None:
        if way == "stop":
            self.journal.close()
        elif way == "kill":
            self.journal.flush(sync=False)
            self.disk.kill()
        else:
            self.journal.flush(sync=True)
            self.disk.crash()
        self.journal = open_journal(self.disk)
        self.budget.used_bytes = 0
        self.open_queue()
        held = [*self.leased_out.values(), *(entry for entry, _ in self.unacked.values())]
        self.ready = [entry for entry in self.ready + held if entry.persistent]
        self.unacked.clear()
        self.requeued_up_to.clear()
        for entry in self.ready:
            entry.redelivered = entry.sequence <= self.delivered_up_to
        kept = {number: entry for number, entry in self.leased_out.items() if entry.persistent}
        assert numbers_of(
            self.queue.lease_exact(joined([Span(number, 1) for number in self.leased_out]))
        ) == set(kept)
        self.ready = [entry for entry in self.ready if entry.sequence not in kept]
        self.leased_out = kept
        assert self.queue.next_sequence > self.highest, "a number would be used again"
        self.highest = self.queue.next_sequence - 1

    # -- invariants -----------------------------------------------------------------------------

    @invariant()
    def counts_exactly(self) -> None:
        assert self.queue.ready_count == len(self.ready)
        assert self.queue.ready_bytes == sum(len(entry.body) for entry in self.ready)
        held = [entry for entry, _ in self.unacked.values()] + list(self.leased_out.values())
        assert self.queue.unacked_count == len(held)
        assert self.queue.unacked_bytes == sum(len(entry.body) for entry in held)

    @invariant()
    def spends_what_it_says(self) -> None:
        held = [limits.MESSAGE_OVERHEAD_BYTES for _ in self.unacked]
        held += [len(entry.body) for entry, message in self.unacked.values() if message.frames]
        waiting = [len(entry.body) + limits.MESSAGE_OVERHEAD_BYTES for entry in self.ready]
        assert sum(held) <= self.budget.used_bytes <= sum(held) + sum(waiting)

    @invariant()
    def loses_nothing_to_damage(self) -> None:
        assert not self.warnings


KINDS = {
    "Durable": QueueSettings(durable=True),
    "Transient": QueueSettings(),
    "DurableLazy": QueueSettings(durable=True, lazy=True),
    "TransientLazy": QueueSettings(lazy=True),
    "DurablePriorities": QueueSettings(durable=True, max_priority=9),
    "TransientPriorities": QueueSettings(max_priority=3),
    "DurableLazyPriorities": QueueSettings(durable=True, max_priority=2, lazy=True),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_keeper_does_its_duties(kind: str) -> None:
    machine = type(kind, (Battery,), {"kind": KINDS[kind]})
    profile = settings(max_examples=EXAMPLES, stateful_step_count=30, deadline=None)
    run_state_machine_as_test(machine, settings=profile)


@pytest.mark.parametrize("kind", KINDS)
def test_memory_is_bounded_whatever_the_backlog(kind: str) -> None:
    budget = MemoryBudget(BUDGET_BYTES, TINY_LIMITS)
    journal = open_journal(make_disk(), segment_bytes=1 << 20)
    queue = make_backing_queue(journal.queue(1), KINDS[kind], budget, lambda warning: None)
    for number in range(3_000):
        queue.publish([make_message(b"%d" % number, persistent=number % 2 == 0, priority=number % 5)])
    levels = 1 + (KINDS[kind].max_priority or 0)
    most = levels * (TINY_LIMITS.head_messages + 1) * (limits.MESSAGE_OVERHEAD_BYTES + 4)
    assert budget.used_bytes <= most
    taken = 0
    while messages := queue.fetch(50):
        taken += len(messages)
        queue.acknowledge(messages)
        assert budget.used_bytes <= most
    assert taken == 3_000
    assert budget.used_bytes == 0
