"""Takeover of many masters at once: how long the queues of a killed node confirm nothing, and the longest gap
in the confirms of a queue that had no replica there."""

from __future__ import annotations

import json
import signal
import sys
import time

from benchmarks.clusters import MIRROR_ALL, Cluster
from benchmarks.load_generators import answer, spawn
from mirrormq.client.client_events import Confirm
from mirrormq.client.publisher_confirms import UnconfirmedMessages
from mirrormq.client_io.blocking_client import BlockingClient, connect
from mirrormq.wire import methods
from mirrormq.wire.properties import BasicProperties, encode_properties

TAKEOVER_QUEUES = 1_000
BYSTANDER = "takeover-bystander"
"""Queue and policy of the queue without a replica on the killed node."""
BYSTANDER_RATE = 1_000
LOAD_BEFORE_KILL_S, LOAD_S = 3.0, 8.0
"""A load generator warms up for one second of its own before the gaps count."""
DEADLINE_S = 120.0
POLL_S = 0.1
BODY = b"x" * 100
PERSISTENT = encode_properties(BasicProperties(delivery_mode=2))


class Prober:
    """Publisher that measures how long each queue takes to confirm a message."""

    def __init__(self, uri: str) -> None:
        self._client = connect(uri, DEADLINE_S)
        self._client.call(methods.encode_confirm_select())
        self._unconfirmed = UnconfirmedMessages[str]()

    def longest_s(self, queues: list[str]) -> float:
        """Publish one message to each queue at once; return the time until every queue has confirmed one. A
        message that the broker rejects is published again."""
        began_s = time.monotonic()
        self._publish(queues)
        while len(self._unconfirmed):
            event = self._client.receive(DEADLINE_S)
            if isinstance(event, Confirm):
                settled = self._unconfirmed.settle(event.delivery_tag, event.multiple)
                if not event.accepted:
                    self._publish(settled)
        return time.monotonic() - began_s

    def _publish(self, queues: list[str]) -> None:
        for queue in queues:
            self._unconfirmed.add(queue)
            self._client.channel.publish("", queue, PERSISTENT, BODY)
        self._client.flush()

    def close(self) -> None:
        self._client.close()


def takeover_of(cluster: Cluster, count: int, kind: str) -> dict[str, float]:
    """Kill the node with the masters of `count` mirrored queues. Return `gap`, the milliseconds from the kill
    until each queue has confirmed a message that a client of another node published right after it, and
    `bystander`, the longest gap in confirms of a queue that is mirrored on the other two nodes."""
    queues = [f"takeover-{number:04}" for number in range(count)]
    with connect(cluster.uri(0), DEADLINE_S) as client:
        for queue in queues:
            client.declare_queue(queue, durable=True, kind=kind)
    survivors = json.dumps(
        {**MIRROR_ALL, "ha-mode": "nodes", "ha-params": [cluster.node(1), cluster.node(2)]}
    )
    options = ("--apply-to", "queues", "--priority", "1")
    cluster.control("set_policy", BYSTANDER, f"^{BYSTANDER}$", survivors, *options)
    with connect(cluster.uri(1), DEADLINE_S) as client:
        client.declare_queue(BYSTANDER, durable=True, kind=kind)
    prober = Prober(cluster.uri(1))
    try:
        _wait_until_mirrored(cluster, {**dict.fromkeys(queues, 2), BYSTANDER: 1})
        prober.longest_s(queues)
        load = spawn(load_command(cluster.uri(1)))
        try:
            time.sleep(LOAD_BEFORE_KILL_S)
            cluster.signal(0, signal.SIGKILL)
            gap_s = prober.longest_s(queues)
            return {"gap": gap_s * 1000, "bystander": answer(cluster, load)["longest_confirm_gap_ms"]}
        finally:
            load.kill()
    finally:
        prober.close()
        cluster.restart(0)
        with connect(cluster.uri(1), DEADLINE_S) as client:
            _delete(client, [*queues, BYSTANDER])
        cluster.control("clear_policy", BYSTANDER)


def load_command(uri: str) -> list[str]:
    """Return the command of a publisher at a steady rate whose client is at the queue's master."""
    queue = ("--queue", BYSTANDER, "--durable", "--persistent")
    pace = ("--mode", "publish", "--rate", str(BYSTANDER_RATE), "--duration", str(LOAD_S))
    return [sys.executable, "-m", "mirrormq.perf", "--uri", uri, "--json", *queue, *pace]


def takeover(cluster: Cluster, seconds: float, kind: str) -> dict[str, float]:
    """Measure the takeover of 1,000 masters."""
    return takeover_of(cluster, TAKEOVER_QUEUES, kind)


def _wait_until_mirrored(cluster: Cluster, mirrors: dict[str, int]) -> None:
    """Wait until every queue has this number of synchronised mirrors."""
    deadline_s, column, missing = time.monotonic() + DEADLINE_S, "synchronised_slave_pids", set(mirrors)
    while missing:
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"{cluster.name}: {len(missing)} queues without synchronised mirrors")
        listed = json.loads(cluster.control("list_queues", "name", column, "--formatter", "json"))
        missing -= {row["name"] for row in listed if len(row[column] or []) == mirrors.get(row["name"])}
        if missing:
            time.sleep(POLL_S)


def _delete(client: BlockingClient, queues: list[str]) -> None:
    for queue in queues:
        client.call(methods.encode_queue_delete(queue))
