"""Dead letters: their queue keeps them until they are safe in their target queue."""

from __future__ import annotations

from typing import Any

import pytest

from mirrormq.broker import dead_letters
from mirrormq.broker.broker_limits import BrokerLimits
from mirrormq.queues.queue_limits import QueueLimits
from mirrormq.wire import methods
from mirrormq.wire.fields import Field, Table, table_of
from tests.harness import Client, Node


def mortal(key: str, **more: Field) -> Table:
    """Return the arguments of a queue whose dead letters go to another one."""
    own: Table = {name.replace("_", "-"): field for name, field in more.items()}
    return {
        "x-dead-letter-exchange": Field("S", b""),
        "x-dead-letter-routing-key": Field("S", key.encode()),
        **own,
    }


def two_queues(**more: Field) -> tuple[Node, Client]:
    """Return a node with two durable queues: dead letters of `q` go to `dead`."""
    node = Node()
    client = node.connect()
    client.call(methods.encode_queue_declare("dead", durable=True))
    client.call(methods.encode_queue_declare("q", durable=True, arguments=mortal("dead", **more)))
    return node, client


def reject(client: Client, queue: str) -> None:
    got = client.get(queue)
    assert got is not None
    client.send(methods.encode_basic_reject(got.method.delivery_tag, False))


def test_a_rejected_message_stays_until_the_other_queue_has_it_on_disk() -> None:
    node, client = two_queues()
    client.publish("q", b"x", persistent=True)
    client.read()
    reject(client, "q")
    assert (node.counts("q"), node.counts("dead")) == ((0, 1), (1, 0))
    node.turn()
    assert (node.counts("q"), node.counts("dead")) == ((0, 0), (1, 0))


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_power_that_fails_on_the_way_leaves_it_in_one_of_them_at_least(turns: int) -> None:
    node, client = two_queues()
    client.publish("q", b"x", persistent=True)
    client.read()
    reject(client, "q")
    for _ in range(turns):
        node.turn()
    node.restart("power")
    assert node.counts("q")[0] + node.counts("dead")[0] >= 1


def test_after_a_restart_messages_expire_without_a_consumer() -> None:
    node, client = two_queues()
    client.publish("q", b"x", persistent=True, expiration="100")
    client.read()
    node.restart("kill")
    node.turn()
    node.advance(200)
    node.turn()
    assert (node.counts("q"), node.counts("dead")) == ((0, 0), (1, 0))


def test_a_message_that_waits_for_no_disk_is_sent_at_once() -> None:
    node = Node()
    client = node.connect()
    client.call(methods.encode_queue_declare("dead"))
    client.call(methods.encode_queue_declare("q", arguments=mortal("dead", x_max_length=Field("I", 1))))
    client.publish("q", b"1", b"2")
    client.read()
    assert (node.counts("q"), node.counts("dead")) == ((1, 0), (1, 0))


def test_unrouted_messages_are_dropped() -> None:
    node, client = two_queues()
    client.call(methods.encode_queue_delete("dead"))
    client.publish("q", b"x", persistent=True)
    reject(client, "q")
    assert node.counts("q") == (0, 0)


def test_many_expire_a_part_at_a_time_and_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Node, "limits", BrokerLimits(queues=QueueLimits(expired_batch_max=10)))
    node, client = two_queues(x_message_ttl=Field("I", 100))
    client.publish("q", *[b"%d" % number for number in range(35)], persistent=True)
    client.read()
    node.advance(200)
    assert node.counts("q")[0] == 25, "other clients get their turn between two parts"
    for _ in range(3):
        node.advance(0)
    assert (node.counts("q"), node.counts("dead")) == ((0, 0), (35, 0))
    assert client.drain("dead") == [b"%d" % number for number in range(35)]


def test_get_never_gives_what_has_expired_although_more_is_to_be_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Node, "limits", BrokerLimits(queues=QueueLimits(expired_batch_max=2)))
    node, client = two_queues()
    client.publish("q", *[b"old"] * 9, expiration="100")
    client.publish("q", b"new")
    client.read()
    node.clock.now_ms += 200
    got = client.get("q")
    assert got is not None and got.body == b"new"


def test_surplus_is_dropped_when_too_many_are_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Node, "limits", BrokerLimits(queues=QueueLimits(dead_letters_under_way_max=3)))
    node, client = two_queues(x_max_length=Field("I", 0))
    for number in range(10):
        client.publish("q", b"%d" % number, persistent=True)
    client.read()
    node.turn()
    assert node.counts("q") == (0, 0)
    assert client.drain("dead") == [b"0", b"1", b"2"]


MIXED: tuple[tuple[bool, dict[str, Any]], ...] = (
    (True, {}),
    (True, {"headers": table_of({"a": 1}), "priority": 3}),
    (False, {"headers": table_of({"a": "b"}), "content_type": "text/plain", "message_id": "m"}),
    (True, {"headers": table_of({"CC": ["other"]})}),
    (True, {"headers": table_of({"BCC": ["other"]})}),
    (True, {"headers": table_of({"x-death": [{"queue": "old", "reason": "expired", "count": 7}]})}),
    (True, {"headers": table_of({"x-death": [{"queue": "q", "reason": "maxlen", "count": 7}]})}),
    (True, {"correlation_id": "c", "reply_to": "r", "expiration": "100000", "timestamp": 5}),
    (True, {"headers": table_of({"x-producer": ["p", 1]})}),
)


def dead_letters_of_mixed_messages(key: str | None) -> list[tuple[Any, ...]]:
    """Return what became of messages that a full queue drops together, by target queue."""
    node = Node()
    client = node.connect()
    for queue in ("dead", "other"):
        client.call(methods.encode_queue_declare(queue, durable=True))
    arguments = mortal("dead", x_max_length=Field("I", 0))
    if key is None:
        del arguments["x-dead-letter-routing-key"]
        arguments["x-dead-letter-exchange"] = Field("S", b"amq.fanout")
        client.call(methods.encode_queue_bind("other", "amq.fanout", ""))
        client.call(methods.encode_queue_bind("dead", "amq.fanout", ""))
    client.call(methods.encode_queue_declare("q", durable=True, arguments=arguments))
    if key is None:
        client.call(methods.encode_queue_bind("q", "amq.fanout", ""))
    for number, (persistent, properties) in enumerate(MIXED):
        client.publish("q", b"%d" % number, b"%d again" % number, persistent=persistent, **properties)
    client.read()
    node.turn()
    assert node.counts("q") == (0, 0)
    found = []
    for queue in ("dead", "other"):
        while (got := client.get(queue, no_ack=True)) is not None:
            found.append((queue, got.properties, got.body, got.method.exchange, got.method.routing_key))
    return found


@pytest.mark.parametrize("key", ["dead", None])
def test_spliced_dead_letters_are_those_that_decoding_gives(
    monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    spliced = dead_letters_of_mixed_messages(key)
    monkeypatch.setattr(dead_letters, "_plain_dead_letter", lambda *_: (None, ()))
    assert spliced == dead_letters_of_mixed_messages(key)
    assert len(spliced) >= 2 * len(MIXED) - 2
