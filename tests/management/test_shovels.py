"""Shovel of a RabbitMQ, with a node of MirrorMQ as source and as destination."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.rabbitmq import RabbitMQ
from tests.management.http import Client
from tests.needs import need_rabbitmq
from tests.waiting import until

MESSAGES = 5
GET = {"count": 2 * MESSAGES, "ackmode": "ack_requeue_false", "encoding": "auto"}


def shovel(source: Any, target: Any) -> dict[str, Any]:
    """Return a shovel from a queue of one broker to a queue of another."""
    return {
        "value": {
            "src-protocol": "amqp091", "src-uri": f"amqp://127.0.0.1:{source.amqp_port}", "src-queue": "from",
            "dest-protocol": "amqp091", "dest-uri": f"amqp://127.0.0.1:{target.amqp_port}",
            "dest-queue": "to", "ack-mode": "on-confirm",
        }
    }  # fmt: skip


def _take(receiver: Client, got: list[str]) -> bool:
    """Add the messages that have come; True when all have."""
    got += taken(receiver)
    return len(got) >= MESSAGES


@pytest.mark.rabbitmq
@pytest.mark.slow
def test_a_shovel_of_rabbitmq_moves_messages_from_here_and_to_here(node: MirrorMQ, client: Client) -> None:
    need_rabbitmq()
    with RabbitMQ(more_plugins=("rabbitmq_shovel",)) as rabbit:
        other = Client(rabbit.management_port)
        for name, source, target in (("out", node, rabbit), ("back", rabbit, node)):
            sender = Client(source.management_port)
            receiver = Client(target.management_port)
            for each, queue in ((sender, "from"), (receiver, "to")):
                assert each.put(f"queues/%2F/{queue}", {"durable": True}).status == 201
            for number in range(MESSAGES):
                message = {"properties": {}, "routing_key": "from", "payload_encoding": "string"}
                body = message | {"payload": f"{name} {number}"}
                assert sender.post("exchanges/%2F/amq.default/publish", body).json == {"routed": True}
            assert other.put(f"parameters/shovel/%2F/{name}", shovel(source, target)).status == 201
            got: list[str] = []
            until(partial(_take, receiver, got))
            assert got == [f"{name} {number}" for number in range(MESSAGES)]


def taken(client: Client) -> list[str]:
    return [str(message["payload"]) for message in client.post("queues/%2F/to/get", GET).json]
