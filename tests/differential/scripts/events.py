"""The event exchange: amq.rabbitmq.event in the default vhost."""

from __future__ import annotations

import time
from typing import Any

from tests.differential.client import Channel, Stopped
from tests.differential.codec import Method, Typed
from tests.differential.context import POLL_DEADLINE_S, Context
from tests.differential.runner import script
from tests.differential.steps import greet, start_ok
from tests.differential.transcript import show

SHOWN = frozenset(
    [
        "vhost",
        "queue",
        "name",
        "durable",
        "auto_delete",
        "exclusive",
        "arguments",
        "type",
        "internal",
        "source_name",
        "source_kind",
        "destination_name",
        "destination_kind",
        "routing_key",
        "consumer_tag",
        "ack_required",
        "prefetch_count",
        "user",
        "pattern",
        "apply-to",
        "priority",
        "definition",
        "component",
        "value",
        "tags",
        "configure",
        "write",
        "read",
        "exchange",
        "ssl",
        "protocol",
        "auth_mechanism",
        "limits",
        "username",
        "connection_type",
    ]
)
"""Headers whose values are shown; the others are about processes, ports and clocks: only name and type."""


class Events:
    """Listens to events of some routing keys and picks those about this script."""

    def __init__(self, c: Context, *keys: str) -> None:
        self.c = c
        self.channel: Channel = c.channel(c.connect(vhost="/"), plain=True)
        answer = self.channel.hidden_call("queue.declare", exclusive=True)
        assert answer is not None
        for key in keys:
            self.channel.hidden_call(
                "queue.bind", queue=answer.queue, exchange="amq.rabbitmq.event", routing_key=key
            )
        self.channel.hidden_call("basic.consume", queue=answer.queue, no_ack=True)

    def expect(self, key: str, **matching: Any) -> None:
        """Wait for an event with this key and these header values, and write it down."""
        deadline = time.monotonic() + POLL_DEADLINE_S
        while True:
            while self.channel.inbox:
                heard = self.channel.inbox.popleft()
                if (
                    isinstance(heard, Method)
                    and heard.name == "basic.deliver"
                    and self._is(heard, key, matching)
                ):
                    self._note(heard)
                    return
            if not self.channel.connection.pump(deadline) and time.monotonic() >= deadline:
                raise Stopped(f"no event {key}")

    def done(self) -> None:
        """Ignore events that other scripts caused."""
        self.channel.hidden_call("basic.qos")
        self.channel.inbox.clear()
        self.channel.connection.end()
        self.channel.closed = True

    @staticmethod
    def _is(event: Method, key: str, matching: dict[str, Any]) -> bool:
        headers: dict[str, Typed] = event.properties.get("headers", {})
        return event.routing_key == key and all(
            name in headers and headers[name].value == value for name, value in matching.items()
        )

    def _note(self, event: Method) -> None:
        headers: dict[str, Any] = event.properties.get("headers", {})
        shown = (
            f"{name}: {show(value, name) if name in SHOWN else value.octet}"
            for name, value in sorted(headers.items())
        )
        others = sorted(set(event.properties) - {"headers"})
        self.c.transcript.add(
            f"event {event.routing_key} {{{', '.join(shown)}}} and {', '.join(others)}, body {event.body!r}"
        )


@script
def event_queue_created_and_deleted(c: Context) -> None:
    events = Events(c, "queue.*")
    ch = c.channel()
    ch.queue("q", {"x-message-ttl": 60000}, durable=True)
    events.expect("queue.created", vhost=c.vhost, name="q")
    ch.delete("q")
    events.expect("queue.deleted", vhost=c.vhost, name="q")
    events.done()


@script
def event_queue_created_exclusive(c: Context) -> None:
    events = Events(c, "queue.*")
    ch = c.channel()
    ch.queue("q", exclusive=True, auto_delete=True)
    events.expect("queue.created", vhost=c.vhost, name="q")
    events.done()


@script
def event_exchange_created_and_deleted(c: Context) -> None:
    events = Events(c, "exchange.*")
    ch = c.channel()
    ch.exchange("e", "topic", {"alternate-exchange": "amq.fanout"})
    events.expect("exchange.created", vhost=c.vhost, name="e")
    ch.call("exchange.delete", exchange="e")
    events.expect("exchange.deleted", vhost=c.vhost, name="e")
    events.done()


@script
def event_binding_created_and_deleted(c: Context) -> None:
    events = Events(c, "binding.*")
    ch = c.channel()
    ch.queue("q")
    ch.bind("q", "amq.direct", "k", {"a": 1})
    events.expect("binding.created", vhost=c.vhost, source_name="amq.direct")
    ch.unbind("q", "amq.direct", "k", {"a": 1})
    events.expect("binding.deleted", vhost=c.vhost, source_name="amq.direct")
    events.done()


@script
def event_consumer_created_and_deleted(c: Context) -> None:
    events = Events(c, "consumer.*")
    ch = c.channel()
    ch.queue("q")
    ch.qos(7)
    ch.consume("q", "tag of event_consumer", {"x-priority": 3})
    events.expect("consumer.created", consumer_tag="tag of event_consumer")
    ch.cancel("tag of event_consumer")
    events.expect("consumer.deleted", consumer_tag="tag of event_consumer")
    events.done()


@script
def event_connection_created_and_closed(c: Context) -> None:
    events = Events(c, "connection.*")
    a = c.connect()
    events.expect("connection.created", vhost=c.vhost)
    a.zero.call("connection.close", reply_code=200)
    events.expect("connection.closed")
    events.done()


@script
def event_authentication(c: Context) -> None:
    events = Events(c, "user.authentication.*")
    start_ok(greet(c), response="\0nobody at all\0guest")
    events.expect("user.authentication.failure", name="nobody at all")
    c.admin.add_user("event_authentication", "secret")
    start_ok(greet(c), response="\0event_authentication\0secret")
    events.expect("user.authentication.success", name="event_authentication")
    events.done()


@script
def event_user(c: Context) -> None:
    events = Events(c, "user.*")
    c.admin.add_user("event_user", "secret")
    events.expect("user.created", name="event_user")
    c.admin.delete_user("event_user")
    events.expect("user.deleted", name="event_user")
    events.done()


@script
def event_permission(c: Context) -> None:
    events = Events(c, "permission.*", "topic.permission.*")
    c.admin.add_user("event_permission", "secret")
    c.admin.set_permissions("event_permission", "a", "b", "c")
    events.expect("permission.created", user="event_permission")
    c.admin.set_topic_permissions("event_permission", "amq.topic", "d", "e")
    events.expect("topic.permission.created", user="event_permission")
    events.done()


@script
def event_policy(c: Context) -> None:
    events = Events(c, "policy.*")
    c.admin.set_policy("p", "^q$", {"max-length": 5}, "queues", 3)
    events.expect("policy.set", vhost=c.vhost, name="p")
    c.admin.clear_policy("p")
    events.expect("policy.cleared", vhost=c.vhost, name="p")
    events.done()


@script
def event_vhost_limits(c: Context) -> None:
    events = Events(c, "vhost.#")
    c.admin.set_vhost_limits({"max-queues": 7654})
    events.expect("vhost.limits.set", **{"max-queues": 7654})
    events.done()


@script
def event_vhost(c: Context) -> None:
    events = Events(c, "vhost.*")
    c.admin.add_vhost("event_vhost made")
    events.expect("vhost.created", name="event_vhost made")
    c.admin.delete_vhost("event_vhost made")
    events.expect("vhost.deleted", name="event_vhost made")
    events.done()


@script
def event_exchange_is_internal(c: Context) -> None:
    ch = c.channel(c.connect(vhost="/"))
    ch.publish("amq.rabbitmq.event", "k", "x")
    ch.read()


@script
def event_exchange_only_in_default_vhost(c: Context) -> None:
    c.channel().call("exchange.declare", exchange="amq.rabbitmq.event", passive=True)
