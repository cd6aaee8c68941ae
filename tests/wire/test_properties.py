"""Properties: encoded and decoded, compared with pamqp; the quick scan compared with the full decoder."""

from __future__ import annotations

import json
import timeit
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands

from mirrormq.errors import AmqpError, InternalError, PreconditionFailed
from mirrormq.wire.content import build_frames
from mirrormq.wire.fields import table_of
from mirrormq.wire.properties import (
    NO_HEADERS,
    NOT_PLAIN,
    PROPERTY_TYPES,
    BasicProperties,
    decode_properties,
    encode_properties,
    plain_traits,
    scan_properties,
)
from tests.wire.strategies import properties as any_properties

SPEC = Path(__file__).resolve().parents[2] / "spec" / "amqp-0-9-1.json"

FULL = BasicProperties(
    content_type="text/plain",
    content_encoding="utf-8",
    headers=table_of({"a": 1, "b": "two"}),
    delivery_mode=2,
    priority=3,
    correlation_id="c" * 36,
    reply_to="amq.gen-1",
    expiration="1000",
    message_id="m",
    timestamp=1_600_000_000,
    type_="t",
    user_id="guest",
    app_id="app",
    cluster_id="",
)


@given(any_properties)
def test_properties_survive_the_wire(properties: BasicProperties) -> None:
    encoded = encode_properties(properties)
    assert decode_properties(b"before" + encoded, 6) == properties


@given(any_properties)
def test_the_scan_agrees_with_the_decoder(properties: BasicProperties) -> None:
    encoded = encode_properties(properties)
    if properties.delivery_mode not in (None, 1, 2):
        with pytest.raises(PreconditionFailed) as error:
            scan_properties(encoded)
        assert (
            error.value.explanation
            == f"invalid message: {{delivery_mode_unknown,{properties.delivery_mode}}}"
        )
        encoded = encode_properties(properties := properties._replace(delivery_mode=2))
    persistent, priority, expiration, headers_at, user_id = scan_properties(encoded)
    assert persistent == (properties.delivery_mode == 2)
    assert priority == (properties.priority or 0)
    assert _text(expiration) == properties.expiration
    assert _text(user_id) == properties.user_id
    assert (headers_at == NO_HEADERS) == (properties.headers is None)
    if properties.headers is not None:
        before = BasicProperties(*properties[:2])
        assert headers_at == len(encode_properties(before))


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("utf-8", "surrogateescape")


def test_properties_cut_anywhere_are_an_internal_error_without_words() -> None:
    encoded = encode_properties(FULL)
    for size in range(len(encoded)):
        for read in (scan_properties, lambda data: decode_properties(data, 0)):
            with pytest.raises(InternalError) as error:
                read(encoded[:size])
            assert error.value.text == "INTERNAL_ERROR"


@given(st.binary(max_size=50))
def test_the_scan_accepts_what_the_decoder_accepts(garbage: bytes) -> None:
    try:
        decoded = decode_properties(garbage, 0)
    except InternalError:
        return
    if decoded.delivery_mode in (None, 1, 2):
        scan_properties(garbage)


@given(st.binary(max_size=50))
def test_garbage_never_raises_anything_but_an_amqp_error(garbage: bytes) -> None:
    for read in (scan_properties, lambda data: decode_properties(data, 0)):
        try:
            read(garbage)
        except AmqpError:
            pass


@pytest.mark.parametrize("payload", [b"", b"\x00\x00xx", b"\x80\x00", b"\x00\x01\x00\x00", b"\x00\x01"])
def test_input_that_rabbitmq_refuses_is_refused(payload: bytes) -> None:
    for read in (scan_properties, lambda data: decode_properties(data, 0)):
        with pytest.raises(InternalError):
            read(payload)


@pytest.mark.parametrize("table", [b"\x01aZ", b"\x01ad\x7f\xf8" + bytes(6)])
def test_headers_that_cannot_be_read_are_an_internal_error(table: bytes) -> None:
    with pytest.raises(InternalError):
        decode_properties(b"\x20\x00" + len(table).to_bytes(4, "big") + table, 0)


def test_the_spare_flag_is_let_through() -> None:
    assert decode_properties(b"\x00\x02", 0) == BasicProperties()
    assert scan_properties(b"\x00\x02") == (False, 0, None, NO_HEADERS, None)


def test_pamqp_reads_what_we_write() -> None:
    theirs = commands.Basic.Properties()
    encoded = encode_properties(FULL)
    theirs.unmarshal(int.from_bytes(encoded[:2], "big"), encoded[2:])
    for name, value in FULL._asdict().items():
        expected = {
            "headers": {"a": 1, "b": "two"},
            "timestamp": datetime.fromtimestamp(1_600_000_000, UTC),
        }.get(name, value)
        seen = getattr(theirs, {"type_": "message_type"}.get(name, name))
        assert seen == expected, name


def test_the_order_is_the_specs() -> None:
    listed = json.loads(SPEC.read_text("utf-8"))["properties"]
    assert [(p["name"].replace("-", "_"), p["type"]) for p in listed] == [
        (name.rstrip("_"), wire_type) for name, wire_type in PROPERTY_TYPES.items()
    ]
    assert [p["flag_bit"] for p in listed] == list(range(15, 1, -1))


@given(any_properties, st.binary(max_size=20), st.data())
def test_plain_traits_agree_with_the_scan(values: BasicProperties, body: bytes, data: st.DataObject) -> None:
    payload = bytearray(encode_properties(values))
    if data.draw(st.booleans()):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    content = build_frames(1, bytes(payload), body, 0)
    traits = plain_traits(content)
    if traits != NOT_PLAIN:
        persistent, priority, expiration, _, user_id = scan_properties(bytes(payload))
        assert (traits & 1 == 1, traits >> 1, expiration, user_id) == (persistent, priority, None, None)
        headers = decode_properties(bytes(payload), 0).headers or {}
        assert not {"CC", "BCC", "x-producer"} & headers.keys()


@pytest.mark.parametrize(
    ("values", "traits"),
    [
        (BasicProperties(), 0),
        (BasicProperties(delivery_mode=2), 1),
        (BasicProperties(delivery_mode=2, priority=9, message_id="m", reply_to="q", app_id="a"), 19),
        (BasicProperties(headers=table_of({"a": 1, "b": "two"}), timestamp=1), 0),
        (BasicProperties(headers=table_of({"CC": ["b"]})), NOT_PLAIN),
        (BasicProperties(delivery_mode=3), NOT_PLAIN),
        (BasicProperties(expiration="1"), NOT_PLAIN),
        (BasicProperties(user_id="guest"), NOT_PLAIN),
        (BasicProperties(reply_to="amq.rabbitmq.reply-to"), NOT_PLAIN),
    ],
)
def test_plain_traits_of_ordinary_messages(values: BasicProperties, traits: int) -> None:
    assert plain_traits(build_frames(1, encode_properties(values), b"body", 0)) == traits


def test_the_scan_is_quick() -> None:
    """Check the time of a scan: 0.3 to 1.1 µs is normal; ten times that would be another algorithm."""
    encoded = encode_properties(FULL)
    best_s = min(timeit.repeat(lambda: scan_properties(encoded), number=2000, repeat=5)) / 2000
    assert best_s < 15e-6
