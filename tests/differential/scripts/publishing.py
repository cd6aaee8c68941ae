"""Publishing: missing exchanges, mandatory and immediate, confirms, transactions."""

from __future__ import annotations

from tests.differential.context import Context
from tests.differential.runner import script


@script
def publish_missing_exchange(c: Context) -> None:
    ch = c.channel()
    ch.publish("nowhere", "k", "x")
    ch.read()


@script
def publish_missing_exchange_mandatory(c: Context) -> None:
    ch = c.channel()
    ch.publish("nowhere", "k", "x", mandatory=True)
    ch.read()


@script
def publish_mandatory_returned(c: Context) -> None:
    """Returned as it came: properties, headers, body."""
    ch = c.channel()
    ch.publish(
        "amq.direct", "nobody", "body", mandatory=True, headers={"a": [1, {"b": None}]}, message_id="m"
    )
    ch.read()


@script
def publish_mandatory_large_returned(c: Context) -> None:
    ch = c.channel()
    ch.publish("amq.direct", "nobody", b"x" * 300000, mandatory=True)
    ch.read()


@script
def publish_immediate(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "x", immediate=True)
    ch.read()


@script
def publish_unroutable_dropped(c: Context) -> None:
    ch = c.channel()
    ch.publish("amq.direct", "nobody", "x")
    c.settle()


@script
def publish_empty_body(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "")
    ch.get("q", no_ack=True)


@script
def publish_to_many_queues(c: Context) -> None:
    ch = c.channel()
    for queue in ("q1", "q2", "q3"):
        ch.queue(queue)
        ch.bind(queue, "amq.fanout")
    ch.publish("amq.fanout", "k", "x", delivery_mode=2)
    for queue in ("q1", "q2", "q3"):
        ch.get(queue, no_ack=True)


@script
def publish_without_confirms(c: Context) -> None:
    """A plain channel: nothing comes back, everything arrives."""
    ch = c.channel(plain=True)
    ch.queue("q")
    for text in "abc":
        ch.publish("", "q", text)
    for _ in range(4):
        ch.get("q", no_ack=True)


@script
def confirm_select_twice(c: Context) -> None:
    ch = c.channel(plain=True)
    ch.confirm()
    ch.confirm()


@script
def confirm_select_nowait(c: Context) -> None:
    ch = c.channel(plain=True)
    ch.call("confirm.select", nowait=True)
    ch.queue("q")
    ch.publish("", "q", "x")
    ch.confirms()


@script
def confirm_counts_from_one(c: Context) -> None:
    """Publishes before confirm.select do not count."""
    ch = c.channel(plain=True)
    ch.queue("q")
    ch.publish("", "q", "before")
    ch.confirm()
    for text in "abc":
        ch.publish("", "q", text)
    ch.confirms()


@script
def confirm_persistent_durable(c: Context) -> None:
    ch = c.channel(plain=True)
    ch.queue("q", durable=True)
    ch.confirm()
    for text in "abc":
        ch.publish("", "q", text, delivery_mode=2)
    ch.confirms()
    ch.get("q", no_ack=True)


@script
def confirm_unroutable(c: Context) -> None:
    ch = c.channel(plain=True)
    ch.confirm()
    ch.publish("amq.direct", "nobody", "x")
    ch.read()


@script
def confirm_return_comes_first(c: Context) -> None:
    """The return of a mandatory message comes before its ack."""
    ch = c.channel(plain=True)
    ch.confirm()
    ch.publish("amq.direct", "nobody", "x", mandatory=True)
    ch.read(2)


@script
def confirm_missing_exchange(c: Context) -> None:
    """No nack: the channel closes."""
    ch = c.channel(plain=True)
    ch.confirm()
    ch.publish("nowhere", "k", "x")
    ch.read()


@script
def confirm_internal_and_good(c: Context) -> None:
    ch = c.channel(plain=True)
    ch.queue("q")
    ch.confirm()
    ch.publish("", "q", "a")
    ch.publish("amq.direct", "nobody", "b", mandatory=True)
    ch.publish("", "q", "c", mandatory=True)
    ch.confirms()


@script
def confirm_delivered_to_consumer(c: Context) -> None:
    """A persistent message is confirmed although a consumer took it at once."""
    pub, sub = c.channel(plain=True), c.channel()
    pub.queue("q", durable=True)
    sub.consume("q", "t")
    pub.confirm()
    pub.publish("", "q", "x", delivery_mode=2)
    pub.confirms()
    sub.read()


@script
def confirm_queue_deleted_under_way(c: Context) -> None:
    ch = c.channel(plain=True)
    ch.queue("q")
    ch.confirm()
    ch.publish("", "q", "x")
    ch.confirms()
    ch.delete("q")
    ch.publish("", "q", "y", mandatory=True)
    ch.read(2)


@script
def confirm_many(c: Context) -> None:
    ch = c.channel(plain=True)
    ch.queue("q")
    ch.confirm()
    for number in range(50):
        ch.publish("", "q", str(number))
    ch.confirms()


@script
def confirm_on_tx_channel(c: Context) -> None:
    ch = c.channel(plain=True)
    ch.call("tx.select")
    ch.confirm()


@script
def tx_on_confirm_channel(c: Context) -> None:
    ch = c.channel(plain=True)
    ch.confirm()
    ch.call("tx.select")


@script
def tx_commit_without_select(c: Context) -> None:
    c.channel(plain=True).call("tx.commit")


@script
def tx_rollback_without_select(c: Context) -> None:
    c.channel(plain=True).call("tx.rollback")


@script
def tx_select_twice(c: Context) -> None:
    ch = c.channel(plain=True)
    ch.call("tx.select")
    ch.call("tx.select")
    ch.call("tx.commit")


@script
def tx_commit_publishes(c: Context) -> None:
    ch = c.channel(plain=True)
    ch.queue("q")
    ch.call("tx.select")
    ch.publish("", "q", "a")
    ch.publish("", "q", "b")
    ch.get("q")
    ch.call("tx.commit")
    c.until_count("q", 2)
    ch.get("q")
    ch.get("q")


@script
def tx_rollback_drops(c: Context) -> None:
    ch = c.channel(plain=True)
    ch.queue("q")
    ch.call("tx.select")
    ch.publish("", "q", "a")
    ch.call("tx.rollback")
    ch.publish("", "q", "b")
    ch.call("tx.commit")
    c.until_count("q", 1)
    ch.get("q", no_ack=True)


@script
def tx_ack_rolled_back(c: Context) -> None:
    """Rolled back acks are open again; nothing is redelivered by itself."""
    ch = c.channel(plain=True)
    ch.queue("q")
    ch.call("tx.select")
    ch.publish("", "q", "a")
    ch.call("tx.commit")
    c.until_count("q", 1)
    ch.get("q")
    ch.ack(1)
    ch.call("tx.rollback")
    ch.get("q")
    ch.call("channel.close", reply_code=200)
    c.until_count("q", 1)


@script
def tx_ack_committed(c: Context) -> None:
    ch = c.channel(plain=True)
    ch.queue("q")
    ch.publish("", "q", "a")
    ch.call("tx.select")
    ch.get("q")
    ch.ack(1)
    ch.call("tx.commit")
    ch.call("channel.close", reply_code=200)
    c.channel().get("q")


@script
def tx_ack_unknown_tag(c: Context) -> None:
    """Found out at once, not at commit."""
    ch = c.channel(plain=True)
    ch.call("tx.select")
    ch.ack(9)
    ch.read()


@script
def tx_nack_requeue_on_commit(c: Context) -> None:
    ch = c.channel(plain=True)
    ch.queue("q")
    ch.publish("", "q", "a")
    ch.call("tx.select")
    ch.get("q")
    ch.nack(1, requeue=True)
    ch.get("q")
    ch.call("tx.commit")
    c.until_count("q", 1)
    ch.get("q", no_ack=True)


@script
def tx_mandatory_returned_at_commit(c: Context) -> None:
    """The return comes at commit, before commit-ok."""
    ch = c.channel(plain=True)
    ch.call("tx.select")
    ch.publish("amq.direct", "nobody", "x", mandatory=True)
    ch.queue("sync")
    ch.call("tx.commit")
    c.settle()


@script
def tx_missing_exchange(c: Context) -> None:
    """Found out at once."""
    ch = c.channel(plain=True)
    ch.call("tx.select")
    ch.publish("nowhere", "k", "x")
    ch.read()


@script
def tx_channel_close_drops(c: Context) -> None:
    ch = c.channel(plain=True)
    ch.queue("q")
    ch.call("tx.select")
    ch.publish("", "q", "a")
    ch.call("channel.close", reply_code=200)
    c.channel().get("q")


@script
def tx_rejected_by_overflow(c: Context) -> None:
    """A queue that refuses a publish makes the commit fail."""
    ch = c.channel(plain=True)
    ch.queue("q", {"x-max-length": 0, "x-overflow": "reject-publish"})
    ch.call("tx.select")
    ch.publish("", "q", "a")
    ch.call("tx.commit")
