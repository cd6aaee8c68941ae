"""Named copies: x-copy-from and x-copy-routing-key, through a whole broker."""

from __future__ import annotations

from typing import Any

import pytest

from mirrormq.events.event_exchange import EXCHANGE
from mirrormq.metadata import commands, records
from mirrormq.metadata.policy_matching import PolicyInvalid, validate_policy
from mirrormq.wire import methods
from mirrormq.wire.fields import Field, Table
from mirrormq.wire.properties import BasicProperties
from tests.harness import Client, Node


def text(value: str) -> Field:
    return Field("S", value.encode())


def copy_of(source: str, pattern: str | None = None) -> Table:
    found: Table = {"x-copy-from": text(source)}
    if pattern is not None:
        found["x-copy-routing-key"] = text(pattern)
    return found


def declare(client: Client, name: str, arguments: Table | None = None, **options: Any) -> Any:
    return client.call(methods.encode_queue_declare(name, arguments=arguments or {}, **options))


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def client(node: Node) -> Client:
    return node.connect()


def test_a_copy_gets_what_its_source_gets_from_then_on(client: Client) -> None:
    declare(client, "source")
    client.publish("source", b"before")
    declare(client, "copy", copy_of("source"))
    client.publish("source", b"1", b"2", message_id="m")
    client.publish("copy", b"only here")
    assert client.drain("source") == [b"before", b"1", b"2"]
    message = client.get("copy", no_ack=True)
    assert message is not None
    assert (message.body, message.method.routing_key) == (b"1", "source")
    assert message.properties == BasicProperties(message_id="m")
    assert client.drain("copy") == [b"2", b"only here"]


def test_messages_with_ids_of_their_own_are_copied_too(client: Client) -> None:
    declare(client, "source")
    declare(client, "copy", copy_of("source"))
    for number in range(5):
        client.publish("source", b"%d" % number, message_id=f"id-{number}")
    assert client.drain("copy") == client.drain("source") == [b"%d" % number for number in range(5)]


def test_a_message_reaches_a_copy_once_however_many_ways_lead_there(client: Client) -> None:
    declare(client, "source")
    declare(client, "copy", copy_of("source"))
    declare(client, "copy of the copy", copy_of("copy"))
    for name in ("source", "copy", "copy of the copy"):
        client.call(methods.encode_queue_bind(name, "amq.fanout", ""))
    client.publish("k", b"x", exchange="amq.fanout")
    for name in ("source", "copy", "copy of the copy"):
        assert client.drain(name) == [b"x"]


def test_a_pattern_is_about_the_messages_routing_key(client: Client) -> None:
    declare(client, "source")
    declare(client, "errors", copy_of("source", "*.error"))
    client.call(methods.encode_queue_bind("source", "amq.topic", "#"))
    for key in ("disk.error", "disk.info", "error", "a.b.error"):
        client.publish(key, key.encode(), exchange="amq.topic")
    assert len(client.drain("source")) == 4
    assert client.drain("errors") == [b"disk.error"]


def test_queues_that_copy_each_other_end_up_with_the_same(client: Client) -> None:
    declare(client, "a", copy_of("b"))
    declare(client, "b", copy_of("a"))
    client.publish("a", b"1")
    client.publish("b", b"2")
    assert client.drain("a") == client.drain("b") == [b"1", b"2"]


def test_a_copy_waits_for_its_source_to_appear(client: Client) -> None:
    assert declare(client, "copy", copy_of("source")) == methods.QueueDeclareOk("copy", 0, 0)
    client.publish("source", b"to nobody")
    assert client.drain("copy") == []
    declare(client, "source")
    client.publish("source", b"x")
    assert client.drain("copy") == [b"x"]


def test_copying_stops_when_either_is_deleted(client: Client) -> None:
    declare(client, "source")
    declare(client, "copy", copy_of("source"))
    client.publish("source", b"1")
    client.call(methods.encode_queue_delete("source"))
    client.publish("source", b"2")
    assert client.drain("copy") == [b"1"]
    declare(client, "source")
    client.publish("source", b"3")
    assert client.drain("copy") == [b"3"], "it is still the copy of whatever has that name"
    client.call(methods.encode_queue_delete("copy"))
    declare(client, "copy")
    client.publish("source", b"4")
    assert client.drain("copy") == []


def test_a_chain_is_broken_where_a_queue_is_missing(client: Client) -> None:
    for name, source in (("b", "a"), ("c", "b")):
        declare(client, name, copy_of(source))
    declare(client, "a")
    client.call(methods.encode_queue_delete("b"))
    client.publish("a", b"x")
    assert client.drain("c") == []


def test_a_confirm_waits_for_the_copy_too(node: Node, client: Client) -> None:
    declare(client, "source", durable=True)
    limits: Table = {"x-max-length": Field("I", 1), "x-overflow": text("reject-publish")}
    declare(client, "copy", copy_of("source") | limits, durable=True)
    client.call(methods.encode_confirm_select())
    client.publish("source", b"1", persistent=True)
    assert client.read(turn=False) == []
    assert client.methods() == [methods.BasicAck(1, False)]
    client.publish("source", b"2", persistent=True)
    assert client.methods() == [methods.BasicNack(2, False, False)], "the copy had no room"
    node.restart("power")
    client = node.connect()
    assert client.drain("copy") == [b"1"]
    client.publish("source", b"3")
    assert client.drain("copy") == [b"3"], "a restart changes nothing"


def test_transactions_reach_copies_at_the_commit(client: Client) -> None:
    declare(client, "source")
    declare(client, "copy", copy_of("source"))
    client.call(methods.encode_tx_select())
    client.publish("source", b"x")
    assert client.drain("copy") == []
    client.call(methods.encode_tx_commit())
    assert client.drain("copy") == [b"x"]


def test_dead_letters_and_the_brokers_own_messages_are_copied(node: Node, client: Client) -> None:
    node.write(commands.PutExchange(records.Exchange("/", EXCHANGE, "topic", internal=True)))
    declare(client, "short", {"x-message-ttl": Field("I", 10), "x-dead-letter-exchange": text("amq.fanout")})
    for name in ("dead", "events"):
        declare(client, name)
        declare(client, f"copy of {name}", copy_of(name))
    client.call(methods.encode_queue_bind("dead", "amq.fanout", ""))
    client.call(methods.encode_queue_bind("events", EXCHANGE, "queue.#"))
    client.publish("short", b"x")
    node.advance(20)
    assert client.drain("copy of dead") == [b"x"]
    declare(client, "new")
    assert len(client.drain("copy of events")) == len(client.drain("events")) == 1


def test_messages_of_a_new_binding_are_copied(client: Client) -> None:
    recent: Table = {"x-recent-history-length": Field("I", 5)}
    client.call(methods.encode_exchange_declare("recent", "x-recent-history", arguments=recent))
    client.publish("k", b"x", exchange="recent")
    declare(client, "source")
    declare(client, "copy", copy_of("source"))
    client.call(methods.encode_queue_bind("source", "recent", ""))
    assert client.drain("copy") == client.drain("source") == [b"x"]


# -- declarations -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        ({"x-copy-from": Field("I", 1)}, "'x-copy-from' for queue 'q' in vhost '/': {unacceptable_type,"),
        ({"x-copy-from": text("")}, "'x-copy-from' for queue 'q' in vhost '/': copy_from_names_no_queue"),
        (
            {"x-copy-from": text("a"), "x-copy-routing-key": Field("t", True)},
            "'x-copy-routing-key' for queue 'q' in vhost '/': {unacceptable_type,",
        ),
        (
            {"x-copy-routing-key": text("#")},
            "'x-copy-routing-key' for queue 'q' in vhost '/': copy_routing_key_but_no_copy_from_defined",
        ),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(client: Client, arguments: Table, refusal: str) -> None:
    closed = declare(client, "q", arguments)
    assert closed.reply_code == 406
    assert f"PRECONDITION_FAILED - invalid arg {refusal}" in closed.reply_text


def test_a_copy_declared_again_must_be_the_same(client: Client) -> None:
    declare(client, "q", copy_of("a", "x"))
    assert declare(client, "q", copy_of("a", "x")) == methods.QueueDeclareOk("q", 0, 0)
    closed = declare(client, "q", copy_of("b", "x"))
    assert closed.reply_text == (
        "PRECONDITION_FAILED - inequivalent arg 'x-copy-from' for queue 'q' in vhost '/': "
        "received 'b' but current is 'a'"
    )


def test_policies_cannot_make_copies() -> None:
    for key in ("copy-from", "x-copy-from", "copy-routing-key"):
        with pytest.raises(PolicyInvalid, match="not recognised"):
            validate_policy({key: "source"})


def test_a_user_without_read_access_to_the_source_may_not_copy_it(node: Node, client: Client) -> None:
    declare(client, "secret")
    node.write(commands.PutUser(records.User("eve")))
    node.write(commands.PutPermission(records.Permission("eve", "/", ".*", ".*", "^mine")))
    eve = node.connect(user="eve")
    closed = declare(eve, "mine", copy_of("secret"))
    assert (closed.reply_code, closed.reply_text) == (
        403, "ACCESS_REFUSED - access to queue 'secret' in vhost '/' refused for user 'eve'",
    )  # fmt: skip


def test_an_exclusive_queue_is_copied_by_its_own_connection_only(node: Node, client: Client) -> None:
    other = node.connect()
    declare(other, "lurking", copy_of("private"))
    declare(client, "private", exclusive=True)
    declare(client, "own", copy_of("private"))
    closed = declare(other, "late", copy_of("private"))
    assert closed.reply_code == 405
    client.publish("private", b"x")
    assert client.drain("own") == [b"x"]
    assert client.drain("lurking") == []
