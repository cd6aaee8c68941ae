"""Contents of a cluster that a backup has to keep, and how a test reads them back."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pika

from mirrormq.testing import Cluster
from tests.ranges.range_requests import Asker

PERSISTENT = pika.BasicProperties(delivery_mode=2)
ORDERS = 3_000
LEASED = 700


def mirrormq(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mirrormq.cli.main", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def uris(cluster: Cluster, count: int) -> list[str]:
    """Return `--uri` options for the first nodes."""
    return [word for index in range(count) for word in ("--uri", cluster.uri(index))]


def api(cluster: Cluster, path: str, body: Any = None, method: str = "GET") -> Any:
    request = urllib.request.Request(
        f"http://127.0.0.1:{cluster.management_port(0)}/api/{path}",
        None if body is None else json.dumps(body).encode(),
        {"authorization": "Basic " + base64.b64encode(b"guest:guest").decode()},
        method=method,
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


def definitions(cluster: Cluster) -> dict[str, Any]:
    """Return the definitions in a comparable order."""
    found = api(cluster, "definitions")
    rows = {name: sorted(value, key=json.dumps) for name, value in found.items() if isinstance(value, list)}
    rows["global_parameters"] = [row for row in rows["global_parameters"] if row["name"] == "cluster_name"]
    return rows


def fill(cluster: Cluster) -> None:
    """Declare objects of every kind and publish messages of every kind."""
    api(cluster, "vhosts/other", {"description": "second"}, "PUT")
    api(cluster, "users/app", {"password": "hidden", "tags": "monitoring"}, "PUT")
    rights = {"configure": "^app", "write": ".*", "read": ".*"}
    api(cluster, "permissions/other/app", rights, "PUT")
    api(cluster, "permissions/other/guest", rights, "PUT")
    api(cluster, "policies/%2F/limit", {"pattern": "^limited$", "definition": {"max-length": 5}}, "PUT")
    asker = Asker(cluster.uri(0))
    channel = asker.channel
    channel.confirm_delivery()
    channel.exchange_declare("events", "topic", durable=True)
    channel.queue_declare("orders", durable=True)
    channel.queue_bind("orders", "events", "order.#", {"note": "kept"})
    for number in range(ORDERS):
        properties = pika.BasicProperties(
            delivery_mode=2,
            headers={"number": number, "CC": ["elsewhere"], "nested": {"a": [1, "b", None]}},
            message_id=f"m{number}",
            timestamp=1_700_000_000 + number,
            type="created",
        )
        channel.basic_publish("events", f"order.{number % 7}", b"order %d" % number, properties)
    channel.basic_publish("events", "order.large", bytes(range(256)) * 2_000, PERSISTENT)
    channel.basic_publish("events", "order.empty", b"", PERSISTENT)
    _fill_special_queues(asker)
    asker.close()
    with_vhost = pika.BlockingConnection(pika.URLParameters(cluster.uri(0, "other")))
    other = with_vhost.channel()
    other.confirm_delivery()
    other.queue_declare("app.jobs", durable=True)
    other.basic_publish("", "app.jobs", b"job", PERSISTENT)
    with_vhost.close()


def _fill_special_queues(asker: Asker) -> None:
    channel = asker.channel
    channel.queue_declare("ranked", durable=True, arguments={"x-max-priority": 5})
    for number in range(50):
        properties = pika.BasicProperties(delivery_mode=2, priority=number % 6)
        channel.basic_publish("", "ranked", b"ranked %d" % number, properties)
    channel.queue_declare("once", durable=True)
    for number in range(1, 21):
        headers = {"x-producer": "importer", "x-publish-id": number}
        channel.basic_publish(
            "", "once", b"once %d" % number, pika.BasicProperties(delivery_mode=2, headers=headers)
        )
    for _ in range(5):
        channel.basic_get("once", auto_ack=True)
    channel.queue_declare("spent", durable=True)
    headers = {"x-producer": "importer", "x-publish-id": 9}
    channel.basic_publish("", "spent", b"spent", pika.BasicProperties(delivery_mode=2, headers=headers))
    channel.basic_get("spent", auto_ack=True)
    channel.queue_declare("memory", durable=False)
    channel.basic_publish("", "memory", b"transient", pika.BasicProperties(delivery_mode=1))
    channel.queue_declare("limited", durable=True)


def hold(cluster: Cluster) -> Asker:
    """Hold messages of `limited` unacknowledged beyond its limit, and take a lease of `orders`."""
    asker = Asker(cluster.uri(0))
    channel = asker.channel
    channel.confirm_delivery()
    for batch in range(2):
        for number in range(5):
            channel.basic_publish("", "limited", b"limited %d" % (5 * batch + number), PERSISTENT)
        if not batch:
            for _ in range(5):
                channel.basic_get("limited")
    asker.take("orders", "reader", 1, 100)
    asker.settle("orders", "reader", number=1)
    asker.take("orders", "reader", 2, LEASED)
    return asker


def messages(cluster: Cluster, queue: str, vhost: str = "%2F") -> list[tuple[Any, bytes]]:
    """Return all messages of a queue in order, by envelope and body."""
    asker = Asker(cluster.uri(0, vhost))
    extent = asker.extent(queue)
    rows = asker.read(queue, extent.first, extent.next)
    asker.close()
    return [(row.envelope, row.body) for row in rows]


def ingestion_times(cluster: Cluster, queue: str) -> list[int]:
    """Return the ingestion time of each message of a queue, in milliseconds."""
    asker = Asker(cluster.uri(0))
    extent = asker.extent(queue)
    rows = asker.read(queue, extent.first, extent.next)
    asker.close()
    return [row.ingested_ms for row in rows]


def damage(path: Path) -> None:
    """Change one byte in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)
