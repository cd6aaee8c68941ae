"""Direct replies from one node to a channel of another."""

from __future__ import annotations

import base64

from mirrormq.broker import direct_replies as direct_reply_to
from mirrormq.remote.remote_limits import DEFAULT_LIMITS
from mirrormq.wire import methods
from tests.remote.cluster import Cluster, RemoteTestClient


def asked() -> tuple[Cluster, RemoteTestClient, RemoteTestClient, str]:
    """A client of a has asked one of b by way of a queue of c."""
    cluster = Cluster("a", "b", "c")
    cluster.declare("work", "c")
    client, server = cluster.connect("a"), cluster.connect("b")
    client.send(methods.encode_basic_consume(direct_reply_to.QUEUE_NAME, "replies", no_ack=True))
    client.read()
    client.publish("work", b"question", reply_to=direct_reply_to.QUEUE_NAME, correlation_id="1")
    client.read()
    request = server.get("work", no_ack=True)
    assert request is not None and request.properties is not None and request.properties.reply_to
    return cluster, client, server, request.properties.reply_to


def test_a_reply_reaches_the_channel_on_its_own_node() -> None:
    _, client, server, name = asked()
    server.publish(name, b"answer", b"more", correlation_id="1")
    answers = client.read()
    assert [(one.body, one.properties.correlation_id) for one in answers if one.properties] == [
        (b"answer", "1"), (b"more", "1"),
    ]  # fmt: skip
    assert {one.method.consumer_tag for one in answers} == {"replies"}


def test_the_name_says_which_node_it_belongs_to() -> None:
    _, _, _, name = asked()
    assert direct_reply_to.node_of(name) == "a"
    for other in (
        "amq.rabbitmq.reply-to.",
        "amq.rabbitmq.reply-to.x",
        "queue.with.dots",
        "é",
        f"{name[:22]}.é",
    ):
        assert direct_reply_to.node_of(other) is None


def test_a_reply_to_a_channel_that_is_gone_does_no_harm() -> None:
    cluster, client, server, name = asked()
    client.lose()
    server.publish(name, b"answer", mandatory=True)
    returned = server.read()
    assert isinstance(returned[0].method, methods.BasicReturn)
    cluster.settle()


def test_a_reply_without_a_link_is_dropped() -> None:
    cluster, client, server, name = asked()
    cluster.cut("a", "b")
    server.publish(name, b"answer")
    for node in (b"nobody", b"b"):
        coded = base64.urlsafe_b64encode(node).decode().rstrip("=")
        server.publish(f"{direct_reply_to.PREFIX}{coded}.x", b"answer")
    cluster.join("a", "b")
    assert client.read() == []


def test_a_server_can_ask_whether_the_channel_is_still_there() -> None:
    cluster, client, server, name = asked()
    declared = methods.QueueDeclareOk(name, 0, 1)
    assert server.call(methods.encode_queue_declare(name, passive=True)) == declared
    assert cluster.connect("a").call(methods.encode_queue_declare(name)) == declared
    client.lose()
    server.send(methods.encode_queue_declare(name, passive=True))
    (closed,) = server.methods()
    assert (closed.reply_code, closed.reply_text) == (404, f"NOT_FOUND - no queue '{name}' in vhost '/'")


def test_a_channel_whose_node_is_lost_is_not_there() -> None:
    cluster, _, server, name = asked()
    server.send(methods.encode_queue_declare(name, passive=True))
    cluster["b"].node.turn()
    cluster.die("a")
    (closed,) = server.methods()
    assert closed.reply_code == 404


def test_replies_that_a_link_cannot_carry_are_dropped() -> None:
    cluster, client, server, name = asked()
    count = 2 * DEFAULT_LIMITS.stream_bytes_max // 1_000_000
    for _ in range(count):
        server.publish(name, b"x" * 1_000_000)
        cluster["b"].node.turn()
    got = len([one for one in client.read() if one.body])
    assert 0 < got < count
