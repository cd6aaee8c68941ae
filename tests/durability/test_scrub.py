"""`mirrormqctl scrub` on a real node: it verifies the sealed segments, and shows what it found."""

from __future__ import annotations

import json
import subprocess
import urllib.request

from tests.brokers.mirrormq import PROGRAMS
from tests.durability.node import Node
from tests.durability.test_damage import declare, find_message, flip
from tests.durability.traffic import publish_all
from tests.waiting import until

COUNT = 300


def scrub(node: Node, *words: str) -> dict[str, object]:
    command = [str(PROGRAMS / "mirrormqctl"), "-n", node.node_name, "--formatter", "json", "scrub", *words]
    done = subprocess.run(command, env=node.environment(), capture_output=True, text=True, check=True)
    [row] = json.loads(done.stdout)
    return dict(row)


def metric(node: Node, name: str) -> float:
    url = f"http://127.0.0.1:{node.management_port}/metrics"
    with urllib.request.urlopen(url, timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    [value] = [line.split()[1] for line in lines if line.startswith(f"mirrormq_scrub_{name} ")]
    return float(value)


def test_an_operator_has_the_journal_verified() -> None:
    with Node("scrub.rate_bytes_per_second = 10000000\n") as node:
        declare(node, "q")
        publish_all(node, "q", COUNT)
        node.end()
        path, at = find_message(node, 150)
        flip(path, at + 50)
        node.boot()
        assert scrub(node, "--status")["passes"] == 0
        assert scrub(node)["state"] == "running"
        until(lambda: scrub(node, "--status")["passes"] == 1, "the pass ends")
        row = scrub(node, "--status")
        assert row["state"] == "idle" and row["segments_done"] == row["segments_total"] != 0
        assert row["bytes_done"] == row["bytes_total"] != 0
        assert (row["damaged_found"], row["damaged_repaired"], row["damaged_messages"]) == (1, 0, 1)
        assert (metric(node, "passes_total"), metric(node, "damaged_messages")) == (1, 1)
        until(lambda: "have no good copy" in node.output, "the log names the queue")
        assert "1 damaged spans" in node.output
