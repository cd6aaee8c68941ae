"""Publisher and consumer behind HAProxy while the node that serves them is killed, frozen and drained."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from mirrormq.testing import Cluster
from mirrormq.wire import methods
from tests.brokers.ports import free_ports
from tests.cli.test_balancing import configured, haproxy
from tests.management.http import Client
from tests.migration_processes.load import LoadConsumer, LoadPublisher, connect, judge
from tests.waiting import until

QUEUE = "work"
RATE = 200.0
"""Messages per second."""
PROGRESS = 100
"""Messages that must pass while a node is out of service."""
PATIENCE_S = 90.0
"""Failover of a frozen node takes seconds; the machine may be busy with other tests."""


class Fault(NamedTuple):
    """Way in which a node leaves, and comes back."""

    name: str
    strike: Callable[[Cluster, int], object]
    heal: Callable[[Cluster, int], object]


FAULTS = (
    Fault("kill -9", Cluster.kill, Cluster.start),
    Fault("SIGSTOP", Cluster.freeze, Cluster.thaw),
    Fault(
        "drain",
        lambda cluster, node: cluster.ctl("drain", node=node),
        lambda cluster, node: cluster.ctl("revive", node=node),
    ),
)


class Load:
    """Both clients, and what they have done."""

    def __init__(self, port: int) -> None:
        self.publisher, self.consumer = LoadPublisher(port, "%2F", 0, RATE), LoadConsumer(port, "%2F", QUEUE)
        for worker in (self.publisher, self.consumer):
            worker.start()

    @property
    def refused(self) -> int:
        """Attempts to connect that failed."""
        return self.publisher.refused + self.consumer.refused

    def goes_on(self) -> None:
        """Wait until messages are confirmed and delivered that were not before."""
        confirmed, seen = self.publisher.confirmed, len(self.consumer.seen)
        until(lambda: self.publisher.confirmed >= confirmed + PROGRESS, "confirms", PATIENCE_S)
        until(lambda: len(self.consumer.seen) >= seen + PROGRESS, "deliveries", PATIENCE_S)

    def end(self) -> None:
        """Publish no more, and consume the rest."""
        self.publisher.enough.set()
        self.publisher.join()
        wanted = self.publisher.published
        until(lambda: len({each.number for each in self.consumer.seen}) >= wanted, "the rest", PATIENCE_S)
        self.consumer.stopping.set()
        self.consumer.join()


def serving(cluster: Cluster, api: Client) -> int:
    """Return the number of a node that serves one of the clients."""
    names = [cluster.name(number) for number in range(3)]
    rows = api.get("connections")
    return next(names.index(row["node"]) for row in rows if row["client_properties"]["product"] == "load")


def synchronised(api: Client) -> bool:
    """Report whether both mirrors are complete. The proxy may send the request to a node that starts."""
    try:
        answer = api.request("GET", f"queues/%2F/{QUEUE}")
    except OSError:
        return False
    return answer.status == 200 and len(answer.json.get("synchronised_slave_nodes", ())) == 2


def test_no_confirmed_message_is_lost_behind_a_proxy(tmp_path: Path) -> None:
    port, management_port = free_ports(2)
    with Cluster(nodes=3, mirror_all=True) as cluster:
        with connect(cluster.port(0), "%2F") as client:
            client.call(methods.encode_exchange_declare("orders", "topic", durable=True))
            client.call(methods.encode_queue_declare(QUEUE, durable=True))
            client.call(methods.encode_queue_bind(QUEUE, "orders", "#"))
        text = configured(cluster, port, management_port, "--lua", str(tmp_path / "nodes.lua"))
        with haproxy(text, port, tmp_path):
            load, api = Load(port), Client(management_port)
            load.goes_on()
            figures = {fault.name: endured(cluster, api, load, fault) for fault in FAULTS}
            load.end()
    found = judge(load.consumer.seen, {0: load.publisher.published})
    assert (found.lost, found.unflagged, found.wrong_address) == ([], [], 0)
    counts = {
        "published": load.publisher.published,
        "attempts to connect that failed": load.refused,
        "resent": load.publisher.resent,
        "duplicates, all flagged": found.duplicates,
    }
    print("\n" + json.dumps({"seconds until messages pass again": figures, **counts}, indent=1))


def endured(cluster: Cluster, api: Client, load: Load, fault: Fault) -> float:
    """Strike a node that serves a client, and let it come back; return the time until messages pass."""
    node = serving(cluster, api)
    before, refused = load.publisher.connections + load.consumer.connections, load.refused
    began_s = time.monotonic()
    fault.strike(cluster, node)
    until(
        lambda: load.publisher.connections + load.consumer.connections > before,
        f"a client that connects again after {fault.name}",
        PATIENCE_S,
    )
    load.goes_on()
    took_s = time.monotonic() - began_s
    assert load.refused == refused, f"{fault.name}: a client was refused"
    fault.heal(cluster, node)
    until(lambda: synchronised(api), f"mirrors after {fault.name}", PATIENCE_S)
    return round(took_s, 1)
