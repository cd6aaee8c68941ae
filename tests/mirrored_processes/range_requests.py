"""Requests of a cluster's operators, and waits for the reply."""

from __future__ import annotations

import base64
import json
import urllib.request
from typing import Any

import pika

from mirrormq.testing import Cluster
from tests.seeds.seed_clients import channel

PERSISTENT = pika.BasicProperties(delivery_mode=2)


def queue(cluster: Cluster, name: str, node: int = 0) -> dict[str, Any]:
    """A queue, as a node's HTTP API shows it."""
    address = f"http://127.0.0.1:{cluster.management_port(node)}/api/queues/%2F/{name}"
    login = base64.b64encode(b"guest:guest").decode()
    request = urllib.request.Request(address, headers={"Authorization": f"Basic {login}"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        found: dict[str, Any] = json.loads(answer.read())
    return found


def synchronised(cluster: Cluster, name: str, node: int = 0) -> set[str]:
    """The mirrors that hold everything."""
    return set(queue(cluster, name, node).get("synchronised_slave_nodes", ()))


def mirror(cluster: Cluster, **definition: Any) -> None:
    """A policy for all queues."""
    dashed = {key.replace("_", "-"): value for key, value in definition.items()}
    cluster.ctl("set_policy", "ha", ".*", json.dumps(dashed), "--apply-to", "queues")


def publish(cluster: Cluster, name: str, *bodies: bytes, node: int = 0) -> None:
    """Declare and publish; returns when everything is confirmed."""
    with channel(cluster, node) as opened:
        opened.queue_declare(name, durable=True)
        for body in bodies:
            opened.basic_publish("", name, body, PERSISTENT, mandatory=True)


def drain(cluster: Cluster, name: str, node: int = 0) -> list[bytes]:
    """Everything that is in a queue, in order; it is empty afterwards."""
    bodies = []
    with channel(cluster, node) as opened:
        while (got := opened.basic_get(name, auto_ack=True))[0] is not None:
            bodies.append(got[2])
    return bodies
