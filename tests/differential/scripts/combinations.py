"""Features that meet: where one rule's end is another's beginning."""

from __future__ import annotations

from tests.differential import codec
from tests.differential.codec import METHOD
from tests.differential.context import Context, expect
from tests.differential.runner import script
from tests.differential.transcript import CAPABILITIES


def method(channel: int, name: str, **fields: object) -> bytes:
    named = {key.replace("_", "-"): value for key, value in fields.items()}
    return codec.frame(METHOD, channel, codec.encode_method(name, named))


def opening(vhost: str) -> bytes:
    """Everything a client says up to an open channel."""
    return b"".join(
        [
            codec.PROTOCOL_HEADER,
            method(
                0,
                "connection.start-ok",
                client_properties={"capabilities": CAPABILITIES},
                mechanism="PLAIN",
                response="\0guest\0guest",
                locale="en_US",
            ),
            method(0, "connection.tune-ok", channel_max=2047, frame_max=131072, heartbeat=0),
            method(0, "connection.open", virtual_host=vhost),
            method(1, "channel.open"),
            method(1, "queue.declare", queue="q"),
        ]
    )


@script
def handshake_pipelined(c: Context) -> None:
    """A client that does not wait for answers gets all of them."""
    a = c.raw()
    a.send_raw(opening(c.vhost), "header, start-ok, tune-ok, open, channel.open and queue.declare at once")
    expect(a.zero, "connection.start")
    a.zero.read(2)
    a.channel(1).read(2)


@script
def handshake_octet_by_octet(c: Context) -> None:
    a = c.raw()
    a.send_raw(b"", "the same, one octet at a time")
    for octet in opening(c.vhost):
        a.send_silently(bytes([octet]))
    expect(a.zero, "connection.start")
    a.zero.read(2)
    a.channel(1).read(2)


@script
def ack_after_queue_deleted(c: Context) -> None:
    """Deliveries of a queue that is gone can still be acknowledged."""
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "x")
    ch.get("q")
    ch.delete("q")
    ch.ack(1)
    c.settle()
    ch.ack(1)
    ch.read()


@script
def nack_after_queue_deleted(c: Context) -> None:
    ch = c.channel()
    ch.queue("dead")
    ch.queue("q", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.publish("", "q", "x")
    ch.get("q")
    ch.delete("q")
    ch.nack(1)
    c.settle()
    ch.get("dead")


@script
def queue_declared_again_is_new(c: Context) -> None:
    """Deleted and declared: another queue, without the bindings and messages of the first."""
    ch = c.channel()
    ch.queue("q")
    ch.bind("q", "amq.fanout")
    ch.publish("amq.fanout", "", "old")
    ch.wait_for_hidden_confirms()
    ch.delete("q")
    ch.queue("q", durable=True)
    ch.publish("amq.fanout", "", "unbound", mandatory=True)
    c.settle("q")
    ch.get("q")


@script
def nack_of_old_queue_does_not_reach_new(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "old")
    ch.get("q")
    ch.delete("q")
    ch.queue("q")
    ch.nack(1, requeue=True)
    c.settle()
    ch.get("q")


@script
def requeue_over_limit(c: Context) -> None:
    """A requeued message that makes the queue too long pushes the head out: itself."""
    ch = c.channel()
    ch.queue("dead")
    ch.queue("q", {"x-max-length": 2, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    for text in "ab":
        ch.publish("", "q", text)
    ch.get("q")
    ch.publish("", "q", "c")
    ch.wait_for_hidden_confirms()
    ch.nack(1, requeue=True)
    c.until_count("dead", 1)
    for _ in range(3):
        ch.get("q", no_ack=True)
    ch.get("dead", no_ack=True)


@script
def requeue_after_expiry(c: Context) -> None:
    """Time runs while a message is out; requeued too late it is dead-lettered as expired."""
    ch = c.channel()
    ch.queue("dead")
    ch.queue("clock", {"x-message-ttl": 2000})
    ch.queue("q", {"x-message-ttl": 1500, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.publish("", "q", "x")
    ch.get("q")
    ch.publish("", "clock", "tick")
    c.until_count("clock", 0)
    ch.nack(1, requeue=True)
    c.until_count("dead", 1)
    ch.get("dead", no_ack=True)
    ch.get("q")


@script
def expired_queue_does_not_dead_letter(c: Context) -> None:
    ch = c.channel()
    ch.queue("dead")
    ch.queue("clock", {"x-message-ttl": 900})
    ch.queue("q", {"x-expires": 200, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"})
    ch.publish("", "q", "x")
    ch.publish("", "clock", "tick")
    c.until_count("clock", 0)
    ch.get("dead")


@script
def priority_and_expiry(c: Context) -> None:
    """A short-lived message of a low priority waits behind long-lived ones of a high priority."""
    ch = c.channel()
    ch.queue("q", {"x-max-priority": 3})
    ch.queue("clock", {"x-message-ttl": 400})
    ch.publish("", "q", "high and long", priority=3)
    ch.publish("", "q", "low and short", priority=1, expiration="100")
    ch.publish("", "clock", "tick")
    c.until_count("clock", 0)
    ch.passive("q")
    ch.get("q", no_ack=True)
    c.until_count("q", 0)
    ch.get("q", no_ack=True)


@script
def reject_publish_then_room(c: Context) -> None:
    ch = c.channel(plain=True)
    ch.queue("q", {"x-max-length": 1, "x-overflow": "reject-publish"})
    ch.confirm()
    for text in "ab":
        ch.publish("", "q", text)
    ch.confirms()
    ch.get("q", no_ack=True)
    ch.publish("", "q", "c")
    ch.confirms()
    ch.get("q", no_ack=True)


@script
def reject_publish_with_consumer(c: Context) -> None:
    """Deliveries that are out leave room."""
    ch, pub = c.channel(), c.channel(plain=True)
    ch.queue("q", {"x-max-length": 1, "x-overflow": "reject-publish"})
    ch.qos(1)
    ch.consume("q", "t")
    pub.confirm()
    for text in "abc":
        pub.publish("", "q", text)
        pub.confirms()
    c.settle("q", on=[ch])


@script
def dead_letter_to_itself_by_reject(c: Context) -> None:
    """Rejected messages may go round in circles as often as somebody rejects them."""
    ch = c.channel()
    ch.queue("q", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
    ch.consume("q", "t")
    ch.publish("", "q", "x")
    for tag in (1, 2, 3):
        ch.read()
        ch.reject(tag)
    ch.read()
    ch.ack(4)


@script
def dead_letter_to_two_queues(c: Context) -> None:
    ch = c.channel()
    ch.exchange("e", "fanout")
    for queue in ("one", "two"):
        ch.queue(queue)
        ch.bind(queue, "e")
    ch.queue("q", {"x-dead-letter-exchange": "e", "x-max-length": 0})
    ch.publish("", "q", "x", headers={"CC": ["other"]})
    c.until_got(ch, "one")
    c.until_got(ch, "two")


@script
def dead_letter_through_headers_exchange(c: Context) -> None:
    """x-death and x-first-death-… are headers like any other; headers of x- names do not take part."""
    ch = c.channel()
    ch.queue("dead")
    ch.bind("dead", "amq.headers", "", {"x-match": "any-with-x", "x-first-death-reason": "rejected"})
    ch.queue("q", {"x-dead-letter-exchange": "amq.headers"})
    ch.publish("", "q", "x")
    ch.get("q")
    ch.reject(1)
    c.until_got(ch, "dead")


@script
def auto_delete_by_connection_loss(c: Context) -> None:
    other = c.connect()
    ch = c.channel(other)
    ch.queue("q", auto_delete=True)
    ch.consume("q", "t")
    other.end()
    c.until_gone("q")


@script
def exclusive_consumer_lost(c: Context) -> None:
    """When the exclusive consumer's connection ends the place is free."""
    other = c.connect()
    ch = c.channel(other)
    ch.queue("q")
    ch.consume("q", "t", exclusive=True)
    ch.publish("", "q", "x")
    ch.read()
    other.end()
    c.until_count("q", 1)
    mine = c.channel(c.connect())
    mine.consume("q", "t", exclusive=True)
    mine.read()


@script
def two_queues_global_window(c: Context) -> None:
    """A channel's window is over all its queues."""
    ch = c.channel()
    ch.queue("q1")
    ch.queue("q2")
    ch.qos(1, everywhere=True)
    ch.consume("q1", "t1")
    ch.consume("q2", "t2")
    ch.publish("", "q1", "a")
    c.settle("q1")
    ch.publish("", "q2", "b")
    c.settle("q2")
    ch.ack(1)
    ch.read()


@script
def get_beside_consumer(c: Context) -> None:
    """basic.get finds only what no consumer has room for."""
    ch, other = c.channel(), c.channel()
    ch.queue("q")
    ch.qos(1)
    ch.consume("q", "t")
    for text in "abc":
        ch.publish("", "q", text)
    c.settle("q")
    other.get("q", no_ack=True)
    ch.ack(1)
    ch.read()


@script
def alternate_exchange_and_mandatory_and_confirm(c: Context) -> None:
    ch = c.channel(plain=True)
    ch.exchange("e", "topic", {"alternate-exchange": "rest"})
    ch.exchange("rest", "fanout")
    ch.confirm()
    ch.publish("e", "k", "nobody", mandatory=True)
    ch.read(2)
    ch.queue("q")
    ch.bind("q", "rest")
    ch.publish("e", "k", "somebody", mandatory=True)
    ch.read()


@script
def exchange_to_exchange_mixed_types(c: Context) -> None:
    """A key goes through a topic, a fanout and a headers exchange on its way."""
    ch = c.channel()
    ch.exchange("t", "topic")
    ch.exchange("f", "fanout")
    ch.exchange("h", "headers")
    ch.bind_exchange("f", "t", "a.#")
    ch.bind_exchange("h", "f")
    ch.queue("q")
    ch.bind("q", "h", "", {"x-match": "any", "colour": "red"})
    for key, colour in (("a.b", "red"), ("a.b", "blue"), ("b", "red")):
        ch.publish("t", key, f"{key} {colour}", headers={"colour": colour}, mandatory=True)
    c.settle("q")
    ch.get("q", no_ack=True)
    ch.get("q")


@script
def transaction_with_priority_and_limit(c: Context) -> None:
    ch = c.channel(plain=True)
    ch.queue("q", {"x-max-priority": 5, "x-max-length": 2})
    ch.call("tx.select")
    for priority in (1, 5, 3):
        ch.publish("", "q", str(priority), priority=priority)
    ch.call("tx.commit")
    c.until_count("q", 2)
    ch.get("q", no_ack=True)
    ch.get("q", no_ack=True)


@script
def dead_letter_arrives_after_the_publish(c: Context) -> None:
    """A message for two queues, one of which dead-letters it at once to the other: the publish is first."""
    ch = c.channel()
    ch.queue("full", {"x-max-length": 0, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
    ch.queue("q")
    ch.publish("", "full", "x", headers={"CC": ["q"]})
    c.until_count("q", 2)
    ch.get("q", no_ack=True)
    ch.get("q", no_ack=True)


@script
def reject_publish_dlx_into_full_queue(c: Context) -> None:
    """Two full queues that push dead letters to each other: counts go up, nothing is lost or doubled."""
    ch = c.channel(plain=True)
    ch.queue("end")
    ch.queue(
        "second",
        {
            "x-max-length": 1,
            "x-overflow": "reject-publish-dlx",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "end",
        },
    )
    ch.queue(
        "first",
        {
            "x-max-length": 1,
            "x-overflow": "reject-publish-dlx",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "second",
        },
    )
    ch.confirm()
    for text in "abc":
        ch.publish("", "first", text)
    ch.confirms()
    c.until_count("end", 1)
    for queue in ("first", "second", "end"):
        ch.get(queue, no_ack=True)
