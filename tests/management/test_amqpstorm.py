"""AMQPStorm's management client."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import amqpstorm
import pytest
from amqpstorm.management import ApiError, ManagementApi

from tests.brokers.mirrormq import MirrorMQ


@pytest.fixture
def api(node: MirrorMQ) -> ManagementApi:
    return ManagementApi(f"http://127.0.0.1:{node.management_port}", "guest", "guest", timeout=30)


@pytest.fixture
def connection(node: MirrorMQ) -> Iterator[amqpstorm.Connection]:
    opened = amqpstorm.Connection("127.0.0.1", "guest", "guest", port=node.amqp_port)
    yield opened
    opened.close()


def test_amqpstorm_sees_the_node(api: ManagementApi, node: MirrorMQ) -> None:
    assert api.aliveness_test("/") == {"status": "ok"}
    assert api.whoami()["name"] == "guest"
    assert api.overview()["node"] == node.node_name
    assert [found["name"] for found in api.nodes()] == [node.node_name]
    assert api.node(node.node_name)["running"] is True
    assert api.cluster_name()["name"]
    assert api.healthchecks.get()["status"] == "ok"


def test_amqpstorm_declares_binds_publishes_and_gets(api: ManagementApi) -> None:
    api.queue.declare("storm", durable=True, arguments={"x-max-length": 9})
    api.exchange.declare("wind", exchange_type="direct", durable=True)
    api.exchange.declare("gust", exchange_type="fanout")
    api.queue.bind("storm", "wind", "key")
    api.exchange.bind("gust", "wind", "key")
    assert {found["source"] for found in api.queue.bindings("storm")} == {"", "wind"}
    assert len(api.exchange.bindings("wind")) == 2
    assert api.basic.publish("hello", "key", "wind", properties={"content_type": "text/plain"}) == {
        "routed": True
    }
    (message,) = api.basic.get("storm", requeue=False)
    assert isinstance(message, amqpstorm.Message)
    assert message.body == "hello" and message.properties["content_type"] == "text/plain"
    assert api.queue.get("storm")["messages"] == 0
    assert [found["name"] for found in api.queue.list(name="sto", page_size=10)] == ["storm"]
    api.queue.purge("storm")
    api.queue.unbind("storm", "wind", "key")
    api.exchange.unbind("gust", "wind", "key")
    for exchange in ("wind", "gust"):
        api.exchange.delete(exchange)
    api.queue.delete("storm")
    with pytest.raises(ApiError) as missing:
        api.queue.declare("storm", passive=True)
    assert missing.value.error_code == 404


def test_amqpstorm_manages_users_and_vhosts(api: ManagementApi) -> None:
    api.virtual_host.create("sky")
    api.user.create("bird", "secret", tags="management")
    api.user.set_permission("bird", "sky")
    assert api.user.get_permission("bird", "sky")["configure"] == ".*"
    # AMQPStorm announces dictionaries, and gives lists of them.
    of_user: Any = api.user.get_permissions("bird")
    of_vhost: Any = api.virtual_host.get_permissions("sky")
    assert [found["vhost"] for found in of_user] == ["sky"]
    assert {found["user"] for found in of_vhost} == {"bird", "guest"}
    api.user.delete_permission("bird", "sky")
    api.user.delete("bird")
    assert "bird" not in [found["name"] for found in api.user.list()]
    api.virtual_host.delete("sky")
    assert [found["name"] for found in api.virtual_host.list()] == ["/"]


def test_amqpstorm_sees_and_closes_clients(api: ManagementApi, connection: amqpstorm.Connection) -> None:
    connection.channel()
    (found,) = api.connection.list()
    assert api.connection.get(found["name"])["user"] == "guest"
    (channel,) = api.channel.list()
    assert api.channel.get(channel["name"])["number"] == 1
    api.connection.close(found["name"], "enough")
    with pytest.raises(amqpstorm.AMQPConnectionError):
        while True:
            connection.check_for_errors()
