"""Bodies so large that they are read into a buffer all clients share: none may see a trace of another's."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator

from mirrormq.wire import methods
from tests.brokers.mirrormq import MirrorMQ
from tests.hostile.bystander import beside, resident_bytes
from tests.hostile.raw import RawClient, publish_bytes, ready_client

MEGABYTE = 1024 * 1024
SIZES = (65536, 100, 40_000, 130_000, 0, 70_000, 16_384, 300_000, 5, 131_064)
"""Bodies that take the road of large ones and bodies that do not, in turns, with one of several frames."""


def body_of(owner: str, number: int) -> bytes:
    """No two of them share a piece of any length."""
    size = SIZES[number % len(SIZES)]
    return hashlib.shake_128(f"{owner} {number}".encode()).digest(size)


def bodies(client: RawClient) -> Iterator[bytes]:
    """The bodies of the deliveries, as they come."""
    while True:
        client.expect("BasicDeliver")
        _, _, header = client.frame()
        missing, pieces = int.from_bytes(header[4:12], "big"), []
        while missing:
            _, _, payload = client.frame()
            pieces.append(payload)
            missing -= len(payload)
        yield b"".join(pieces)


def consume(client: RawClient, queue: str) -> Iterator[bytes]:
    client.method(1, methods.encode_basic_consume(queue, "c", no_ack=True))
    client.expect("BasicConsumeOk")
    return bodies(client)


def ready_count(client: RawClient, queue: str) -> int:
    client.method(1, methods.encode_queue_declare(queue, passive=True))
    return int(client.expect("QueueDeclareOk").message_count)


def test_large_and_small_bodies_in_turns_come_back_as_they_were(node: MirrorMQ) -> None:
    sent = [body_of("one", number) for number in range(100)]
    with beside(node), ready_client(node.amqp_port) as client:
        client.declare("turns", exclusive=True)
        client.send(b"".join(publish_bytes("turns", body) for body in sent))
        found = consume(client, "turns")
        for number, body in enumerate(sent):
            assert next(found) == body, number


def test_clients_that_send_piece_by_piece_do_not_mix(node: MirrorMQ) -> None:
    """Each body is cut where it hurts, while the other clients' pieces go through the same memory."""
    owners = [f"mixed-{number}" for number in range(8)]
    streams = {
        owner: b"".join(publish_bytes(owner, body_of(owner, number)) for number in range(20))
        for owner in owners
    }
    with beside(node):
        clients = {owner: RawClient(node.amqp_port).log_in().open_channel() for owner in owners}
        for owner, client in clients.items():
            client.declare(owner, exclusive=True)
        for at in range(0, max(map(len, streams.values())), 50_001):
            for owner, client in clients.items():
                client.send(streams[owner][at : at + 50_001])
        for owner, client in clients.items():
            found = consume(client, owner)
            for number in range(20):
                assert next(found) == body_of(owner, number), (owner, number)
            client.close()


def test_clients_that_leave_in_the_middle_leave_nothing_behind(node: MirrorMQ) -> None:
    half = publish_bytes("nobody", b"h" * 120_000)[:-50_000]
    before = resident_bytes(node.process_id)
    with beside(node):
        for _ in range(10):
            clients = [RawClient(node.amqp_port).log_in().open_channel() for _ in range(20)]
            for client in clients:
                client.send(half)
            for client in clients:
                client.close()
        deadline = time.monotonic() + 20
        while len(node.control("list_connections", "-q", "pid").splitlines()) > 2:
            assert time.monotonic() < deadline, "connections are left"
    assert resident_bytes(node.process_id) - before < 20 * MEGABYTE


def test_a_publisher_of_large_bodies_that_does_not_read_is_given_little(node: MirrorMQ) -> None:
    """Its deliveries wait in the queue and not at its socket, also while its own bodies are read."""
    with ready_client(node.amqp_port) as watcher:
        watcher.declare("own")
        with beside(node), ready_client(node.amqp_port, receive_buffer_bytes=4096) as client:
            client.method(1, methods.encode_basic_consume("own", "c", no_ack=True))
            client.expect("BasicConsumeOk")
            stream = publish_bytes("own", b"o" * 65536) * 400
            assert client.send_while_taken(stream, patience_s=10.0) == len(stream)
            deadline = time.monotonic() + 20
            while ready_count(watcher, "own") < 200:
                assert time.monotonic() < deadline, "everything was written to a client that reads nothing"
        watcher.method(1, methods.encode_queue_delete("own"))
        watcher.expect("QueueDeleteOk")
