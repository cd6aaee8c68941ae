"""Log indexes of a queue: the metadata log entries that decided its record."""

from __future__ import annotations

from mirrormq.metadata import commands as c
from mirrormq.metadata.log_indexes import UNKNOWN, LogIndexes, decided_at
from mirrormq.metadata.records import Node, Queue, Vhost
from mirrormq.metadata.ring_view import View
from mirrormq.metadata.state import MetadataState
from mirrormq.protocol_version import PROTOCOL_VERSION

OLDER = PROTOCOL_VERSION - 1


class Log:
    """Metadata of a cluster of nodes a and b, with a queue on both, declared by entry 4."""

    def __init__(self, version_of_b: int = PROTOCOL_VERSION) -> None:
        self.state = MetadataState()
        self.last = 0
        self.add(c.PutVhost(Vhost("/")))
        self.add(node("a"))
        self.add(node("b", version=version_of_b))
        view = View(1, 0, ("a", "b"), frozenset("ab"))
        self.add(c.PutQueue(Queue("/", "q", 7, node="a", view=view)))

    def add(self, command: c.Command) -> None:
        self.last += 1
        self.state.apply(command, self.last)

    def change(self, view: View) -> None:
        self.add(c.ChangeViews([c.ViewChange(7, view)]))

    @property
    def queue(self) -> Queue:
        return self.state.queues["/", "q"]


def node(name: str, incarnation: int = 1, version: int = PROTOCOL_VERSION) -> c.PutNode:
    return c.PutNode(Node(name, f"{name}:1", incarnation, running=True, version=version))


def test_a_declaration_decides_everything() -> None:
    assert Log().queue.indexes == decided_at(4)


def test_a_view_of_the_same_epoch_is_a_view() -> None:
    log = Log()
    log.change(log.queue.ring.with_members(("a",)))
    assert log.queue.indexes == LogIndexes(declared=4, view=5, epoch=4, gap=4)


def test_a_promoted_mirror_that_lives_begins_an_epoch_without_a_gap() -> None:
    log = Log()
    log.change(log.queue.ring.with_members(("b",), epoch=2))
    assert log.queue.indexes == LogIndexes(declared=4, view=5, epoch=5, gap=4)


def test_a_master_from_its_disk_begins_an_epoch_with_a_gap() -> None:
    log = Log()
    log.add(node("b", 2))
    returned = log.queue.ring.with_members(("b",), epoch=2)._replace(incarnations=frozenset({("b", 2)}))
    log.change(returned)
    assert log.queue.indexes == LogIndexes(declared=4, view=6, epoch=6, gap=6)


def test_a_master_that_was_not_synchronised_begins_an_epoch_with_a_gap() -> None:
    log = Log()
    log.change(log.queue.ring._replace(version=1, in_sync=frozenset("a")))
    log.change(log.queue.ring.with_members(("b",), epoch=2))
    assert log.queue.indexes == LogIndexes(declared=4, view=6, epoch=6, gap=6)


def test_a_late_view_decides_nothing() -> None:
    log = Log()
    log.change(log.queue.ring.with_members(("b",), epoch=2)._replace(version=9))
    assert log.queue.indexes == decided_at(4)


def test_log_indexes_begin_when_the_last_older_member_is_upgraded() -> None:
    log = Log(version_of_b=OLDER)
    assert log.queue.indexes == LogIndexes() and log.queue.indexes.epoch == UNKNOWN
    log.change(log.queue.ring.with_members(("a",)))
    assert log.queue.indexes == LogIndexes(), "a snapshot of an older member would lack them"
    log.add(c.BeginLogIndexes())
    assert log.queue.indexes == LogIndexes(), "and b still lacks them"
    log.add(node("b", 2))
    log.change(log.queue.ring.with_members(("a", "b")))
    assert log.queue.indexes == LogIndexes(), "a member that does not know it yet has the same ones"
    log.add(c.BeginLogIndexes())
    assert log.queue.indexes == decided_at(log.last)
    assert log.state.queues_without_indexes == 0


def test_queues_without_log_indexes_are_counted() -> None:
    log = Log(version_of_b=OLDER)
    assert log.state.queues_without_indexes == 1
    assert MetadataState.from_snapshot(log.state.snapshot()).queues_without_indexes == 1
    log.change(log.queue.ring.with_members(("a",)))
    assert log.state.queues_without_indexes == 1
    log.add(c.DeleteQueue("/", "q"))
    assert log.state.queues_without_indexes == 0


def test_log_indexes_survive_a_snapshot() -> None:
    log = Log()
    log.change(log.queue.ring.with_members(("b",), epoch=2))
    assert MetadataState.from_snapshot(log.state.snapshot()).queues == log.state.queues
