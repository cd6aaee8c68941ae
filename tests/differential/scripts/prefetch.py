"""basic.qos: windows per consumer and per channel."""

from __future__ import annotations

from tests.differential.context import Context
from tests.differential.runner import script


@script
def qos_per_consumer(c: Context) -> None:
    """Each consumer made after basic.qos gets its own window."""
    ch = c.channel()
    ch.queue("q")
    ch.qos(1)
    ch.consume("q", "one")
    ch.consume("q", "two")
    for text in "abcd":
        ch.publish("", "q", text)
    c.settle("q")
    ch.ack(1)
    ch.read()
    c.settle("q")


@script
def qos_global(c: Context) -> None:
    """One window for the whole channel."""
    ch = c.channel()
    ch.queue("q")
    ch.qos(2, everywhere=True)
    ch.consume("q", "one")
    ch.consume("q", "two")
    for text in "abcd":
        ch.publish("", "q", text)
    c.settle("q")
    ch.ack(2, multiple=True)
    ch.read(2)
    c.settle("q")


@script
def qos_changes_only_new_consumers(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.qos(1)
    ch.consume("q", "t")
    ch.qos(10)
    for text in "abc":
        ch.publish("", "q", text)
    c.settle("q")


@script
def qos_global_raised(c: Context) -> None:
    """Raising the channel's window lets more through at once."""
    ch = c.channel()
    ch.queue("q")
    ch.qos(1, everywhere=True)
    ch.consume("q", "t")
    for text in "abc":
        ch.publish("", "q", text)
    c.settle("q")
    ch.qos(2, everywhere=True)
    ch.read()
    ch.qos(0, everywhere=True)
    ch.read()


@script
def qos_both(c: Context) -> None:
    """Per-consumer and per-channel windows hold together."""
    ch = c.channel()
    ch.queue("q")
    ch.qos(2)
    ch.qos(3, everywhere=True)
    ch.consume("q", "one")
    ch.consume("q", "two")
    for text in "abcde":
        ch.publish("", "q", text)
    c.settle("q")


@script
def qos_prefetch_size(c: Context) -> None:
    c.channel().qos(1, size=1)


@script
def qos_zero_is_unlimited(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.qos(0)
    ch.consume("q", "t")
    for text in "abc":
        ch.publish("", "q", text)
    ch.read(3)


@script
def qos_does_not_limit_get(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.qos(1, everywhere=True)
    ch.publish("", "q", "a")
    ch.publish("", "q", "b")
    ch.get("q")
    ch.get("q")
