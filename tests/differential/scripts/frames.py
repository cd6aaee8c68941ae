"""Frames that are cut, wrong, unexpected or addressed to the wrong channel."""

from __future__ import annotations

import struct

from tests.differential import codec
from tests.differential.codec import BODY, HEADER, HEARTBEAT, METHOD
from tests.differential.context import Context
from tests.differential.runner import script
from tests.differential.steps import greet

PUBLISH = codec.encode_method("basic.publish", {"routing-key": "q"})


def method(name: str, **fields: object) -> bytes:
    return codec.encode_method(name, {key.replace("_", "-"): value for key, value in fields.items()})


@script
def frame_wrong_end_octet(c: Context) -> None:
    c.channel()
    c.connection.send_frame(
        METHOD, 1, method("queue.declare", queue="q"), end=0xCD, say="queue.declare ending in CD"
    )
    c.connection.zero.read()


@script
def frame_wrong_end_octet_before_open(c: Context) -> None:
    a = greet(c)
    a.send_frame(METHOD, 0, method("connection.close"), end=0, say="connection.close ending in 00")
    a.read_to_end()


@script
def frame_unknown_type(c: Context) -> None:
    c.channel()
    c.connection.send_frame(9, 1, b"", say="frame of type 9 on channel 1")
    c.connection.zero.read()


@script
def frame_unknown_type_on_channel_zero(c: Context) -> None:
    c.connection.send_frame(4, 0, b"abc", say="frame of type 4 on channel 0")
    c.connection.zero.read()


@script
def frame_payload_above_frame_max(c: Context) -> None:
    c.channel()
    c.connection.send_frame(METHOD, 1, b"x" * 131073, say="method frame with a payload one above frame_max")
    c.connection.zero.read()


@script
def frame_slightly_too_large(c: Context) -> None:
    """One octet above the negotiated frame_max, head and end included, is let through."""
    c.channel()
    c.connection.send_frame(BODY, 1, b"x" * (131072 - 7), say="body frame one octet too large")
    c.connection.zero.read()


@script
def frame_too_large_by_its_head(c: Context) -> None:
    """The announced size alone is refused; the payload is not waited for."""
    c.channel()
    c.connection.send_raw(struct.pack(">BHI", METHOD, 1, 0x7FFFFFFF), "head of a frame of two gigabytes")
    c.connection.zero.read()


@script
def frame_too_large_for_small_frame_max(c: Context) -> None:
    a = c.connect(frame_max=4096)
    ch = c.channel(a)
    a.send_frame(
        METHOD, 1, method("queue.declare", queue="q", arguments={"a": "x" * 5000}), say="large queue.declare"
    )
    ch.read()


@script
def frame_largest(c: Context) -> None:
    """A body frame of exactly frame_max passes."""
    ch = c.channel()
    ch.queue("q")
    body = b"x" * (131072 - 8)
    c.connection.send_raw(
        codec.frame(METHOD, 1, PUBLISH)
        + codec.frame(HEADER, 1, codec.encode_header(len(body), {}))
        + codec.frame(BODY, 1, body),
        "publish with one body frame of frame_max",
    )
    ch.get("q", no_ack=True)


@script
def frame_before_open_too_large(c: Context) -> None:
    """Before tuning no frame may be above frame_min."""
    a = greet(c)
    a.send_raw(struct.pack(">BHI", METHOD, 0, 1_000_000) + b"x" * 5000, "head of a large frame")
    a.read_to_end()


@script
def heartbeat_on_channel(c: Context) -> None:
    ch = c.channel()
    c.connection.send_frame(HEARTBEAT, 1, b"", say="heartbeat on channel 1")
    ch.read()


@script
def heartbeat_on_channel_zero(c: Context) -> None:
    ch = c.channel()
    c.connection.send_frame(HEARTBEAT, 0, b"", say="heartbeat")
    ch.queue("q")


@script
def heartbeat_with_payload(c: Context) -> None:
    ch = c.channel()
    c.connection.send_frame(HEARTBEAT, 0, b"abc", say="heartbeat with three octets")
    ch.queue("q")


@script
def queue_declare_on_channel_zero(c: Context) -> None:
    c.connection.zero.send("queue.declare", queue="q")
    c.connection.zero.read()


@script
def publish_on_channel_zero(c: Context) -> None:
    c.connection.send_frame(METHOD, 0, PUBLISH, say="basic.publish on channel 0")
    c.connection.zero.read()


@script
def channel_open_on_channel_zero(c: Context) -> None:
    c.connection.zero.send("channel.open")
    c.connection.zero.read()


@script
def header_on_channel_zero(c: Context) -> None:
    c.connection.send_frame(HEADER, 0, codec.encode_header(3, {}), say="content header on channel 0")
    c.connection.zero.read()


@script
def body_on_channel_zero(c: Context) -> None:
    c.connection.send_frame(BODY, 0, b"abc", say="body on channel 0")
    c.connection.zero.read()


@script
def connection_method_on_channel(c: Context) -> None:
    ch = c.channel()
    c.connection.send_frame(
        METHOD, 1, method("connection.close", reply_code=200), say="connection.close on channel 1"
    )
    ch.read()


@script
def method_unknown_class(c: Context) -> None:
    ch = c.channel()
    c.connection.send_frame(METHOD, 1, struct.pack(">HH", 61, 10), say="method 61.10")
    ch.read()


@script
def method_unknown_method(c: Context) -> None:
    ch = c.channel()
    c.connection.send_frame(METHOD, 1, struct.pack(">HH", 50, 99), say="method 50.99")
    ch.read()


@script
def method_unknown_on_channel_zero(c: Context) -> None:
    c.connection.send_frame(METHOD, 0, struct.pack(">HH", 10, 99), say="method 10.99")
    c.connection.zero.read()


@script
def method_payload_empty(c: Context) -> None:
    ch = c.channel()
    c.connection.send_frame(METHOD, 1, b"", say="method frame without payload")
    ch.read()


@script
def method_arguments_cut(c: Context) -> None:
    ch = c.channel()
    c.connection.send_frame(
        METHOD, 1, method("queue.declare", queue="quite long")[:-12], say="cut queue.declare"
    )
    ch.read()


@script
def method_arguments_too_long(c: Context) -> None:
    ch = c.channel()
    c.connection.send_frame(
        METHOD, 1, method("queue.declare", queue="q") + b"zz", say="queue.declare and two octets"
    )
    ch.read()


@script
def method_basic_publish_too_long(c: Context) -> None:
    ch = c.channel()
    c.connection.send_frame(METHOD, 1, PUBLISH + b"zz", say="basic.publish and two octets")
    ch.read()


@script
def method_table_longer_than_frame(c: Context) -> None:
    ch = c.channel()
    payload = method("queue.declare", queue="q")[:-4] + struct.pack(">I", 400) + b"abc"
    c.connection.send_frame(
        METHOD, 1, payload, say="queue.declare with a table of 400 octets that are not there"
    )
    ch.read()


@script
def method_table_entry_cut(c: Context) -> None:
    ch = c.channel()
    ch.send("queue.declare", queue="q", arguments=codec.longstr(b"\x05x-a"))
    ch.read()


@script
def method_table_unknown_type(c: Context) -> None:
    ch = c.channel()
    ch.send("queue.declare", queue="q", arguments=codec.longstr(b"\x03x-a" + b"Z\x00\x00\x00\x01"))
    ch.read()


@script
def method_reserved_bits(c: Context) -> None:
    """Bits above the last flag of queue.declare are not looked at."""
    ch = c.channel()
    payload = bytearray(method("queue.declare", queue="q"))
    payload[-5] |= 0xE0
    c.connection.send_frame(METHOD, 1, bytes(payload), say="queue.declare with high bits")
    ch.read()


@script
def method_reserved_ticket(c: Context) -> None:
    ch = c.channel()
    ch.call("queue.declare", ticket=77, queue="q")
