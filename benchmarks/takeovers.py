"""Takeover of many masters at once: how long the queues of a killed node confirm nothing."""

from __future__ import annotations

import json
import signal
import time

from benchmarks.clusters import Cluster
from mirrormq.client.client_events import Confirm
from mirrormq.client.publisher_confirms import UnconfirmedMessages
from mirrormq.client_io.blocking_client import BlockingClient, connect
from mirrormq.wire import methods
from mirrormq.wire.properties import BasicProperties, encode_properties

TAKEOVER_QUEUES = 1_000
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


def takeover_of(cluster: Cluster, count: int, kind: str) -> float:
    """Kill the node with the masters of `count` mirrored queues. Return the milliseconds from the kill until
    each queue has confirmed a message that a client of another node published right after it."""
    queues = [f"takeover-{number:04}" for number in range(count)]
    with connect(cluster.uri(0), DEADLINE_S) as client:
        for queue in queues:
            client.declare_queue(queue, durable=True, kind=kind)
    prober = Prober(cluster.uri(1))
    try:
        _wait_until_mirrored(cluster, queues)
        prober.longest_s(queues)
        cluster.signal(0, signal.SIGKILL)
        return prober.longest_s(queues) * 1000
    finally:
        prober.close()
        cluster.restart(0)
        with connect(cluster.uri(1), DEADLINE_S) as client:
            _delete(client, queues)


def takeover(cluster: Cluster, seconds: float, kind: str) -> dict[str, float]:
    """Measure the takeover of 1,000 masters."""
    return {"gap": takeover_of(cluster, TAKEOVER_QUEUES, kind)}


def _wait_until_mirrored(cluster: Cluster, queues: list[str]) -> None:
    """Wait until every queue has two synchronised mirrors."""
    deadline_s, column, missing = time.monotonic() + DEADLINE_S, "synchronised_slave_pids", set(queues)
    while missing:
        if time.monotonic() > deadline_s:
            raise RuntimeError(f"{cluster.name}: {len(missing)} queues without synchronised mirrors")
        listed = json.loads(cluster.control("list_queues", "name", column, "--formatter", "json"))
        missing -= {row["name"] for row in listed if len(row[column] or []) == 2}
        if missing:
            time.sleep(POLL_S)


def _delete(client: BlockingClient, queues: list[str]) -> None:
    for queue in queues:
        client.call(methods.encode_queue_delete(queue))
