"""Orphan collector of a losing node, from the start of the partition until it has discarded its queues."""

from __future__ import annotations

import random
from collections.abc import Iterable

import msgspec
import pytest

from mirrormq.cluster.fork_index import ForkIndex, LostFork
from mirrormq.cluster.orphan_collector import OrphanCollector, StoredContents
from mirrormq.metadata.copy_records import FormerMember
from mirrormq.metadata.log_indexes import LogIndexes, decided_at
from mirrormq.metadata.records import Queue
from mirrormq.metadata.ring_view import View
from mirrormq.metadata.state import MetadataState
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.message import Message
from mirrormq.replication.synchronisation import first_sequence
from mirrormq.storage.journal import Journal
from mirrormq.storage.simulated_disk import SimulatedCrash, SimulatedDisk
from mirrormq.wire.content import body_of
from tests.cluster.test_orphans import message

LATER = first_sequence(2)
"""First sequence of the second epoch."""

COMMON = 10
"""Common index of the metadata logs of both sides."""

SHARED = decided_at(5)
"""Log indexes of a queue that was declared before the sides parted, and has not changed since."""


def ring(name: str, queue_id: int, members: str, indexes: LogIndexes = SHARED) -> Queue:
    incarnations = frozenset((member, 1) for member in members)
    view = View(1, 1, tuple(members), frozenset(members), incarnations=incarnations)
    return Queue("/", name, queue_id, node=members[0], view=view, indexes=indexes)


def metadata(*queues: Queue) -> MetadataState:
    state = MetadataState()
    for queue in queues:
        state.store(queue)
    return state


def lost(mine: MetadataState, winner: MetadataState, companions: tuple[str, ...] = ()) -> LostFork:
    return LostFork(mine, winner, COMMON, companions, 0)


class Live:
    """Queue contents of a running broker."""

    def __init__(self, firsts: dict[int, int], memory: dict[int, list[Message]] | None = None) -> None:
        self._firsts, self._memory = firsts, memory or {}

    def fork_indexes(self) -> dict[int, ForkIndex]:
        return {queue_id: ForkIndex(first, 5) for queue_id, first in self._firsts.items()}

    def in_memory(self, queue: Queue) -> Iterable[Message]:
        return self._memory.get(queue.queue_id, ())


class Node:
    """Node a, with its journal."""

    def __init__(self, seed: int = 1) -> None:
        self.disk = SimulatedDisk(random.Random(seed).randrange)
        self.start()

    def start(self) -> None:
        self.journal = Journal(self.disk, "journal", make_envelope, segment_bytes=64 * 1024)
        self.journal.open()
        self.orphan_collector = OrphanCollector("a", self.disk, "data", self.journal)
        self.orphan_collector.open()

    def store(self, queue_id: int, *numbers: int) -> None:
        self.journal.queue(queue_id).append([message(number) for number in numbers], durable=True)
        self.journal.flush(sync=True)

    def held(self, queue_id: int) -> list[int]:
        return list(self.journal.queue(queue_id).held())

    def orphans(self) -> dict[str, list[str]]:
        store = self.orphan_collector.orphans
        return {
            title.queue.name: [body_of(each.frames).decode() for each in store.read(number, limit=1000)]
            for number, title in store.titles.items()
        }


def test_messages_after_the_fork_index_are_set_aside_and_leave_the_queue() -> None:
    node = Node()
    mine, winner = metadata(ring("q", 7, "ab")), metadata(ring("q", 7, "b"))
    node.store(7, 1, 2, 3)
    node.orphan_collector.partition_started(Live({7: 3}))
    node.store(7, 4, 5)
    node.journal.queue(7).forget([4])
    live = Live({}, {7: [message(6, "in memory", 1), message(2, "old", 1)]})
    fork = lost(mine, winner)
    assert node.orphan_collector.set_aside(live, fork) == 3
    assert node.held(7) == [1, 2, 3, 5], "nothing is taken away before it is safe"
    node.orphan_collector.let_go(fork)
    assert node.held(7) == [1, 2] and node.orphans() == {"q": ["m3", "m5", "in memory"]}
    assert node.orphan_collector.fork_indexes.find(7), "it stays valid for a third side"


def test_a_fork_index_of_a_history_that_was_given_up_does_not_count_later() -> None:
    node = Node()
    mine = metadata(ring("q", 7, "ab", LogIndexes(5, COMMON + 2, COMMON + 2, 5)))
    node.orphan_collector.fork_indexes.begin({7: ForkIndex(2, COMMON + 2)})
    node.orphan_collector.let_go(lost(mine, metadata(ring("q", 7, "b"))))
    assert node.orphan_collector.fork_indexes.find(7) is None


def test_a_mirror_only_lets_go() -> None:
    node = Node()
    mine, winner = metadata(ring("q", 7, "ba")), metadata(ring("q", 7, "c"))
    node.store(7, 1, 2, 3)
    node.orphan_collector.partition_started(Live({7: 2}))
    fork = lost(mine, winner, ("b",))
    assert node.orphan_collector.set_aside(StoredContents(), fork) == 0
    node.orphan_collector.let_go(fork)
    assert node.held(7) == [1] and node.orphans() == {}


def test_a_damaged_message_is_left_out_and_counted() -> None:
    node = Node()
    mine, winner = metadata(ring("q", 7, "a")), metadata(ring("q", 7, "b"))
    node.store(7, 1)
    assert node.disk.garble_record("journal") is not None
    node.store(7, 2, 3)
    fork = lost(mine, winner)
    assert node.orphan_collector.set_aside(StoredContents(), fork) == 2
    assert node.orphan_collector.damaged_count == 1
    node.orphan_collector.let_go(fork)
    assert node.held(7) == [] and node.orphans() == {"q": ["m2", "m3"]}


PARTED = LogIndexes(5, 12, 12, 5)
"""Log indexes of a queue that got another master on its side only."""


@pytest.mark.parametrize(
    ("mine_is", "theirs_is", "waits", "kept"),
    [
        (PARTED, decided_at(5), True, [1, 2]),
        (PARTED, decided_at(5), False, []),  # the winner has a master with a copy of its own
        (PARTED, PARTED, True, []),  # the winner began an epoch of its own with the same number
        (LogIndexes(5, 12, 12, 12), decided_at(5), True, []),  # this copy followed one with gaps
        (decided_at(5), decided_at(5), True, [1, 2, LATER]),  # both sides are in one epoch
    ],
)
def test_a_copy_that_the_winner_waits_for_stays_up_to_its_epoch(
    mine_is: LogIndexes, theirs_is: LogIndexes, waits: bool, kept: list[int]
) -> None:
    node = Node()
    before = ring("q", 7, "ab")
    second = before.ring._replace(epoch=2, version=4)
    same_epoch = mine_is.epoch == theirs_is.epoch
    mine = msgspec.structs.replace(before, view=second, indexes=mine_is)
    theirs = msgspec.structs.replace(
        before,
        view=second if same_epoch else before.ring,
        indexes=theirs_is,
        waits_for=("a", "b") if waits else (),
    )
    node.store(7, 1, 2, LATER)
    fork = lost(metadata(mine), metadata(theirs))
    node.orphan_collector.set_aside(StoredContents(), fork)
    node.orphan_collector.let_go(fork)
    assert node.held(7) == kept
    set_aside = [f"m{number}" for number in (1, 2, LATER) if number not in kept]
    assert node.orphans() == ({"q": set_aside} if set_aside else {})


@pytest.mark.parametrize(("incarnation", "kept", "orphans"), [(1, [1, 2], [LATER]), (2, [], [])])
def test_a_former_member_keeps_a_copy_that_the_winner_waits_for_up_to_its_epoch(
    incarnation: int, kept: list[int], orphans: list[int]
) -> None:
    node = Node()
    before = ring("q", 7, "ab")
    alone = View(2, 6, ("b",), frozenset("b"), incarnations=frozenset({("b", 1)}))
    left = (FormerMember("a", incarnation, 6),)
    gap = LogIndexes(5, 12, 12, 12)
    mine = msgspec.structs.replace(before, node="b", view=alone, former=left, indexes=gap)
    theirs = msgspec.structs.replace(before, waits_for=("a", "b"))
    node.store(7, 1, 2, LATER)
    fork = lost(metadata(mine), metadata(theirs), ("b",))
    node.orphan_collector.set_aside(StoredContents(), fork)
    node.orphan_collector.let_go(fork)
    assert node.held(7) == kept, "the master of the losing side may have lost its disk"
    assert node.orphans() == ({"q": [f"m{number}" for number in orphans]} if orphans else {})


@pytest.mark.parametrize(
    "theirs",
    [
        (),
        (ring("theirs", 8, "b", decided_at(11)),),
        (ring("mine", 8, "b", decided_at(11)),),
        (msgspec.structs.replace(ring("mine", 8, "ab", decided_at(11)), waits_for=("a", "b")),),
    ],
    ids=["no queue", "another name", "the same name", "the same name, and it is down"],
)
def test_a_queue_declared_on_the_losing_side_is_erased_because_its_id_may_be_of_another_queue(
    theirs: tuple[Queue, ...],
) -> None:
    node = Node()
    mine = metadata(ring("old", 7, "a"), ring("mine", 8, "a", decided_at(COMMON + 1)))
    node.orphan_collector.partition_started(Live({7: 1, 8: 3}))
    node.store(7, 1)
    node.store(8, 1, 2)
    fork = lost(mine, metadata(ring("old", 7, "a"), *theirs))
    assert node.orphan_collector.set_aside(StoredContents(), fork) == 2
    node.orphan_collector.let_go(fork)
    assert node.held(7) == [1], "only this node has it: it stays"
    assert node.held(8) == [] and node.orphans() == {"mine": ["m1", "m2"]}
    assert node.orphan_collector.orphans.titles[1].created_in_partition


@pytest.mark.parametrize("step", range(1, 40))
def test_whenever_it_crashes_nothing_is_lost(step: int) -> None:
    """Only synced data counts, and repeated steps may produce duplicates."""
    node = Node(step)
    mine, winner = metadata(ring("q", 7, "ab"), ring("r", 8, "ab")), metadata(ring("q", 7, "b"))
    for queue_id in (7, 8):
        node.store(queue_id, *range(1, 21))
    node.orphan_collector.partition_started(Live({7: 11, 8: 11}))
    node.orphan_collector.fork_indexes._log._checked().sync()
    node.disk.crash_at_step = node.disk.steps + step
    fork = lost(mine, winner)
    try:
        node.orphan_collector.set_aside(StoredContents(), fork)
        node.orphan_collector.let_go(fork)
    except SimulatedCrash:
        node.disk.crash()
        node.start()
        node.orphan_collector.set_aside(StoredContents(), fork)
        node.orphan_collector.let_go(fork)
    found = {name: set(bodies) for name, bodies in node.orphans().items()}
    for name in ("q", "r"):
        assert found[name] >= {f"m{number}" for number in range(11, 21)}
    assert node.held(7) == list(range(1, 11))
