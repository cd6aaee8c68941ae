"""Federation of a three-node cluster: the node that runs the link is killed, for exchanges and queues."""

from __future__ import annotations

from typing import Any

import pytest

from mirrormq.testing import Cluster
from tests.bridge_processes.broker_messages import connected, drain, publish
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.rabbitmq import RabbitMQ
from tests.management.http import Client
from tests.needs import need_rabbitmq
from tests.waiting import until

MESSAGES = 300


def link(client: Client) -> dict[str, Any]:
    found = client.get("federation-links")
    return found[0] if found else {}


def consumed(port: int, count: int) -> list[str]:
    """Consume messages of the federated queue until `count` different ones are here."""
    connection = connected(port)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=20)
    taken: list[str] = []
    for method, _, body in channel.consume("fed.q", inactivity_timeout=60):
        assert method is not None, f"{len(set(taken))} of {count} have come"
        taken.append(body.decode())
        channel.basic_ack(method.delivery_tag)
        if len(set(taken)) == count:
            break
    connection.close()
    return taken


@pytest.mark.slow
@pytest.mark.rabbitmq
@pytest.mark.parametrize("kind", ["exchange", "queue"])
def test_a_federation_link_survives_the_death_of_its_node(kind: str) -> None:
    need_rabbitmq()
    with RabbitMQ(more_plugins=("rabbitmq_federation",)) as upstream:
        survive(kind, upstream)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["exchange", "queue"])
def test_a_federation_link_from_mirrormq_survives_the_death_of_its_node(kind: str) -> None:
    with MirrorMQ() as upstream:
        survive(kind, upstream)


def survive(kind: str, upstream: MirrorMQ | RabbitMQ) -> None:
    """Publish before and after the link's node is killed; expect every message downstream."""
    with Cluster(nodes=3, mirror_all=True) as cluster:
        clients = [Client(cluster.management_port(index)) for index in range(3)]
        value = {"uri": f"amqp://guest:guest@127.0.0.1:{upstream.amqp_port}/%2F", "reconnect-delay": 1}
        clients[0].put("parameters/federation-upstream/%2F/u", {"value": value})
        clients[0].put("exchanges/%2F/fed.x", {"type": "topic", "durable": True})
        clients[0].put("queues/%2F/fed.q", {"durable": True})
        definition: dict[str, Any] = {"federation-upstream": "u"}
        apply_to = "exchanges"
        if kind == "queue":
            definition, apply_to = definition | {"ha-mode": "all", "ha-sync-mode": "automatic"}, "queues"
        else:
            clients[0].post("bindings/%2F/e/fed.x/q/fed.q", {"routing_key": "#"})
        policy = {"pattern": "^fed\\.", "definition": definition, "apply-to": apply_to, "priority": 9}
        clients[0].put("policies/%2F/p", policy)
        until(lambda: link(clients[0]).get("status") == "running", lambda: str(link(clients[0])))
        home = link(clients[0])["node"]
        index = [cluster.name(each) for each in range(3)].index(home)
        target = {"exchange": "fed.x"} if kind == "exchange" else {}
        key = "k" if kind == "exchange" else "fed.q"
        publish(upstream.amqp_port, key, [f"before {number}" for number in range(MESSAGES)], **target)
        cluster.kill(index)
        publish(upstream.amqp_port, key, [f"after {number}" for number in range(MESSAGES)], **target)
        other = (index + 1) % 3
        until(
            lambda: link(clients[other]).get("status") == "running" and link(clients[other])["node"] != home,
            lambda: str(link(clients[other])),
        )
        wanted = {f"{when} {number}" for when in ("before", "after") for number in range(MESSAGES)}
        if kind == "queue":
            assert set(consumed(cluster.port(other), len(wanted))) == wanted
            return
        got: set[str] = set()

        def all_here() -> bool:
            got.update(body for body, _ in drain(cluster.port(other), "fed.q"))
            return got == wanted

        until(all_here, lambda: f"{len(wanted - got)} are missing")
