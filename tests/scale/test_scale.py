"""Size, scaled down until it fits a test: memory per message, drains, many queues, many connections.

The full size (5,000,000 messages, 10,000 queues, 2,000 connections) is `python -m benchmarks.scale`.
"""

from __future__ import annotations

import selectors
import signal
import time
from collections.abc import Iterator

import pytest

from mirrormq.client_io.blocking_client import BlockingClient
from mirrormq.perf.load_run import LoadRun
from mirrormq.perf.perf_options import PerfOptions
from mirrormq.perf.publish_frames import ack_frame, publish_frames
from mirrormq.wire import methods
from mirrormq.wire.content import method_frame
from tests.durability.node import Node
from tests.durability.traffic import Deliveries, Delivery, Wire, ready
from tests.waiting import until

MESSAGES = 200_000
BACKLOG_BYTES_EACH = 60
"""5,000,000 messages in 600 MB leave 120 bytes each, and a node alone takes some 50 MB. Kept in memory a
message would cost 500; known by number and position only it costs 25."""
HEAD_BYTES = 24 << 20
"""Memory that does not grow with the backlog: the head of the queue, buffers, the allocator's reserve."""
UNACKED_BYTES_EACH = 350
"""With its contents each would cost 200 more."""
QUEUES = 1_000
QUEUE_BYTES_EACH = 20_000
CONNECTIONS = 300
CONNECTION_BYTES_EACH = 100_000


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as node:
        yield node


def load(node: Node, **values: object) -> None:
    options = PerfOptions(
        uris=[f"amqp://guest:guest@127.0.0.1:{node.amqp_port}/%2F"], queue="q", durable=True
    )
    options.persistent = True
    for name, value in values.items():
        setattr(options, name, value)
    LoadRun(options).run()


def grown(node: Node, before: int) -> int:
    return node.resident_bytes() - before


def test_a_backlog_costs_a_few_bytes_a_message_and_survives_a_kill(node: Node) -> None:
    before = node.resident_bytes()
    load(node, mode="publish", messages=MESSAGES)
    assert grown(node, before) < HEAD_BYTES + MESSAGES * BACKLOG_BYTES_EACH
    full_bytes = journal_bytes(node)
    assert full_bytes < MESSAGES * 250 + (64 << 20), "a journal is little larger than what it holds"
    node.kill()
    node.boot()
    assert ready(node, "q") == MESSAGES
    assert node.resident_bytes() < before + HEAD_BYTES + MESSAGES * BACKLOG_BYTES_EACH
    load(node, mode="consume", messages=MESSAGES)
    assert ready(node, "q") == 0
    assert grown(node, before) < HEAD_BYTES + MESSAGES * BACKLOG_BYTES_EACH


def journal_bytes(node: Node) -> int:
    return sum(path.stat().st_size for path in node.segments())


def test_segments_are_freed_while_the_queue_is_in_use(node: Node) -> None:
    """Housekeeping does not wait for the queue to be empty."""
    load(node, mode="publish", messages=12_000, size=20_000)
    segments = len(node.segments())
    assert segments >= 4
    load(node, mode="consume", messages=10_000, size=20_000)
    until(lambda: len(node.segments()) <= segments - 2, f"{segments} segments are still there")
    assert 1_500 <= ready(node, "q") <= 2_000, "the load generator takes a few more than it was asked to"


def test_a_consumer_that_takes_a_backlog_without_acknowledging_it_costs_less_than_the_backlog(
    node: Node,
) -> None:
    load(node, mode="publish", messages=MESSAGES)
    before = node.resident_bytes()
    client = node.dial()
    wire, reader = Wire(client), Deliveries()
    wire.send(method_frame(1, methods.encode_basic_consume("q", "c", nowait=True)))
    tag = 0
    while tag < MESSAGES:
        for delivery in reader.feed(wire.read(5.0)):
            tag = delivery.tag
            assert len(delivery.body) == 100
    assert grown(node, before) < HEAD_BYTES + MESSAGES * UNACKED_BYTES_EACH
    wire.send(ack_frame(1, MESSAGES // 2, True))
    client.socket.close()
    until(lambda: ready(node, "q") == MESSAGES // 2, "the rest is requeued")
    again = node.dial()
    again.call(methods.encode_basic_qos(prefetch_count=1))
    wire, reader = Wire(again), Deliveries()
    wire.send(method_frame(1, methods.encode_basic_consume("q", "c", nowait=True)))
    found: list[Delivery] = []
    while not found:
        found += reader.feed(wire.read(5.0))
    assert (found[0].redelivered, len(found[0].body)) == (True, 100)


def test_many_queues(node: Node) -> None:
    before = node.resident_bytes()
    client = node.dial()
    for number in range(QUEUES):
        client.declare_queue(f"q{number}", durable=True)
    client.call(methods.encode_tx_select())
    body = b"x" * 100
    for number in range(QUEUES):
        client.socket.sendall(publish_frames(1, "", f"q{number}", body, persistent=True, frame_max=131072))
    client.call(methods.encode_tx_commit())
    assert grown(node, before) < HEAD_BYTES + QUEUES * QUEUE_BYTES_EACH
    for number in (signal.SIGKILL, signal.SIGTERM):
        node.kill() if number == signal.SIGKILL else node.end()
        node.boot()
        rows = [line.split() for line in node.control("list_queues", "name", "messages").splitlines()]
        assert [row for row in rows if row[0].startswith("q")] and {
            row[0] for row in rows if row[-1] == "1"
        } == {f"q{n}" for n in range(QUEUES)}


def test_many_connections_each_with_a_consumer(node: Node) -> None:
    before = node.resident_bytes()
    clients: list[BlockingClient] = []
    with selectors.DefaultSelector() as selector:
        for number in range(CONNECTIONS):
            client = node.dial()
            client.declare_queue(f"c{number}", durable=False, exclusive=True)
            client.socket.sendall(
                method_frame(1, methods.encode_basic_consume(f"c{number}", "c", nowait=True))
            )
            selector.register(client.socket, selectors.EVENT_READ, (number, Wire(client), Deliveries()))
            clients.append(client)
        for number in range(CONNECTIONS):
            body = b"%d:" % number
            key = f"c{(number + 1) % CONNECTIONS}"
            publisher = clients[(number + CONNECTIONS // 2) % CONNECTIONS]
            data = publish_frames(1, "", key, body, persistent=False, frame_max=131072)
            publisher.socket.sendall(data)
        got: dict[int, int] = {}
        deadline = time.monotonic() + 20
        while len(got) < CONNECTIONS:
            assert time.monotonic() < deadline, f"{len(got)} of {CONNECTIONS} consumers were served"
            for key_, _ in selector.select(1.0):
                number, wire, reader = key_.data
                for delivery in reader.feed(wire.read(1.0)):
                    got[number] = delivery.number
    assert got == {(number + 1) % CONNECTIONS: number for number in range(CONNECTIONS)}
    assert grown(node, before) < HEAD_BYTES + CONNECTIONS * CONNECTION_BYTES_EACH
    for client in clients:
        client.socket.close()
    probe = node.dial()
    until(lambda: node.control("list_connections", "pid").count("\n") <= 2, "closed connections are gone")
    probe.close()
