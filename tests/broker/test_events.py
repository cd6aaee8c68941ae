"""Event exchange: names, order, facts, types and actors equal RabbitMQ's."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirrormq.auth.client_peer import Peer
from mirrormq.connections.connection import Connection
from mirrormq.control.control_protocol import Request
from mirrormq.control.dispatch import answer
from mirrormq.control.live_view import LiveView
from mirrormq.control.node_interface import AppState
from mirrormq.events import connection_events
from mirrormq.events import event_exchange as events_module
from mirrormq.metadata import commands as c
from mirrormq.metadata import records as r
from mirrormq.metadata.changes import Change, Deleted
from mirrormq.metadata.store import INTERNAL_USER, WriteResult
from mirrormq.wire import methods
from mirrormq.wire.content import method_frame
from mirrormq.wire.fields import Field, Table, plain
from mirrormq.wire.frames import PROTOCOL_HEADER
from mirrormq.wire.properties import BasicProperties
from tests.harness import START_MS, Client, Node

EXCHANGE = events_module.EXCHANGE
WHO = connection_events.ACTOR
CLI = "rmq-cli"


async def _at_once() -> None:
    """Return at once: one node agrees with itself."""


async def _nobody(request: Request) -> list[Any]:
    """Return no replies: there are no other nodes."""
    return []


class Heard:
    """Node with a queue that receives every event."""

    def __init__(self, key: str = "#") -> None:
        self.node = Node()
        self.node.write(c.PutExchange(r.Exchange("/", EXCHANGE, "topic", internal=True)))
        self.node.write(c.PutQueue(r.Queue("/", "heard", durable=False)))
        self.node.write(c.PutBinding(r.Binding("/", EXCHANGE, "queue", "heard", key)))
        self._reader = self.node.connect()
        self.client: Client = self.node.connect()
        self.messages()

    def messages(self) -> list[tuple[str, BasicProperties, bytes | None]]:
        """Return all events since the last call."""
        found = []
        while (message := self._reader.get("heard", no_ack=True)) is not None:
            assert message.properties is not None
            assert message.method.exchange == EXCHANGE
            found.append((message.method.routing_key, message.properties, message.body))
        return found

    def tables(self) -> list[tuple[str, Table]]:
        """Return names and headers of the events."""
        return [(name, properties.headers or {}) for name, properties, _ in self.messages()]

    def reported(self, *facts: str) -> list[tuple[object, ...]]:
        """Return names and the values of some facts."""
        return [(name, *[plain(table).get(fact) for fact in facts]) for name, table in self.tables()]

    def order(self, verb: str, *arguments: str, **options: Any) -> None:
        """Execute a command of mirrormqctl."""
        node = SimpleNamespace(
            metadata=self.node.metadata,
            settings=self.node.broker.settings,
            live=LiveView(self.node.broker),
            app_state=AppState.RUNNING,
            settled=_at_once,
            cluster=SimpleNamespace(ask_other_nodes=_nobody),
        )
        reply = asyncio.run(answer(cast(Any, node), Request(verb, list(arguments), options)))
        assert reply["ok"], reply


def test_an_event_is_a_persistent_message_of_headers_alone() -> None:
    heard = Heard("queue.*")
    heard.client.call(methods.encode_queue_declare("q", arguments={"x-max-length": Field("I", 5)}))
    ((name, properties, body),) = heard.messages()
    assert name == "queue.created"
    assert properties._replace(headers=None) == BasicProperties(delivery_mode=2, timestamp=START_MS // 1000)
    assert body == b""
    assert properties.headers == {
        WHO: Field("S", b"guest"),
        "exclusive": Field("t", False),
        "owner_pid": Field("S", b""),
        "arguments": Field("A", [Field("S", b'{<<"x-max-length">>,signedint,5}')]),
        "auto_delete": Field("t", False),
        "durable": Field("t", False),
        "name": Field("S", b"q"),
        "vhost": Field("S", b"/"),
        "timestamp_in_ms": Field("l", START_MS),
    }


def test_no_event_is_built_without_a_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    def built(*_: object, **__: object) -> None:
        pytest.fail("facts were gathered for nobody")

    for name in ("connection_created", "connection_closed", "authentication", "channel_created"):
        monkeypatch.setattr(connection_events, name, built)
    for name in ("channel_closed", "consumer_created", "consumer_deleted"):
        monkeypatch.setattr(connection_events, name, built)
    monkeypatch.setattr(events_module, "events_of", built)
    node = Node()
    node.write(c.PutExchange(r.Exchange("/", EXCHANGE, "topic", internal=True)))
    client = node.connect()
    client.call(methods.encode_queue_declare("q"))
    client.call(methods.encode_basic_consume("q", "tag"))
    client.send(methods.encode_queue_delete("q"), methods.encode_queue_declare("nope", passive=True))
    assert isinstance(client.methods()[-1], methods.ChannelClose)
    node.broker.alarms.set("memory", True)
    client.lose()


# -- actors -------------------------------------------------------------------------------------


def test_clients_operators_and_the_broker_itself_are_distinguished() -> None:
    heard = Heard("queue.*")
    heard.client.call(methods.encode_queue_declare("by client"))
    heard.client.call(methods.encode_queue_declare("mine", exclusive=True))
    heard.client.call(methods.encode_queue_declare("expiring", arguments={"x-expires": Field("I", 100)}))
    heard.order("delete_queue", "by client")
    heard.node.advance(200)
    heard.client.lose()
    assert heard.reported("name", WHO) == [
        ("queue.created", "by client", "guest"),
        ("queue.created", "mine", "guest"),
        ("queue.created", "expiring", "guest"),
        ("queue.deleted", "by client", "cli_user"),
        ("queue.deleted", "expiring", INTERNAL_USER),
        ("queue.deleted", "mine", INTERNAL_USER),
    ]


def test_a_connection_that_the_operator_closes_clears_up_by_itself() -> None:
    heard = Heard("#")
    heard.client.call(methods.encode_queue_declare("mine", exclusive=True))
    heard.client.call(methods.encode_basic_consume("mine", "tag"))
    heard.messages()
    live = LiveView(heard.node.broker)
    pid = live.connections()[-1]["pid"]
    heard.order("close_connection", pid, "bye")
    assert heard.reported(WHO) == [
        ("consumer.deleted", INTERNAL_USER),
        ("channel.closed", "guest"),
        ("queue.deleted", INTERNAL_USER),
    ]


def test_writes_of_a_listener_have_the_broker_as_user() -> None:
    node = Node()
    seen: list[tuple[str, str]] = []

    def follow(change: Change) -> None:
        if (
            isinstance(change, Deleted)
            and isinstance(change.record, r.Queue)
            and change.record.name == "first"
        ):
            node.write(c.DeleteQueue("/", "second"))

    def observe(written: WriteResult) -> None:
        seen.append((type(written.command).__name__, written.actor))

    node.metadata.observers.append(observe)
    node.metadata.listeners.append(follow)
    node.write(c.PutQueue(r.Queue("/", "first", 1)))
    node.write(c.PutQueue(r.Queue("/", "second", 2)))
    with node.metadata.acting_as("anna"):
        node.write(c.DeleteQueue("/", "first"))
    assert "second" not in node.broker.vhosts["/"].queues
    assert seen[2:] == [("DeleteQueue", "anna"), ("DeleteQueue", INTERNAL_USER)]


# -- commands with several events ---------------------------------------------------------------


def test_a_queue_takes_its_consumers_bindings_and_idle_exchanges_along() -> None:
    heard = Heard()
    client = heard.client
    client.call(methods.encode_queue_declare("q"))
    client.call(methods.encode_exchange_declare("once", "topic", auto_delete=True))
    client.call(methods.encode_queue_bind("q", "once", "k"))
    client.call(methods.encode_basic_consume("q", "tag"))
    heard.messages()
    client.send(methods.encode_queue_delete("q"))
    assert heard.reported(WHO) == [
        ("consumer.deleted", "guest"),
        ("exchange.deleted", INTERNAL_USER),
        ("binding.deleted", INTERNAL_USER),
        ("queue.deleted", "guest"),
        ("consumer.deleted", None),
    ]


def test_an_exchange_says_that_it_is_being_deleted() -> None:
    heard = Heard()
    client = heard.client
    client.call(methods.encode_exchange_declare("e", "topic"))
    client.call(methods.encode_exchange_bind("amq.fanout", "e", "k"))
    heard.messages()
    client.call(methods.encode_exchange_delete("e"))
    assert heard.reported("name", "component", "source_name", WHO) == [
        ("parameter.set", "e", "exchange-delete-in-progress", None, "guest"),
        ("exchange.deleted", "e", None, None, "guest"),
        ("binding.deleted", None, None, "e", "guest"),
        ("parameter.cleared", "e", "exchange-delete-in-progress", None, "guest"),
    ]


def test_a_user_goes_without_a_word_about_permissions() -> None:
    heard = Heard()
    heard.order("add_user", "anna", "secret")
    heard.order("set_permissions", "anna", "a", "b", "c")
    heard.order("set_permissions", "anna", "a", "b", "c")
    heard.order("delete_user", "anna")
    assert heard.reported("name", "user", WHO) == [
        ("user.created", "anna", None, CLI),
        ("permission.created", None, "anna", CLI),
        ("permission.created", None, "anna", CLI),
        ("user.deleted", "anna", None, CLI),
    ]


def test_a_vhost_goes_with_all_that_is_in_it() -> None:
    heard = Heard()
    heard.order("add_vhost", "v")
    created = heard.reported("name")
    assert created[-1] == ("vhost.created", "v")
    assert {name for name, _ in created[:-1]} == {"exchange.created"}
    heard.order("set_permissions", "guest", "", "", "", vhost="v")
    heard.order("set_policy", "p", ".*", '{"max-length": 1}', vhost="v")
    heard.order("set_vhost_limits", '{"max-queues": 3}', vhost="v")
    heard.node.write(c.PutQueue(r.Queue("v", "q")))
    heard.node.write(c.PutBinding(r.Binding("v", "amq.topic", "queue", "q", "k")))
    heard.messages()
    heard.order("delete_vhost", "v")
    of_exchanges = ("exchange.deleted", "parameter.set", "parameter.cleared")
    assert [event for event in heard.reported(WHO) if event[0] not in of_exchanges] == [
        ("permission.deleted", CLI),
        ("binding.deleted", INTERNAL_USER),
        ("queue.deleted", CLI),
        ("vhost.deleted", CLI),
        ("vhost.limits.cleared", CLI),
        ("policy.cleared", CLI),
        ("vhost.down", INTERNAL_USER),
    ]


# -- policies, parameters, users ----------------------------------------------------------------


def test_a_policy_names_the_queues_it_governs_or_governed() -> None:
    heard = Heard("#")
    for name in ("z1", "z2", "other"):
        heard.node.write(c.PutQueue(r.Queue("/", name)))
    heard.messages()
    heard.order("set_policy", "strong", "^z", '{"max-length": 3}', priority="1")
    heard.order("set_policy", "weak", "^z", '{"max-length": 4}', priority="0")
    heard.order("set_policy", "strong", "^z1", '{"max-length": 3}', priority="1")
    heard.order("clear_policy", "strong")
    assert heard.reported("name", "pattern") == [
        ("queue.policy.updated", "z1", "^z"),
        ("queue.policy.updated", "z2", "^z"),
        ("policy.set", "strong", "^z"),
        ("policy.set", "weak", "^z"),
        ("queue.policy.updated", "z1", "^z1"),
        ("queue.policy.updated", "z2", "^z1"),
        ("policy.set", "strong", "^z1"),
        ("queue.policy.cleared", "z1", None),
        ("policy.cleared", "strong", None),
    ]


def test_operator_policies_and_limits_are_parameters_too() -> None:
    heard = Heard()
    heard.order("set_operator_policy", "op", "^q", '{"max-length": 3}')
    heard.order("clear_operator_policy", "op")
    heard.order("set_vhost_limits", '{"max-queues": 3}')
    heard.order("clear_vhost_limits")
    heard.order("set_global_parameter", "g", '{"a": [1, 2.5, null, {}]}')
    heard.order("clear_global_parameter", "g")
    assert heard.reported("component", "name") == [
        ("parameter.set", "operator_policy", "op"),
        ("policy.set", None, "op"),
        ("parameter.cleared", "operator_policy", "op"),
        ("operator.policy.cleared", None, "op"),
        ("parameter.set", "vhost-limits", "limits"),
        ("vhost.limits.set", None, "limits"),
        ("parameter.cleared", "vhost-limits", "limits"),
        ("vhost.limits.cleared", None, "limits"),
        ("parameter.set", "global", "g"),
        ("parameter.set", "global", "g"),
    ]


def test_changes_of_a_user_are_reported_by_kind() -> None:
    heard = Heard()
    heard.order("add_user", "anna", "secret")
    heard.order("change_password", "anna", "other")
    heard.order("clear_password", "anna")
    heard.order("set_user_tags", "anna", "monitoring")
    heard.order("set_user_limits", "anna", '{"max-channels": 7}')
    heard.order("clear_user_limits", "anna", "all")
    assert heard.reported("name", "username", "tags", "max-channels") == [
        ("user.created", "anna", None, None, None),
        ("user.password.changed", "anna", None, None, None),
        ("user.password.cleared", "anna", None, None, None),
        ("user.tags.set", "anna", None, ["monitoring"], None),
        ("user.limits.set", "limits", "anna", None, 7),
        ("user.limits.cleared", "limits", "anna", None, None),
    ]


def test_topic_permissions_of_one_exchange_go_under_the_wrong_name_as_in_rabbitmq() -> None:
    heard = Heard()
    heard.order("clear_topic_permissions", "guest", "amq.topic")
    heard.order("clear_topic_permissions", "guest")
    assert heard.reported("user") == [("permission.deleted", "guest"), ("topic.permission.deleted", "guest")]


def test_alarms_are_distinguished_by_their_source() -> None:
    heard = Heard()
    heard.node.broker.alarms.set("memory", True)
    heard.node.broker.alarms.set("disk", True)
    heard.node.broker.alarms.set("memory", False)
    node = heard.node.broker.settings.name
    assert heard.reported("source", "node") == [
        ("alarm.set", "memory", node),
        ("alarm.set", "disk", node),
        ("alarm.cleared", "memory", node),
    ]


# -- clients ------------------------------------------------------------------------------------


def test_a_connection_is_named_by_the_pid_that_listings_show() -> None:
    heard = Heard()
    client = heard.node.connect()
    shown = LiveView(heard.node.broker).connections()[-1]["pid"]
    client.call(methods.encode_queue_declare("mine", exclusive=True))
    client.lose()
    assert heard.reported("pid", "owner_pid", "connection", "peer_host") == [
        ("user.authentication.success", None, None, None, "{127,0,0,1}"),
        ("connection.created", shown, None, None, "{127,0,0,1}"),
        ("channel.created", shown.removesuffix(".0>") + ".1>", None, shown, None),
        ("queue.created", None, shown, None, None),
        ("channel.closed", shown.removesuffix(".0>") + ".1>", None, None, None),
        ("queue.deleted", None, None, None, None),
        ("connection.closed", shown, None, None, None),
    ]


def test_a_refused_login_gives_its_reason_in_characters_and_ends_a_connection() -> None:
    heard = Heard()
    connection = Connection(heard.node.broker, Peer("127.0.0.1", 7))
    named: Table = {"connection_name": Field("S", b"mine")}
    start_ok = methods.encode_connection_start_ok(named, "PLAIN", b"\0nobody\0x", "en_US")
    connection.receive(PROTOCOL_HEADER + method_frame(0, start_ok))
    connection.lost()
    (refused, refusal), (closed, end) = heard.tables()
    assert (refused, closed) == ("user.authentication.failure", "connection.closed")
    reason = [Field("l", octet) for octet in b"user 'nobody' - invalid credentials"]
    assert refusal["error"] == Field("A", reason)
    assert refusal["name"] == Field("S", b"nobody")
    assert end["user_provided_name"] == Field("S", b"mine")


def test_unreadable_credentials_name_no_user_and_show_nothing() -> None:
    heard = Heard("user.#")
    connection = Connection(heard.node.broker, Peer("127.0.0.1", 7))
    start_ok = methods.encode_connection_start_ok({}, "PLAIN", b"my secret", "en_US")
    connection.receive(PROTOCOL_HEADER + method_frame(0, start_ok))
    ((name, table),) = heard.tables()
    assert name == "user.authentication.failure"
    assert "name" not in table
    error = "".join(map(chr, cast("list[int]", plain(table)["error"])))
    assert "secret" not in error
