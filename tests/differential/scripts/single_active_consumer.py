"""One consumer at a time, and consumer priorities."""

from __future__ import annotations

from tests.differential.codec import Typed
from tests.differential.context import Context
from tests.differential.runner import script


@script
def consumer_priority(c: Context) -> None:
    """The highest priority is served while it has room."""
    pub, low, high = c.channel(), c.channel(), c.channel()
    pub.queue("q")
    low.consume("q", "low", {"x-priority": 1})
    high.qos(2)
    high.consume("q", "high", {"x-priority": 10})
    for text in "abc":
        pub.publish("", "q", text)
        pub.wait_for_hidden_confirms()
    c.settle("q")


@script
def consumer_priority_default_is_zero(c: Context) -> None:
    pub, plain, below = c.channel(), c.channel(), c.channel()
    pub.queue("q")
    below.consume("q", "below", {"x-priority": -1})
    plain.qos(1)
    plain.consume("q", "plain")
    for text in "ab":
        pub.publish("", "q", text)
        pub.wait_for_hidden_confirms()
    c.settle("q")


@script
def consumer_priority_invalid(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    for value in ("high", True, 1.5, None, Typed("l", 5), Typed("s", 5)):
        c.channel().consume("q", "t", {"x-priority": value})


@script
def single_active_consumer(c: Context) -> None:
    """One consumer is served until it goes; then the next in line."""
    pub, one, two = c.channel(), c.channel(), c.channel()
    pub.queue("q", {"x-single-active-consumer": True})
    one.consume("q", "one")
    two.consume("q", "two")
    for text in "ab":
        pub.publish("", "q", text)
        pub.wait_for_hidden_confirms()
    c.settle("q")
    one.cancel("one")
    pub.publish("", "q", "c")
    c.settle("q")


@script
def single_active_consumer_channel_closed(c: Context) -> None:
    """Unacknowledged messages of the one that went come to the next, marked."""
    pub, one, two = c.channel(), c.channel(), c.channel()
    pub.queue("q", {"x-single-active-consumer": True})
    one.consume("q", "one")
    two.consume("q", "two")
    pub.publish("", "q", "a")
    one.read()
    one.call("channel.close", reply_code=200)
    two.read()


@script
def single_active_consumer_exclusive(c: Context) -> None:
    ch = c.channel()
    ch.queue("q", {"x-single-active-consumer": True})
    ch.consume("q", "t", exclusive=True)


@script
def single_active_consumer_ignores_priority(c: Context) -> None:
    """A later consumer of a higher priority waits all the same."""
    pub, low, high = c.channel(), c.channel(), c.channel()
    pub.queue("q", {"x-single-active-consumer": True})
    low.consume("q", "low", {"x-priority": 1})
    high.consume("q", "high", {"x-priority": 10})
    pub.publish("", "q", "a")
    c.settle("q")
