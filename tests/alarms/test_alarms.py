"""Memory and disk alarms: publishers are blocked and told, consumers go on, and it passes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pika
import pytest

from mirrormq.wire import methods
from tests.brokers.mirrormq import MirrorMQ
from tests.hostile.raw import RawClient, publish_bytes, ready_client
from tests.waiting import until

RAISE = {
    "low on memory": (["set_vm_memory_high_watermark", "0.0000001"], ["set_vm_memory_high_watermark", "0.9"]),
    "low on disk": (["set_disk_free_limit", "900000GB"], ["set_disk_free_limit", "1MB"]),
}
"""Reason → how to raise the alarm, how to clear it."""


HEARTBEAT_FRAME = b"\x08\x00\x00\x00\x00\x00\x00\xce"


@pytest.fixture(scope="module")
def node() -> Iterator[MirrorMQ]:
    with MirrorMQ(configuration="memory_monitor_interval = 200\n") as started:
        yield started


@pytest.fixture(autouse=True)
def cleared(node: MirrorMQ) -> Iterator[None]:
    """No alarm outlives its test."""
    yield
    for _, clear in RAISE.values():
        node.control(*clear)


@contextmanager
def beating(client: RawClient) -> Iterator[None]:
    """The client sends heartbeats meanwhile, whatever else it waits for."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(0.3):
            client.send(HEARTBEAT_FRAME)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def count(client: RawClient, queue: str) -> int:
    client.method(1, methods.encode_queue_declare(queue, passive=True))
    return int(client.expect("QueueDeclareOk").message_count)


@pytest.mark.parametrize("reason", RAISE)
def test_publishers_are_notified_blocked_and_unblocked(node: MirrorMQ, reason: str) -> None:
    raise_alarm, clear_alarm = RAISE[reason]
    reported: list[str] = []
    publisher = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.amqp_port))
    publisher.add_on_connection_blocked_callback(lambda _, frame: reported.append(frame.method.reason))
    publisher.add_on_connection_unblocked_callback(lambda _, frame: reported.append("unblocked"))
    channel = publisher.channel()
    channel.queue_declare("held")
    channel.basic_publish("", "held", b"before")
    with ready_client(node.amqp_port) as watcher:
        until(lambda: count(watcher, "held") == 1)
        node.control(*raise_alarm)
        channel.basic_publish("", "held", b"during")
        until(lambda: publisher.process_data_events(0.01) or reported)
        assert reported == [reason]
        assert "blocked" in node.control("list_connections", "state").splitlines()
        watcher.method(1, methods.encode_basic_get("held", no_ack=True))
        watcher.expect("BasicGetOk")
        assert count(watcher, "held") == 0, "what was published during the alarm waits"
        node.control(*clear_alarm)
        until(lambda: publisher.process_data_events(0.01) or reported == [reason, "unblocked"])
        until(lambda: count(watcher, "held") == 1)
        channel.basic_publish("", "held", b"after")
        until(lambda: count(watcher, "held") == 2)
        assert [channel.basic_get("held", auto_ack=True)[2] for _ in range(2)] == [b"during", b"after"]
    channel.queue_delete("held")
    publisher.close()


def test_consumers_go_on(node: MirrorMQ) -> None:
    """A backlog is consumed and acknowledged under an alarm, and new consumers may come."""
    with ready_client(node.amqp_port) as publisher, ready_client(node.amqp_port) as consumer:
        publisher.declare("consumed", durable=True)
        publisher.send(publish_bytes("consumed", b"m") * 5000)
        until(lambda: count(publisher, "consumed") == 5000)
        node.control(*RAISE["low on memory"][0])
        consumer.method(1, methods.encode_basic_qos(0, 100))
        consumer.expect("BasicQosOk")
        consumer.method(1, methods.encode_basic_consume("consumed", "c"))
        consumer.expect("BasicConsumeOk")
        for tag in range(1, 5001):
            consumer.expect("BasicDeliver")
            consumer.method(1, methods.encode_basic_ack(tag, False))
        consumer.method(1, methods.encode_queue_delete("consumed"))
        consumer.expect("QueueDeleteOk")


def test_a_connection_that_has_not_published_is_not_blocked(node: MirrorMQ) -> None:
    with ready_client(node.amqp_port) as client:
        client.declare("quiet", exclusive=True)
        node.control(*RAISE["low on disk"][0])
        for _ in range(3):
            assert count(client, "quiet") == 0, "no connection.blocked comes in between"
        assert "blocked" not in node.control("list_connections", "state").splitlines()


def test_the_first_publish_under_an_alarm_blocks(node: MirrorMQ) -> None:
    node.control(*RAISE["low on memory"][0])
    with ready_client(node.amqp_port) as client, ready_client(node.amqp_port) as watcher:
        watcher.declare("first", exclusive=False)
        client.send(publish_bytes("first", b"waits"))
        assert client.expect("ConnectionBlocked").reason == "low on memory"
        assert count(watcher, "first") == 0
        node.control(*RAISE["low on memory"][1])
        client.expect("ConnectionUnblocked")
        until(lambda: count(watcher, "first") == 1)
        watcher.method(1, methods.encode_queue_delete("first"))
        watcher.expect("QueueDeleteOk")


def test_one_of_two_alarms_cleared_is_not_enough(node: MirrorMQ) -> None:
    with ready_client(node.amqp_port) as client, ready_client(node.amqp_port) as watcher:
        watcher.declare("two", exclusive=False)
        client.send(publish_bytes("two", b"before"))
        until(lambda: count(watcher, "two") == 1)
        node.control(*RAISE["low on memory"][0])
        client.send(publish_bytes("two", b"during"))
        assert client.expect("ConnectionBlocked").reason == "low on memory"
        node.control(*RAISE["low on disk"][0])
        node.control(*RAISE["low on memory"][1])
        assert "blocked" in node.control("list_connections", "state").splitlines()
        assert count(watcher, "two") == 1
        node.control(*RAISE["low on disk"][1])
        until(lambda: count(watcher, "two") == 2)
        watcher.method(1, methods.encode_queue_delete("two"))
        watcher.expect("QueueDeleteOk")


def test_a_blocked_connection_keeps_its_heartbeat(node: MirrorMQ) -> None:
    """We go on sending heartbeats, and do not miss the client's, which wait unread behind its publishes."""
    with ready_client(node.amqp_port, heartbeat_s=1) as client, beating(client):
        client.send(publish_bytes("nowhere", b"x"))
        node.control(*RAISE["low on memory"][0])
        client.send(publish_bytes("nowhere", b"x"))
        client.expect("ConnectionBlocked")
        beats, started = 0, time.monotonic()
        while time.monotonic() - started < 5.0:
            kind, _, _ = client.frame()
            beats += kind == 8
        assert beats >= 5
        node.control(*RAISE["low on memory"][1])
        client.expect("ConnectionUnblocked")
        client.declare("alive", exclusive=True)


def test_a_blocked_connection_can_be_closed_by_the_operator(node: MirrorMQ) -> None:
    with ready_client(node.amqp_port) as client:
        node.control(*RAISE["low on memory"][0])
        client.send(publish_bytes("nowhere", b"x") * 100)
        client.expect("ConnectionBlocked")
        node.control("close_all_connections", "enough")
        assert client.expect("ConnectionClose").reply_code == 320


def test_memory_that_messages_take_raises_the_alarm_and_consuming_clears_it() -> None:
    """The real thing: 40 MB above what the node has now, reached by messages and left again without them."""
    with MirrorMQ(configuration="memory_monitor_interval = 100\n") as node:
        from tests.hostile.bystander import resident_bytes

        limit = resident_bytes(node.process_id) + 40 * 1024 * 1024
        node.control("set_vm_memory_high_watermark", "absolute", str(limit))
        with ready_client(node.amqp_port) as publisher, ready_client(node.amqp_port) as consumer:
            publisher.declare("heavy")
            body = publish_bytes("heavy", b"h" * 1_000_000)
            sent = 0
            publisher.socket.settimeout(3)
            with pytest.raises(TimeoutError):
                while sent < 2000:
                    publisher.send(body)
                    sent += 1
            most = resident_bytes(node.process_id)
            assert most < limit + 300 * 1024 * 1024, "publishing went on long after the alarm"
            consumer.method(1, methods.encode_queue_purge("heavy"))
            consumer.expect("QueuePurgeOk")
            publisher.socket.settimeout(20)
            publisher.expect("ConnectionBlocked")
            until(lambda: "blocked" not in node.control("list_connections", "state").splitlines())
