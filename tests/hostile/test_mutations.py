"""Mutated input raises nothing out of a connection and harms no other connection."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mirrormq.queues.queue import Queue
from mirrormq.wire import methods
from mirrormq.wire.content import method_frame
from mirrormq.wire.frames import PROTOCOL_HEADER
from tests.hostile.in_process import Wire, hello, make_broker
from tests.hostile.raw import publish_bytes
from tests.hostile.streams import mutated


@pytest.fixture(autouse=True)
def no_tracebacks() -> None:
    """No real node is wanted here."""


def start_witness(witness: Wire) -> None:
    """A connection with a queue of its own, a consumer and a confirm mode."""
    declare = methods.encode_queue_declare("witness", exclusive=True)
    witness.log_in().feed(method_frame(1, declare) + method_frame(1, methods.encode_confirm_select()))
    witness.feed(method_frame(1, methods.encode_basic_consume("witness", "w", no_ack=True)))
    witness.turn()


def assert_unharmed(witness: Wire, body: bytes) -> None:
    """Publish, and expect the confirm and the delivery byte for byte."""
    witness.said = b""
    witness.feed(publish_bytes("witness", body))
    witness.turn()
    assert witness.said.count(body) == 1
    confirms = witness.connection.channels[1].publishing.confirms
    assert confirms is not None
    confirm = methods.encode_basic_ack(confirms.next_number - 1, False)
    assert method_frame(1, confirm) in witness.said


@settings(max_examples=300)
@given(st.lists(mutated(), min_size=1, max_size=3), st.integers(1, 40))
def test_mutated_streams_disturb_no_other_client(streams: list[bytes], piece: int) -> None:
    broker = make_broker()
    witness = Wire(broker)
    start_witness(witness)
    hostile = [Wire(broker, port + 2).log_in() for port in range(len(streams))]
    for wire, stream in zip(hostile, streams, strict=True):
        wire.feed(stream, piece)
        wire.turn()
        assert_unharmed(witness, b"still here")
    for wire in hostile:
        wire.connection.lost()
    broker.turn()
    broker.clock.now_ms += 3_600_000
    broker.clock.run_due()
    assert_unharmed(witness, b"and to the end")
    assert list(broker.connections) == [witness.connection]
    for queue in broker.vhosts["/"].queues.values():
        assert isinstance(queue, Queue)
        assert len(queue.consumers.all) <= 1


@settings(max_examples=150)
@given(st.data())
def test_mutated_handshakes_disturb_no_other_client(data: st.DataObject) -> None:
    opening = bytearray(hello())
    for _ in range(data.draw(st.integers(1, 5))):
        opening[data.draw(st.integers(0, len(opening) - 1))] = data.draw(st.integers(0, 255))
    broker = make_broker()
    witness = Wire(broker)
    start_witness(witness)
    wire = Wire(broker, 2)
    wire.feed(bytes(opening), data.draw(st.integers(0, 30)))
    wire.turn()
    assert_unharmed(witness, b"still here")
    broker.clock.now_ms += 3_600_000
    broker.clock.run_due()
    assert wire.connection.finished or wire.connection in broker.connections
    wire.connection.lost()
    assert list(broker.connections) == [witness.connection]


@given(st.binary(max_size=200))
def test_any_first_bytes_are_answered_or_dropped(first: bytes) -> None:
    wire = Wire(make_broker())
    wire.feed(first, 1)
    wire.turn()
    if len(first) >= 8 and not first.startswith(b"AMQP"):
        assert wire.said == PROTOCOL_HEADER
        assert wire.connection.finished
