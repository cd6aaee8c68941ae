"""Clients that send and never read: their requests wait, their deliveries stop, and memory stays bounded."""

from __future__ import annotations

import select
import socket
import time

import pytest

from mirrormq.wire import methods
from mirrormq.wire.content import method_frame
from tests.brokers.mirrormq import MirrorMQ
from tests.hostile.bystander import beside, resident_bytes
from tests.hostile.raw import RawClient, publish_bytes, ready_client

MEGABYTE = 1024 * 1024
MEMORY_BYTES_MAX = 40 * MEGABYTE
"""Memory cost of one client that never reads: the named limits allow about 5 MB of output, the sockets'
own buffers are the kernel's, and Python's allocator keeps some of what it has once had."""


def test_a_consumer_that_never_reads_is_given_little(node: MirrorMQ) -> None:
    """50 MB wait for it; what leaves the queue is bounded by the socket's limits, not by the backlog."""
    with beside(node), ready_client(node.amqp_port) as publisher:
        publisher.declare("unread", durable=False)
        body = b"x" * 10_000
        for _ in range(50):
            publisher.send(publish_bytes("unread", body) * 100)
        publisher.declare("unread")
        before = resident_bytes(node.process_id)
        with ready_client(node.amqp_port, receive_buffer_bytes=4096) as consumer:
            consumer.method(1, methods.encode_basic_consume("unread", "c"))
            publisher.socket.settimeout(20)
            ready, deadline = -1, time.monotonic() + 20
            while time.monotonic() < deadline:
                publisher.method(1, methods.encode_queue_declare("unread", passive=True))
                now_ready = publisher.expect("QueueDeclareOk").message_count
                if now_ready == ready < 5000:
                    break
                ready = now_ready
                time.sleep(0.5)
            given = (5000 - ready) * len(body)
            assert 0 < given < 12 * MEGABYTE, f"{given} bytes were given to a client that reads nothing"
            assert resident_bytes(node.process_id) - before < MEMORY_BYTES_MAX
        publisher.method(1, methods.encode_queue_delete("unread"))
        publisher.expect("QueueDeleteOk")


def test_many_consumers_on_many_queues_of_one_client_share_its_limit(node: MirrorMQ) -> None:
    """Each queue deals out for itself; all together they may not fill one client's buffer a hundred times."""
    body = b"x" * 100_000
    with beside(node), ready_client(node.amqp_port) as publisher:
        for number in range(50):
            publisher.declare(f"shared-{number}")
            publisher.send(publish_bytes(f"shared-{number}", body) * 20)
        publisher.declare("shared-0")
        before = resident_bytes(node.process_id)
        with ready_client(node.amqp_port, receive_buffer_bytes=4096) as consumer:
            for number in range(50):
                consumer.method(1, methods.encode_basic_consume(f"shared-{number}", f"c{number}"))
            consumer.expect("BasicConsumeOk")
            with ready_client(node.amqp_port) as watcher:
                for _ in range(20):
                    watcher.method(1, methods.encode_queue_declare("shared-49", passive=True))
                    watcher.expect("QueueDeclareOk")
            assert resident_bytes(node.process_id) - before < MEMORY_BYTES_MAX
        for number in range(50):
            publisher.method(1, methods.encode_queue_delete(f"shared-{number}"))
            publisher.expect("QueueDeleteOk")


REQUESTS = {
    "queue.declare": method_frame(1, methods.encode_queue_declare("asked", exclusive=True)),
    "passive declare": method_frame(1, methods.encode_queue_declare("backlog", passive=True)),
    "basic.get": method_frame(1, methods.encode_basic_get("backlog", no_ack=False)),
    "get and requeue": method_frame(1, methods.encode_basic_get("backlog"))
    + method_frame(1, methods.encode_basic_nack(0, multiple=True, requeue=True)),
    "mandatory publish": publish_bytes("nobody-has-this", b"y" * 200, mandatory=True),
    "channel.flow": method_frame(1, methods.encode_channel_flow(True)),
}


FLOOD_BYTES = 60 * MEGABYTE
"""Several times what the kernel's buffers hold in both directions."""


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_million_requests_whose_answers_the_client_never_reads(node: MirrorMQ, kind: str) -> None:
    """Input stops being taken once the answers are not; everybody else goes on."""
    request = REQUESTS[kind]
    flood = request * min(1_000_000, FLOOD_BYTES // len(request))
    with beside(node), ready_client(node.amqp_port) as owner:
        owner.declare("backlog", exclusive=False, auto_delete=False)
        owner.send(publish_bytes("backlog", b"z" * 1000) * 3000)
        owner.declare("backlog")
        before = resident_bytes(node.process_id)
        with ready_client(node.amqp_port, receive_buffer_bytes=4096) as client:
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
            sent = client.send_while_taken(flood, patience_s=2.0)
            assert sent < len(flood), "everything was taken although no answer was read"
            assert resident_bytes(node.process_id) - before < MEMORY_BYTES_MAX
        owner.method(1, methods.encode_queue_purge("backlog"))
        owner.expect("QueuePurgeOk")


def test_a_client_that_reads_late_gets_every_answer_in_order(node: MirrorMQ) -> None:
    """Being held loses nothing: once the client reads, its requests are taken again."""
    names, rounds, answer_size = [f"late-{number}" for number in range(10)], 50_000, 27
    flood = (
        b"".join(method_frame(1, methods.encode_queue_declare(name, passive=True)) for name in names) * rounds
    )
    with beside(node), ready_client(node.amqp_port, receive_buffer_bytes=4096) as client:
        for name in names:
            client.declare(name, exclusive=True)
        taken = client.send_while_taken(flood, patience_s=1.0)
        assert taken < len(flood)
        answers = read_while_sending(client.socket, flood[taken:], rounds * len(names) * answer_size)
    reported = [answers[at + 12 : at + 18].decode() for at in range(0, len(answers), answer_size)]
    assert reported == names * rounds


def read_while_sending(sock: socket.socket, data: bytes, expected_bytes: int) -> bytes:
    """Send the data as fast as it is taken, and read until so much has come."""
    sock.setblocking(False)
    view, answers = memoryview(data), bytearray()
    deadline = time.monotonic() + 140
    while len(answers) < expected_bytes:
        assert time.monotonic() < deadline, f"{len(answers)} of {expected_bytes} bytes came"
        readable, writable, _ = select.select([sock], [sock] if view else [], [], 1)
        if writable:
            view = view[sock.send(view[:65536]) :]
        if readable:
            answers += sock.recv(65536)
    return bytes(answers)


def test_a_consumer_with_a_full_buffer_may_still_publish(node: MirrorMQ) -> None:
    """Deliveries alone never hold a client's requests: it may send first and read later."""
    with ready_client(node.amqp_port) as publisher:
        publisher.declare("neglected")
        publisher.send(publish_bytes("neglected", b"x" * 10_000) * 1000)
        publisher.declare("neglected")
        with beside(node), ready_client(node.amqp_port, receive_buffer_bytes=4096) as consumer:
            consumer.method(1, methods.encode_basic_consume("neglected", "c"))
            consumer.expect("BasicConsumeOk")
            own = publish_bytes("published-meanwhile", b"y" * 1000) * 5000
            publisher.declare("published-meanwhile")
            assert consumer.send_while_taken(own, patience_s=10.0) == len(own)
            deadline = time.monotonic() + 20
            while True:
                publisher.method(1, methods.encode_queue_declare("published-meanwhile", passive=True))
                if publisher.expect("QueueDeclareOk").message_count == 5000:
                    break
                assert time.monotonic() < deadline, "its publishes were not taken"
        for queue in ("neglected", "published-meanwhile"):
            publisher.method(1, methods.encode_queue_delete(queue))
            publisher.expect("QueueDeleteOk")


def test_a_closed_client_that_does_not_read_is_let_go(node: MirrorMQ) -> None:
    """Its last bytes cannot be written; the socket is dropped all the same."""
    client = RawClient(node.amqp_port, receive_buffer_bytes=4096).log_in(heartbeat_s=1).open_channel()
    client.send_while_taken(REQUESTS["channel.flow"] * 200_000, patience_s=1.0)
    node.control("close_all_connections", "not reading")
    deadline = time.monotonic() + 140
    while node.control("list_connections", "peer_port").split().count(str(client.socket.getsockname()[1])):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    client.close()


def test_direct_replies_to_a_client_that_does_not_read_are_dropped(node: MirrorMQ) -> None:
    with beside(node), ready_client(node.amqp_port) as responder:
        with ready_client(node.amqp_port, receive_buffer_bytes=4096) as requester:
            requester.method(1, methods.encode_basic_consume("amq.rabbitmq.reply-to", "r", no_ack=True))
            requester.expect("BasicConsumeOk")
            responder.declare("requests", exclusive=True)
            from mirrormq.wire.properties import BasicProperties, decode_properties, encode_properties

            asking = encode_properties(BasicProperties(reply_to="amq.rabbitmq.reply-to"))
            requester.send(publish_bytes("requests", b"?", properties=asking))
            responder.method(1, methods.encode_basic_consume("requests", "c", no_ack=True))
            responder.expect("BasicConsumeOk")
            responder.expect("BasicDeliver")
            _, _, header = responder.frame()
            responder.frame()
            reply_to = decode_properties(header[12:], 0).reply_to
            assert reply_to is not None
            before = resident_bytes(node.process_id)
            for _ in range(200):
                responder.send(publish_bytes(reply_to, b"!" * 500_000))
            responder.declare("done", exclusive=True)
            assert resident_bytes(node.process_id) - before < 2 * MEMORY_BYTES_MAX
