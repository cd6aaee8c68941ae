"""Orphans in a running broker: republished, kept, declared again, left if their queue was deleted."""

from __future__ import annotations

from mirrormq.cluster.orphan_restorer import ATTEMPT_MS, OrphanRestorer
from mirrormq.cluster.orphan_store import ORPHANED_FROM, OrphanStore
from mirrormq.metadata import commands as c
from mirrormq.metadata.records import Policy, Queue
from mirrormq.storage.entry_log import EntryLog
from mirrormq.wire import methods
from mirrormq.wire.fields import Field
from tests.cluster.test_orphans import message
from tests.harness import Client, Node


def orphans_of(node: Node) -> OrphanStore:
    found = OrphanStore(node.journal, EntryLog(node.disk, "data/orphans"))
    found.open()
    return found


def start() -> tuple[Node, Client, OrphanStore]:
    node = Node()
    client = node.connect()
    client.call(methods.encode_queue_declare("q", durable=True))
    return node, client, orphans_of(node)


def set_aside(orphans: OrphanStore, name: str, *numbers: int, created_in_partition: bool = False) -> None:
    queue = Queue("/", name, 99, node="other")
    orphans.set_aside(queue, "lost@host", 1, created_in_partition, [message(number) for number in numbers])


def test_orphans_go_back_to_their_queue_and_say_where_they_were() -> None:
    node, client, orphans = start()
    set_aside(orphans, "q", 5, 6)
    OrphanRestorer(node.broker, orphans)
    node.turn()
    assert not orphans.titles, "confirmed, so they are not needed here"
    found = [client.get("q") for _ in range(2)]
    assert [each.body for each in found if each] == [b"m5", b"m6"]
    for each in found:
        assert each is not None and each.properties is not None and each.properties.headers is not None
        assert each.properties.headers[ORPHANED_FROM] == Field("S", b"lost@host")
        assert each.properties.delivery_mode == 2 and not each.method.redelivered


def test_a_policy_keeps_them_and_an_operator_puts_them_back() -> None:
    node, client, orphans = start()
    node.write(c.PutPolicy(Policy("/", "p", "^q$", definition={"ha-mode": "all", "ha-orphans": "keep"})))
    set_aside(orphans, "q", 5)
    back = OrphanRestorer(node.broker, orphans)
    node.advance(2 * ATTEMPT_MS)
    assert client.get("q") is None and orphans.count(1) == 1
    assert back.restore(1) and not back.restore(2)
    node.turn()
    assert client.drain("q") == [b"m5"] and not orphans.titles


def test_a_queue_declared_apart_is_declared_again() -> None:
    node, client, orphans = start()
    set_aside(orphans, "new", 5, created_in_partition=True)
    OrphanRestorer(node.broker, orphans)
    node.turn()
    assert client.drain("new") == [b"m5"]
    record = node.metadata.state.queues["/", "new"]
    assert record.durable and record.queue_id != 99


def test_the_orphans_of_a_deleted_queue_stay_until_it_exists_or_an_operator_restores_them() -> None:
    node, client, orphans = start()
    set_aside(orphans, "gone", 5)
    set_aside(orphans, "also gone", 6)
    back = OrphanRestorer(node.broker, orphans)
    node.advance(ATTEMPT_MS)
    assert len(orphans.titles) == 2 and ("/", "gone") not in node.metadata.state.queues
    client.call(methods.encode_queue_declare("gone", durable=True))
    node.advance(ATTEMPT_MS)
    assert client.drain("gone") == [b"m5"]
    assert back.restore(2)
    node.turn()
    assert client.drain("also gone") == [b"m6"] and not orphans.titles


def test_orphans_that_a_full_queue_refuses_are_published_again() -> None:
    node, client, orphans = start()
    arguments = {"x-max-length": Field("I", 1), "x-overflow": Field("S", b"reject-publish")}
    client.call(methods.encode_queue_declare("small", durable=True, arguments=arguments))
    set_aside(orphans, "small", 5, 6)
    OrphanRestorer(node.broker, orphans)
    node.turn()
    assert orphans.count(1) == 1
    assert client.drain("small") == [b"m5"]
    node.advance(ATTEMPT_MS)
    assert client.drain("small") == [b"m6"] and not orphans.titles


def test_after_a_restart_the_rest_goes_home() -> None:
    node, _, orphans = start()
    node.write(c.PutPolicy(Policy("/", "p", "^q$", definition={"ha-mode": "all", "ha-orphans": "keep"})))
    set_aside(orphans, "q", 5)
    node.restart("power")
    node.write(c.DeletePolicy("/", "p"))
    again = orphans_of(node)
    OrphanRestorer(node.broker, again)
    node.turn()
    assert node.connect().drain("q") == [b"m5"] and not again.titles
