"""Setting `management.rates_mode = none`: the API reports queue lengths, but no message counts or rates."""

from __future__ import annotations

from typing import Any

import pika
import pytest

from tests.brokers.rabbitmq import RabbitMQ
from tests.management import work
from tests.management.conftest import managed
from tests.management.http import Client, part
from tests.management.record import WITH_STATISTICS
from tests.needs import need_rabbitmq
from tests.waiting import until

NONE = f"management.rates_mode = none\n{work.OFTEN}"
TOLD = frozenset(
    f"{name}_details"
    for name in ("messages", "messages_ready", "messages_unacknowledged", "recv_oct", "send_oct")
)
"""Rates that do not concern messages."""
DISK = ["disk_reads", "disk_reads_details", "disk_writes", "disk_writes_details"]


LENGTHS = ["messages_details", "messages_ready_details", "messages_unacknowledged_details"]
SHOWN = {
    "mode": "none",
    "message_stats": {"overview": DISK},
    "others": {
        "overview": [],
        "queue": LENGTHS,
        "exchange": [],
        "vhost": [*LENGTHS, "recv_oct_details", "send_oct_details"],
        "channel": [],
        "connection": ["recv_oct_details", "send_oct_details"],
    },
    "used": [[], []],
}


def observe(port: int, client: Client) -> dict[str, Any]:
    """Publish and consume; return where `message_stats` appear and their contents, and the other
    statistics."""
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("kept", durable=True)
    for _ in range(3):
        channel.basic_publish("amq.direct", "nowhere", b"x")
        channel.basic_publish("", "kept", b"x", pika.BasicProperties(delivery_mode=2))
    method, _, _ = channel.basic_get("kept")
    channel.basic_ack(method.delivery_tag)
    until(lambda: client.get("queues/%2F/kept").get("messages_ready") == 2)
    until(lambda: [row for row in client.get("connections") if row.get("recv_oct", 0) > 0])
    until(lambda: client.get("overview")["message_stats"].get("disk_writes"))
    until(lambda: client.get("vhosts/%2F").get("recv_oct"))
    name = client.get("connections")[0]["name"]
    paths = {
        "overview": "overview", "queue": "queues/%2F/kept", "exchange": "exchanges/%2F/amq.direct",
        "vhost": "vhosts/%2F", "channel": f"channels/{part(name)}%20(1)",
        "connection": f"connections/{part(name)}",
    }  # fmt: skip
    rows = {kind: client.get(path) for kind, path in paths.items()}
    connection.close()
    return {
        "mode": rows["overview"]["rates_mode"],
        "message_stats": {
            kind: sorted(row["message_stats"]) for kind, row in rows.items() if "message_stats" in row
        },
        "others": {kind: sorted(TOLD.intersection(row)) for kind, row in rows.items()},
        "used": [rows["channel"][name] for name in ("publishes", "deliveries")],
    }


def test_message_rates_are_hidden() -> None:
    with managed(NONE) as broker:
        assert observe(broker.amqp_port, Client(broker.management_port)) == SHOWN


@pytest.mark.rabbitmq
@pytest.mark.slow
def test_rabbitmq_hides_the_same() -> None:
    need_rabbitmq()
    with RabbitMQ(configuration=f"{WITH_STATISTICS}\n{NONE}") as broker:
        assert observe(broker.amqp_port, Client(broker.management_port)) == SHOWN
