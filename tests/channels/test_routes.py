"""Routes that a channel remembers: they serve unlike messages, and end with what they depend on."""

from __future__ import annotations

from mirrormq.metadata import commands, records
from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.properties import BasicProperties, encode_properties
from tests.harness import FRAME_MAX, Client, Node


def bound(node: Node, *bindings: tuple[str, str]) -> Client:
    """A client, and queues bound to amq.topic by keys."""
    client = node.connect()
    for queue, key in bindings:
        client.send(methods.encode_queue_declare(queue, durable=True))
        client.send(methods.encode_queue_bind(queue, "amq.topic", key))
    client.send(methods.encode_confirm_select())
    client.read()
    return client


def write(client: Client, *messages: tuple[str, bytes], exchange: str = "amq.topic") -> None:
    """Publish messages with ids of their own, in one read."""
    parts = []
    for number, (key, body) in enumerate(messages):
        properties = encode_properties(BasicProperties(delivery_mode=2, message_id=str(number)))
        method = method_frame(1, methods.encode_basic_publish(exchange, key))
        parts.append(method + build_frames(1, properties, body, FRAME_MAX))
    client.connection.receive(b"".join(parts))


def test_unlike_messages_of_one_read_reach_their_queues_in_order() -> None:
    node = Node()
    client = bound(node, ("a", "a.*"), ("all", "#"))
    write(client, ("a.1", b"1"), ("b", b"2"), ("a.2", b"3"), ("a.1", b"4"), ("b", b"5"))
    assert client.methods() == [methods.BasicAck(5, True)]
    assert client.drain("a") == [b"1", b"3", b"4"]
    assert client.drain("all") == [b"1", b"2", b"3", b"4", b"5"]


def test_a_new_binding_and_a_removed_one_change_routes() -> None:
    node = Node()
    client = bound(node, ("a", "k"))
    write(client, ("k", b"1"), ("other", b"nowhere"))
    client.send(methods.encode_queue_declare("b"), methods.encode_queue_bind("b", "amq.topic", "#"))
    client.send(methods.encode_queue_unbind("a", "amq.topic", "k"))
    client.read()
    write(client, ("k", b"2"), ("other", b"3"))
    client.read()
    assert client.drain("a") == [b"1"]
    assert client.drain("b") == [b"2", b"3"]


def test_a_queue_that_is_declared_again_gets_what_follows() -> None:
    node = Node()
    client = bound(node, ("a", "k"))
    write(client, ("a", b"gone"), exchange="")
    client.send(methods.encode_queue_delete("a"), methods.encode_queue_declare("a"))
    client.read()
    write(client, ("a", b"kept"), exchange="")
    client.read()
    assert client.drain("a") == [b"kept"]


def test_a_right_that_is_taken_away_ends_routes() -> None:
    node = Node()
    client = bound(node, ("a", "k"))
    write(client, ("k", b"1"))
    client.read()
    node.write(commands.PutPermission(records.Permission("guest", "/", ".*", "nothing", ".*")))
    write(client, ("k", b"2"))
    (closed,) = client.methods()
    assert isinstance(closed, methods.ChannelClose) and closed.reply_code == 403
    assert node.counts("a") == (1, 0)


def test_a_topic_right_that_is_taken_away_ends_routes() -> None:
    node = Node()
    client = bound(node, ("a", "#"))
    write(client, ("k", b"1"))
    client.read()
    node.write(commands.PutTopicPermission(records.TopicPermission("guest", "/", "amq.topic", "other", ".*")))
    write(client, ("other", b"2"), ("k", b"3"), ("other", b"4"))
    (closed,) = client.methods()
    assert isinstance(closed, methods.ChannelClose) and closed.reply_code == 403
    assert node.counts("a") == (2, 0), "what came before the refused one is kept"
