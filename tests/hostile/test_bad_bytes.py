"""Bytes that are no AMQP, or too much of it: answered or dropped, and nobody else notices."""

from __future__ import annotations

import os
import random
import signal
import socket
import struct
import time

import pytest

from mirrormq.wire import methods
from mirrormq.wire.content import method_frame
from mirrormq.wire.frames import PROTOCOL_HEADER
from tests.brokers.mirrormq import MirrorMQ
from tests.hostile.bystander import beside, resident_bytes
from tests.hostile.raw import Ended, RawClient, raw_client, ready_client

MEGABYTE = 1024 * 1024


def test_a_half_sent_handshake_is_dropped_in_time(node: MirrorMQ) -> None:
    """Silent after nothing, after half a header, after the header, in the middle of start-ok."""
    start_ok = method_frame(0, methods.encode_connection_start_ok({}, "PLAIN", b"\0guest\0guest", "en_US"))
    beginnings = [b"", PROTOCOL_HEADER[:5], PROTOCOL_HEADER, PROTOCOL_HEADER + start_ok[:20]]
    with beside(node):
        clients = [RawClient(node.amqp_port) for _ in beginnings]
        for client, beginning in zip(clients, beginnings, strict=True):
            client.send(beginning)
        for client in clients:
            assert client.until_closed() < 9.0, (
                "RabbitMQ's own limit, which this node has not, is ten seconds"
            )
            client.close()


def test_half_a_frame_and_silence_ends_by_heartbeat(node: MirrorMQ) -> None:
    with beside(node), ready_client(node.amqp_port, heartbeat_s=1) as client:
        began = time.monotonic()
        client.send(method_frame(1, methods.encode_basic_qos(0, 1))[:9])
        client.until_closed()
        assert 1.0 < time.monotonic() - began < 20.0


@pytest.mark.parametrize("size", [131_073, 2**31 - 1, 2**32 - 1])
def test_a_giant_frame_is_refused_by_its_head(node: MirrorMQ, size: int) -> None:
    before = resident_bytes(node.process_id)
    with beside(node), ready_client(node.amqp_port) as client:
        client.send(struct.pack(">BHI", 1, 1, size))
        closed = client.expect("ConnectionClose")
        assert closed.reply_code == 501
        assert closed.reply_text.endswith(f"{{frame_too_large,{size},131064}}")
        client.until_closed()
    assert resident_bytes(node.process_id) - before < 20 * MEGABYTE


def test_a_giant_frame_during_the_handshake_is_dropped(node: MirrorMQ) -> None:
    with beside(node), raw_client(node.amqp_port) as client:
        client.send(PROTOCOL_HEADER + struct.pack(">BHI", 1, 0, 2**31))
        client.expect("ConnectionStart")
        client.until_closed()


def test_garbage_ends_the_connection_that_sent_it(node: MirrorMQ) -> None:
    noise = random.Random(1)
    with beside(node):
        strangers = [RawClient(node.amqp_port) for _ in range(30)]
        friends = [RawClient(node.amqp_port).log_in().open_channel() for _ in range(30)]
        for client in strangers:
            client.send(noise.randbytes(noise.randrange(8, 5000)))
        for client in friends:
            client.send_while_taken(noise.randbytes(noise.randrange(8, 5000)) + b"\xce" * 200_000)
        for client in strangers + friends:
            client.until_closed(40)
            client.close()


def test_every_channel_number_may_be_tried(node: MirrorMQ) -> None:
    """65,535 channel.opens without waiting: RabbitMQ closes the connection at channel_max, and so do we."""
    before = resident_bytes(node.process_id)
    with beside(node), ready_client(node.amqp_port) as client:
        opens = b"".join(method_frame(number, methods.encode_channel_open()) for number in range(2, 65536))
        client.send_while_taken(opens)
        answers = [client.answer()]
        while type(answers[-1]).__name__ == "ChannelOpenOk":
            answers.append(client.answer())
        assert len(answers) == 2047
        assert answers[-1].reply_code == 530
        expected = (
            "NOT_ALLOWED - number of channels opened (2047) has reached the negotiated channel_max (2047)"
        )
        assert answers[-1].reply_text == expected
        client.method(0, methods.encode_connection_close_ok())
        client.until_closed()
    assert resident_bytes(node.process_id) - before < 60 * MEGABYTE


def test_frames_on_channels_that_are_not_open(node: MirrorMQ) -> None:
    with beside(node), ready_client(node.amqp_port) as client:
        client.send(b"".join(struct.pack(">BHI", 3, n, 0) + b"\xce" for n in range(2, 65536)))
        assert client.expect("ConnectionClose").reply_code == 504


def test_thousands_of_half_open_connections(node: MirrorMQ) -> None:
    """They cost a few kilobytes each and are gone in time, and real clients get in meanwhile."""
    before = resident_bytes(node.process_id)
    with beside(node):
        clients = [RawClient(node.amqp_port) for _ in range(2000)]
        for client in clients[::2]:
            client.send(PROTOCOL_HEADER)
        with ready_client(node.amqp_port) as latecomer:
            latecomer.declare("half-open", exclusive=True)
        assert resident_bytes(node.process_id) - before < 60 * MEGABYTE
        for client in clients:
            client.until_closed()
            client.close()


def test_connections_that_come_and_go_leave_nothing_behind(node: MirrorMQ) -> None:
    def churn(count: int) -> None:
        for _ in range(count):
            with raw_client(node.amqp_port) as client:
                client.log_in(heartbeat_s=60)

    with beside(node):
        churn(300)
        before = resident_bytes(node.process_id)
        churn(1500)
        assert resident_bytes(node.process_id) - before < 30 * MEGABYTE


def test_a_handshake_byte_by_byte_works(node: MirrorMQ) -> None:
    with raw_client(node.amqp_port) as client:
        start_ok = method_frame(
            0, methods.encode_connection_start_ok({}, "PLAIN", b"\0guest\0guest", "en_US")
        )
        tune_ok = method_frame(0, methods.encode_connection_tune_ok(2047, 131072, 0))
        hello = PROTOCOL_HEADER + start_ok + tune_ok + method_frame(0, methods.encode_connection_open("/"))
        for at in range(len(hello)):
            client.send(hello[at : at + 1])
        for name in ("ConnectionStart", "ConnectionTune", "ConnectionOpenOk"):
            client.expect(name)


def test_clients_beyond_connection_max_are_turned_away_and_let_in_later() -> None:
    with MirrorMQ(configuration="connection_max = 3\n") as node:
        clients = [RawClient(node.amqp_port).log_in() for _ in range(3)]
        with raw_client(node.amqp_port) as surplus, pytest.raises((Ended, ConnectionError)):
            surplus.log_in()
        clients.pop().close()
        deadline = time.monotonic() + 40
        while True:
            try:
                RawClient(node.amqp_port).log_in().close()
                break
            except (Ended, ConnectionError):
                assert time.monotonic() < deadline, "the place that became free was not given away"
        for client in clients:
            client.close()


def test_clients_that_reset_before_they_are_accepted_take_nobodys_place() -> None:
    """As health checks of balancers do, and a node that is busy for a moment accepts them too late."""
    with MirrorMQ(configuration="connection_max = 3\n") as node:
        os.kill(node.process_id, signal.SIGSTOP)
        for _ in range(10):
            with socket.create_connection(("127.0.0.1", node.amqp_port), timeout=30) as gone:
                gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.kill(node.process_id, signal.SIGCONT)
        clients = [RawClient(node.amqp_port).log_in() for _ in range(3)]
        for client in clients:
            client.close()
        assert "Traceback" not in node.output, node.output[-3000:]
