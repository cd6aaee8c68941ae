"""Statistics between each channel, exchange and queue, compared with those of a real RabbitMQ."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pika
import pytest

from mirrormq.testing import Cluster
from tests.management import object_statistics, record, work
from tests.management.conftest import managed
from tests.management.http import Client
from tests.management.object_statistics import DETAILED
from tests.needs import need_rabbitmq
from tests.waiting import until

RECORDED: dict[str, Any] = json.loads(record.PLACED.read_text())


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    with managed(f"{DETAILED}\n{work.OFTEN}") as broker:
        return object_statistics.observe(broker.amqp_port, broker.management_port)


@pytest.mark.parametrize("when", ["there", "left"])
@pytest.mark.parametrize("path", sorted(RECORDED["there"]))
def test_answers_equal_the_recording(when: str, path: str, seen: dict[str, Any]) -> None:
    assert seen[when].get(path) == RECORDED[when].get(path)


def test_the_recording_is_not_empty() -> None:
    reported = [name for lists in RECORDED["there"].values() for name, rows in lists.items() if rows]
    assert set(reported) == set(object_statistics.LISTS)


@pytest.mark.rabbitmq
@pytest.mark.slow
def test_the_recording_equals_rabbitmqs_answers() -> None:
    need_rabbitmq()
    assert record.place() == RECORDED


# -- in a cluster -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair() -> Iterator[Cluster]:
    with Cluster(nodes=2, conf=f"{DETAILED}\n{work.OFTEN}\n") as found:
        yield found


def test_clients_of_all_nodes_are_listed(pair: Cluster) -> None:
    """Check publishers and consumers on two nodes: either node reports both, with rates and history."""
    connections = [pika.BlockingConnection(pika.URLParameters(pair.uri(index))) for index in range(2)]
    channels = [connection.channel() for connection in connections]
    channels[0].queue_declare("shared", durable=True)
    for index, channel in enumerate(channels):
        channel.confirm_delivery()
        for _ in range(index + 2):
            channel.basic_publish("amq.direct" if index else "", "shared", b"x")
            channel.basic_publish("", "shared", b"x")
        assert channel.basic_get("shared", auto_ack=True)[0] is not None
    for client in [Client(pair.management_port(index)) for index in range(2)]:
        until(partial(_told_seven, client))
        queue = client.get("queues/%2F/shared")
        (row,) = queue["incoming"]
        assert row["exchange"] == {"name": "", "vhost": "/"} and row["stats"]["publish"] == 7
        assert {each["channel_details"]["node"] for each in queue["deliveries"]} == {
            pair.name(0),
            pair.name(1),
        }
        exchange = client.get("exchanges/%2F/amq.default")
        assert sorted(each["stats"]["publish"] for each in exchange["incoming"]) == [3, 4]
        assert exchange["outgoing"][0]["stats"]["publish"] == 7
        (direct,) = client.get("exchanges/%2F/amq.direct")["incoming"]
        assert direct["stats"]["drop_unroutable"] == 3 and direct["stats"]["confirm"] == 3
    for connection in connections:
        connection.close()


def _told_seven(client: Client) -> bool:
    return len(_past(client)) == 7 and bool(_told_all(client))


def _told_all(client: Client) -> bool:
    """Report whether both nodes have published their last numbers; each does so once a second."""
    (row,) = client.get("queues/%2F/shared")["incoming"]
    at_default, at_direct = (
        client.get(f"exchanges/%2F/amq.{name}")["incoming"] for name in ("default", "direct")
    )
    published = sum(each["stats"].get("publish", 0) for each in at_default)
    confirmed = sum(each["stats"].get("confirm", 0) for each in at_direct)
    return bool((row["stats"]["publish"], published, confirmed) == (7, 7, 3))


def _past(client: Client) -> list[dict[str, int]]:
    """Return the number of messages from the default exchange to the queue, once samples exist."""
    rows = client.get("queues/%2F/shared?msg_rates_age=60&msg_rates_incr=10")["incoming"]
    found: list[dict[str, int]] = rows[0]["stats"]["publish_details"].get("samples", []) if rows else []
    return found
