"""Recorder of RabbitMQ's tools on a node with an alarm, as JSON and as Erlang terms.

    python -m tests.cli.facts_scene

records it from a RabbitMQ that it starts.
"""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path

from tests.brokers.rabbitmq import RabbitMQ, script_directory
from tests.waiting import until

RECORDED = Path(__file__).parent / "transcripts" / "facts.json"
TOOLS = {"listeners": "rabbitmq-diagnostics", "cluster_status": "rabbitmqctl"}
MACHINE = "vm"
NODE, PORTS = "rabbit10001@localhost", ("10001", "10002", "10003")
"""Replacements of names and ports, of equal length so that lines break at the same places."""


def record() -> dict[str, str]:
    """Record the output by command and formatter."""
    with RabbitMQ() as broker:
        ask(broker, "rabbitmqctl", "set_vm_memory_high_watermark", "0.0000001")
        until(lambda: "resource_limit" in ask(broker, "rabbitmqctl", "cluster_status", "--formatter", "json"))
        found = {
            f"{verb} {formatter}": ask(broker, tool, verb, "--formatter", formatter)
            for verb, tool in TOOLS.items()
            for formatter in ("json", "erlang")
        }
        distribution = next(
            row["port"]
            for row in json.loads(found["listeners json"])["listeners"]
            if row["protocol"] == "clustering"
        )
        ports = (str(broker.amqp_port), str(broker.management_port), str(distribution))
        return {name: _plain(text, broker.node_name, ports) for name, text in found.items()}


def ask(broker: RabbitMQ, tool: str, *words: str) -> str:
    scripts = script_directory()
    assert scripts is not None
    return subprocess.run(
        [str(scripts / tool), "-q", *words],
        env=broker.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip("\n")


def _plain(text: str, node: str, ports: tuple[str, ...]) -> str:
    text = text.replace(f"{node.partition('@')[0]}@", f"{NODE.partition('@')[0]}@")
    machine = socket.gethostname().partition(".")[0]
    text = text.replace(f"@{machine}", f"@{MACHINE}").replace(f'"{machine}"', f'"{MACHINE}"')
    for port, shown in zip(ports, PORTS, strict=True):
        text = text.replace(port, shown)
    return text


if __name__ == "__main__":
    RECORDED.write_text(json.dumps(record(), indent=1, sort_keys=True) + "\n")
