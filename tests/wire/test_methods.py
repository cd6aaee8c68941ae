"""Methods: encoded and decoded, compared with pamqp, cut at every byte, and equal to their generator."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_origin, get_type_hints

import pytest
from hypothesis import given
from pamqp import commands

from mirrormq.errors import AmqpError, FrameError, NotImplementedByBroker
from mirrormq.wire import methods
from mirrormq.wire.fields import table_of
from mirrormq.wire.methods import DECODERS, ENCODERS, METHOD_IDS, METHOD_NAMES, decode_method
from tests.wire.strategies import methods as any_method

ROOT = Path(__file__).resolve().parents[2]
SPEC = json.loads((ROOT / "spec" / "amqp-0-9-1.json").read_text("utf-8"))
PAMQP_NAMES = {("exchange.declare", "type_"): "exchange_type"}
PAMQP_CANNOT_WRITE = {"channel.open", "channel.open-ok"}
"""Methods that pamqp cannot encode: it requires the reserved string "0", which RabbitMQ and its clients
leave empty."""
NESTED = {"a": {"b": ["c"]}}


def sample(method_id: int) -> Any:
    """Return a method with every field set to a value other than its default."""
    tuple_type = next(known for known, identity in METHOD_IDS.items() if identity == method_id)
    values: Any = {bool: True, int: 7, str: "a.name", bytes: b"plain", dict: table_of(NESTED)}
    return tuple_type(*(values[get_origin(hint) or hint] for hint in get_type_hints(tuple_type).values()))


@given(any_method)
def test_a_method_survives_the_wire(method: Any) -> None:
    method_id = METHOD_IDS[type(method)]
    payload = ENCODERS[method_id](*method)
    assert payload[:4] == method_id.to_bytes(4, "big")
    assert decode_method(payload) == method
    assert type(decode_method(payload)) is type(method)


@pytest.mark.parametrize("method_id", DECODERS, ids=METHOD_NAMES.get)
def test_a_payload_cut_anywhere_or_too_long_is_a_frame_error(method_id: int) -> None:
    payload = ENCODERS[method_id](*sample(method_id))
    for size in range(4, len(payload)):
        with pytest.raises(FrameError) as error:
            DECODERS[method_id](payload[:size])
        assert (error.value.class_id, error.value.method_id) == divmod(method_id, 1 << 16)
        assert len(error.value.text) <= 255
    with pytest.raises(FrameError):
        decode_method(payload + b"\x00")


@given(any_method)
def test_a_damaged_payload_never_raises_anything_but_an_amqp_error(method: Any) -> None:
    payload = ENCODERS[METHOD_IDS[type(method)]](*method)
    for at in range(4, min(len(payload), 60)):
        try:
            decode_method(payload[:at] + bytes((payload[at] ^ 0xFF,)) + payload[at + 1 :])
        except AmqpError:
            pass


@pytest.mark.parametrize("method_id", DECODERS, ids=METHOD_NAMES.get)
def test_pamqp_writes_and_reads_the_same_payload(method_id: int) -> None:
    pamqp_class = commands.INDEX_MAPPING.get(method_id)
    if pamqp_class is None:
        assert METHOD_NAMES[method_id].startswith("connection.update-secret")
        return
    method = sample(method_id)
    payload = ENCODERS[method_id](*method)
    theirs = pamqp_class()
    theirs.unmarshal(payload[4:])
    seen = {name: getattr(theirs, name) for name in theirs.attributes()}
    for name, value in method._asdict().items():
        expected = NESTED if isinstance(value, dict) else value
        theirs_value = seen[PAMQP_NAMES.get((METHOD_NAMES[method_id], name), name)]
        if isinstance(value, bytes) and isinstance(theirs_value, str):
            theirs_value = theirs_value.encode()
        assert theirs_value == expected, name
    if METHOD_NAMES[method_id] not in PAMQP_CANNOT_WRITE:
        assert theirs.marshal() == payload[4:]


@pytest.mark.parametrize(
    "method",
    [
        methods.BasicAck((1 << 64) - 1, True),
        methods.ConnectionTune(65_535, (1 << 32) - 1, 65_534),
        methods.QueueDeclareOk("q", (1 << 32) - 1, (1 << 32) - 2),
        methods.BasicGetOk((1 << 63) + 1, False, "x", "k", (1 << 32) - 1),
    ],
)
def test_integers_have_their_full_width(method: methods.Method) -> None:
    assert decode_method(ENCODERS[METHOD_IDS[type(method)]](*method)) == method


@pytest.mark.parametrize("nothing", [b"", b"\x00", b"\x00\x32\x00"])
def test_less_than_a_method_id_is_an_unknown_frame(nothing: bytes) -> None:
    with pytest.raises(FrameError, match="unknown_frame"):
        decode_method(nothing)


@pytest.mark.parametrize("payload", [b"\x00\x32\x00\x63", b"\x00\x63\x00\x0a"])
def test_an_unknown_method_is_not_implemented(payload: bytes) -> None:
    with pytest.raises(NotImplementedByBroker) as error:
        decode_method(payload)
    assert (error.value.class_id, error.value.method_id) == (payload[1], payload[3])


def test_a_wrong_length_is_answered_with_rabbitmqs_text() -> None:
    payload = methods.encode_queue_declare("q1", exclusive=True)
    with pytest.raises(FrameError) as error:
        decode_method(payload[:-1])
    assert error.value.text == "FRAME_ERROR - cannot decode <<0,0,2,113,49,4,0,0,0>>"
    with pytest.raises(FrameError) as error:
        decode_method(payload + b"x" * 300)
    assert len(error.value.text) == 255
    assert error.value.text.endswith(",120...")


def test_reserved_fields_and_spare_bits_are_ignored() -> None:
    payload = b"\x00\x32\x00\x0a\xff\xff\x02d3\xe8\x00\x00\x00\x00"
    assert decode_method(payload) == methods.QueueDeclare("d3", False, False, False, True, False, {})


def test_the_constants_are_class_and_method() -> None:
    assert methods.QUEUE_DECLARE == 0x0032000A
    assert methods.EXCHANGE_UNBIND_OK == 40 << 16 | 51
    assert METHOD_NAMES[methods.BASIC_GET_EMPTY] == "basic.get-empty"


def test_the_spec_is_whole() -> None:
    counts = {c["name"]: len(c["methods"]) for c in SPEC["classes"]}
    assert counts == {
        "connection": 14,
        "channel": 6,
        "exchange": 8,
        "queue": 10,
        "basic": 18,
        "confirm": 2,
        "tx": 6,
    }
    for class_ in SPEC["classes"]:
        known = {m["name"] for m in class_["methods"]}
        for method in class_["methods"]:
            assert set(method["answers"]) <= known
            assert method["synchronous"] == bool(method["answers"])


def test_the_generated_code_is_what_the_generator_writes() -> None:
    command = [sys.executable, str(ROOT / "spec" / "generate.py"), "--check"]
    assert subprocess.run(command, check=False).returncode == 0
