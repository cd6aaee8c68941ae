"""Direct reply-to: the pseudo-queue amq.rabbitmq.reply-to."""

from __future__ import annotations

from tests.differential.context import Context
from tests.differential.runner import script

PSEUDO = "amq.rabbitmq.reply-to"


@script
def reply_to_round_trip(c: Context) -> None:
    range_client, server = c.channel(), c.channel(c.connect())
    range_client.consume(PSEUDO, "t", no_ack=True)
    range_client.queue("rpc")
    range_client.publish("", "rpc", "question", reply_to=PSEUDO, correlation_id="1")
    range_client.wait_for_hidden_confirms()
    request = server.get("rpc", no_ack=True)
    address = request.properties["reply-to"]
    server.passive(address)
    server.publish("", address, "answer", correlation_id="1", mandatory=True)
    c.settle()
    range_client.cancel("t")


@script
def reply_to_needs_no_ack(c: Context) -> None:
    c.channel().consume(PSEUDO, "t")


@script
def reply_to_two_consumers(c: Context) -> None:
    ch = c.channel()
    ch.consume(PSEUDO, "one", no_ack=True)
    ch.consume(PSEUDO, "two", no_ack=True)


@script
def reply_to_publish_without_consumer(c: Context) -> None:
    ch = c.channel()
    ch.queue("rpc")
    ch.publish("", "rpc", "question", reply_to=PSEUDO)
    ch.read()


@script
def reply_to_cancel_frees(c: Context) -> None:
    ch = c.channel()
    ch.consume(PSEUDO, "one", no_ack=True)
    ch.cancel("one")
    ch.consume(PSEUDO, "two", no_ack=True)


@script
def reply_to_declare(c: Context) -> None:
    """The pseudo-queue can be declared passively and as if it were one."""
    c.channel().passive(PSEUDO)
    c.channel().queue(PSEUDO)


@script
def reply_to_other_methods(c: Context) -> None:
    c.channel().get(PSEUDO)
    c.channel().bind(PSEUDO, "amq.direct", "k")
    c.channel().call("queue.purge", queue=PSEUDO)
    c.channel().delete(PSEUDO)


@script
def reply_to_nobody_there(c: Context) -> None:
    """A reply to somebody who has gone is unroutable."""
    asking = c.connect()
    range_client, server = c.channel(asking), c.channel()
    range_client.consume(PSEUDO, "t", no_ack=True)
    range_client.queue("rpc")
    range_client.publish("", "rpc", "question", reply_to=PSEUDO)
    range_client.wait_for_hidden_confirms()
    address = server.get("rpc", no_ack=True).properties["reply-to"]
    asking.zero.call("connection.close", reply_code=200)
    c.until("the address is dead", lambda: c.observe("queue.declare", queue=address, passive=True) is None)
    server.publish("", address, "too late", mandatory=True)
    c.settle(on=[server])


@script
def reply_to_invalid_address(c: Context) -> None:
    ch = c.channel()
    ch.publish("", PSEUDO + ".nonsense", "x", mandatory=True)
    c.settle()
    ch.passive(PSEUDO + ".nonsense")


@script
def reply_to_exclusive_consumer(c: Context) -> None:
    c.channel().consume(PSEUDO, "t", no_ack=True, exclusive=True)


@script
def reply_to_server_named_tag(c: Context) -> None:
    c.channel().consume(PSEUDO, no_ack=True)


@script
def reply_to_ordinary_value(c: Context) -> None:
    """Any other reply-to is just carried."""
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "x", reply_to="some.queue")
    ch.get("q", no_ack=True)
