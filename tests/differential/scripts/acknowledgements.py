"""ack, nack, reject and recover: what goes back, where to, and which tags are wrong."""

from __future__ import annotations

from tests.differential.client import Channel
from tests.differential.context import Context
from tests.differential.runner import script


def holding(c: Context, texts: str = "abc") -> Channel:
    """A channel that has got these messages and not acknowledged them; tags count from 1."""
    ch = c.channel()
    ch.queue("q")
    for text in texts:
        ch.publish("", "q", text)
    for _ in texts:
        ch.get("q")
    return ch


def drain(ch: Channel, queue: str = "q") -> None:
    while ch.get(queue, no_ack=True).name == "basic.get-ok":
        pass


@script
def ack_unknown_tag(c: Context) -> None:
    ch = c.channel()
    ch.ack(5)
    ch.read()


@script
def ack_tag_zero(c: Context) -> None:
    ch = holding(c)
    ch.ack(0)
    ch.read()


@script
def ack_twice(c: Context) -> None:
    ch = holding(c)
    ch.ack(1)
    ch.ack(1)
    ch.read()


@script
def ack_multiple_beyond(c: Context) -> None:
    ch = holding(c)
    ch.ack(9, multiple=True)
    ch.read()


@script
def ack_multiple_zero_is_all(c: Context) -> None:
    ch = holding(c)
    ch.ack(0, multiple=True)
    drain(ch)
    ch.call("channel.close", reply_code=200)
    drain(c.channel())


@script
def ack_multiple_zero_nothing_to_ack(c: Context) -> None:
    ch = c.channel()
    ch.ack(0, multiple=True)
    c.settle()


@script
def ack_multiple_again(c: Context) -> None:
    """Everything up to an acknowledged tag is already gone."""
    ch = holding(c)
    ch.ack(2, multiple=True)
    ch.ack(2, multiple=True)
    ch.read()


@script
def ack_from_other_channel(c: Context) -> None:
    holding(c)
    other = c.channel()
    other.ack(1)
    other.read()


@script
def nack_unknown_tag(c: Context) -> None:
    ch = c.channel()
    ch.nack(5, requeue=True)
    ch.read()


@script
def reject_unknown_tag(c: Context) -> None:
    ch = c.channel()
    ch.reject(5, requeue=True)
    ch.read()


@script
def nack_multiple_zero(c: Context) -> None:
    ch = holding(c)
    ch.nack(0, multiple=True, requeue=True)
    drain(ch)


@script
def nack_requeue_order(c: Context) -> None:
    """Each goes back to its place, whatever the order of the nacks."""
    ch = holding(c)
    ch.nack(3, requeue=True)
    ch.nack(1, requeue=True)
    drain(ch)
    ch.nack(2, requeue=True)
    drain(ch)


@script
def nack_requeue_to_the_front(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    for text in "abcd":
        ch.publish("", "q", text)
    ch.get("q")
    ch.get("q")
    ch.nack(2, requeue=True)
    ch.get("q")
    ch.nack(0, multiple=True, requeue=True)
    drain(ch)


@script
def nack_drop(c: Context) -> None:
    ch = holding(c)
    ch.nack(2, multiple=True)
    ch.nack(3, requeue=True)
    drain(ch)


@script
def reject_requeue(c: Context) -> None:
    ch = holding(c, "a")
    ch.reject(1, requeue=True)
    ch.get("q")
    ch.reject(2)
    ch.get("q")


@script
def requeue_to_consumer(c: Context) -> None:
    """A consumer gets it again, marked, with a new tag."""
    ch = c.channel()
    ch.queue("q")
    ch.consume("q", "t")
    ch.publish("", "q", "x")
    ch.read()
    ch.reject(1, requeue=True)
    ch.read()
    ch.ack(2)


@script
def redelivered_stays_set(c: Context) -> None:
    ch = holding(c, "a")
    ch.nack(1, requeue=True)
    ch.get("q")
    ch.nack(2, requeue=True)
    ch.get("q", no_ack=True)


@script
def connection_loss_requeues(c: Context) -> None:
    other = c.connect()
    ch = c.channel(other)
    ch.queue("q")
    for text in "abc":
        ch.publish("", "q", text)
    ch.get("q")
    ch.get("q")
    other.end()
    c.until_count("q", 3)
    drain(c.channel())


@script
def recover_requeue(c: Context) -> None:
    ch = holding(c)
    ch.call("basic.recover", requeue=True)
    drain(ch)


@script
def recover_without_requeue(c: Context) -> None:
    ch = holding(c)
    ch.call("basic.recover", requeue=False)


@script
def recover_async(c: Context) -> None:
    ch = holding(c)
    ch.send("basic.recover-async", requeue=True)
    drain(ch)


@script
def recover_async_without_requeue(c: Context) -> None:
    ch = holding(c)
    ch.send("basic.recover-async", requeue=False)
    ch.read()


@script
def recover_nothing(c: Context) -> None:
    c.channel().call("basic.recover", requeue=True)


@script
def recover_to_consumer(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.qos(2)
    ch.consume("q", "t")
    ch.publish("", "q", "a")
    ch.publish("", "q", "b")
    ch.read(2)
    ch.send("basic.recover-async", requeue=True)
    ch.read(2)


@script
def get_empty(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.get("q")


@script
def get_counts(c: Context) -> None:
    """The count is what is left."""
    ch = c.channel()
    ch.queue("q")
    for text in "abc":
        ch.publish("", "q", text)
    drain(ch)


@script
def get_missing_queue(c: Context) -> None:
    c.channel().get("q")


@script
def get_empty_name(c: Context) -> None:
    c.channel().get("")


@script
def get_unacked_is_hidden(c: Context) -> None:
    ch = holding(c, "a")
    c.channel().get("q")
    ch.passive("q")


@script
def ack_prefetch_window_moves(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.qos(2)
    ch.consume("q", "t")
    for text in "abcde":
        ch.publish("", "q", text)
    ch.read(2)
    ch.ack(2)
    ch.read()
    ch.ack(1)
    ch.read()
    ch.ack(4, multiple=True)
    ch.read()
    c.settle("q")
