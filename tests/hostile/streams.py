"""Byte streams of clients, for Hypothesis: mostly sensible, so that mutations of them get far."""

from __future__ import annotations

from hypothesis import strategies as st

from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.fields import table_of
from mirrormq.wire.properties import BasicProperties, encode_properties

CHANNELS = st.integers(1, 3)
QUEUES = st.sampled_from(["a", "b", "durable"])
KEYS = st.sampled_from(["a", "b", "durable", "nowhere", "a.b.c"])
EXCHANGES = st.sampled_from(["", "", "amq.topic", "amq.fanout", "amq.headers"])
PROPERTIES = st.sampled_from(
    [
        encode_properties(BasicProperties()),
        encode_properties(BasicProperties(delivery_mode=2)),
        encode_properties(
            BasicProperties(headers=table_of({"x": 1, "y": {"z": [True, None, "s"]}, "CC": ["b"]}))
        ),
        encode_properties(BasicProperties(expiration="1000", priority=3, content_type="text/plain")),
    ]
)


@st.composite
def publish(draw: st.DrawFn) -> bytes:
    """A publish whose body may be cut into frames of several sizes; maybe many times over."""
    channel = draw(CHANNELS)
    method = methods.encode_basic_publish(draw(EXCHANGES), draw(KEYS), mandatory=draw(st.booleans()))
    body = draw(st.binary(max_size=30))
    whole = build_frames(channel, draw(PROPERTIES), body, draw(st.sampled_from([0, 9, 11, 20])))
    return (method_frame(channel, method) + whole) * draw(st.integers(1, 4))


def simple(payloads: list[bytes]) -> st.SearchStrategy[bytes]:
    """One of some methods, on one of the channels."""
    return st.builds(method_frame, CHANNELS, st.sampled_from(payloads))


METHODS = simple(
    [
        methods.encode_channel_open(),
        methods.encode_channel_close(200, "bye", 0, 0),
        methods.encode_channel_close_ok(),
        methods.encode_channel_flow(True),
        methods.encode_confirm_select(),
        methods.encode_tx_select(),
        methods.encode_tx_commit(),
        methods.encode_tx_rollback(),
        methods.encode_queue_declare("a"),
        methods.encode_queue_declare("b", auto_delete=True),
        methods.encode_queue_declare("durable", durable=True),
        methods.encode_queue_declare("", exclusive=True),
        methods.encode_queue_declare("gone", passive=True),
        methods.encode_queue_bind("a", "amq.topic", "a.#"),
        methods.encode_queue_bind("b", "amq.headers", "", arguments=table_of({"x-match": "any", "x": 1})),
        methods.encode_queue_purge("a"),
        methods.encode_queue_delete("b"),
        methods.encode_exchange_declare("e", "direct"),
        methods.encode_basic_qos(0, 2),
        methods.encode_basic_qos(0, 3, global_=True),
        methods.encode_basic_consume("a", "ca"),
        methods.encode_basic_consume("b", "cb", no_ack=True),
        methods.encode_basic_cancel("ca", False),
        methods.encode_basic_get("a"),
        methods.encode_basic_get("durable", no_ack=True),
        methods.encode_basic_ack(1, False),
        methods.encode_basic_ack(0, True),
        methods.encode_basic_nack(2, True, True),
        methods.encode_basic_reject(1, False),
        methods.encode_basic_recover(True),
    ]
)
HEARTBEAT = st.just(b"\x08\x00\x00\x00\x00\x00\x00\xce")
SCRAPS = st.one_of(st.binary(max_size=12), st.just(method_frame(0, methods.encode_connection_close_ok())))

SENSIBLE = st.lists(st.one_of(publish(), publish(), METHODS, METHODS, HEARTBEAT), max_size=25).map(b"".join)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A sensible stream with octets changed, left out, repeated or put in."""
    stream = bytearray(draw(SENSIBLE))
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(stream)))
        kind = draw(st.sampled_from(["change", "drop", "insert", "repeat", "length"]))
        if kind == "change" and at < len(stream):
            stream[at] = draw(st.integers(0, 255))
        elif kind == "drop":
            del stream[at : at + draw(st.integers(1, 20))]
        elif kind == "insert":
            stream[at:at] = draw(SCRAPS)
        elif kind == "repeat":
            stream[at:at] = stream[at : at + draw(st.integers(1, 60))]
        elif kind == "length":
            stream[at : at + 4] = draw(st.sampled_from([0, 1, 12, 4096, 131064, 2**31, 2**32 - 1])).to_bytes(
                4, "big"
            )
    return bytes(stream)
