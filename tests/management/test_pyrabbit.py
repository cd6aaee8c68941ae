"""Compatibility with pyrabbit2, an old client of the management API that many scripts use."""

from __future__ import annotations

import pytest
from pyrabbit2.api import Client as Rabbit
from pyrabbit2.http import HTTPError

from tests.brokers.mirrormq import MirrorMQ


@pytest.fixture
def rabbit(node: MirrorMQ) -> Rabbit:
    return Rabbit(f"127.0.0.1:{node.management_port}", "guest", "guest", timeout=30)


def test_pyrabbit_sees_the_broker(rabbit: Rabbit, node: MirrorMQ) -> None:
    assert rabbit.is_alive()
    assert rabbit.get_whoami()["name"] == "guest"
    assert rabbit.get_overview()["node"] == node.node_name
    assert [found["name"] for found in rabbit.get_nodes()] == [node.node_name]
    assert rabbit.get_cluster_name()["name"]
    assert isinstance(rabbit.get_extensions(), list)
    assert {"users", "queues"} <= rabbit.get_definitions().keys()
    assert rabbit.get_connections() == rabbit.get_channels() == []


def test_users_vhosts_permissions_and_policies(rabbit: Rabbit) -> None:
    rabbit.create_vhost("py")
    assert "py" in rabbit.get_vhost_names()
    rabbit.create_user("anna", "pw", tags="monitoring")
    assert "anna" in [user["name"] for user in rabbit.get_users()]
    rabbit.set_vhost_permissions("py", "anna", ".*", ".*", "^a")
    rabbit.set_vhost_permissions("py", "guest", ".*", ".*", ".*")
    assert rabbit.get_permission("py", "anna")["write"] == "^a"
    rabbit.create_policy("py", "p", pattern="^q", definition={"max-length": 3})
    assert rabbit.get_policy("py", "p")["definition"] == {"max-length": 3}
    rabbit.delete_policy("py", "p")
    rabbit.delete_permission("py", "anna")
    rabbit.delete_user("anna")
    rabbit.delete_vhost("py")
    with pytest.raises(HTTPError) as missing:
        rabbit.get_vhost("py")
    assert missing.value.status == 404


def test_queues_exchanges_bindings_and_messages(rabbit: Rabbit) -> None:
    assert rabbit.create_queue("/", "py", durable=True, arguments={"x-max-length": 5})
    assert rabbit.create_exchange("/", "wind", "direct")
    assert rabbit.create_binding("/", "wind", "py", "key")
    assert [found["routing_key"] for found in rabbit.get_queue_bindings("/", "py")] == ["py", "key"]
    assert rabbit.publish("/", "wind", "key", "hello", properties={"delivery_mode": 2})
    assert rabbit.get_queue_depth("/", "py") == 1
    (message,) = rabbit.get_messages("/", "py", requeue=True)
    assert message["payload"] == "hello"
    assert [found["name"] for found in rabbit.get_queues("/", pattern="^py$", regex=True)] == ["py"]
    rabbit.purge_queue("/", "py")
    assert rabbit.get_queue_depth("/", "py") == 0
    rabbit.delete_binding("/", "wind", "py", "key")
    rabbit.delete_exchange("/", "wind")
    rabbit.delete_queue("/", "py")
