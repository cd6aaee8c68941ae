"""Deliveries, the replies of clients, and requeued messages of closed channels."""

from __future__ import annotations

import pytest

from mirrormq.wire import methods
from mirrormq.wire.fields import Field
from tests.harness import Client, Node, deliveries


def prepared(count: int = 0) -> tuple[Node, Client]:
    """Return a node, a client, and a queue q with messages 1, 2, 3 …"""
    node = Node()
    client = node.connect()
    client.call(methods.encode_queue_declare("q"))
    if count:
        client.publish("q", *[b"%d" % number for number in range(1, count + 1)])
    return node, client


def consume(
    client: Client, prefetch: int = 0, *, tag: str = "c", exclusive: bool = False
) -> list[tuple[int, bytes | None, bool]]:
    """Start consuming. Return the deliveries that follow at once."""
    payload = methods.encode_basic_consume("q", tag, exclusive=exclusive)
    client.send(methods.encode_basic_qos(0, prefetch, False), payload)
    received = client.read()
    assert [type(one.method) for one in received[:2]] == [methods.BasicQosOk, methods.BasicConsumeOk]
    return deliveries(received)


def closed_text(client: Client) -> str:
    (closed,) = [m for m in client.methods() if isinstance(m, methods.ChannelClose)]
    return str(closed.reply_text)


# -- acknowledgements ---------------------------------------------------------------------------


def test_acknowledging_up_to_a_tag() -> None:
    node, client = prepared(5)
    assert len(consume(client)) == 5
    client.send(methods.encode_basic_ack(3, True))
    assert node.counts("q") == (0, 2)
    client.send(methods.encode_basic_ack(5, False))
    assert node.counts("q") == (0, 1)
    assert client.methods() == []


def test_zero_with_multiple_is_everything_even_if_it_is_nothing() -> None:
    node, client = prepared(3)
    consume(client)
    client.send(methods.encode_basic_ack(0, True), methods.encode_basic_ack(0, True))
    assert node.counts("q") == (0, 0)
    assert client.methods() == []


@pytest.mark.parametrize(
    ("tag", "multiple"),
    [(0, False), (4, False), (4, True), (1 << 63, True), (2, True), (2, False)],
)
def test_an_unknown_tag_closes_the_channel_and_gives_all_back(tag: int, multiple: bool) -> None:
    node, client = prepared(3)
    consume(client)
    client.send(methods.encode_basic_ack(2, False), methods.encode_basic_ack(tag, multiple))
    assert closed_text(client) == f"PRECONDITION_FAILED - unknown delivery tag {tag}"
    assert node.counts("q") == (2, 0)
    assert node.connect().drain("q") == [b"1", b"3"]


def test_a_prefetch_window_moves_on() -> None:
    _, client = prepared(5)
    assert [body for _, body, _ in consume(client, 2)] == [b"1", b"2"]
    client.send(methods.encode_basic_ack(1, False))
    assert deliveries(client.read()) == [(3, b"3", False)]
    client.send(methods.encode_basic_ack(3, True))
    assert deliveries(client.read()) == [(4, b"4", False), (5, b"5", False)]


def test_a_channel_wide_window_is_shared() -> None:
    node, client = prepared(6)
    client.call(methods.encode_basic_qos(0, 3, True))
    consume(client, 2, tag="a")
    consume(client, 2, tag="b")
    assert node.counts("q") == (3, 3)
    client.send(methods.encode_basic_ack(0, True))
    client.read()
    assert node.counts("q") == (0, 3)


def test_nack_without_requeue_drops() -> None:
    node, client = prepared(2)
    consume(client)
    client.send(methods.encode_basic_nack(2, True, False))
    assert node.counts("q") == (0, 0)


def test_requeued_messages_return_to_their_places_and_say_so() -> None:
    _, client = prepared(4)
    for _ in range(3):
        client.get("q")
    client.send(methods.encode_basic_reject(3, True), methods.encode_basic_nack(1, False, True))
    found = [client.get("q") for _ in range(3)]
    assert [(one.body, one.method.redelivered) for one in found if one] == [
        (b"1", True), (b"3", True), (b"4", False),
    ]  # fmt: skip


def test_recover_gives_everything_back_in_order() -> None:
    _, client = prepared(4)
    assert len(consume(client, 3)) == 3
    client.send(methods.encode_basic_recover(True))
    received = client.read()
    assert isinstance(received[0].method, methods.BasicRecoverOk)
    assert deliveries(received) == [(4, b"1", True), (5, b"2", True), (6, b"3", True)]
    client.send(methods.encode_basic_ack(1, False))
    assert closed_text(client) == "PRECONDITION_FAILED - unknown delivery tag 1"


# -- closed channels and connections ------------------------------------------------------------


def test_closing_the_channel_gives_back_in_order() -> None:
    node, client = prepared(5)
    consume(client, 2)
    client.get("q")
    client.call(methods.encode_channel_close(200, "", 0, 0))
    assert node.counts("q") == (5, 0)
    assert node.connect().drain("q") == [b"1", b"2", b"3", b"4", b"5"]


def test_messages_of_a_lost_client_go_to_the_next_consumer_marked() -> None:
    node, client = prepared(3)
    consume(client, 2)
    other = node.connect()
    assert consume(other) == [(1, b"3", False)]
    client.lose()
    assert deliveries(other.read()) == [(2, b"1", True), (3, b"2", True)]


def test_cancelling_leaves_what_was_delivered_with_the_channel() -> None:
    node, client = prepared(3)
    consume(client, 1)
    assert client.call(methods.encode_basic_cancel("c", False)) == methods.BasicCancelOk("c")
    assert node.counts("q") == (2, 1)
    client.send(methods.encode_basic_ack(1, False))
    client.read()
    assert node.counts("q") == (2, 0)


def test_a_full_socket_stops_deliveries_until_it_drains() -> None:
    _, client = prepared()
    consume(client)
    client.connection.filled()
    client.publish("q", b"1")
    assert deliveries(client.read()) == []
    client.connection.drained()
    assert deliveries(client.read()) == [(1, b"1", False)]


# -- deleted queues -----------------------------------------------------------------------------


def test_consumers_are_cancelled_when_their_queue_is_deleted() -> None:
    node, client = prepared(1)
    consume(client)
    node.connect().call(methods.encode_queue_delete("q"))
    assert client.methods() == [methods.BasicCancel("c", True)]
    client.send(methods.encode_basic_ack(1, False))
    assert client.methods() == [], "an acknowledgement for a queue that is gone is no mistake"


def test_a_client_without_the_capability_is_not_notified() -> None:
    node, client = prepared()
    simple = node.connect(capabilities=())
    consume(simple)
    client.call(methods.encode_queue_delete("q"))
    assert simple.methods() == []


def test_exclusive_queues_go_with_their_connection() -> None:
    node, client = prepared()
    owner = node.connect()
    owner.call(methods.encode_queue_declare("mine", exclusive=True))
    client.send(methods.encode_basic_get("mine", True))
    assert closed_text(client).startswith(
        "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'mine'"
    )
    owner.lose()
    assert "mine" not in node.broker.vhosts["/"].queues


def test_an_auto_delete_queue_goes_with_its_last_consumer() -> None:
    node, client = prepared()
    client.call(methods.encode_queue_declare("brief", auto_delete=True))
    client.send(methods.encode_basic_consume("brief", "x"))
    client.publish("brief", b"1")
    assert len(deliveries(client.read())) == 1
    client.lose()
    assert "brief" not in node.broker.vhosts["/"].queues


def test_an_unused_queue_expires_with_the_clock() -> None:
    node, client = prepared()
    client.call(methods.encode_queue_declare("idle", arguments={"x-expires": Field("I", 1_000)}))
    node.advance(999)
    assert "idle" in node.broker.vhosts["/"].queues
    node.advance(1)
    assert "idle" not in node.broker.vhosts["/"].queues


def test_an_exclusive_consumer_is_alone() -> None:
    node, client = prepared()
    consume(client, exclusive=True)
    other = node.connect()
    other.send(methods.encode_basic_consume("q", "d"))
    assert closed_text(other) == "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use"
    client.lose()
    assert consume(node.connect(), exclusive=True) == []
