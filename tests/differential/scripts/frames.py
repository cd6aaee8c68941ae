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
        codec.frame(METHOD, 1, PUBLISH) + codec.frame(HEADER, 1, codec.encode_header(len(body), {}))
        + codec.frame(BODY, 1, body),
        "publish with one body frame of frame_max",
    )  # fmt: skip
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


@script
def content_method_instead_of_header(c: Context) -> None:
    ch = c.channel()
    c.connection.send_frame(METHOD, 1, PUBLISH, say="basic.publish")
    ch.send("basic.qos", prefetch_count=1)
    ch.read()


@script
def content_body_instead_of_header(c: Context) -> None:
    ch = c.channel()
    c.connection.send_frame(METHOD, 1, PUBLISH, say="basic.publish")
    c.connection.send_frame(BODY, 1, b"abc", say="body")
    ch.read()


@script
def content_header_without_method(c: Context) -> None:
    ch = c.channel()
    c.connection.send_frame(HEADER, 1, codec.encode_header(3, {}), say="content header")
    ch.read()


@script
def content_body_without_method(c: Context) -> None:
    ch = c.channel()
    c.connection.send_frame(BODY, 1, b"abc", say="body")
    ch.read()


@script
def content_header_of_other_class(c: Context) -> None:
    ch = c.channel()
    c.connection.send_frame(METHOD, 1, PUBLISH, say="basic.publish")
    c.connection.send_frame(
        HEADER, 1, codec.encode_header(3, {}, class_id=50), say="content header of class 50"
    )
    ch.read()


@script
def content_header_with_weight(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    c.connection.send_raw(
        codec.frame(METHOD, 1, PUBLISH) + codec.frame(HEADER, 1, codec.encode_header(1, {}, weight=5))
        + codec.frame(BODY, 1, b"x"),
        "publish with weight 5",
    )  # fmt: skip
    ch.get("q", no_ack=True)


@script
def content_header_cut(c: Context) -> None:
    ch = c.channel()
    c.connection.send_frame(METHOD, 1, PUBLISH, say="basic.publish")
    c.connection.send_frame(HEADER, 1, b"\x00\x3c\x00\x00\x00", say="content header of five octets")
    ch.read()


@script
def content_method_instead_of_body(c: Context) -> None:
    ch = c.channel()
    c.connection.send_frame(METHOD, 1, PUBLISH, say="basic.publish")
    c.connection.send_frame(HEADER, 1, codec.encode_header(10, {}), say="header of a body of 10")
    c.connection.send_frame(BODY, 1, b"abc", say="body of 3")
    ch.send("basic.qos", prefetch_count=1)
    ch.read()


@script
def content_header_instead_of_body(c: Context) -> None:
    ch = c.channel()
    c.connection.send_frame(METHOD, 1, PUBLISH, say="basic.publish")
    c.connection.send_frame(HEADER, 1, codec.encode_header(10, {}), say="header of a body of 10")
    c.connection.send_frame(HEADER, 1, codec.encode_header(10, {}), say="header of a body of 10")
    ch.read()


@script
def content_body_longer_than_declared(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    c.connection.send_raw(
        codec.frame(METHOD, 1, PUBLISH) + codec.frame(HEADER, 1, codec.encode_header(3, {}))
        + codec.frame(BODY, 1, b"abcdef"),
        "publish of 3 octets with 6",
    )  # fmt: skip
    ch.send("basic.get", queue="q")
    ch.read()


@script
def content_body_in_pieces(c: Context) -> None:
    """Empty and tiny body frames add up."""
    ch = c.channel()
    ch.queue("q")
    bodies = b"".join(codec.frame(BODY, 1, part) for part in (b"", b"ab", b"", b"c"))
    c.connection.send_raw(
        codec.frame(METHOD, 1, PUBLISH) + codec.frame(HEADER, 1, codec.encode_header(3, {})) + bodies,
        "publish with bodies of 0, 2, 0 and 1 octets",
    )
    ch.get("q", no_ack=True)


@script
def content_body_after_empty_body(c: Context) -> None:
    """A body size of zero wants no body frame."""
    ch = c.channel()
    ch.queue("q")
    c.connection.send_raw(
        codec.frame(METHOD, 1, PUBLISH) + codec.frame(HEADER, 1, codec.encode_header(0, {}))
        + codec.frame(BODY, 1, b""),
        "publish of no octets and an empty body frame",
    )  # fmt: skip
    ch.read()


@script
def content_interleaved_channels(c: Context) -> None:
    """Two channels may publish with their frames mixed."""
    one, two = c.channel(), c.channel()
    one.queue("q")
    frames = [(METHOD, PUBLISH), (HEADER, codec.encode_header(1, {})), (BODY, b"x")]
    mixed = b"".join(codec.frame(kind, number, data) for kind, data in frames for number in (1, 2))
    c.connection.send_raw(mixed, "two publishes, frame by frame")
    c.settle("q")
    one.get("q", no_ack=True)
    one.get("q", no_ack=True)


@script
def content_too_large_for_broker(c: Context) -> None:
    """One octet above max_message_size."""
    ch = c.channel()
    ch.publish("", "q", b"x" * (1048576 + 1))
    ch.read()


@script
def content_as_large_as_allowed(c: Context) -> None:
    ch = c.channel()
    ch.queue("q")
    ch.publish("", "q", b"x" * 1048576)
    ch.get("q", no_ack=True)


@script
def content_malformed_headers_table(c: Context) -> None:
    """Nothing looks at the headers of a message to a direct exchange, so nothing minds."""
    ch = c.channel()
    ch.queue("q")
    header = struct.pack(">HHQH", 60, 0, 1, 1 << 13) + struct.pack(">I", 3) + b"\x09ab"
    c.connection.send_raw(
        codec.frame(METHOD, 1, PUBLISH) + codec.frame(HEADER, 1, header) + codec.frame(BODY, 1, b"x"),
        "publish with a cut headers table",
    )
    ch.send("basic.qos", prefetch_count=1)
    ch.read()
