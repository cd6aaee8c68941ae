"""Consuming: tags, exclusivity, priorities, prefetch, single active consumer, cancellation."""

from __future__ import annotations

from tests.differential.context import Context
from tests.differential.runner import script
from tests.differential.transcript import CAPABILITIES


@script
def consume_and_ack(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.consume("q", "t")
    ch.publish("", "q", "a", content_type="text/plain")
    ch.publish("", "q", "b")
    ch.read(2)
    ch.ack(2, multiple=True)
    c.settle("q")


@script
def consume_server_tag(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    answer = ch.consume("q")
    ch.publish("", "q", "x")
    ch.read()
    ch.cancel(answer.consumer_tag)


@script
def consume_missing_queue(c: Context) -> None:
    c.channel().consume("q", "t")


@script
def consume_last_declared(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.consume("", "t")


@script
def consume_no_last_declared(c: Context) -> None:
    c.channel().consume("", "t")


@script
def consume_tag_reused(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.consume("q", "t")
    ch.consume("q", "t")


@script
def consume_tag_reused_on_other_channel(c: Context) -> None:
    """Tags belong to channels."""
    one, two = c.channel(), c.channel()
    one.queue("q")
    one.consume("q", "t")
    two.consume("q", "t")


@script
def consume_tag_free_after_cancel(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.consume("q", "t")
    ch.cancel("t")
    ch.consume("q", "t")


@script
def consume_nowait(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.call("basic.consume", queue="q", consumer_tag="t", nowait=True)
    ch.publish("", "q", "x")
    ch.read()


@script
def cancel_unknown_tag(c: Context) -> None:
    c.channel().cancel("nobody")


@script
def cancel_nowait(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.consume("q", "t")
    ch.call("basic.cancel", consumer_tag="t", nowait=True)
    ch.passive("q")


@script
def cancel_keeps_unacked(c: Context) -> None:
    """Deliveries can be acknowledged after their consumer has gone."""
    ch = c.channel()
    ch.queue("q")
    ch.consume("q", "t")
    ch.publish("", "q", "x")
    ch.read()
    ch.cancel("t")
    ch.get("q")
    ch.nack(1, requeue=True)
    ch.get("q", no_ack=True)


@script
def consume_exclusive_refused(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.consume("q", "first")
    ch.consume("q", "second", exclusive=True)


@script
def consume_behind_exclusive_refused(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.consume("q", "first", exclusive=True)
    ch.consume("q", "second")


@script
def consume_exclusive_freed(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.consume("q", "first", exclusive=True)
    ch.cancel("first")
    ch.consume("q", "second", exclusive=True)


@script
def consume_exclusive_get_allowed(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.consume("q", "t", exclusive=True)
    c.channel().get("q")


@script
def consume_no_local_ignored(c: Context) -> None:
    """RabbitMQ does not know no-local."""
    ch = c.channel()
    ch.queue("q")
    ch.consume("q", "t", no_local=True)
    ch.publish("", "q", "own")
    ch.read()


@script
def consume_no_ack(c: Context) -> None:
    """Nothing to acknowledge: the tag is unknown."""
    ch = c.channel()
    ch.queue("q")
    ch.consume("q", "t", no_ack=True)
    ch.publish("", "q", "x")
    ch.read()
    ch.ack(1)
    ch.read()


@script
def consume_no_ack_ignores_prefetch(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.qos(1)
    ch.consume("q", "t", no_ack=True)
    for text in "abc":
        ch.publish("", "q", text)
    ch.read(3)


@script
def consume_round_robin(c: Context) -> None:
    pub, one, two = c.channel(), c.channel(), c.channel()
    pub.queue("q")
    one.consume("q", "one")
    two.consume("q", "two")
    for text in "abcd":
        pub.publish("", "q", text)
        pub.wait_for_hidden_confirms()
    c.settle("q")


@script
def consume_round_robin_one_channel(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.consume("q", "one")
    ch.consume("q", "two")
    for text in "abcd":
        ch.publish("", "q", text)
    ch.read(4)


@script
def consumer_prefetch_argument(c: Context) -> None:
    """x-prefetch is not a thing for AMQP 0-9-1 consumers; x-credit neither."""
    ch = c.channel()
    ch.queue("q")
    ch.consume("q", "t", {"x-prefetch": 1, "x-note": "x"})
    ch.publish("", "q", "a")
    ch.publish("", "q", "b")
    ch.read(2)


@script
def cancel_notification_on_delete(c: Context) -> None:
    one, two = c.channel(), c.channel()
    one.queue("q")
    one.consume("q", "t")
    two.delete("q")
    one.read()


@script
def cancel_notification_same_channel(c: Context) -> None:
    """Both come, in whichever order, when the consumer's own channel deletes."""
    ch = c.channel()
    ch.queue("q")
    ch.consume("q", "t")
    c.channel().delete("q")
    ch.read()
    ch.consume("q", "t")


@script
def cancel_notification_not_wanted(c: Context) -> None:
    """A client that cannot take basic.cancel is not told."""
    capabilities = {key: value for key, value in CAPABILITIES.items() if key != "consumer_cancel_notify"}
    old = c.channel(c.connect(capabilities=capabilities))
    old.queue("q")
    old.consume("q", "t")
    c.channel(c.connect()).delete("q")
    c.until_gone("q")
    old.queue("other")


@script
def cancel_notification_on_exclusive_end(c: Context) -> None:
    """The queue of another connection's exclusive lock cannot be consumed, so nobody is told; ours is."""
    ch = c.channel()
    ch.queue("q", auto_delete=True)
    ch.consume("q", "stays")
    ch.consume("q", "goes")
    ch.cancel("goes")
    c.channel().delete("q")
    ch.read()


@script
def cancel_ok_from_client_after_cancel(c: Context) -> None:
    """Answering the broker's basic.cancel is a mistake."""
    one, two = c.channel(), c.channel()
    one.queue("q")
    one.consume("q", "t")
    two.delete("q")
    one.read()
    one.send("basic.cancel-ok", consumer_tag="t")
    one.read()


@script
def consumer_timeout(c: Context) -> None:
    """A delivery that is not acknowledged in time closes the channel and goes back."""
    ch = c.channel()
    ch.queue("q")
    ch.consume("q", "t")
    ch.publish("", "q", "x")
    ch.read()
    ch.read()
    c.until_count("q", 1)
    c.channel().get("q", no_ack=True)


@script
def delivery_tags_are_per_channel(c: Context) -> None:
    """Deliveries and gets share one count."""
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "a")
    ch.get("q")
    ch.consume("q", "t")
    ch.publish("", "q", "b")
    ch.read()
    ch.queue("other")
    ch.publish("", "other", "c")
    ch.get("other")


@script
def consume_two_queues_one_channel(c: Context) -> None:
    ch = c.channel()
    for queue in ("q1", "q2"):
        ch.queue(queue)
        ch.consume(queue, f"tag of {queue}")
        ch.publish("", queue, f"to {queue}")
        ch.read()


@script
def consume_backlog(c: Context) -> None:
    """A backlog is delivered in order."""
    ch = c.channel()
    ch.queue("q")
    for text in "abc":
        ch.publish("", "q", text)
    ch.wait_for_hidden_confirms()
    ch.consume("q", "t", no_ack=True)
    ch.read(3)
