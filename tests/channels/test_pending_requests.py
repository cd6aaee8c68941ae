"""Late replies: which channel waits, which continues, and what happens to a reply that no channel awaits."""

from __future__ import annotations

import pytest

from mirrormq import limits
from mirrormq.errors import AccessRefused, AmqpError, NotFound, PreconditionFailed
from mirrormq.wire import methods
from tests.channels.slow_queue import SlowQueue, make_slow
from tests.harness import Client, Node, deliveries

ASKING = {
    methods.BASIC_GET: methods.encode_basic_get("q"),
    methods.BASIC_CONSUME: methods.encode_basic_consume("q", "c"),
    methods.QUEUE_PURGE: methods.encode_queue_purge("q"),
    methods.QUEUE_DELETE: methods.encode_queue_delete("q"),
    methods.QUEUE_DECLARE: methods.encode_queue_declare("q", passive=True),
}


def prepared(count: int = 0) -> tuple[Node, Client, SlowQueue]:
    """Return a node with a slow queue q with messages 1, 2, 3 …, and a client with two channels."""
    node = Node()
    client = node.connect()
    client.call(methods.encode_queue_declare("q"))
    client.call(methods.encode_queue_declare("quick"))
    if count:
        client.publish("q", *[b"%d" % number for number in range(1, count + 1)])
    client.call(methods.encode_channel_open(), channel=2)
    return node, client, make_slow(node, "q")


def test_a_get_is_answered_when_the_queue_answers() -> None:
    _, client, slow = prepared(2)
    client.send(methods.encode_basic_get("q"))
    assert client.read() == []
    slow.answer()
    (got,) = client.read()
    assert (got.body, got.method.message_count) == (b"1", 1)


def test_later_methods_of_a_channel_wait_and_keep_their_order() -> None:
    node, client, slow = prepared(1)
    client.send(methods.encode_basic_get("q"))
    client.publish("quick", b"a", b"b")
    client.publish("quick", b"c", message_id="1")
    client.send(methods.encode_basic_ack(1, False), methods.encode_basic_get("quick", True))
    client.send(methods.encode_channel_close(200, "", 0, 0))
    assert client.read() == [] and node.counts("quick") == (0, 0)
    slow.answer()
    assert [type(method) for method in client.methods()] == [
        methods.BasicGetOk, methods.BasicGetOk, methods.ChannelCloseOk,
    ]  # fmt: skip
    assert slow.inner.backing.unacked_count == 0
    assert node.connect().drain("quick") == [b"b", b"c"]


def test_the_other_channels_go_on() -> None:
    _, client, slow = prepared(1)
    client.send(methods.encode_basic_get("q"))
    client.publish("quick", b"a", channel=2)
    client.send(methods.encode_basic_get("quick", True), channel=2)
    assert [(one.channel, one.body) for one in client.read()] == [(2, b"a")]
    slow.answer()
    assert [(one.channel, one.body) for one in client.read()] == [(1, b"1")]


@pytest.mark.parametrize("method_id", ASKING)
def test_a_refusal_that_comes_later_closes_the_channel_like_one_at_once(method_id: int) -> None:
    _, client, slow = prepared()
    slow.refusal = NotFound("no queue 'q' in vhost '/'")
    client.send(ASKING[method_id], methods.encode_queue_declare("never"))
    slow.answer()
    (closed,) = client.methods()
    assert isinstance(closed, methods.ChannelClose)
    assert (closed.reply_code, closed.reply_text) == (404, "NOT_FOUND - no queue 'q' in vhost '/'")
    assert (closed.class_id << 16) + closed.method_id == method_id
    client.send(methods.encode_channel_close_ok())
    assert isinstance(client.call(methods.encode_channel_open()), methods.ChannelOpenOk)


def test_a_hard_error_that_comes_later_closes_the_connection() -> None:
    _, client, slow = prepared()
    slow.refusal = AmqpError()
    client.send(methods.encode_basic_get("q"))
    slow.answer()
    (closed,) = client.methods()
    assert isinstance(closed, methods.ConnectionClose)
    assert (closed.reply_code, closed.reply_text) == (541, "INTERNAL_ERROR")


@pytest.mark.parametrize("no_ack", [False, True])
def test_a_message_for_a_client_that_is_gone_goes_back(no_ack: bool) -> None:
    node, client, slow = prepared(1)
    client.send(methods.encode_basic_get("q", no_ack))
    client.lose()
    slow.answer()
    node.turn()
    assert (slow.inner.backing.ready_count, slow.inner.backing.unacked_count) == (1, 0)


def test_a_message_for_a_channel_that_was_closed_meanwhile_goes_back() -> None:
    _, client, slow = prepared(1)
    client.send(methods.encode_basic_get("q"))
    channel = client.connection.channels[1]
    client.connection.close_channel(channel, PreconditionFailed("timeout", class_id=0))
    slow.answer()
    (closed,) = client.methods()
    assert isinstance(closed, methods.ChannelClose)
    assert (slow.inner.backing.ready_count, slow.inner.backing.unacked_count) == (1, 0)


def test_a_close_that_crosses_ours_is_answered() -> None:
    _, client, _ = prepared(1)
    client.send(methods.encode_basic_get("q"), methods.encode_channel_close(200, "", 0, 0))
    channel = client.connection.channels[1]
    client.connection.close_channel(channel, PreconditionFailed("timeout", class_id=0))
    assert [type(one) for one in client.methods()] == [methods.ChannelClose, methods.ChannelCloseOk]
    client.send(methods.encode_channel_close_ok())
    assert isinstance(client.call(methods.encode_channel_open()), methods.ChannelOpenOk)


def test_methods_sent_before_connection_close_are_done_first() -> None:
    node, client, slow = prepared(1)
    client.send(methods.encode_basic_get("q"))
    client.publish("quick", b"a")
    client.send(methods.encode_connection_close(200, "", 0, 0), channel=0)
    assert client.read() == []
    slow.answer()
    assert [type(one) for one in client.methods()] == [methods.BasicGetOk, methods.ConnectionCloseOk]
    assert node.connect().drain("quick") == [b"a"]


def test_connection_close_is_answered_after_a_channel_that_waited_has_failed() -> None:
    _, client, slow = prepared(1)
    slow.refusal = NotFound("no queue 'q' in vhost '/'")
    client.send(methods.encode_basic_get("q"))
    client.send(methods.encode_connection_close(200, "", 0, 0), channel=0)
    slow.answer()
    assert [type(one) for one in client.methods()] == [methods.ChannelClose, methods.ConnectionCloseOk]


def test_a_connection_that_fails_while_it_waits_to_close_gets_close_ok() -> None:
    _, client, slow = prepared(1)
    slow.refusal = AmqpError()
    client.send(methods.encode_basic_get("q"))
    client.send(methods.encode_connection_close(200, "", 0, 0), channel=0)
    slow.answer()
    assert isinstance(client.methods()[-1], methods.ConnectionClose)
    client.send(methods.encode_connection_close_ok(), channel=0)
    client.read()
    assert client.connection.finished


def test_a_consumer_whose_client_is_gone_does_not_join() -> None:
    _, client, slow = prepared(1)
    client.send(methods.encode_basic_consume("q", "c"))
    client.lose()
    slow.answer()
    assert not slow.inner.consumers.all


def test_consuming_begins_with_the_answer() -> None:
    _, client, slow = prepared(1)
    client.send(methods.encode_basic_consume("q", "c"))
    assert client.read() == []
    slow.answer()
    received = client.read()
    assert isinstance(received[0].method, methods.BasicConsumeOk)
    assert deliveries(received) == [(1, b"1", False)]


def test_a_refused_consumer_leaves_its_tag_free() -> None:
    _, client, slow = prepared()
    slow.refusal = AccessRefused("queue 'q' in vhost '/' in exclusive use")
    client.send(methods.encode_basic_consume("q", "c", exclusive=True))
    slow.answer()
    (closed,) = client.methods()
    assert closed.reply_text == "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use"
    client.send(methods.encode_channel_close_ok(), methods.encode_channel_open())
    client.send(methods.encode_basic_consume("q", "c"))
    slow.answer()
    assert [type(one) for one in client.methods()] == [methods.ChannelOpenOk, methods.BasicConsumeOk]


def test_a_delete_is_two_questions() -> None:
    node, client, slow = prepared(3)
    client.send(methods.encode_queue_delete("q"), methods.encode_queue_declare("q", passive=True))
    assert "q" in node.broker.vhosts["/"].queues
    slow.answer()
    deleted, closed = client.methods()
    assert deleted == methods.QueueDeleteOk(3)
    assert closed.reply_text == "NOT_FOUND - no queue 'q' in vhost '/'"


def test_a_client_that_floods_a_waiting_channel_is_no_longer_read_from() -> None:
    node, client, slow = prepared(1)
    client.send(methods.encode_basic_get("q"))
    client.publish("quick", *[b"x" * 1000] * 1000)
    client.publish("quick", *[b"x" * 1000] * 1000)
    held_while_waiting = client.connection.held
    client.publish("quick", b"last", channel=2)
    assert client.connection.buffered_bytes > 0
    slow.answer()
    assert (held_while_waiting, client.connection.held) == (True, False)
    client.read()
    assert node.counts("quick") == (2001, 0)
    assert limits.POSTPONED_BYTES_MAX < 2_000_000


def test_a_publisher_to_a_full_queue_waits_until_there_is_room() -> None:
    _, client, slow = prepared()
    slow.full = slow.congested = True
    client.publish("q", b"1")
    client.publish("q", b"2")
    assert slow.inner.backing.ready_count == 1
    slow.full = slow.congested = False
    slow.waiting_for_room.pop()()
    client.read()
    assert slow.inner.backing.ready_count == 2


def test_a_transaction_goes_to_whatever_stands_behind_the_name_at_commit() -> None:
    node, client, slow = prepared()
    client.call(methods.encode_tx_select())
    client.publish("q", b"1")
    node.broker.vhosts["/"].queues["q"] = node.queue("quick")
    assert isinstance(client.call(methods.encode_tx_commit()), methods.TxCommitOk)
    assert (slow.inner.backing.ready_count, node.counts("quick")) == (0, (1, 0))


def test_a_channel_that_publishes_forgets_a_queue_that_was_replaced() -> None:
    node, client, slow = prepared()
    client.publish("q", b"1")
    other = node.queue("quick")
    vhost = node.broker.vhosts["/"]
    vhost.queues["q"] = other
    vhost.router.invalidate()
    client.publish("q", b"2")
    assert (slow.inner.backing.ready_count, other.backing.ready_count) == (1, 1)


def test_a_declaration_waits_for_its_count() -> None:
    _, client, slow = prepared(4)
    client.send(methods.encode_queue_declare("q"))
    assert client.read() == []
    slow.answer()
    assert client.methods() == [methods.QueueDeclareOk("q", 4, 0)]
