"""Transactions: everything at commit, nothing at rollback, and commit-ok guarantees what a confirm
guarantees."""

from __future__ import annotations

from mirrormq.wire import methods
from mirrormq.wire.fields import Field
from tests.harness import Client, Node, deliveries

COMMIT, ROLLBACK = methods.encode_tx_commit(), methods.encode_tx_rollback()


def transacting(node: Node, *, durable: bool = False) -> Client:
    client = node.connect()
    client.send(methods.encode_queue_declare("q", durable=durable), methods.encode_tx_select())
    assert isinstance(client.methods()[-1], methods.TxSelectOk)
    return client


def test_publishes_appear_at_commit() -> None:
    node = Node()
    client = transacting(node)
    client.publish("q", b"1", b"2")
    assert client.methods() == []
    assert node.counts("q") == (0, 0)
    assert client.call(COMMIT) == methods.TxCommitOk()
    assert client.drain("q") == [b"1", b"2"]


def test_commit_is_answered_after_the_flush() -> None:
    node = Node()
    client = transacting(node, durable=True)
    client.publish("q", b"1", b"2", persistent=True)
    client.send(COMMIT)
    assert client.read(turn=False) == []
    assert client.methods() == [methods.TxCommitOk()]
    node.restart("power")
    assert node.counts("q") == (2, 0)


def test_an_empty_commit_is_answered() -> None:
    assert transacting(Node()).call(COMMIT) == methods.TxCommitOk()


def test_rollback_forgets_publishes() -> None:
    node = Node()
    client = transacting(node)
    client.publish("q", b"1")
    assert client.call(ROLLBACK) == methods.TxRollbackOk()
    assert client.call(COMMIT) == methods.TxCommitOk()
    assert node.counts("q") == (0, 0)


def test_acknowledgements_count_at_commit() -> None:
    node = Node()
    client = transacting(node)
    client.publish("q", b"1", b"2")
    client.call(COMMIT)
    client.get("q")
    client.get("q")
    client.send(methods.encode_basic_ack(2, True))
    assert node.counts("q") == (0, 2)
    client.call(COMMIT)
    assert node.counts("q") == (0, 0)


def test_rollback_restores_the_tags() -> None:
    node = Node()
    client = transacting(node)
    client.publish("q", b"1", b"2", b"3")
    client.call(COMMIT)
    for _ in range(3):
        client.get("q")
    client.send(methods.encode_basic_ack(2, True), methods.encode_basic_nack(3, False, True))
    assert client.call(ROLLBACK) == methods.TxRollbackOk()
    assert node.counts("q") == (0, 3)
    client.send(methods.encode_basic_ack(1, False), methods.encode_basic_ack(3, True))
    assert client.call(COMMIT) == methods.TxCommitOk()
    assert node.counts("q") == (0, 0)


def test_a_tag_cannot_be_settled_twice_in_one_transaction() -> None:
    client = transacting(Node())
    client.publish("q", b"1")
    client.call(COMMIT)
    client.get("q")
    client.send(methods.encode_basic_ack(1, False), methods.encode_basic_ack(1, False))
    (closed,) = client.methods()
    assert closed == methods.ChannelClose(406, "PRECONDITION_FAILED - unknown delivery tag 1", 60, 80)


def test_requeues_take_place_at_commit_and_in_order() -> None:
    node = Node()
    client = transacting(node)
    client.publish("q", b"1", b"2", b"3")
    client.call(COMMIT)
    for _ in range(3):
        client.get("q")
    client.send(methods.encode_basic_reject(2, True), methods.encode_basic_nack(1, False, True))
    assert client.get("q") is None
    client.call(COMMIT)
    assert client.drain("q") == [b"1", b"2"]
    assert node.counts("q") == (0, 1)


def test_a_prefetch_window_opens_at_commit() -> None:
    client = transacting(Node())
    client.send(methods.encode_basic_qos(0, 1, False), methods.encode_basic_consume("q", "c"))
    client.publish("q", b"1", b"2")
    client.send(COMMIT)
    assert [body for _, body, _ in deliveries(client.read())] == [b"1"]
    client.send(methods.encode_basic_ack(1, False))
    assert deliveries(client.read()) == []
    client.send(COMMIT)
    assert [body for _, body, _ in deliveries(client.read())] == [b"2"]


def test_closing_the_channel_rolls_back() -> None:
    node = Node()
    client = transacting(node)
    client.publish("q", b"1", b"2")
    client.call(COMMIT)
    client.get("q")
    client.get("q")
    client.send(methods.encode_basic_ack(1, False))
    client.publish("q", b"3")
    client.send(methods.encode_channel_close(200, "", 0, 0))
    client.read()
    assert node.counts("q") == (2, 0)
    other = node.connect()
    message = other.get("q")
    assert message is not None
    assert (message.body, message.method.redelivered) == (b"1", True)


def test_losing_the_connection_rolls_back() -> None:
    node = Node()
    client = transacting(node)
    client.publish("q", b"1")
    client.call(COMMIT)
    client.get("q")
    client.send(methods.encode_basic_ack(1, False))
    client.lose()
    node.turn()
    assert node.counts("q") == (1, 0)


def test_a_queue_that_went_before_the_commit_does_no_harm() -> None:
    node = Node()
    client = transacting(node, durable=True)
    client.publish("q", b"1", persistent=True)
    client.call(methods.encode_queue_delete("q"))
    assert client.call(COMMIT) == methods.TxCommitOk()


def test_a_commit_that_the_channel_did_not_live_to_see_is_not_answered() -> None:
    client = transacting(Node(), durable=True)
    client.publish("q", b"1", persistent=True)
    client.send(COMMIT, methods.encode_channel_close(200, "", 0, 0))
    assert client.methods() == [methods.ChannelCloseOk()]


def test_returns_come_at_commit() -> None:
    client = transacting(Node())
    client.publish("nowhere", b"1", mandatory=True)
    assert client.methods() == []
    client.send(COMMIT)
    assert [type(method) for method in client.methods()] == [methods.BasicReturn, methods.TxCommitOk]


def test_a_full_queue_fails_the_commit() -> None:
    client = transacting(Node())
    arguments = {"x-max-length": Field("I", 1), "x-overflow": Field("S", b"reject-publish")}
    client.call(methods.encode_queue_declare("small", arguments=arguments))
    client.publish("small", b"1", b"2")
    client.send(COMMIT)
    (closed,) = client.methods()
    assert (closed.reply_code, closed.reply_text) == (406, "PRECONDITION_FAILED - partial tx completion")


def test_confirm_and_transaction_exclude_each_other() -> None:
    node = Node()
    client = transacting(node)
    closed = client.call(methods.encode_confirm_select())
    assert closed.reply_text == "PRECONDITION_FAILED - cannot switch from tx to confirm mode"
    client = node.connect()
    client.call(methods.encode_confirm_select())
    closed = client.call(methods.encode_tx_select())
    assert closed.reply_text == "PRECONDITION_FAILED - cannot switch from confirm to tx mode"
