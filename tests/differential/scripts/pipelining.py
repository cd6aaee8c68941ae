"""Methods right behind a publish to a queue whose consumer has credit: the message counts as delivered.

Which of the two comes first on a channel, the delivery or the answer, is not certain in RabbitMQ; so what
answers is written down by a channel that does not consume, unless a script is about that order.
"""

from __future__ import annotations

from collections.abc import Callable

from tests.differential.client import Channel
from tests.differential.context import Context
from tests.differential.runner import script


def prepare(c: Context, *, no_ack: bool = False, prefetch: int = 0) -> tuple[Channel, Channel]:
    """A channel that publishes, and one of another connection that consumes from the queue q."""
    publisher = c.channel(plain=True)
    consumer = c.channel(c.connect())
    publisher.queue("q")
    if prefetch:
        consumer.qos(prefetch)
    consumer.consume("q", "t", no_ack=no_ack)
    return publisher, consumer


BEHIND: dict[str, Callable[[Channel], None]] = {
    "get": lambda ch: ch.send("basic.get", queue="q"),
    "passive": lambda ch: ch.send("queue.declare", queue="q", passive=True),
    "declare": lambda ch: ch.send("queue.declare", queue="q"),
    "purge": lambda ch: ch.send("queue.purge", queue="q"),
    "delete_if_empty": lambda ch: ch.send("queue.delete", queue="q", if_empty=True),
    "delete": lambda ch: ch.send("queue.delete", queue="q"),
}
for _name, _send in BEHIND.items():
    for _no_ack in (False, True):

        @script(name=f"pipelined_{_name}" + ("_no_ack" if _no_ack else ""))
        def _behind(c: Context, send: Callable[[Channel], None] = _send, no_ack: bool = _no_ack) -> None:
            publisher, consumer = prepare(c, no_ack=no_ack)
            with c.connection.at_once():
                publisher.publish("", "q", "x")
                send(publisher)
            publisher.read()
            consumer.read()
            c.settle()


@script
def pipelined_beyond_credit(c: Context) -> None:
    """Only as much counts as delivered as the consumer has credit for."""
    publisher, consumer = prepare(c, prefetch=2)
    with c.connection.at_once():
        for text in "abcd":
            publisher.publish("", "q", text)
        publisher.send("basic.get", queue="q")
        publisher.send("queue.purge", queue="q")
    publisher.read(2)
    consumer.read(2)
    c.settle()


def alone(c: Context, *, no_ack: bool = False) -> Channel:
    """A channel that publishes to the queue q and consumes from it."""
    ch = c.channel(plain=True)
    ch.queue("q")
    ch.consume("q", "t", no_ack=no_ack)
    return ch


@script
def pipelined_cancel(c: Context) -> None:
    """Messages published before basic.cancel are delivered before cancel-ok."""
    ch = alone(c)
    with c.connection.at_once():
        ch.publish("", "q", "x")
        ch.send("basic.cancel", consumer_tag="t")
    ch.read(2)
    ch.ack(1)
    ch.passive("q")


@script
def pipelined_cancel_many(c: Context) -> None:
    ch = alone(c, no_ack=True)
    with c.connection.at_once():
        for number in range(20):
            ch.publish("", "q", str(number))
        ch.send("basic.cancel", consumer_tag="t")
    ch.read(21)
    ch.passive("q")


@script
def pipelined_close_channel(c: Context) -> None:
    """A message that was out when its channel was closed comes back redelivered."""
    ch = alone(c)
    with c.connection.at_once():
        ch.publish("", "q", "x")
        ch.send("channel.close", reply_code=200)
    while ch.read().name != "channel.close-ok":
        pass
    c.transcript.lines = [line for line in c.transcript.lines if "basic.deliver" not in line]
    c.until_count("q", 1)
    c.channel(plain=True).get("q")


@script
def pipelined_close_connection(c: Context) -> None:
    ch = alone(c)
    with c.connection.at_once():
        ch.publish("", "q", "x")
        c.connection.zero.send("connection.close", reply_code=200)
    c.connection.zero.read()
    c.until_count("q", 1)
    c.channel(c.connect(), plain=True).get("q")


@script
def pipelined_consume(c: Context) -> None:
    """A consumer of higher priority that comes behind the publish does not get the message."""
    publisher, consumer = prepare(c)
    with c.connection.at_once():
        publisher.publish("", "q", "x")
        publisher.send("basic.consume", queue="q", consumer_tag="later", arguments={"x-priority": 5})
    publisher.read()
    consumer.read()
    c.settle()


@script
def pipelined_nack(c: Context) -> None:
    """Messages published before a requeue are delivered before the requeued message."""
    publisher, consumer = prepare(c, prefetch=2)
    publisher.publish("", "q", "a")
    consumer.read()
    with consumer.connection.at_once():
        consumer.publish("", "q", "b")
        consumer.nack(1, requeue=True)
    consumer.read(2)


@script
def nacked_comes_before_what_waits(c: Context) -> None:
    """A requeued message is delivered before one that waits for credit."""
    publisher, consumer = prepare(c, prefetch=1)
    for text in "ab":
        publisher.publish("", "q", text)
    consumer.read()
    consumer.nack(1, requeue=True)
    consumer.read()
    consumer.send("basic.recover", requeue=True)
    consumer.read(2)


@script
def pipelined_nack_without_credit(c: Context) -> None:
    publisher, consumer = prepare(c, prefetch=2)
    publisher.publish("", "q", "a")
    consumer.read()
    with consumer.connection.at_once():
        consumer.publish("", "q", "b")
        consumer.publish("", "q", "c")
        consumer.nack(1, requeue=True)
    consumer.read(2)


@script
def pipelined_maxlen(c: Context) -> None:
    publisher = c.channel(plain=True)
    consumer = c.channel(c.connect())
    publisher.queue("q", {"x-max-length": 1})
    consumer.consume("q", "t")
    with c.connection.at_once():
        for text in "abc":
            publisher.publish("", "q", text)
        publisher.send("queue.purge", queue="q")
    publisher.read()
    consumer.read(3)


@script
def pipelined_to_two_queues(c: Context) -> None:
    """Each queue delivers for itself; a purge of one concerns only that one."""
    publisher, consumer = prepare(c)
    publisher.queue("r")
    publisher.bind("q", "amq.fanout")
    publisher.bind("r", "amq.fanout")
    with c.connection.at_once():
        publisher.publish("amq.fanout", "", "x")
        publisher.send("queue.purge", queue="q")
        publisher.send("queue.purge", queue="r")
    publisher.read(2)
    consumer.read()


@script
def pipelined_commit(c: Context) -> None:
    """Messages of a transaction count as delivered when commit-ok arrives."""
    publisher, consumer = prepare(c)
    publisher.call("tx.select")
    with c.connection.at_once():
        publisher.publish("", "q", "x")
        publisher.send("tx.commit")
    publisher.read()
    publisher.call("queue.purge", queue="q")
    consumer.read()
