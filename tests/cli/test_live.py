"""Live objects of a running node in mirrormqctl, and commands that act on clients."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel

from mirrormq.testing import Cluster

CTL = "from mirrormq.cli.ctl import main; main()"


@pytest.fixture(scope="module")
def node() -> Iterator[Cluster]:
    with Cluster(nodes=1) as running:
        yield running


@pytest.fixture
def channel(node: Cluster) -> Iterator[BlockingChannel]:
    connection = pika.BlockingConnection(pika.URLParameters(node.uri()))
    yield connection.channel()
    if connection.is_open:
        connection.close()


def ctl(*words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", CTL, *words], capture_output=True, text=True, check=False, env=os.environ
    )
    return done.returncode, done.stdout, done.stderr


def rows(*words: str) -> list[dict[str, object]]:
    code, out, error = ctl(*words, "--formatter", "json")
    assert (code, error) == (0, "")
    found: list[dict[str, object]] = json.loads(out)
    return found


def test_counts_connections_channels_and_consumers_are_the_clients(
    node: Cluster, channel: BlockingChannel
) -> None:
    channel.queue_declare("live", exclusive=True)
    channel.basic_qos(prefetch_count=2)
    channel.confirm_delivery()
    for _ in range(5):
        channel.basic_publish("", "live", b"12345")
    channel.basic_consume("live", lambda *_: None, consumer_tag="tag", arguments={"x-priority": 5})
    (connection,) = rows("list_connections", "pid", "user", "state", "channels", "protocol", "timeout")
    assert connection | {"pid": ""} == {
        "pid": "",
        "user": "guest",
        "state": "running",
        "channels": 1,
        "protocol": [0, 9, 1],
        "timeout": 60,
    }
    (found,) = rows("list_channels", "connection", "number", "confirm", "consumer_count", "prefetch_count")
    assert found == {
        "connection": connection["pid"],
        "number": 1,
        "confirm": True,
        "consumer_count": 1,
        "prefetch_count": 2,
    }
    (consumer,) = rows("list_consumers", "queue_name", "consumer_tag", "ack_required", "arguments")
    assert list(consumer.values()) == ["live", "tag", True, [["x-priority", "signedint", 5]]]
    (queue,) = rows(
        "list_queues",
        *("messages_ready", "messages_unacknowledged", "message_bytes", "consumers", "owner_pid"),
    )
    assert list(queue.values()) == [3, 2, 25, 1, connection["pid"]]


def test_a_queue_in_use_is_spared_and_another_purged(node: Cluster, channel: BlockingChannel) -> None:
    channel.queue_declare("q")
    channel.confirm_delivery()
    channel.basic_publish("", "q", b"x")
    assert ctl("-q", "delete_queue", "q", "--if-empty") == (64, "", "Error:\nQueue is not empty\n")
    assert ctl("-q", "purge_queue", "q") == (0, "", "")
    channel.basic_consume("q", lambda *_: None)
    assert ctl("-q", "delete_queue", "q", "--if-unused") == (64, "", "Error:\nQueue is in use\n")
    assert ctl("-q", "delete_queue", "q")[0] == 0


def test_a_closed_connection_gets_the_reason(node: Cluster, channel: BlockingChannel) -> None:
    (row,) = rows("list_connections", "pid")
    assert ctl("-q", "close_connection", str(row["pid"]), "go away")[0] == 0
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        channel.queue_declare("never")
    assert (closed.value.reply_code, closed.value.reply_text) == (320, "CONNECTION_FORCED - go away")


def test_deleting_a_user_closes_its_connections(node: Cluster) -> None:
    for words in (("add_user", "eva", "pw"), ("set_permissions", "eva", ".*", ".*", ".*")):
        assert ctl("-q", *words)[0] == 0
    uri = node.uri().replace("guest:guest", "eva:pw")
    connection = pika.BlockingConnection(pika.URLParameters(uri))
    channel = connection.channel()
    assert ctl("-q", "delete_user", "eva")[0] == 0
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker):
        channel.queue_declare("never")


def test_status_shows_the_node_to_people_and_to_programs(node: Cluster) -> None:
    code, out, _ = ctl("status")
    assert code == 0
    assert f"Node name: {node.name()}" in out
    assert f"port: {node.port()}" in out
    assert json.loads(ctl("status", "--formatter", "json")[1])["rabbitmq_version"] == "3.10.8"


def test_the_watermark_set_here_blocks_publishers_and_frees_them(
    node: Cluster, channel: BlockingChannel
) -> None:
    blocked: list[str] = []
    channel.connection.add_on_connection_blocked_callback(lambda *_: blocked.append("blocked"))
    channel.connection.add_on_connection_unblocked_callback(lambda *_: blocked.append("unblocked"))
    channel.queue_declare("alarm")
    assert ctl("-q", "set_vm_memory_high_watermark", "absolute", "1")[0] == 0
    try:
        channel.basic_publish("", "alarm", b"x")
        _await_messages(channel, blocked, 1)
        assert blocked == ["blocked"]
    finally:
        assert ctl("-q", "set_vm_memory_high_watermark", "0.9")[0] == 0
    _await_messages(channel, blocked, 2)
    assert blocked == ["blocked", "unblocked"]


def _await_messages(channel: BlockingChannel, reported: list[str], count: int) -> None:
    """Wait until the expected messages have arrived."""
    deadline = time.monotonic() + 60
    while len(reported) < count:
        assert time.monotonic() < deadline, reported
        channel.connection.process_data_events(0.1)


def test_built_in_plugins_are_described(node: Cluster) -> None:
    code, out, _ = ctl("-q", "list", "--verbose", "^rabbitmq_random")
    first, version, dependencies, _ = out.splitlines()
    assert (code, first) == (0, "[E*] rabbitmq_random_exchange")
    assert (version, dependencies) == ("     Version:     \t3.10.8", "     Dependencies:\t[]")
