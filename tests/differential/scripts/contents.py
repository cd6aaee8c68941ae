"""The content of a publish: header and body frames that come wrong, mixed, or too large."""

from __future__ import annotations

import struct

from tests.differential import codec
from tests.differential.codec import BODY, HEADER, METHOD
from tests.differential.context import Context
from tests.differential.runner import script

PUBLISH = codec.encode_method("basic.publish", {"routing-key": "q"})


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
        codec.frame(METHOD, 1, PUBLISH)
        + codec.frame(HEADER, 1, codec.encode_header(1, {}, weight=5))
        + codec.frame(BODY, 1, b"x"),
        "publish with weight 5",
    )
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
        codec.frame(METHOD, 1, PUBLISH)
        + codec.frame(HEADER, 1, codec.encode_header(3, {}))
        + codec.frame(BODY, 1, b"abcdef"),
        "publish of 3 octets with 6",
    )
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
        codec.frame(METHOD, 1, PUBLISH)
        + codec.frame(HEADER, 1, codec.encode_header(0, {}))
        + codec.frame(BODY, 1, b""),
        "publish of no octets and an empty body frame",
    )
    ch.read()


@script
def content_interleaved_channels(c: Context) -> None:
    """Two channels may publish with their frames mixed."""
    one = c.channel()
    c.channel()
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
