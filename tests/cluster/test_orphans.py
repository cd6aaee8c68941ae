"""Orphans: set aside on the losing side of a partition, republished after healing."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec
import pytest

from mirrormq.cluster.orphan_republisher import OrphanRepublisher
from mirrormq.cluster.orphan_store import BATCH_MESSAGES, ORPHANED_FROM, OrphanStore, OrphanTitle, marked
from mirrormq.metadata.records import Queue
from mirrormq.metadata.ring_view import View
from mirrormq.queues.envelope import make_envelope
from mirrormq.queues.message import Message
from mirrormq.queues.queue_interface import Publisher
from mirrormq.storage.entry_log import EntryLog
from mirrormq.storage.journal import Journal
from mirrormq.storage.simulated_disk import SimulatedDisk
from mirrormq.wire.content import body_of, build_frames, properties_of
from mirrormq.wire.fields import Field
from mirrormq.wire.methods import encode_basic_publish
from mirrormq.wire.properties import BasicProperties, decode_properties, encode_properties

QUEUE = Queue("/", "q", 7, node="a", view=View(1, 1, ("a", "b"), frozenset("ab")))


def message(sequence: int, body: str = "", delivery_mode: int = 2) -> Message:
    headers = {"mine": Field("S", b"kept")}
    payload = encode_properties(BasicProperties(delivery_mode=delivery_mode, headers=headers))
    envelope = make_envelope(encode_basic_publish("amq.direct", "key"), payload)
    made = Message(envelope, build_frames(1, payload, (body or f"m{sequence}").encode(), 0))
    made.sequence = sequence
    return made


class Node:
    """Disk with a journal and orphans, which may crash."""

    def __init__(self, seed: int = 1) -> None:
        self.disk = SimulatedDisk(random.Random(seed).randrange)
        self.start()

    def start(self) -> None:
        self.journal = Journal(self.disk, "journal", make_envelope, segment_bytes=64 * 1024)
        self.journal.open()
        self.journal.forget_unknown([])
        self.orphans = OrphanStore(self.journal, EntryLog(self.disk, "orphans"))
        self.orphans.open()

    def crash(self) -> None:
        self.disk.crash()
        self.start()

    def bodies(self, number: int) -> list[str]:
        return [body_of(found.frames).decode() for found in self.orphans.read(number, limit=10**6)]


# -- set aside -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_orphans_set_aside_survive_a_crash_with_their_title(seed: int) -> None:
    node = Node(seed)
    assert (
        node.orphans.set_aside(QUEUE, "a", 5, False, [message(number) for number in range(10, 1010)]) == 1000
    )
    node.crash()
    title = node.orphans.titles[1]
    assert (title.queue, title.node, title.at_ms, title.created_in_partition) == (QUEUE, "a", 5, False)
    assert node.bodies(1) == [f"m{number}" for number in range(10, 1010)]
    assert node.orphans.count(1) == 1000 and node.orphans.size_bytes(1) > 3000


def test_transient_messages_are_kept_as_well() -> None:
    node = Node()
    node.orphans.set_aside(QUEUE, "a", 5, False, [message(1, delivery_mode=1)])
    node.crash()
    assert node.bodies(1) == ["m1"]


def test_nothing_to_set_aside_is_no_batch() -> None:
    node = Node()
    assert node.orphans.set_aside(QUEUE, "a", 5, False, []) == 0
    assert not node.orphans.titles


@pytest.mark.parametrize("seed", range(20))
def test_a_batch_that_was_cut_short_has_what_was_written_and_a_deleted_one_stays_deleted(seed: int) -> None:
    node = Node(seed)

    def messages() -> Iterator[Message]:
        yield from (message(number) for number in range(BATCH_MESSAGES * 2))
        raise RuntimeError("the machine stops here")

    with pytest.raises(RuntimeError):
        node.orphans.set_aside(QUEUE, "a", 5, False, messages())
    node.crash()
    assert node.orphans.count(1) == BATCH_MESSAGES * 2
    node.orphans.delete(1)
    node.crash()
    assert not node.orphans.titles and not node.orphans.count(1)


def test_a_title_without_messages_is_forgotten() -> None:
    node = Node()

    node.orphans._log.append(msgspec.msgpack.encode(OrphanTitle(3, "a", 5, QUEUE, False)), sync=True)
    node.crash()
    assert not node.orphans.titles


def test_batches_are_independent_and_go_with_their_last_message() -> None:
    node = Node()
    node.orphans.set_aside(QUEUE, "a", 5, False, [message(1), message(2)])
    node.orphans.set_aside(QUEUE, "a", 6, False, [message(1, "again")])
    node.orphans.settled(1, [1])
    assert (node.bodies(1), node.bodies(2)) == (["m2"], ["again"])
    node.orphans.settled(1, [2])
    assert list(node.orphans.titles) == [2]
    node.orphans.delete(2)
    assert not node.orphans.titles
    node.crash()
    assert not node.orphans.titles


def test_reading_goes_on_behind_a_sequence() -> None:
    node = Node()
    node.orphans.set_aside(QUEUE, "a", 5, False, [message(number) for number in (3, 5, 9)])
    assert [found.sequence for found in node.orphans.read(1, after=3, limit=1)] == [5]


# -- republish -------------------------------------------------------------------------------------


def test_an_orphan_says_where_it_was_and_is_otherwise_the_same() -> None:
    found = marked(message(4), "a@host")
    properties = decode_properties(properties_of(found.frames), 0)
    assert properties.headers == {"mine": Field("S", b"kept"), ORPHANED_FROM: Field("S", b"a@host")}
    assert found.envelope.persistent and body_of(found.frames) == b"m4"
    assert (found.envelope.exchange, found.envelope.routing_key) == ("amq.direct", "key")


class HealedQueue:
    """Queue that accepts publishes and confirms them on request."""

    def __init__(self) -> None:
        self.taken: list[str] = []
        self.waiting: list[tuple[Publisher, int]] = []
        self.room = 10**6

    def publish(self, messages: list[Message], publisher: Publisher, first: int) -> None:
        for at, each in enumerate(messages):
            if self.room:
                self.room -= 1
                self.taken.append(body_of(each.frames).decode())
                self.waiting.append((publisher, first + at))
            else:
                publisher.refused(first + at)

    def confirm(self) -> None:
        waiting, self.waiting = self.waiting, []
        for publisher, number in waiting:
            publisher.confirmed(number, number)


def put_back(node: Node, queue: HealedQueue) -> list[bool]:
    finished: list[bool] = []
    OrphanRepublisher(node.orphans, 1, queue.publish, lambda: finished.append(True)).resume()
    return finished


def test_orphans_are_put_back_in_order_and_leave_the_store_when_confirmed() -> None:
    node, queue = Node(), HealedQueue()
    count = BATCH_MESSAGES * 2 + 7
    node.orphans.set_aside(QUEUE, "a", 5, False, [message(number) for number in range(1, count + 1)])
    finished = put_back(node, queue)
    assert len(queue.taken) == BATCH_MESSAGES and node.orphans.count(1) == count, "not before they are safe"
    while queue.waiting:
        queue.confirm()
    assert queue.taken == [f"m{number}" for number in range(1, count + 1)]
    assert finished == [True] and not node.orphans.titles


def test_a_queue_that_confirms_at_once_does_not_dig_itself_in() -> None:
    node = Node()
    count = BATCH_MESSAGES * 300
    taken: list[int] = []

    def publish(messages: list[Message], publisher: Publisher, first: int) -> None:
        taken.append(first)
        publisher.confirmed(first, first)

    node.orphans.set_aside(QUEUE, "a", 5, False, (message(number) for number in range(1, count + 1)))
    OrphanRepublisher(node.orphans, 1, publish, lambda: None).resume()
    assert len(taken) == count and not node.orphans.titles


def test_after_a_crash_what_was_not_confirmed_is_put_back_again() -> None:
    node, queue = Node(), HealedQueue()
    node.orphans.set_aside(QUEUE, "a", 5, False, [message(1), message(2)])
    put_back(node, queue)
    node.crash()
    queue.waiting.clear()
    put_back(node, queue)
    queue.confirm()
    assert queue.taken == ["m1", "m2", "m1", "m2"] and not node.orphans.titles


def test_a_full_queue_leaves_the_rest_in_the_store_for_another_time() -> None:
    node, queue = Node(), HealedQueue()
    queue.room = 2
    node.orphans.set_aside(QUEUE, "a", 5, False, [message(number) for number in (1, 2, 3, 4)])
    finished = put_back(node, queue)
    queue.confirm()
    assert finished == [True] and node.bodies(1) == ["m3", "m4"]
    queue.room = 9
    put_back(node, queue)
    queue.confirm()
    assert queue.taken == ["m1", "m2", "m3", "m4"] and not node.orphans.titles
