"""Publisher confirms: never early, never missing, in as few methods as possible, after returns."""

from __future__ import annotations

from mirrormq.wire import methods
from mirrormq.wire.fields import Field
from mirrormq.wire.methods import BasicAck, BasicNack, BasicReturn
from tests.harness import Client, Node


def confirming(node: Node) -> Client:
    client = node.connect()
    client.send(methods.encode_confirm_select())
    client.read()
    return client


def declare(client: Client, name: str, *, durable: bool = False, **arguments: Field) -> None:
    table = {key.replace("_", "-"): field for key, field in arguments.items()}
    client.send(methods.encode_queue_declare(name, durable=durable, arguments=table))
    (answer,) = client.read()
    assert isinstance(answer.method, methods.QueueDeclareOk)


def test_a_batch_is_confirmed_with_one_method() -> None:
    client = confirming(Node())
    declare(client, "q")
    client.publish("q", *[b"%d" % number for number in range(100)])
    assert client.methods() == [BasicAck(100, True)]
    client.publish("q", b"one")
    assert client.methods() == [BasicAck(101, False)]


def test_persistent_messages_wait_for_the_flush() -> None:
    node = Node()
    client = confirming(node)
    declare(client, "q", durable=True)
    client.publish("q", b"1", b"2", persistent=True)
    assert client.read(turn=False) == []
    assert node.journal.needs_sync
    assert client.methods() == [BasicAck(2, True)]
    assert not node.journal.needs_sync


def test_bytes_written_early_are_synced_all_the_same() -> None:
    """Write before the turn ends, by a full buffer or a page read back: that is not yet a sync."""
    node = Node()
    client = confirming(node)
    declare(client, "q", durable=True)
    client.publish("q", b"1", persistent=True)
    node.journal.writer.drain()
    assert client.methods() == [BasicAck(1, False)]
    node.restart("power")
    assert node.counts("q") == (1, 0)


def test_a_turn_without_a_commit_confirms_nothing_that_must_be_on_disk() -> None:
    node = Node()
    client = confirming(node)
    declare(client, "q", durable=True)
    client.send(methods.encode_basic_consume("q", "c"))
    client.read()
    client.publish("q", b"1", persistent=True)
    node.broker.turn(commit=False)
    assert [type(one.method) for one in client.read(turn=False)] == [methods.BasicDeliver]
    assert client.methods() == [BasicAck(1, False)]
    node.restart("power")
    assert node.counts("q") == (1, 0)


def test_a_transient_message_may_overtake_a_persistent_one_only_by_itself() -> None:
    """Check that the publishes of one turn are confirmed together, because reports leave at the end of a
    turn."""
    client = confirming(Node())
    declare(client, "q", durable=True)
    client.publish("q", b"1", persistent=True)
    client.publish("q", b"2")
    assert client.methods() == [BasicAck(2, True)]


def test_a_publish_to_several_queues_is_confirmed_once() -> None:
    node = Node()
    client = confirming(node)
    for name, durable in (("a", True), ("b", False), ("c", True)):
        declare(client, name, durable=durable)
        client.call(methods.encode_queue_bind(name, "amq.fanout", ""))
    client.publish("", b"1", b"2", exchange="amq.fanout", persistent=True)
    assert client.read(turn=False) == []
    assert client.methods() == [BasicAck(2, True)]
    assert [node.counts(name) for name in "abc"] == [(2, 0)] * 3


def test_unrouted_messages_are_confirmed_too() -> None:
    client = confirming(Node())
    client.publish("nowhere", b"1", b"2")
    assert client.methods() == [BasicAck(2, True)]


def test_a_return_comes_before_its_confirm() -> None:
    client = confirming(Node())
    declare(client, "q")
    client.publish("q", b"1")
    client.publish("nowhere", b"2", mandatory=True)
    client.publish("q", b"3")
    received = client.read()
    assert [type(one.method) for one in received] == [BasicReturn, BasicAck]
    assert received[0].body == b"2"
    assert received[0].method == BasicReturn(312, "NO_ROUTE", "", "nowhere")
    assert received[1].method == BasicAck(3, True)


def test_refused_messages_are_nacked_and_the_others_acked() -> None:
    client = confirming(Node())
    declare(client, "q", x_max_length=Field("I", 2), x_overflow=Field("S", b"reject-publish"))
    client.publish("q", b"1", b"2", b"3", b"4")
    assert client.methods() == [BasicNack(3, False, False), BasicNack(4, False, False), BasicAck(2, True)]
    client.drain("q")
    client.publish("q", b"5")
    assert client.methods() == [BasicAck(5, False)]


def test_a_message_that_one_of_its_queues_refuses_is_nacked() -> None:
    node = Node()
    client = confirming(node)
    declare(client, "full", x_max_length=Field("I", 0), x_overflow=Field("S", b"reject-publish"))
    declare(client, "roomy", durable=True)
    for name in ("full", "roomy"):
        client.call(methods.encode_queue_bind(name, "amq.fanout", ""))
    client.publish("", b"1", exchange="amq.fanout", persistent=True)
    assert client.methods() == [BasicNack(1, False, False)]
    assert node.counts("roomy") == (1, 0)


def test_deleting_the_queue_confirms_what_waits() -> None:
    client = confirming(Node())
    declare(client, "q", durable=True)
    client.publish("q", b"1", persistent=True)
    client.send(methods.encode_queue_delete("q"))
    assert client.methods() == [methods.QueueDeleteOk(1), BasicAck(1, False)]


def test_nothing_is_said_on_a_closed_channel() -> None:
    client = confirming(Node())
    declare(client, "q", durable=True)
    client.publish("q", b"1", persistent=True)
    client.send(methods.encode_channel_close(200, "bye", 0, 0))
    assert client.methods() == [methods.ChannelCloseOk()]


def test_a_reopened_channel_counts_from_one_and_gets_nothing_of_its_predecessor() -> None:
    client = confirming(Node())
    declare(client, "q", durable=True)
    client.publish("q", b"1", b"2", persistent=True)
    client.send(
        methods.encode_channel_close(200, "bye", 0, 0),
        methods.encode_channel_open(),
        methods.encode_confirm_select(),
    )
    client.publish("q", b"3", persistent=True)
    assert client.methods()[-2:] == [methods.ConfirmSelectOk(), BasicAck(1, False)]


def test_confirms_of_two_channels_do_not_mix() -> None:
    client = confirming(Node())
    declare(client, "q")
    client.send(methods.encode_channel_open(), methods.encode_confirm_select(), channel=2)
    client.read()
    client.publish("q", b"1", b"2")
    client.publish("q", b"3", channel=2)
    assert sorted((one.channel, one.method) for one in client.read()) == [
        (1, BasicAck(2, True)),
        (2, BasicAck(1, False)),
    ]
