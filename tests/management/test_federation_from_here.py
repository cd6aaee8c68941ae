"""Federation of a RabbitMQ from a node: exchange and queue links pull from here, hops end here."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.rabbitmq import RabbitMQ
from tests.management.http import Client, part
from tests.needs import need_rabbitmq
from tests.waiting import until

PLUGINS = ("rabbitmq_federation", "rabbitmq_federation_management")
GET = {"count": 10, "ackmode": "ack_requeue_false", "encoding": "auto"}
EXCHANGE_LINK_QUEUE = "federation: fed.x -> downstream"


def publish(sender: Client, exchange: str, key: str, body: str, headers: dict[str, Any]) -> None:
    message = {"properties": {"headers": headers}, "routing_key": key, "payload_encoding": "string"}
    path = f"exchanges/%2F/{exchange}/publish"
    assert sender.post(path, message | {"payload": body}).status == 200


def take(receiver: Client, queue: str, got: list[dict[str, Any]], count: int) -> bool:
    got += receiver.post(f"queues/%2F/{queue}/get", GET).json
    return len(got) >= count


def link_is_running(downstream: Client) -> bool:
    return [row["status"] for row in downstream.get("federation-links")] == ["running"]


@pytest.mark.rabbitmq
@pytest.mark.slow
def test_a_rabbitmq_federates_an_exchange_of_this_node(node: MirrorMQ, client: Client) -> None:
    need_rabbitmq()
    assert client.put("cluster-name", {"name": "upstream"}).status == 204
    assert client.put("exchanges/%2F/fed.x", {"type": "topic", "durable": True}).status == 201
    with RabbitMQ(more_plugins=PLUGINS) as rabbit:
        downstream = Client(rabbit.management_port)
        assert downstream.put("cluster-name", {"name": "downstream"}).status == 204
        assert downstream.put("exchanges/%2F/fed.x", {"type": "topic", "durable": True}).status == 201
        assert downstream.put("queues/%2F/to", {"durable": True}).status == 201
        binding = {"routing_key": "a.#", "arguments": {}}
        assert downstream.post("bindings/%2F/e/fed.x/q/to", binding).status == 201
        upstream = {"uri": f"amqp://127.0.0.1:{node.amqp_port}/%2F", "max-hops": 2}
        assert downstream.put("parameters/federation-upstream/%2F/u", {"value": upstream}).status == 201
        policy = {"pattern": "^fed\\.", "definition": {"federation-upstream": "u"}, "apply-to": "exchanges"}
        assert downstream.put("policies/%2F/p", policy).status == 201
        until(partial(link_is_running, downstream))

        [link] = [row for row in client.get("exchanges/%2F") if row["type"] == "x-federation-upstream"]
        assert (link["name"][:-2], link["auto_delete"], link["internal"]) == (EXCHANGE_LINK_QUEUE, True, True)
        assert link["arguments"] == {
            "x-downstream-name": "downstream", "x-downstream-vhost": "/",
            "x-internal-purpose": "federation", "x-max-hops": 2,
        }  # fmt: skip
        [bound] = client.get(f"exchanges/%2F/{part(link['name'])}/bindings/destination")
        assert (bound["source"], bound["routing_key"]) == ("fed.x", "a.#")
        [came_from] = bound["arguments"]["x-bound-from"]
        assert (came_from["cluster-name"], came_from["vhost"], came_from["hops"]) == ("downstream", "/", 2)

        seen = {"cluster-name": "downstream", "vhost": "/"}
        others = [{"cluster-name": f"far{number}", "vhost": "/"} for number in range(2)]
        publish(client, "fed.x", "a.1", "came from the downstream", {"x-received-from": [seen]})
        publish(client, "fed.x", "a.1", "has no hops left", {"x-received-from": others})
        publish(client, "fed.x", "a.1", "one hop", {"x-received-from": others[:1]})
        publish(client, "fed.x", "b.1", "not bound", {})
        publish(client, "fed.x", "a.2", "first hop", {})
        got: list[dict[str, Any]] = []
        until(partial(take, downstream, "to", got, 2))
        assert [message["payload"] for message in got] == ["one hop", "first hop"]
        assert [len(message["properties"]["headers"]["x-received-from"]) for message in got] == [2, 1]
        hop = got[1]["properties"]["headers"]["x-received-from"][0]
        assert (hop["cluster-name"], hop["vhost"], hop["exchange"]) == ("upstream", "/", "fed.x")
