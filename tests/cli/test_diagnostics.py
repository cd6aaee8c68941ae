"""Diagnostic commands, and commands that open and close listeners, on a running node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from mirrormq.control.commands.diagnostics import os_env
from mirrormq.control.control_protocol import Request
from mirrormq.testing import Cluster
from tests.cli.test_live import CTL, ctl

FOR_S = 60.0


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "node.log"


@pytest.fixture(scope="module")
def node(log: Path) -> Iterator[Cluster]:
    settings = f"log.file = {log}\nlog.connection.level = info\n"
    with Cluster(nodes=1, conf=settings) as running:
        yield running


def connected(node: Cluster) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(node.uri()))


def test_suspended_listeners_refuse_new_clients_and_keep_connected_ones(node: Cluster) -> None:
    with connected(node) as inside:
        assert ctl("-q", "suspend_listeners")[0] == 0
        try:
            with pytest.raises(pika.exceptions.AMQPConnectionError):
                connected(node)
            inside.channel().queue_declare("meanwhile", exclusive=True)
            assert ctl("-q", "check_port_connectivity")[0] == 69
        finally:
            assert ctl("-q", "resume_listeners")[0] == 0
        connected(node).close()
        assert ctl("-q", "resume_listeners")[0] == 0


def test_a_node_in_maintenance_sends_its_clients_away(node: Cluster) -> None:
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed, connected(node) as inside:
        assert ctl("-q", "drain")[0] == 0
        try:
            with pytest.raises(pika.exceptions.AMQPConnectionError):
                connected(node)
            inside.channel()
        finally:
            assert ctl("-q", "revive")[0] == 0
    text = "CONNECTION_FORCED - Node was put into maintenance mode"
    assert (closed.value.reply_code, closed.value.reply_text) == (320, text)
    connected(node).close()


@pytest.mark.parametrize("how", ["start_app", "kill"])
def test_a_node_that_starts_again_is_out_of_maintenance(node: Cluster, how: str) -> None:
    """Check that a restart ends maintenance mode, as in RabbitMQ."""
    assert ctl("-q", "drain")[0] == 0
    assert "status: marked for maintenance" in ctl("-q", "cluster_status")[1]
    if how == "kill":
        node.kill(0)
        node.start(0)
    else:
        assert ctl("-q", "stop_app")[0] == 0
        assert ctl("-q", "start_app")[0] == 0
    connected(node).close()
    assert "status: not under maintenance" in ctl("-q", "cluster_status")[1]


def test_the_log_file_is_named_and_its_last_lines_are_printed(node: Cluster, log: Path) -> None:
    connected(node).close()
    assert ctl("-q", "log_location") == (0, f"{log}\n", "")
    deadline = time.monotonic() + FOR_S
    while "closing AMQP connection" not in (shown := ctl("-q", "log_tail", "-N", "1")[1]):
        assert time.monotonic() < deadline, shown
    assert shown == log.read_text().splitlines()[-1] + "\n"
    reported = json.loads(ctl("log_tail", "--number", "2", "--formatter", "json")[1])
    assert [row["message"] for row in reported] == log.read_text().splitlines()[-2:]


def streamed(node: Cluster, printed: Path, *words: str) -> list[str]:
    """Return the output of a command while clients connect and disconnect."""
    command = [sys.executable, "-c", CTL, "-q", *words, "--duration", "60"]
    with printed.open("w") as output, subprocess.Popen(command, stdout=output, env=os.environ) as stream:
        try:
            deadline = time.monotonic() + FOR_S
            while "\n" not in printed.read_text():
                assert time.monotonic() < deadline
                with connected(node) as connection:
                    channel = connection.channel()
                    channel.queue_declare("seen")
                    channel.queue_delete("seen")
                time.sleep(0.3)
        finally:
            stream.kill()
    return printed.read_text().splitlines()


def test_events_are_streamed_as_lines_of_json(node: Cluster, tmp_path: Path) -> None:
    first = json.loads(
        streamed(node, tmp_path / "events", "consume_event_stream", "--pattern", "^queue.created$")[0]
    )
    assert (first["event"], first["name"], first["vhost"]) == ("queue.created", "seen", "/")
    assert first["timestamp_in_ms"] > 0


def test_log_lines_are_streamed(node: Cluster, log: Path, tmp_path: Path) -> None:
    lines = streamed(node, tmp_path / "lines", "log_tail_stream")
    assert lines and set(lines) <= set(log.read_text().splitlines())


def test_logins_are_counted_until_they_are_reset(node: Cluster) -> None:
    assert ctl("-q", "reset_node_auth_attempt_metrics")[0] == 0
    connected(node).close()
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        pika.BlockingConnection(pika.URLParameters(node.uri().replace("guest:guest", "guest:wrong")))
    attempts = json.loads(ctl("list_node_auth_attempt_stats", "--formatter", "json")[1])["attempts"]
    assert attempts == [
        {
            "protocol": "amqp091",
            "auth_attempts": 2,
            "auth_attempts_failed": 1,
            "auth_attempts_succeeded": 1,
        }
    ]


def test_memory_is_divided_as_far_as_it_is_known(node: Cluster) -> None:
    with connected(node) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("heavy", exclusive=True)
        channel.basic_publish("", "heavy", bytes(1_000_000))
        found = json.loads(ctl("memory_breakdown", "--formatter", "json")[1])
    assert found["binary"]["bytes"] >= 1_000_000
    assert found["queue_procs"]["bytes"] > 0 and found["connection_channels"]["bytes"] > 0
    assert found["other_system"]["bytes"] > found["quorum_queue_procs"]["bytes"] == 0
    assert sum(part["percentage"] for part in found.values()) == pytest.approx(100, abs=0.1)


def test_secrets_among_variables_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRRORMQ_COOKIE", "do not tell")
    monkeypatch.setenv("MIRRORMQ_PLAIN", "tell")
    found = os_env(None, Request("os_env"))  # type: ignore[arg-type]
    assert (found["MIRRORMQ_COOKIE"], found["MIRRORMQ_PLAIN"]) == ("(not shown)", "tell")
