"""Compatibility with Celery's Flower, which lists the broker's queues over the management API."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.ports import free_ports

START_DEADLINE_S = 60.0
MESSAGES = 4


@pytest.fixture(scope="module")
def flower(node: MirrorMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a running Flower."""
    (port,) = free_ports(1)
    output = tmp_path_factory.mktemp("flower") / "output"
    with output.open("wb") as file:
        process = subprocess.Popen(
            [
                sys.executable, "-m", "celery", f"--broker=amqp://guest:guest@127.0.0.1:{node.amqp_port}//",
                "flower", f"--broker-api=http://guest:guest@127.0.0.1:{node.management_port}/api/",
                "--address=127.0.0.1", f"--port={port}",
            ],
            env=os.environ | {"FLOWER_UNAUTHENTICATED_API": "true"},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            cwd=output.parent,
        )  # fmt: skip
    try:
        _await(f"http://127.0.0.1:{port}/", process, output)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _await(address: str, process: subprocess.Popen[bytes], output: Path) -> None:
    deadline = time.monotonic() + START_DEADLINE_S
    while True:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except OSError:
            assert process.poll() is None and time.monotonic() < deadline, output.read_text()
            time.sleep(0.1)


def _seen(address: str) -> Any:
    with urllib.request.urlopen(address, timeout=30) as answer:
        return answer.read().decode()


def test_flower_shows_the_queue_and_its_messages(node: MirrorMQ, flower: str) -> None:
    parameters = pika.ConnectionParameters("127.0.0.1", node.amqp_port)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("celery", durable=True)
        for _ in range(MESSAGES):
            channel.basic_publish("", "celery", b"{}")
    deadline = time.monotonic() + START_DEADLINE_S
    while True:
        (queue,) = json.loads(_seen(f"{flower}/api/queues/length"))["active_queues"]
        if (queue["name"], queue["messages"]) == ("celery", MESSAGES):
            break
        assert time.monotonic() < deadline, queue
        time.sleep(0.2)
    page = _seen(f"{flower}/broker")
    assert "celery" in page and str(MESSAGES) in page
