"""Declaring, purging and deleting queues, and who may use an exclusive one."""

from __future__ import annotations

from tests.differential.context import Context
from tests.differential.runner import script


@script
def queue_server_named(c: Context) -> None:
    """An empty name asks for one; it is then the channel's last declared queue."""
    ch = c.channel()
    ch.queue("", exclusive=True)
    ch.queue("", exclusive=True)
    ch.call("queue.bind", queue="", exchange="amq.direct", routing_key="k")
    ch.publish("amq.direct", "k", "x")
    ch.call("basic.get", queue="", no_ack=True)


@script
def queue_reserved_prefix(c: Context) -> None:
    c.channel().queue("amq.mine")


@script
def queue_reserved_prefix_passive(c: Context) -> None:
    c.channel().passive("amq.mine")


@script
def queue_passive_missing(c: Context) -> None:
    c.channel().passive("q")


@script
def queue_passive_empty_name(c: Context) -> None:
    """Passive and nameless: the last declared queue, which there is not."""
    c.channel().call("queue.declare", queue="", passive=True)


@script
def queue_passive_empty_name_after_declare(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.call("queue.declare", queue="", passive=True)


@script
def queue_declare_empty_name_after_declare(c: Context) -> None:
    """Not passive: a new name is made, whatever was declared before."""
    ch = c.channel()
    ch.queue("q")
    ch.queue("")


@script
def queue_passive_ignores_arguments(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.call("queue.declare", queue="q", passive=True, durable=True, arguments={"x-message-ttl": 5})


@script
def queue_declare_nowait(c: Context) -> None:
    ch = c.channel()
    ch.call("queue.declare", queue="q", nowait=True)
    ch.passive("q")


@script
def queue_declare_nowait_error(c: Context) -> None:
    ch = c.channel()
    ch.call("queue.declare", queue="q", nowait=True, arguments={"x-message-ttl": "x"})
    ch.read()


@script
def queue_newline_in_name(c: Context) -> None:
    ch = c.channel()
    ch.queue("li\r\nne")
    ch.passive("line")


@script
def queue_longest_name(c: Context) -> None:
    ch = c.channel()
    ch.queue("q" * 255)
    ch.publish("", "q" * 255, "x")
    ch.get("q" * 255, no_ack=True)


@script
def queue_long_name_in_error(c: Context) -> None:
    """A reply text is cut to what a short string holds."""
    c.channel().passive("q" * 250)


@script
def queue_name_unicode(c: Context) -> None:
    c.channel().passive("队列 ü")


@script
def queue_redeclare_durable(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.queue("q", durable=True)


@script
def queue_redeclare_transient(c: Context) -> None:
    ch = c.channel()
    ch.queue("q", durable=True)
    ch.queue("q")


@script
def queue_redeclare_auto_delete(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.queue("q", auto_delete=True)


@script
def queue_redeclare_exclusive(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.queue("q", exclusive=True)


@script
def queue_redeclare_not_exclusive(c: Context) -> None:
    """The owner may leave the flag out."""
    ch = c.channel()
    ch.queue("q", exclusive=True)
    ch.queue("q")


@script
def queue_redeclare_same(c: Context) -> None:
    ch = c.channel()
    ch.queue("q", {"x-max-length": 5, "x-overflow": "reject-publish"}, durable=True, auto_delete=True)
    ch.publish("", "q", "x")
    ch.wait_for_hidden_confirms()
    ch.queue("q", {"x-max-length": 5, "x-overflow": "reject-publish"}, durable=True, auto_delete=True)


@script
def queue_redeclare_two_differences(c: Context) -> None:
    """The first difference that is found is reported."""
    ch = c.channel()
    ch.queue("q", {"x-message-ttl": 1000, "x-expires": 100000})
    ch.queue("q", {"x-message-ttl": 1001, "x-expires": 100001}, durable=True)


@script
def queue_exclusive_from_another_connection(c: Context) -> None:
    """An exclusive queue is locked for every operation of another connection."""
    c.channel().queue("q", exclusive=True)
    other = c.connect()
    c.channel(other).passive("q")
    c.channel(other).queue("q")
    c.channel(other).queue("q", exclusive=True)
    c.channel(other).get("q")
    c.channel(other).consume("q", "t")
    c.channel(other).bind("q", "amq.direct", "k")
    c.channel(other).unbind("q", "amq.direct", "k")
    c.channel(other).call("queue.purge", queue="q")
    c.channel(other).delete("q")


@script
def queue_exclusive_from_another_channel(c: Context) -> None:
    c.channel().queue("q", exclusive=True)
    ch = c.channel()
    ch.publish("", "q", "x")
    ch.get("q", no_ack=True)


@script
def queue_exclusive_publish_from_another_connection(c: Context) -> None:
    """Publishing is open to all."""
    mine = c.channel()
    mine.queue("q", exclusive=True)
    other = c.channel(c.connect())
    other.publish("", "q", "x", mandatory=True)
    other.wait_for_hidden_confirms()
    mine.get("q", no_ack=True)


@script
def queue_exclusive_ends_with_connection(c: Context) -> None:
    other = c.connect()
    c.channel(other).queue("q", durable=True, exclusive=True)
    other.end()
    c.until_gone("q")


@script
def queue_exclusive_declared_again_by_name_elsewhere(c: Context) -> None:
    other = c.connect()
    c.channel(other).queue("q", exclusive=True)
    other.zero.call("connection.close", reply_code=200)
    c.until_gone("q")
    c.channel().queue("q")


@script
def queue_auto_delete_by_cancel(c: Context) -> None:
    ch = c.channel()
    ch.queue("q", auto_delete=True)
    ch.consume("q", "one")
    ch.consume("q", "two")
    ch.cancel("one")
    ch.passive("q")
    ch.cancel("two")
    c.until_gone("q")


@script
def queue_auto_delete_by_channel_close(c: Context) -> None:
    ch = c.channel()
    ch.queue("q", auto_delete=True)
    ch.consume("q", "one")
    ch.call("channel.close", reply_code=200)
    c.until_gone("q")


@script
def queue_auto_delete_never_used(c: Context) -> None:
    """Without a first consumer it stays, also over a get."""
    ch = c.channel()
    ch.queue("q", auto_delete=True)
    ch.get("q")
    ch.call("channel.close", reply_code=200)
    c.channel().passive("q")


@script
def queue_delete_counts(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "a")
    ch.publish("", "q", "b")
    ch.get("q")
    ch.delete("q")


@script
def queue_delete_missing(c: Context) -> None:
    c.channel().delete("q")


@script
def queue_delete_empty_name(c: Context) -> None:
    c.channel().delete("")


@script
def queue_delete_last_declared(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.delete("")
    ch.passive("q")


@script
def queue_delete_if_unused(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.consume("q", "t")
    ch.delete("q", if_unused=True)


@script
def queue_delete_if_unused_unused(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "x")
    ch.wait_for_hidden_confirms()
    ch.delete("q", if_unused=True)


@script
def queue_delete_if_empty(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "x")
    ch.wait_for_hidden_confirms()
    ch.delete("q", if_empty=True)


@script
def queue_delete_if_empty_with_unacked(c: Context) -> None:
    """Unacknowledged messages do not count."""
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "x")
    ch.get("q")
    ch.delete("q", if_empty=True)


@script
def queue_delete_if_unused_and_empty(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.consume("q", "t")
    ch.publish("", "q", "x")
    ch.read()
    ch.delete("q", if_unused=True, if_empty=True)


@script
def queue_delete_nowait(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.call("queue.delete", queue="q", nowait=True)
    ch.passive("q")


@script
def queue_purge(c: Context) -> None:
    """Ready messages go, unacknowledged ones stay."""
    ch = c.channel()
    ch.queue("q")
    for text in "abc":
        ch.publish("", "q", text)
    ch.get("q")
    ch.call("queue.purge", queue="q")
    ch.call("queue.purge", queue="q")
    ch.nack(1, requeue=True)
    ch.get("q", no_ack=True)
    ch.get("q", no_ack=True)


@script
def queue_purge_missing(c: Context) -> None:
    c.channel().call("queue.purge", queue="q")


@script
def queue_purge_nowait(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "x")
    ch.call("queue.purge", queue="q", nowait=True)
    ch.get("q")


@script
def queue_purge_last_declared(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", "x")
    ch.wait_for_hidden_confirms()
    ch.call("queue.purge", queue="")


@script
def queue_last_declared_forgotten(c: Context) -> None:
    """Each channel has its own last declared queue."""
    c.channel().queue("q")
    c.channel().call("queue.purge", queue="")


@script
def queue_consumer_count(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.consume("q", "one")
    ch.consume("q", "two")
    ch.passive("q")
    ch.cancel("one")
    ch.queue("q")
