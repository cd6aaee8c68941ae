"""Scene in an own network and mount namespace: nodes that find each other by DNS, as pods of a headless
service do. Each node has its own address and the usual ports. Run by test_dns.py with `unshare`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.discovery.dns_server import DnsServer
from tests.waiting import until

SERVICE = "nodes.mq.test"

CTL = (sys.executable, "-c", "from mirrormq.cli.ctl import main; main()")


class Node:
    """Node process with the address 127.0.0.N."""

    def __init__(self, directory: Path, number: int, settings: str) -> None:
        self.address = f"127.0.0.{number + 1}"
        self.host = f"n-{number - 1}.mq.test"
        self.name = f"mirror@{self.host}"
        self.log = directory / f"n{number}.out"
        conf = directory / "nodes.conf"
        conf.write_text(settings)
        command = [sys.executable, "-m", "mirrormq", "server", "--name", self.name]
        command += ["--data", str(directory / f"n{number}"), "--conf", str(conf)]
        command += ["--amqp", f"{self.address}:5672", "--management", "none"]
        command += ["--cluster", f"{self.address}:25672"]
        environment = {
            **os.environ,
            "MIRRORMQ_COOKIE": "scene",
            "MIRRORMQ_RUNTIME_DIR": str(directory / "run"),
        }
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=out, env=environment)

    def ctl(self, *words: str) -> str:
        command = [*CTL, "-q", "-n", self.name, *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout

    def members(self) -> list[str]:
        """Return the members of the node's cluster; empty while it serves no clients."""
        found = self.ctl("cluster_status", "--formatter", "json")
        return sorted(json.loads(found)["running_nodes"]) if found.startswith("{") else []

    def wait_for(self, count: int) -> None:
        until(
            lambda: len(self.members()) == count,
            lambda: f"{self.name} has {count} running members: {self.members()}\n{self.log.read_text()}",
        )


def run(directory: Path) -> None:
    """Form a cluster of two, scale it up to three, and down to two."""
    dns = DnsServer("127.0.0.1", {})
    os.environ["MIRRORMQ_RUNTIME_DIR"] = str(directory / "run")
    settings = f"""cluster_formation.peer_discovery_backend = dns
cluster_formation.dns.hostname = {SERVICE}
cluster_formation.target_cluster_size_hint = 3
cluster_formation.node_cleanup.interval = 1
cluster_formation.node_cleanup.only_log_warning = false
cluster_partition_handling = autoheal
"""
    nodes: list[Node] = []
    try:
        scale(directory, dns, settings, nodes)
    finally:
        for node in nodes:
            node.process.terminate()
    assert [node.process.wait(60) for node in nodes] == [0] * len(nodes)
    print("done")


def scale(directory: Path, dns: DnsServer, settings: str, nodes: list[Node]) -> None:
    """Start and stop nodes; `nodes` holds all that were started."""

    def start(number: int) -> Node:
        nodes.append(Node(directory, number, settings))
        return nodes[-1]

    second = start(2)
    # The second node alone: it is not a majority, so it must not create a cluster.
    publish(dns, second)
    until(lambda: "waits for a cluster to join" in second.log.read_text(), "the second node waits")
    first = start(1)
    publish(dns, first, second)
    first.wait_for(2)
    second.wait_for(2)
    peers = first.ctl("discover_peers").split()
    assert peers[-2:] == [first.name, second.name], peers
    third = start(3)
    publish(dns, first, second, third)
    for node in (first, second, third):
        node.wait_for(3)
    # A stopped node that DNS still shows stays a member: it may come back.
    third.process.terminate()
    assert third.process.wait(60) == 0
    first.wait_for(2)
    third = start(3)
    third.wait_for(3)
    # A stopped node of the target size stays a member, also where DNS does not show it.
    third.process.terminate()
    assert third.process.wait(60) == 0
    publish(dns, first, second)
    until(lambda: "peer discovery does not show it" in first.log.read_text(), "the log names the third node")
    assert third.name in first.ctl("cluster_status", "--formatter", "json")
    # Scaling down is a smaller target size, without a restart.
    (directory / "nodes.conf").write_text(settings.replace("size_hint = 3", "size_hint = 2"))
    until(
        lambda: third.name not in first.ctl("cluster_status", "--formatter", "json"),
        "the node that DNS does not show is removed",
    )


def publish(dns: DnsServer, *nodes: Node) -> None:
    """Publish the service with these nodes. Host names of nodes that have left still resolve."""
    dns.records |= {node.host: [node.address] for node in nodes}
    dns.records[SERVICE] = [node.address for node in nodes]


if __name__ == "__main__":
    run(Path(sys.argv[1]))
