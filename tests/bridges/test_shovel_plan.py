"""Shovels between two brokers in this process: topology, headers, properties."""

from __future__ import annotations

from typing import Any

import pytest

from mirrormq.bridges.shovel_parameters import definition_of, faults
from mirrormq.bridges.shovel_plan import ShovelTransform, forward_entry, plan_of
from mirrormq.wire import methods
from mirrormq.wire.fields import plain, table_of
from tests.bridges.link_bench import LinkBench, drained, filled
from tests.harness import Received


def bench_of(value: dict[str, Any]) -> LinkBench:
    """Return two brokers with a shovel that has not started."""
    given = {"src-uri": "amqp://source", "dest-uri": "amqp://destination", "src-queue": "from", **value}
    definition = definition_of(given)
    entry = forward_entry(definition, "/", "s", "cluster", "amqp://source", "amqp://destination")
    return LinkBench(plan_of("s", definition, ShovelTransform(definition, lambda: entry, lambda: 1234)))


def moved(value: dict[str, Any], queue: str = "to", **properties: Any) -> Received:
    """Return one message after a shovel moved it."""
    bench = bench_of(value)
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


def test_headers_are_added_and_replaced() -> None:
    value = {"dest-queue": "to", "dest-publish-properties": {"headers": {"a": "new", "b": [1]}}}
    received = moved(value, headers=table_of({"a": "old", "kept": True}))
    assert received.properties is not None and received.properties.headers is not None
    assert plain(received.properties.headers) == {"a": "new", "kept": True, "b": [1]}


def test_an_empty_list_stands_for_no_headers() -> None:
    value = {"dest-queue": "to", "dest-publish-properties": {"headers": []}}
    assert faults("s", {"src-uri": "amqp://", "dest-uri": "amqp://", "src-queue": "from", **value}) == []
    assert moved(value).body == b"body"


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"dest-queue": "to", "src-predeclared": True}, "from"),
        ({"dest-queue": "to", "dest-predeclared": True}, "to"),
    ],
    ids=["source", "destination"],
)
def test_a_predeclared_queue_must_exist(value: dict[str, Any], name: str) -> None:
    bench = bench_of({**value, "reconnect-delay": 1})
    bench.start()
    bench.settle()
    status = bench.link.status()
    assert status.state == "terminated" and f"no queue '{name}' in vhost '/'" in status.reason
    for node in (bench.source, bench.destination):
        node.connect().call(methods.encode_queue_declare(name, arguments=table_of({"x-max-length": 9})))
    bench.advance(1_000)
    assert bench.link.status().state == "running"


def test_an_unroutable_message_is_dropped_on_request() -> None:
    bench = bench_of({"dest-exchange": "amq.direct", "dest-unroutable": "drop"})
    filled(bench, 2)
    bench.start()
    bench.settle()
    status = bench.link.status()
    assert (status.state, status.forwarded, status.refused) == ("running", 2, 0)
    assert drained(bench.source, "from") == []


def test_the_consumer_bears_the_given_name() -> None:
    bench = bench_of({"dest-queue": "to", "src-consumer-name": "mover"})
    bench.start()
    bench.settle()
    queue = bench.source.broker.vhosts["/"].local_queue("from")
    assert queue is not None
    assert [consumer.describe().tag for consumer in queue.consumers.all] == ["mover"]


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
