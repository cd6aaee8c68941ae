"""Listing benchmark: delivery gaps of a loaded queue while ten thousand other queues are listed.

    python -m benchmarks.listing [--queues 10000] [--seconds 4] [--rounds 3]

A publisher sends at full speed, a consumer records the longest time between two reads of its socket. A
separate process repeats each kind of listing for the given seconds. Clients and node share the machine: the
first row has the longest gap without any listing, and the best of several rounds counts, because delays by
the node itself occur every time. The exit code is 1 if a gap is too long.
"""

from __future__ import annotations

import argparse
import base64
import os
import statistics
import subprocess
import sys
import threading
import time

import msgspec
from rich.console import Console
from rich.table import Table

from mirrormq.client_io.blocking_client import connect
from mirrormq.config.settings_loader import default_runtime_directory
from mirrormq.control import control_client
from mirrormq.control.control_protocol import Request
from mirrormq.testing import Cluster
from mirrormq.wire import methods

QUEUE = "loaded"
GAP_MS_MAX = 50.0
"""Longest delivery gap that a listing may cause."""
BODY_BYTES = 100
READ_BYTES = 1 << 18

GUEST = base64.b64encode(b"guest:guest").decode()
BY_HTTP = f"""
import sys, urllib.request
while True:
    asked = urllib.request.Request(sys.argv[1], headers={{"Authorization": "Basic {GUEST}"}})
    with urllib.request.urlopen(asked) as answer:
        while answer.read(1 << 16):
            pass
"""
BY_CTL = """
import io, sys
from contextlib import redirect_stdout
from mirrormq.cli import ctl
while True:
    with redirect_stdout(io.StringIO()):
        assert ctl.run(sys.argv[1:]) == 0
"""


class Deliveries(threading.Thread):
    """Consumer that only reads."""

    def __init__(self, uri: str) -> None:
        super().__init__(daemon=True)
        self._client = connect(uri, 60)
        self._client.declare_queue(QUEUE, durable=False)
        consume = methods.encode_basic_consume(QUEUE, "watch", no_ack=True)
        self._client.call(consume)
        self.longest_s = 0.0
        self.bytes = 0
        self.over = False

    def run(self) -> None:
        read, last = self._client.socket.recv, time.monotonic()
        while not self.over:
            self.bytes += len(read(READ_BYTES))
            now = time.monotonic()
            self.longest_s = max(self.longest_s, now - last)
            last = now

    def gap_ms(self, seconds: float) -> float:
        """Return the longest time between two reads during the next seconds."""
        self.longest_s = 0.0
        time.sleep(seconds)
        return self.longest_s * 1000


def declare(count: int) -> None:
    """Declare all queues at once, over the control socket."""
    queues = [
        {"name": f"q{number}", "vhost": "/", "durable": False, "auto_delete": False, "arguments": {}}
        for number in range(count)
    ]
    request = Request("import_definitions", [msgspec.json.encode({"queues": queues}).decode()])
    control_client.call(default_runtime_directory(os.environ), "mirror1@localhost", request, 120)


def listings(management_port: int) -> dict[str, list[str]]:
    """Return the command of each kind of listing."""
    api = f"http://127.0.0.1:{management_port}/api"
    ways = {
        "a page of 100, by name": [BY_HTTP, f"{api}/queues?page=3&page_size=100"],
        "a page of 100, sorted by messages": [BY_HTTP, f"{api}/queues?page=1&page_size=100&sort=messages"],
        "all, over HTTP": [BY_HTTP, f"{api}/queues"],
        "all, sorted, over HTTP": [BY_HTTP, f"{api}/queues?sort=messages"],
        "mirrormqctl list_queues": [BY_CTL, "-q", "list_queues"],
        "mirrormqctl list_queues, 12 columns": [
            BY_CTL, "-q", "list_queues", "name", "pid", "policy", "state", "messages", "consumers", "memory",
            "messages_ram", "slave_pids", "arguments", "message_bytes", "consumer_utilisation",
        ],
        "/metrics/per-object": [BY_HTTP, f"http://127.0.0.1:{management_port}/metrics/per-object"],
    }  # fmt: skip
    return {name: [sys.executable, "-c", *words] for name, words in ways.items()}


def gap_beside(command: list[str] | None, deliveries: Deliveries, seconds: float) -> float:
    """Return the longest gap while a process lists."""
    if command is None:
        return deliveries.gap_ms(seconds)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as asking:
        try:
            time.sleep(1.0)
            gap = deliveries.gap_ms(seconds)
            assert asking.poll() is None, f"{command} has ended"
        finally:
            asking.kill()
    return gap


def load(uri: str) -> subprocess.Popen[bytes]:
    """Start a publisher at full speed, in a separate process."""
    words = ["perf", "--mode", "publish", "--uri", uri, "--queue", QUEUE, "--size", str(BODY_BYTES)]
    words += ["--duration", "3600"]
    command = [sys.executable, "-c", "from mirrormq.cli.main import main; main()", *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.listing", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--queues", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    table = Table("listing", "longest gap in each round (ms)", "best", "MB/s delivered", "kept")
    broken = False
    with Cluster(nodes=1) as node:
        declare(options.queues)
        deliveries = Deliveries(node.uri())
        deliveries.start()
        publishing = load(node.uri())
        time.sleep(2.0)
        ways: dict[str, list[str] | None] = {"none": None, **listings(node.management_port())}
        for name, command in ways.items():
            gaps, rates = [], []
            for _ in range(options.rounds):
                before, begin = deliveries.bytes, time.monotonic()
                gaps.append(gap_beside(command, deliveries, options.seconds))
                rates.append((deliveries.bytes - before) / (time.monotonic() - begin))
            kept = min(gaps) < GAP_MS_MAX
            broken |= not kept
            table.add_row(
                name, ", ".join(f"{gap:.0f}" for gap in gaps), f"{min(gaps):.0f}",
                f"{statistics.median(rates) / 1e6:.1f}", "yes" if kept else "NO",
            )  # fmt: skip
        deliveries.over = True
        publishing.kill()
        publishing.wait()
    Console().print(table)
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
