"""librabbitmq's command line tools: declare, publish, get, consume, delete."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

from tests.clients.support import WAIT_S, need_program, uri


class Tools:
    """Runs amqp-* against one broker."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __call__(self, tool: str, *arguments: str, body: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        program = need_program(f"amqp-{tool}", "amqp-tools")
        return subprocess.run(
            [program, f"--url={self._address}", *arguments],
            input=body,
            capture_output=True,
            timeout=WAIT_S,
            check=False,
        )


@pytest.fixture
def tools(broker: Any) -> Tools:
    """The tools, pointed at the broker."""
    return Tools(uri(broker))


@pytest.fixture
def declared(tools: Tools, name: str) -> str:
    """A durable queue made by amqp-declare-queue."""
    done = tools("declare-queue", f"--queue={name}", "--durable")
    assert (done.returncode, done.stdout.decode().strip()) == (0, name), done.stderr
    return name


def test_a_message_goes_in_and_comes_out(tools: Tools, declared: str) -> None:
    body = os.urandom(300_000)
    sent = tools(
        "publish", f"--routing-key={declared}", "--persistent", "--content-type=text/plain", body=body
    )
    assert (sent.returncode, sent.stderr) == (0, b"")
    got = tools("get", f"--queue={declared}")
    assert (got.returncode, got.stdout) == (0, body)
    assert tools("get", f"--queue={declared}").returncode == 2, "an empty queue is exit code 2"
    assert tools("delete-queue", f"--queue={declared}").stdout.strip() == b"0"


def test_lines_become_messages_and_are_consumed_by_a_command(tools: Tools, declared: str) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(10))
    assert tools("publish", f"--routing-key={declared}", "--line-buffered", body=lines).returncode == 0
    consumed = tools("consume", f"--queue={declared}", "--count=10", "--prefetch-count=3", "cat")
    assert consumed.stdout == lines
    assert tools("delete-queue", f"--queue={declared}").stdout.strip() == b"0", (
        "every message was acknowledged"
    )


def test_consume_binds_a_queue_of_its_own(tools: Tools, broker: Any, name: str) -> None:
    program = need_program("amqp-consume", "amqp-tools")
    command = [
        program,
        f"--url={uri(broker)}",
        "--exchange=amq.topic",
        f"--routing-key={name}.#",
        "--count=1",
        "cat",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as consumer:
        assert consumer.stderr is not None and consumer.stdout is not None
        assert b"Server provided queue name: amq.gen-" in consumer.stderr.readline()
        # The name is printed before the queue is bound, so the first publishes may go nowhere.
        while consumer.poll() is None:
            tools("publish", "--exchange=amq.topic", f"--routing-key={name}.a", "--body=hello")
        assert consumer.stdout.read() == b"hello"


def test_a_queue_in_use_is_not_deleted_when_it_must_be_empty(tools: Tools, declared: str) -> None:
    tools("publish", f"--routing-key={declared}", "--body=x")
    refused = tools("delete-queue", f"--queue={declared}", "--if-empty")
    assert refused.returncode == 1
    assert f"PRECONDITION_FAILED - queue '{declared}' in vhost '/' not empty" in refused.stderr.decode()
    assert tools("delete-queue", f"--queue={declared}").stdout.strip() == b"1"


def test_an_error_is_reported_with_the_text_of_the_broker(tools: Tools, name: str) -> None:
    missing = tools("get", f"--queue={name}")
    assert missing.returncode == 1
    assert f"NOT_FOUND - no queue '{name}' in vhost '/'" in missing.stderr.decode()
