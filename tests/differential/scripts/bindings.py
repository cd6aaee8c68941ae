"""Binding queues and exchanges to exchanges, and taking bindings away."""

from __future__ import annotations

from tests.differential.context import Context
from tests.differential.runner import script


@script
def bind_missing_queue(c: Context) -> None:
    c.channel().bind("q", "amq.direct", "k")


@script
def bind_missing_exchange(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.bind("q", "e", "k")


@script
def bind_both_missing(c: Context) -> None:
    c.channel().bind("q", "e", "k")


@script
def bind_default_exchange(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.bind("q", "", "k")


@script
def unbind_default_exchange(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.unbind("q", "", "q")


@script
def bind_twice(c: Context) -> None:
    """A repeated binding is one binding."""
    ch = c.channel()
    ch.queue("q")
    ch.bind("q", "amq.direct", "k")
    ch.bind("q", "amq.direct", "k")
    ch.publish("amq.direct", "k", "x")
    ch.passive("q")
    ch.unbind("q", "amq.direct", "k")
    ch.publish("amq.direct", "k", "y", mandatory=True)
    c.settle("q")


@script
def bind_arguments_distinguish(c: Context) -> None:
    """Bindings that differ in arguments only are two."""
    ch = c.channel()
    ch.queue("q")
    ch.bind("q", "amq.direct", "k", {"n": 1})
    ch.bind("q", "amq.direct", "k", {"n": 2})
    ch.unbind("q", "amq.direct", "k", {"n": 1})
    ch.publish("amq.direct", "k", "x")
    ch.get("q", no_ack=True)


@script
def bind_nowait(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.call("queue.bind", queue="q", exchange="amq.direct", routing_key="k", nowait=True)
    ch.publish("amq.direct", "k", "x")
    ch.get("q", no_ack=True)


@script
def unbind_missing_binding(c: Context) -> None:
    """Taking away a binding that is not there is fine."""
    ch = c.channel()
    ch.queue("q")
    ch.unbind("q", "amq.direct", "never")


@script
def unbind_missing_queue(c: Context) -> None:
    c.channel().unbind("q", "amq.direct", "k")


@script
def unbind_missing_exchange(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.unbind("q", "e", "k")


@script
def exchange_bind_missing(c: Context) -> None:
    c.channel().bind_exchange("amq.fanout", "missing", "k")
    c.channel().bind_exchange("missing", "amq.fanout", "k")
    c.channel().bind_exchange("missing", "missing too", "k")


@script
def exchange_bind_default(c: Context) -> None:
    c.channel().bind_exchange("", "amq.fanout", "k")
    c.channel().bind_exchange("amq.fanout", "", "k")


@script
def exchange_unbind(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.bind("q", "amq.fanout")
    ch.bind_exchange("amq.fanout", "amq.direct", "k")
    ch.publish("amq.direct", "k", "one")
    ch.call("exchange.unbind", destination="amq.fanout", source="amq.direct", routing_key="k")
    ch.publish("amq.direct", "k", "two", mandatory=True)
    c.settle("q")
    ch.passive("q")


@script
def exchange_bind_circle(c: Context) -> None:
    """Exchanges bound in a circle deliver once."""
    ch = c.channel()
    ch.exchange("a", "fanout")
    ch.exchange("b", "fanout")
    ch.bind_exchange("a", "b")
    ch.bind_exchange("b", "a")
    ch.bind_exchange("a", "a")
    ch.queue("q")
    ch.bind("q", "a")
    ch.bind("q", "b")
    ch.publish("a", "", "once")
    ch.passive("q")


@script
def bind_recent_queue(c: Context) -> None:
    """No queue name: the channel's last declared queue; no key either: that queue's name."""
    ch = c.channel()
    ch.queue("q")
    ch.call("queue.bind", queue="", exchange="amq.direct", routing_key="")
    ch.publish("amq.direct", "q", "by name")
    ch.publish("amq.direct", "", "by nothing")
    ch.passive("q")


@script
def bind_no_recent_queue(c: Context) -> None:
    c.channel().call("queue.bind", queue="", exchange="amq.direct", routing_key="k")


@script
def unbind_from_another_connection(c: Context) -> None:
    """A binding of an exclusive queue is its connection's; one that is not there counts as removed."""
    ch = c.channel()
    ch.queue("q", exclusive=True)
    ch.bind("q", "amq.direct", "k")
    other = c.connect()
    c.channel(other).unbind("q", "amq.direct", "k")
    c.channel(other).unbind("q", "amq.direct", "never")
    ch.publish("amq.direct", "k", "x", mandatory=True)
    ch.get("q", no_ack=True)
    ch.unbind("q", "amq.direct", "k")
