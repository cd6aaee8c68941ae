"""Opening, closing and misusing channels."""

from __future__ import annotations

from tests.differential.context import Context
from tests.differential.runner import script


@script
def channel_opened_twice(c: Context) -> None:
    c.channel().call("channel.open")


@script
def channel_not_opened(c: Context) -> None:
    ch = c.connection.channel(3)
    ch.send("queue.declare", queue="q")
    ch.read()


@script
def channel_publish_not_opened(c: Context) -> None:
    ch = c.connection.channel(3)
    ch.publish("", "q", "x")
    ch.read()


@script
def channel_close_not_opened(c: Context) -> None:
    ch = c.connection.channel(3)
    ch.send("channel.close", reply_code=200)
    ch.read()


@script
def channel_close_ok_not_opened(c: Context) -> None:
    """A stray close-ok on a closed channel number."""
    ch = c.connection.channel(3)
    ch.send("channel.close-ok")
    ch.read()


@script
def channel_close_ok_unasked(c: Context) -> None:
    ch = c.channel()
    ch.send("channel.close-ok")
    ch.read()


@script
def channel_more_than_channel_max(c: Context) -> None:
    a = c.connect(channel_max=2)
    for number in (1, 2, 3):
        a.channel(number).call("channel.open")


@script
def channel_above_channel_max(c: Context) -> None:
    """The limit counts channels; their numbers are free."""
    a = c.connect(channel_max=5)
    a.channel(5).call("channel.open")
    a.channel(6).call("channel.open")


@script
def channel_highest_number(c: Context) -> None:
    c.connection.channel(2047).call("channel.open")


@script
def channel_above_highest_number(c: Context) -> None:
    c.connection.channel(2048).call("channel.open")


@script
def channel_number_reused_after_close(c: Context) -> None:
    ch = c.channel()
    ch.call("channel.close", reply_code=200)
    ch.closed = False
    ch.call("channel.open")
    ch.queue("q")


@script
def channel_number_reused_after_error(c: Context) -> None:
    ch = c.channel()
    ch.passive("missing")
    ch.closed = False
    ch.call("channel.open")
    ch.queue("q")


@script
def channel_methods_while_closing(c: Context) -> None:
    """Between the broker's channel.close and our close-ok everything else is dropped."""
    ch = c.channel(plain=True)
    c.connection.answers_closes = False
    ch.passive("missing")
    ch.send("queue.declare", queue="dropped")
    ch.publish("", "dropped", "x")
    ch.send("channel.close-ok")
    ch.closed = False
    ch.call("channel.open")
    ch.passive("dropped")


@script
def channel_close_crosses_close(c: Context) -> None:
    """Our channel.close while the broker waits for close-ok is answered."""
    ch = c.channel()
    c.connection.answers_closes = False
    ch.passive("missing")
    ch.closed = False
    ch.call("channel.close", reply_code=200)


@script
def channel_error_leaves_others(c: Context) -> None:
    one, two = c.channel(), c.channel()
    one.passive("missing")
    two.queue("q")


@script
def channel_flow_off(c: Context) -> None:
    c.channel().call("channel.flow", active=False)


@script
def channel_flow_on(c: Context) -> None:
    c.channel().call("channel.flow", active=True)


@script
def channel_flow_ok_unasked(c: Context) -> None:
    ch = c.channel()
    ch.send("channel.flow-ok", active=True)
    ch.read()


@script
def channel_server_method_from_client(c: Context) -> None:
    ch = c.channel()
    ch.send("queue.declare-ok", queue="q")
    ch.read()


@script
def channel_deliver_from_client(c: Context) -> None:
    ch = c.channel()
    ch.send("basic.cancel-ok", consumer_tag="t")
    ch.read()


@script
def channel_get_empty_from_client(c: Context) -> None:
    ch = c.channel()
    ch.send("basic.get-empty")
    ch.read()


@script
def channel_close_requeues(c: Context) -> None:
    """Unacknowledged messages go back when their channel closes."""
    one, two = c.channel(), c.channel()
    one.queue("q")
    one.publish("", "q", "a")
    one.publish("", "q", "b")
    one.get("q")
    one.call("channel.close", reply_code=200)
    c.until_count("q", 2)  # RabbitMQ requeues what basic.get took only after close-ok
    two.get("q", no_ack=True)
    two.get("q", no_ack=True)
