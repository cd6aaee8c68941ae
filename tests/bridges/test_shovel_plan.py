"""Shovels between two brokers in this process: topology, headers, properties."""

from __future__ import annotations

from typing import Any

from mirrormq.bridges.shovel_parameters import definition_of
from mirrormq.bridges.shovel_plan import ShovelTransform, forward_entry, plan_of
from mirrormq.wire import methods
from mirrormq.wire.fields import plain
from tests.bridges.link_bench import LinkBench, filled
from tests.harness import Received


def moved(value: dict[str, Any], queue: str = "to", **properties: Any) -> Received:
    """Return one message after a shovel moved it."""
    given = {"src-uri": "amqp://source", "dest-uri": "amqp://destination", "src-queue": "from", **value}
    definition = definition_of(given)
    entry = forward_entry(definition, "/", "s", "cluster", "amqp://source", "amqp://destination")
    bench = LinkBench(plan_of("s", definition, ShovelTransform(definition, lambda: entry, lambda: 1234)))
    client = filled(bench, 0)
    client.publish("from", b"body", **properties)
    client.read()
    bench.destination.connect().call(methods.encode_queue_declare("from", durable=True))
    bench.start()
    bench.settle()
    received = bench.destination.connect().get(queue)
    assert received is not None and received.properties is not None
    return received


def test_a_message_to_a_queue_keeps_its_properties() -> None:
    received = moved({"dest-queue": "to"}, content_type="text/plain", priority=3)
    assert received.body == b"body" and received.properties is not None
    assert (received.properties.content_type, received.properties.priority) == ("text/plain", 3)
    assert received.properties.headers is None


def test_without_a_destination_exchange_and_key_stay() -> None:
    received = moved({}, queue="from")
    assert (received.method.exchange, received.method.routing_key) == ("", "from")


def test_properties_are_overwritten() -> None:
    value = {"dest-queue": "to", "dest-publish-properties": {"type": "t", "delivery_mode": 2}}
    received = moved(value, type_="before", app_id="kept")
    assert received.properties is not None
    assert (received.properties.type_, received.properties.delivery_mode) == ("t", 2)
    assert received.properties.app_id == "kept"


def test_headers_show_the_route_of_a_message() -> None:
    value = {"dest-queue": "to", "dest-add-forward-headers": True, "dest-add-timestamp-header": True}
    received = moved(value)
    assert received.properties is not None and received.properties.headers is not None
    assert plain(received.properties.headers) == {
        "x-shovelled": [
            {
                "shovelled-by": "cluster",
                "shovel-type": "dynamic",
                "shovel-name": "s",
                "shovel-vhost": "/",
                "src-uri": "amqp://source",
                "dest-uri": "amqp://destination",
                "src-queue": "from",
                "dest-queue": "to",
            }
        ],
        "x-shovelled-timestamp": 1234,
    }
    assert received.properties.headers["x-shovelled-timestamp"].kind == "l"
