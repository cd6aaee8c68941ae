"""Messages that are too large, too deep, cut too fine, or never finished."""

from __future__ import annotations

import struct
import time

from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.properties import BasicProperties, encode_properties
from tests.brokers.mirrormq import MirrorMQ
from tests.hostile.bystander import beside, resident_bytes
from tests.hostile.raw import PLAIN_PROPERTIES, RawClient, publish_bytes, ready_client

MEGABYTE = 1024 * 1024
MAX_MESSAGE_SIZE = 16 * MEGABYTE
"""As in conftest.py."""


def header_frame(body_size: int, properties: bytes = PLAIN_PROPERTIES) -> bytes:
    payload = struct.pack(">HHQ", 60, 0, body_size) + properties
    return struct.pack(">BHI", 2, 1, len(payload)) + payload + b"\xce"


def body_frame(payload: bytes) -> bytes:
    return struct.pack(">BHI", 3, 1, len(payload)) + payload + b"\xce"


def begin_publish(client: RawClient, queue: str, body_size: int) -> None:
    client.method(1, methods.encode_basic_publish("", queue))
    client.send(header_frame(body_size))


def fetch(client: RawClient, queue: str) -> list[bytes]:
    """The body frames of the next message."""
    client.method(1, methods.encode_basic_get(queue, no_ack=True))
    client.expect("BasicGetOk")
    _, _, header = client.frame()
    missing, pieces = int.from_bytes(header[4:12], "big"), []
    while missing:
        _, _, payload = client.frame()
        pieces.append(payload)
        missing -= len(payload)
    return pieces


def test_a_message_above_the_limit_is_refused_as_rabbitmq_does(node: MirrorMQ) -> None:
    for size in (MAX_MESSAGE_SIZE + 1, 2**63, 2**64 - 1):
        with beside(node), ready_client(node.amqp_port) as client:
            begin_publish(client, "nowhere", size)
            closed = client.expect("ChannelClose")
            assert closed.reply_code == 406
            expected = f"message size {size} is larger than configured max size {MAX_MESSAGE_SIZE}"
            assert closed.reply_text == f"PRECONDITION_FAILED - {expected}"
            assert (closed.class_id, closed.method_id) == (60, 40)
            client.send(body_frame(b"trickle") * 1000)
            client.method(1, methods.encode_channel_close_ok())
            client.open_channel()


def test_a_message_of_exactly_the_limit_passes(node: MirrorMQ) -> None:
    with beside(node), ready_client(node.amqp_port) as client:
        client.declare("largest", exclusive=True)
        client.send(publish_bytes("largest", b"m" * MAX_MESSAGE_SIZE))
        assert b"".join(fetch(client, "largest")) == b"m" * MAX_MESSAGE_SIZE


def test_a_body_that_trickles_in_delays_no_other_client(node: MirrorMQ) -> None:
    before = resident_bytes(node.process_id)
    with beside(node) as bystander:
        clients = [RawClient(node.amqp_port).log_in().open_channel() for _ in range(50)]
        for client in clients:
            begin_publish(client, "trickle", MAX_MESSAGE_SIZE)
        for _ in range(20):
            for client in clients:
                client.send(body_frame(b"t"))
        bystander.wait_for_rounds(50)
        assert resident_bytes(node.process_id) - before < 20 * MEGABYTE
        for client in clients:
            client.close()


def test_a_body_in_tiny_frames_costs_what_the_body_costs(node: MirrorMQ) -> None:
    """A quarter of a million frames of one byte, with as many empty ones between them, are 256 KB."""
    with beside(node), ready_client(node.amqp_port) as client:
        client.declare("tiny", exclusive=True)
        before = resident_bytes(node.process_id)
        begin_publish(client, "tiny", 256 * 1024)
        piece = (body_frame(b"") + body_frame(b"t")) * 4096
        for _ in range(64):
            client.send(piece)
        pieces = fetch(client, "tiny")
        assert b"".join(pieces) == b"t" * 256 * 1024
        assert len(pieces) <= 3, "the consumer is spared the tiny frames"
        assert resident_bytes(node.process_id) - before < 30 * MEGABYTE


def test_empty_body_frames_without_end_are_not_kept(node: MirrorMQ) -> None:
    with beside(node), ready_client(node.amqp_port) as client:
        client.declare("empty", exclusive=True)
        before = resident_bytes(node.process_id)
        begin_publish(client, "empty", 1)
        for _ in range(100):
            client.send(body_frame(b"") * 4096)
        client.send(body_frame(b"!"))
        assert fetch(client, "empty") == [b"!"]
        assert resident_bytes(node.process_id) - before < 20 * MEGABYTE


def nested_table(depth: int) -> bytes:
    """A table in a table in a table …"""
    table = b""
    for _ in range(depth):
        table = b"\x01tF" + len(table).to_bytes(4, "big") + table
    return len(table).to_bytes(4, "big") + table


def with_headers(table: bytes) -> bytes:
    return struct.pack(">H", 1 << 13) + table


def test_headers_nested_too_deeply_are_refused(node: MirrorMQ) -> None:
    with beside(node):
        for depth in (150, 2000, 15_000):
            with ready_client(node.amqp_port) as client:
                client.send(publish_bytes("deep", b"", properties=with_headers(nested_table(depth))))
                assert client.expect("ConnectionClose").reply_code == 541, (
                    "as RabbitMQ answers unreadable headers"
                )


def test_huge_headers_leave_time_for_others(node: MirrorMQ) -> None:
    """128 KB of three-byte entries a message, by the hundred: only their publisher waits for them."""
    entry = b"\x01kV"
    table = entry * 43_000
    bomb = publish_bytes("bomb", b"", properties=with_headers(len(table).to_bytes(4, "big") + table))
    other = publish_bytes(
        "bomb", b"", properties=with_headers(len(table).to_bytes(4, "big") + table[:-3] + b"\x01jV")
    )
    with beside(node), ready_client(node.amqp_port) as client:
        client.declare("bomb", exclusive=True)
        before = resident_bytes(node.process_id)
        client.send((bomb + other) * 50)
        client.method(1, methods.encode_queue_purge("bomb"))
        assert client.expect("QueuePurgeOk").message_count == 100
        assert resident_bytes(node.process_id) - before < 60 * MEGABYTE


def test_huge_arguments_are_answered(node: MirrorMQ) -> None:
    table = b"\x01kV" * 40_000
    declare = methods.encode_queue_declare("many-arguments")[:-4] + len(table).to_bytes(4, "big") + table
    with beside(node), ready_client(node.amqp_port) as client:
        client.send(method_frame(1, declare) * 20)
        for _ in range(20):
            client.expect("QueueDeclareOk")
        client.method(1, methods.encode_queue_delete("many-arguments"))


def test_a_flood_that_no_queue_wants(node: MirrorMQ) -> None:
    with beside(node), ready_client(node.amqp_port) as client:
        before = resident_bytes(node.process_id)
        for number in range(100):
            client.send(b"".join(publish_bytes(f"no.{number}.{n}", b"u" * 100) for n in range(1000)))
        client.declare("after", exclusive=True)
        assert resident_bytes(node.process_id) - before < 20 * MEGABYTE


def test_a_transaction_is_bounded(node: MirrorMQ) -> None:
    """Past the limit the channel closes, and what the transaction held is set free."""
    body = b"c" * 1_000_000
    with beside(node), ready_client(node.amqp_port) as client:
        client.declare("uncommitted", exclusive=True)
        client.method(1, methods.encode_tx_select())
        client.expect("TxSelectOk")
        before = resident_bytes(node.process_id)
        client.send(publish_bytes("uncommitted", b"fits"))
        client.method(1, methods.encode_tx_commit())
        client.expect("TxCommitOk")
        most = 0
        for _ in range(560):
            client.send(publish_bytes("uncommitted", body))
            most = max(most, resident_bytes(node.process_id) - before)
        closed = client.expect("ChannelClose")
        assert (closed.reply_code, closed.class_id, closed.method_id) == (406, 60, 40)
        assert most < 600 * MEGABYTE
        client.method(1, methods.encode_channel_close_ok())
        client.open_channel()
        client.method(1, methods.encode_queue_declare("uncommitted", passive=True))
        assert client.expect("QueueDeclareOk").message_count == 1
        deadline = time.monotonic() + 20
        while resident_bytes(node.process_id) - before > 100 * MEGABYTE:
            assert time.monotonic() < deadline, "the memory of the transaction was not set free"
            time.sleep(0.1)


def test_ten_thousand_unacknowledged_gets(node: MirrorMQ) -> None:
    count = 10_000
    with beside(node), ready_client(node.amqp_port) as client:
        client.declare("gets")
        client.send(publish_bytes("gets", b"g" * 100) * count)
        before = resident_bytes(node.process_id)
        for _ in range(100):
            client.send(method_frame(1, methods.encode_basic_get("gets")) * 100)
            for _ in range(100):
                client.expect("BasicGetOk")
        assert resident_bytes(node.process_id) - before < 30 * MEGABYTE
        client.close()
        with ready_client(node.amqp_port) as next_client:
            deadline = time.monotonic() + 20
            while True:
                next_client.method(1, methods.encode_queue_declare("gets", passive=True))
                if next_client.expect("QueueDeclareOk").message_count == count:
                    break
                assert time.monotonic() < deadline, "they did not come back"
                time.sleep(0.05)
            next_client.method(1, methods.encode_queue_delete("gets"))
            next_client.expect("QueueDeleteOk")


def test_many_consumers_of_one_client(node: MirrorMQ) -> None:
    """Twenty thousand of them: subscribing, serving and leaving stays cheap for everybody else."""
    count = 20_000
    with beside(node):
        with ready_client(node.amqp_port) as client:
            client.declare("crowd")
            client.method(1, methods.encode_basic_qos(0, 1))
            client.expect("BasicQosOk")
            for start in range(0, count, 500):
                numbers = range(start, start + 500)
                client.send(
                    b"".join(method_frame(1, methods.encode_basic_consume("crowd", f"c{n}")) for n in numbers)
                )
                for _ in numbers:
                    client.expect("BasicConsumeOk")
            with ready_client(node.amqp_port) as publisher:
                publisher.send(publish_bytes("crowd", b"w") * 2000)
                for tag in range(1, 2001):
                    client.expect("BasicDeliver")
                    client.method(1, methods.encode_basic_ack(tag, False))
        with ready_client(node.amqp_port) as client:
            client.method(1, methods.encode_queue_delete("crowd"))
            client.expect("QueueDeleteOk")


def test_contents_interleaved_on_many_channels_find_their_own(node: MirrorMQ) -> None:
    channels = range(1, 101)
    with ready_client(node.amqp_port) as client:
        client.declare("interleaved", exclusive=True)
        for number in channels[1:]:
            client.open_channel(number)
        frames = []
        for number in channels:
            method = method_frame(number, methods.encode_basic_publish("", "interleaved"))
            content = build_frames(number, PLAIN_PROPERTIES, b"%03d" % number, 0)
            header, body = content[: -(8 + 3)], content[-(8 + 3) :]
            frames.append((method, header, body))
        for part in range(3):
            client.send(b"".join(frame[part] for frame in frames))
        bodies = [b"".join(fetch(client, "interleaved")) for _ in channels]
        assert bodies == [b"%03d" % number for number in channels]


def test_long_properties_pass_unharmed(node: MirrorMQ) -> None:
    properties = encode_properties(
        BasicProperties(message_id="i" * 255, correlation_id="j" * 255, app_id="k" * 255)
    )
    with ready_client(node.amqp_port) as client:
        client.declare("long", exclusive=True)
        client.send(publish_bytes("long", b"", properties=properties))
        client.method(1, methods.encode_basic_get("long", no_ack=True))
        client.expect("BasicGetOk")
        assert client.frame()[2][12:] == properties
