"""Shovels of MirrorMQ with a RabbitMQ 3.10.8 as source and as destination."""

from __future__ import annotations

from functools import partial

import pytest

from tests.bridge_processes.broker_messages import drain, publish, ready
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.rabbitmq import RabbitMQ
from tests.management.http import Client
from tests.needs import need_rabbitmq
from tests.waiting import until

MESSAGES = 500


def holds(port: int, queue: str, count: int) -> bool:
    return ready(port, queue) == count


@pytest.mark.rabbitmq
@pytest.mark.slow
def test_a_shovel_moves_messages_from_and_to_a_rabbitmq(node: MirrorMQ, client: Client) -> None:
    need_rabbitmq()
    bodies = [str(number) for number in range(MESSAGES)]
    with RabbitMQ() as rabbit:
        remote = f"amqp://guest:guest@127.0.0.1:{rabbit.amqp_port}/%2F"
        for name, source, target in (("out", node, rabbit), ("in", rabbit, node)):
            publish(source.amqp_port, f"from {name}", bodies)
            publish(target.amqp_port, f"to {name}", [])
            value = {
                "src-uri": remote if source is rabbit else "amqp://", "src-queue": f"from {name}",
                "dest-uri": remote if target is rabbit else "amqp://", "dest-queue": f"to {name}",
                "src-prefetch-count": 20,
            }  # fmt: skip
            assert client.put(f"parameters/shovel/%2F/{name}", {"value": value}).status == 201
            port = target.amqp_port
            until(partial(holds, port, f"to {name}", MESSAGES))
            assert [body for body, _ in drain(port, f"to {name}")] == bodies
            until(partial(holds, source.amqp_port, f"from {name}", 0))
