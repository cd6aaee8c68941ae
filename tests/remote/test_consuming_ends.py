"""Ends of consuming from a queue of another node: deleted queues, lost nodes, exclusive queues."""

from __future__ import annotations

from mirrormq.metadata import commands, records
from mirrormq.remote.remote_queue import RemoteQueue
from mirrormq.wire import methods
from tests.remote.cluster import Cluster
from tests.remote.test_consuming import consume, prepared


def test_a_queue_that_is_deleted_cancels_its_consumers_everywhere() -> None:
    cluster, client = prepared(1)
    consume(client)
    deleter = cluster.connect("b")
    assert deleter.call(methods.encode_queue_delete("q")) == methods.QueueDeleteOk(0)
    assert client.methods() == [methods.BasicCancel("c", True)]
    client.send(methods.encode_basic_ack(1, False))
    assert client.read() == []


def test_an_auto_delete_queue_goes_with_its_last_consumer_on_another_node() -> None:
    cluster = Cluster("a", "b")
    cluster.put(records.Queue("/", "q", 0, False, True, False, b"", "b"))
    client = cluster.connect("a")
    consume(client)
    client.call(methods.encode_basic_cancel("c", False))
    cluster.settle()
    assert "q" not in cluster["a"].vhost.queues and "q" not in cluster["b"].vhost.queues


def test_a_node_that_is_lost_gives_everything_back_in_order() -> None:
    cluster, client = prepared(10)
    consume(client, 6)
    client.send(methods.encode_basic_ack(2, False))
    cluster.settle()
    assert [message.sequence for message in cluster["b"].remote.held(1)] == [1, 3, 4, 5, 6, 7]
    assert (cluster["b"].remote.served_epoch(1), cluster["a"].remote.served_epoch(1)) == (1, 0)
    cluster.die("a")
    assert cluster.counts("q") == (9, 0) and not cluster.queue("q").consumers.all
    assert cluster.connect("b").drain("q") == [b"%d" % n for n in range(1, 11) if n != 2]


def test_messages_of_a_lost_incarnation_are_ignored() -> None:
    cluster, client = prepared(3)
    consume(client)
    cluster["b"].remote.lost("a", 1)
    client.send(methods.encode_basic_ack(3, True))
    client.read()
    assert cluster.counts("q") == (3, 0)
    cluster.cut("a", "b")
    cluster.join("a", "b")
    cluster.settle()
    assert cluster.counts("q") == (3, 0)


def test_exclusive_queues_of_other_nodes_are_locked_but_can_be_published_to() -> None:
    cluster = Cluster("a", "b")
    owner = cluster.connect("b")
    record = records.Queue("/", "reply", 0, False, False, True, b"", "b")
    cluster["b"].vhost.claim_exclusive("reply", owner.connection)
    cluster.put(record)
    client = cluster.connect("a")
    client.publish("reply", b"1")
    client.read()
    assert owner.drain("reply") == [b"1"]
    locked = (
        "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'reply' in vhost '/'. It could be "
        "originally declared on another connection or the exclusive property value does not match that of "
        "the original declaration."
    )
    for request in (
        methods.encode_basic_consume("reply", "c"),
        methods.encode_basic_get("reply"),
        methods.encode_queue_purge("reply"),
        methods.encode_queue_declare("reply", passive=True),
        methods.encode_queue_delete("reply"),
    ):
        client.send(request)
        (closed,) = client.methods()
        assert (closed.reply_code, closed.reply_text) == (405, locked)
        client.send(methods.encode_channel_close_ok(), methods.encode_channel_open())
        client.read()
    assert isinstance(cluster["a"].vhost.queues["reply"], RemoteQueue)


def test_deleting_a_vhosts_queue_while_a_delivery_is_under_way() -> None:
    cluster, client = prepared(5)
    client.send(methods.encode_basic_consume("q", "c"))
    cluster["a"].node.turn()
    cluster.carry("a", "b")
    cluster["b"].node.turn()
    cluster.write(commands.DeleteQueue("/", "q"))
    answers = client.methods()
    assert [type(one) for one in answers] == [methods.ChannelClose]
    assert answers[0].reply_text == "NOT_FOUND - no queue 'q' in vhost '/'"
