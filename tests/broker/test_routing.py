"""Less common routes from publish to queue: copies, alternates, replies, dead letters, policies."""

from __future__ import annotations

from typing import Any

from mirrormq.metadata import commands, records
from mirrormq.wire import methods
from mirrormq.wire.fields import Field, Table
from tests.harness import START_MS, Client, Node


def text(value: str) -> Field:
    return Field("S", value.encode())


def keys(*names: str) -> Field:
    return Field("A", [text(name) for name in names])


def client_with(*queues: str, **arguments: Table) -> tuple[Node, Client]:
    """Return a node and a client, with queues declared; `arguments` by queue name."""
    node = Node()
    client = node.connect()
    for name in queues:
        client.call(methods.encode_queue_declare(name, arguments=arguments.get(name, {})))
    return node, client


# -- copies -------------------------------------------------------------------------------------


def test_cc_and_bcc_reach_their_queues_and_bcc_is_not_seen() -> None:
    _, client = client_with("a", "b", "c")
    client.publish("a", b"x", headers={"CC": keys("b"), "BCC": keys("c"), "other": Field("I", 1)})
    for name in "abc":
        message = client.get(name, no_ack=True)
        assert message is not None
        assert message.properties is not None
        assert message.properties.headers == {"CC": keys("b"), "other": Field("I", 1)}
        assert message.method.routing_key == "a"


def test_a_queue_named_twice_gets_one_copy() -> None:
    _, client = client_with("a")
    client.publish("a", b"x", headers={"CC": keys("a", "a"), "BCC": keys("a")})
    assert client.drain("a") == [b"x"]


# -- alternates ---------------------------------------------------------------------------------


def test_unrouted_messages_go_to_the_alternate_exchange() -> None:
    _, client = client_with("lost")
    alternate: Table = {"alternate-exchange": text("rest")}
    client.call(methods.encode_exchange_declare("rest", "fanout"))
    client.call(methods.encode_exchange_declare("main", "direct", arguments=alternate))
    client.call(methods.encode_queue_bind("lost", "rest", ""))
    client.publish("nobody", b"x", exchange="main", mandatory=True)
    assert client.methods() == [], "it was routed, so it does not come back"
    message = client.get("lost")
    assert message is not None
    assert (message.method.exchange, message.method.routing_key) == ("main", "nobody")


def test_an_alternate_by_policy_is_found_by_publishers_that_are_at_work() -> None:
    node, client = client_with("lost")
    client.call(methods.encode_exchange_declare("main", "direct"))
    client.call(methods.encode_queue_bind("lost", "amq.fanout", ""))
    client.publish("nobody", b"1", exchange="main")
    policy = records.Policy("/", "p", "^main$", "exchanges", {"alternate-exchange": "amq.fanout"})
    node.write(commands.PutPolicy(policy))
    client.publish("nobody", b"2", exchange="main")
    assert client.drain("lost") == [b"2"]


# -- direct replies -----------------------------------------------------------------------------


def test_a_reply_reaches_the_requester_without_a_queue() -> None:
    node, server = client_with("requests")
    requester = node.connect()
    requester.send(methods.encode_basic_consume("amq.rabbitmq.reply-to", "r", no_ack=True))
    requester.publish("requests", b"question", reply_to="amq.rabbitmq.reply-to")
    assert [type(method) for method in requester.methods()] == [methods.BasicConsumeOk]
    request = server.get("requests")
    assert request is not None
    assert request.properties is not None
    reply_to = request.properties.reply_to
    assert reply_to is not None
    assert reply_to.startswith("amq.rabbitmq.reply-to.")
    server.publish(reply_to, b"answer")
    (reply,) = requester.read()
    assert reply.body == b"answer"
    assert reply.method == methods.BasicDeliver("r", 1, False, "", reply_to)


def test_a_reply_to_a_client_that_left_is_returned() -> None:
    node, server = client_with("requests")
    requester = node.connect()
    requester.send(methods.encode_basic_consume("amq.rabbitmq.reply-to", "r", no_ack=True))
    requester.publish("requests", b"question", reply_to="amq.rabbitmq.reply-to")
    request = server.get("requests")
    assert request is not None
    assert request.properties is not None
    requester.lose()
    server.publish(str(request.properties.reply_to), b"answer", mandatory=True)
    assert [type(method) for method in server.methods()] == [methods.BasicReturn]


# -- dead letters -------------------------------------------------------------------------------


def death(message: Any) -> list[dict[str, Any]]:
    assert message.properties.headers is not None
    entries = message.properties.headers["x-death"].value
    return [{name: field.value for name, field in entry.value.items()} for entry in entries]


def test_a_rejected_message_has_an_x_death_entry() -> None:
    arguments: Table = {"x-dead-letter-exchange": text(""), "x-dead-letter-routing-key": text("dead")}
    _, client = client_with("q", "dead", q=arguments)
    client.publish("q", b"x", expiration="60000", headers={"CC": keys("nobody")})
    client.get("q")
    client.send(methods.encode_basic_reject(1, False))
    message = client.get("dead")
    assert message is not None
    assert message.properties is not None
    assert message.properties.expiration is None
    (entry,) = death(message)
    assert entry == {
        "count": 1,
        "reason": b"rejected",
        "queue": b"q",
        "time": START_MS // 1000,
        "exchange": b"",
        "routing-keys": [text("q"), text("nobody")],
        "original-expiration": b"60000",
    }
    assert message.properties.headers is not None
    assert message.properties.headers["x-first-death-reason"] == text("rejected")
    assert (message.method.exchange, message.method.routing_key) == ("", "dead")


def test_a_message_may_be_rejected_in_a_circle_and_is_counted() -> None:
    arguments: Table = {"x-dead-letter-exchange": text(""), "x-dead-letter-routing-key": text("q")}
    _, client = client_with("q", q=arguments)
    client.publish("q", b"x")
    for tag in (1, 2, 3):
        assert client.get("q") is not None
        client.send(methods.encode_basic_reject(tag, False))
    message = client.get("q")
    assert message is not None
    (entry,) = death(message)
    assert entry["count"] == 3


def test_a_circle_without_a_rejection_ends() -> None:
    to_b: Table = {
        "x-dead-letter-exchange": text(""),
        "x-dead-letter-routing-key": text("b"),
        "x-message-ttl": Field("I", 10),
    }
    to_a: Table = {
        "x-dead-letter-exchange": text(""),
        "x-dead-letter-routing-key": text("a"),
        "x-message-ttl": Field("I", 10),
    }
    node, client = client_with("a", "b", a=to_b, b=to_a)
    client.publish("a", b"x")
    client.read()
    node.advance(10)
    assert (node.counts("a"), node.counts("b")) == ((0, 0), (1, 0))
    node.advance(10)
    assert (node.counts("a"), node.counts("b")) == ((0, 0), (0, 0))


def test_a_very_long_chain_of_dead_letters_is_followed_to_its_end() -> None:
    length = 400
    node = Node()
    client = node.connect()
    for number in range(length):
        arguments: Table = {
            "x-max-length": Field("I", 0),
            "x-dead-letter-exchange": text(""),
            "x-dead-letter-routing-key": text(f"q{number + 1}"),
        }
        client.send(methods.encode_queue_declare(f"q{number}", arguments=arguments))
    client.send(methods.encode_queue_declare(f"q{length}"))
    client.read()
    client.publish("q0", b"x")
    node.turn()  # its history becomes large, so it takes several turns
    message = client.get(f"q{length}")
    assert message is not None
    assert len(death(message)) == length


# -- policies on live queues --------------------------------------------------------------------


def test_a_policy_changes_a_queue_and_its_end_changes_it_back() -> None:
    node, client = client_with("q")
    client.publish("q", b"1", b"2", b"3")
    client.read()
    node.write(commands.PutPolicy(records.Policy("/", "p", "^q$", "queues", {"max-length": 2})))
    assert node.counts("q") == (2, 0)
    client.publish("q", b"4")
    assert client.drain("q") == [b"3", b"4"]
    node.write(commands.DeletePolicy("/", "p"))
    client.publish("q", *[b"x"] * 5)
    assert len(client.drain("q")) == 5


def test_a_publish_reaches_all_its_queues_before_its_own_dead_letter() -> None:
    arguments: Table = {
        "x-max-length": Field("I", 0),
        "x-dead-letter-exchange": text(""),
        "x-dead-letter-routing-key": text("q"),
    }
    _, client = client_with("full", "q", full=arguments)
    client.publish("full", b"x", headers={"CC": keys("q")})
    found = [client.get("q"), client.get("q")]
    assert [message.method.routing_key for message in found if message] == ["full", "q"]


def test_a_lower_priority_expires_after_the_higher_ones_are_gone() -> None:
    node, client = client_with("q", q={"x-max-priority": Field("I", 5)})
    client.publish("q", b"high", priority=3)
    client.publish("q", b"low", priority=1, expiration="100")
    client.read()
    node.advance(200)
    assert node.counts("q") == (2, 0)
    assert client.drain("q") == [b"high"]
    assert node.counts("q") == (0, 0)
