"""Closes that cross, closes that are repeated, and what may follow a close."""

from __future__ import annotations

from mirrormq.wire import methods
from tests.differential.client import Channel, Connection
from tests.differential.context import Context
from tests.differential.runner import script
from tests.differential.steps import authenticated, tune_ok


def again(zero: Channel) -> None:
    """connection.close once more, on a connection that is closed already."""
    zero.closed = False
    zero.call("connection.close", reply_code=200)


@script
def closing_repeated(c: Context) -> None:
    """connection.close is answered as often as it is sent; the socket stays open."""
    a = c.connect()
    a.zero.call("connection.close", reply_code=200)
    again(a.zero)
    again(a.zero)


@script
def closing_repeated_at_once(c: Context) -> None:
    a = c.connect()
    with a.at_once():
        a.zero.send("connection.close", reply_code=200)
        a.zero.send("connection.close", reply_code=200)
    a.zero.read(2)


@script
def closing_then_close_ok(c: Context) -> None:
    """A close-ok that nobody asked for ends the socket of a closed connection."""
    a = c.connect()
    a.zero.call("connection.close", reply_code=200)
    a.zero.send("connection.close-ok")
    a.read_to_end()


@script
def closing_then_other_methods(c: Context) -> None:
    """Methods behind connection.close are ignored, on every channel."""
    a = c.connect()
    ch = c.channel(a, plain=True)
    a.zero.call("connection.close", reply_code=200)
    ch.send("queue.declare", queue="q")
    ch.publish("", "q", "x")
    a.channel(7).send("channel.open")
    a.zero.send("connection.open", virtual_host=c.vhost)
    a.zero.send("channel.open")
    again(a.zero)
    c.channel(c.connect()).passive("q")


@script
def closing_then_strange_frames(c: Context) -> None:
    """Content frames and frames of unknown types are ignored after connection.close."""
    a = c.connect()
    a.zero.call("connection.close", reply_code=200)
    a.send_frame(2, 0, b"\0" * 14, say="a content header on channel 0")
    a.send_frame(3, 1, b"x", say="a content body on channel 1")
    a.send_frame(8, 0, b"", say="a heartbeat")
    again(a.zero)


@script
def closing_then_unreadable_method(c: Context) -> None:
    a = c.connect()
    a.zero.call("connection.close", reply_code=200)
    a.send_frame(1, 1, b"\0\x63\0\x63", say="a method of an unknown class")
    again(a.zero)


@script
def closing_ends_with_heartbeat_interval(c: Context) -> None:
    """The broker closes the socket after an interval of heartbeats, at most 30 s."""
    a = authenticated(c)
    tune_ok(a, heartbeat=1)
    a.zero.call("connection.open", virtual_host=c.vhost)
    a.zero.call("connection.close", reply_code=200)
    a.read_to_end()


@script
def closing_behind_methods(c: Context) -> None:
    """Methods sent on channels before connection.close are executed first."""
    a = c.connect()
    ch = c.channel(a, plain=True)
    with a.at_once():
        ch.send("queue.declare", queue="q")
        ch.publish("", "q", "x")
        a.zero.send("connection.close", reply_code=200)
    ch.read()
    a.zero.read()
    c.until_count("q", 1)


def failed(c: Context) -> Connection:
    """A connection that the broker has closed, and that has not answered."""
    a = c.connect()
    a.answers_closes = False
    a.channel(1).send("queue.declare", queue="q")
    a.zero.read()
    return a


@script
def closing_crosses_error(c: Context) -> None:
    """connection.close crosses the broker's: it is answered, and the broker still waits for close-ok."""
    a = failed(c)
    again(a.zero)
    again(a.zero)
    a.zero.send("connection.close-ok")
    a.read_to_end()


@script
def closing_error_then_other_methods(c: Context) -> None:
    a = failed(c)
    a.channel(1).send("channel.open")
    a.zero.send("connection.open", virtual_host=c.vhost)
    again(a.zero)


def channel_failed(c: Context) -> Channel:
    """A channel that the broker has closed, and that has not answered."""
    ch = c.channel(plain=True)
    c.connection.answers_closes = False
    ch.passive("missing")
    ch.closed = False
    return ch


@script
def channel_close_crosses_then_close_ok(c: Context) -> None:
    """Both sides close: each answers the other, and the number is free again."""
    ch = channel_failed(c)
    ch.call("channel.close", reply_code=200)
    ch.send("channel.close-ok")
    ch.closed = False
    ch.call("channel.open")
    ch.queue("q")


@script
def channel_close_ok_then_close(c: Context) -> None:
    """close-ok ends the channel: a close behind it is for a channel that is not there."""
    ch = channel_failed(c)
    ch.send("channel.close-ok")
    ch.call("channel.close", reply_code=200)


@script
def channel_close_crosses_twice(c: Context) -> None:
    ch = channel_failed(c)
    ch.call("channel.close", reply_code=200)
    ch.closed = False
    ch.call("channel.close", reply_code=200)
    ch.send("channel.close-ok")
    ch.closed = False
    ch.call("channel.open")


@script
def channel_close_crosses_then_open(c: Context) -> None:
    """The number is not free before close-ok, although close was answered."""
    ch = channel_failed(c)
    ch.call("channel.close", reply_code=200)
    ch.closed = False
    c.connection.answers_closes = True
    ch.call("channel.open")


@script
def channel_open_while_closing(c: Context) -> None:
    ch = channel_failed(c)
    c.connection.answers_closes = True
    ch.call("channel.open")


@script
def channel_unexpected_content_while_closing(c: Context) -> None:
    """Frames of a closing channel are still put together: a body without a method is an error."""
    ch = channel_failed(c)
    c.connection.answers_closes = True
    c.connection.send_frame(3, ch.number, b"x", say="a content body")
    ch.read()


@script
def channel_unreadable_method_while_closing(c: Context) -> None:
    ch = channel_failed(c)
    c.connection.answers_closes = True
    c.connection.send_frame(1, ch.number, b"\0\x63\0\x63", say="a method of an unknown class")
    ch.read()


@script
def channel_unreadable_publish_while_closing(c: Context) -> None:
    ch = channel_failed(c)
    c.connection.answers_closes = True
    publish = methods.encode_basic_publish("", "q") + b"\0"
    c.connection.send_frame(1, ch.number, publish, say="a publish with an octet too many")
    ch.read()


@script
def channel_publish_crosses_close(c: Context) -> None:
    """A publish whose frames the broker's close crosses is taken whole, and dropped."""
    ch = channel_failed(c)
    other = c.channel()
    other.queue("q")
    ch.publish("", "q", "dropped")
    ch.send("channel.close-ok")
    ch.closed = False
    ch.call("channel.open")
    ch.publish("", "q", "kept")
    c.settle("q")
    other.get("q", no_ack=True)
    other.get("q", no_ack=True)


@script
def channel_acknowledgements_cross_close(c: Context) -> None:
    """Acknowledgements that the broker's close crosses are dropped."""
    ch = channel_failed(c)
    with c.connection.at_once():
        for tag in (1, 2, 3):
            ch.send("basic.ack", delivery_tag=tag)
    ch.send("channel.close-ok")
    ch.closed = False
    ch.call("channel.open")


@script
def channel_publish_without_body_crosses_close(c: Context) -> None:
    """close-ok in the middle of a publish: the rest of it belongs to a channel that is not there."""
    ch = channel_failed(c)
    c.connection.answers_closes = True
    ch.send("basic.publish", exchange="", routing_key="q")
    ch.send("channel.close-ok")
    ch.read()


@script
def channel_close_behind_error(c: Context) -> None:
    """A client that pipelines channel.close behind a method that fails gets close, close-ok."""
    ch = c.channel(plain=True)
    c.connection.answers_closes = False
    with c.connection.at_once():
        ch.send("queue.declare", queue="missing", passive=True)
        ch.send("channel.close", reply_code=200)
    ch.read(2)
    ch.send("channel.close-ok")
    ch.closed = False
    ch.call("channel.open")


@script
def channel_close_during_publish(c: Context) -> None:
    """channel.close in the middle of a publish is an unexpected frame."""
    ch = c.channel(plain=True)
    ch.send("basic.publish", exchange="", routing_key="q")
    ch.send("channel.close", reply_code=200)
    ch.read()
