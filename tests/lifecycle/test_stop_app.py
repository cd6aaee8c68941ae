"""The part of a node that serves clients is stopped and started again inside its process."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pika.exceptions
import pytest

from mirrormq.testing import Cluster
from tests.cli.support import run_ctl

REFUSED = (
    "Error: this command requires the 'rabbit' app to be running on the target node. "
    "Start it with 'mirrormqctl start_app'."
)


@pytest.fixture
def node() -> Iterator[Cluster]:
    with Cluster(nodes=1) as running:
        yield running


def connect(node: Cluster) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(node.uri()))


def open_files(node: Cluster) -> list[str]:
    """Return the files that the process has open in its data directory."""
    process = Path(f"/proc/{node.local.nodes[0].pid}/fd")
    targets = [os.readlink(entry) for entry in process.iterdir() if entry.is_symlink()]
    return sorted(target for target in targets if str(node.directory) in target and "/log/" not in target)


def test_stopped_it_closes_clients_and_files_and_started_it_has_everything_again(node: Cluster) -> None:
    connection = connect(node)
    channel = connection.channel()
    channel.queue_declare("kept", durable=True)
    channel.queue_declare("passing")
    channel.confirm_delivery()
    persistent = pika.BasicProperties(delivery_mode=2)
    for number in range(10):
        channel.basic_publish("", "kept", b"%d" % number, persistent)
    process_id = node.local.nodes[0].pid

    assert run_ctl("stop_app") == (0, "Stopping rabbit application on node mirror1@localhost ...\n", "")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(5)
    assert closed.value.args == (
        320,
        "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'",
    )
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connect(node)
    assert not [path for path in open_files(node) if "/journal/" in path]

    assert run_ctl("start_app") == (0, "Starting node mirror1@localhost ...\n", "")
    assert node.local.nodes[0].pid == process_id
    channel = connect(node).channel()
    assert channel.queue_declare("kept", passive=True).method.message_count == 10
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no queue 'passing'"):
        channel.queue_declare("passing", passive=True)


def test_stopping_twice_and_starting_twice_is_no_error(node: Cluster) -> None:
    for verb in ("stop_app", "stop_app", "start_app", "start_app"):
        assert run_ctl(verb, "-q") == (0, "", "")
    connect(node).close()


def test_a_stopped_application_refuses_commands_that_need_it_and_answers_others(node: Cluster) -> None:
    assert run_ctl("-q", "stop_app")[0] == 0
    for words in (["list_users"], ["status"], ["list_queues", "name"], ["set_policy", "a", "b", "{}"]):
        code, out, error = run_ctl(*words)
        assert (code, out, error.splitlines()[0]) == (64, "", REFUSED)
        assert error.splitlines()[1:3] == ["Arguments given:", f"\t{' '.join(words)}"]
    assert run_ctl("-q", "ping")[0] == 0
    assert run_ctl("await_startup", "-t", "2") == (69, "", "Error:\nrabbit_is_not_running\n")
    assert run_ctl("shutdown")[0] == 0


def test_many_restarts_of_the_application_leave_nothing_open(node: Cluster) -> None:
    counts = []
    for _ in range(4):
        connection = connect(node)
        connection.channel().queue_declare("again", durable=True)
        connection.close()
        assert run_ctl("-q", "stop_app")[0] == 0
        assert run_ctl("-q", "start_app")[0] == 0
        counts.append(len(list(Path(f"/proc/{node.local.nodes[0].pid}/fd").iterdir())))
    assert max(counts) <= counts[0] + 1, counts


def test_a_port_that_was_taken_meanwhile_is_named_and_the_next_try_succeeds(node: Cluster) -> None:
    assert run_ctl("-q", "stop_app")[0] == 0
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", node.port()))
        squatter.listen()
        code, _, error = run_ctl("-q", "start_app")
        assert code == 69
        assert f"Cannot listen on 127.0.0.1:{node.port()}" in error
        assert run_ctl("-q", "list_users")[0] == 64
    assert run_ctl("-q", "start_app")[0] == 0
    connect(node).close()


def test_a_client_that_does_not_answer_does_not_hold_up_the_stop(node: Cluster) -> None:
    connection = connect(node)
    began = time.monotonic()
    assert run_ctl("-q", "stop_app")[0] == 0
    assert time.monotonic() - began < 10
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connection.channel()
