"""Compatibility with rabbitmqadmin, as Debian ships it with RabbitMQ: every subcommand, unchanged."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pika
import pytest

from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.rabbitmq import script_directory
from tests.needs import RABBITMQ


def program() -> Path | None:
    scripts = script_directory()
    if scripts is None:
        return None
    found = sorted((scripts.parent / "plugins").glob("rabbitmq_management-*/priv/www/cli/rabbitmqadmin"))
    return found[0] if found else None


pytestmark = pytest.mark.skipif(program() is None, reason=RABBITMQ)


class Admin:
    """Runner of rabbitmqadmin against one node."""

    def __init__(self, node: MirrorMQ) -> None:
        self._port = node.management_port

    def __call__(self, *words: str) -> str:
        command = [sys.executable, str(program()), "-H", "127.0.0.1", "-P", str(self._port), *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    def rows(self, kind: str, *columns: str) -> list[dict[str, object]]:
        found: list[dict[str, object]] = json.loads(self("-f", "raw_json", "list", kind, *columns))
        return found


@pytest.fixture
def admin(node: MirrorMQ) -> Admin:
    return Admin(node)


@pytest.fixture
def connection(node: MirrorMQ) -> Iterator[pika.BlockingConnection]:
    opened = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.amqp_port))
    yield opened
    if opened.is_open:
        opened.close()


def test_every_kind_of_thing_is_declared_listed_and_deleted(admin: Admin) -> None:
    admin("declare", "vhost", "name=admin", "tracing=true")
    assert {"name": "admin", "tracing": True} in admin.rows("vhosts", "name", "tracing")
    admin("declare", "user", "name=anna", "password=secret", "tags=monitoring")
    assert {"name": "anna", "tags": ["monitoring"]} in admin.rows("users", "name", "tags")
    admin("declare", "permission", "vhost=admin", "user=anna", "configure=a", "write=b", "read=c")
    rights = {"vhost": "admin", "user": "anna", "configure": "a", "write": "b", "read": "c"}
    assert rights in admin.rows("permissions")
    admin("declare", "vhost_limit", "vhost=admin", "name=max-queues", "value=7")
    assert {"vhost": "admin", "value": {"max-queues": 7}} in admin.rows("vhost_limits")
    admin("delete", "vhost_limit", "vhost=admin", "name=max-queues")
    assert not admin.rows("vhost_limits")
    admin("delete", "permission", "vhost=admin", "user=anna")
    assert rights not in admin.rows("permissions")
    admin("delete", "user", "name=anna")
    assert "anna" not in [row["name"] for row in admin.rows("users")]
    admin("delete", "vhost", "name=admin")
    assert [row["name"] for row in admin.rows("vhosts")] == ["/"]


def test_exchanges_queues_and_bindings(admin: Admin) -> None:
    admin("declare", "exchange", "name=way", "type=topic", "durable=true")
    admin("declare", "queue", "name=end", "durable=true", 'arguments={"x-max-length": 5}')
    admin("declare", "binding", "source=way", "destination=end", "routing_key=a.#")
    queues = admin.rows("queues", "name", "arguments")
    assert {"name": "end", "arguments": {"x-max-length": 5}} in queues
    assert {"name": "way", "type": "topic"} in admin.rows("exchanges", "name", "type")
    bound = {"source": "way", "destination": "end", "routing_key": "a.#"}
    assert bound in admin.rows("bindings", "source", "destination", "routing_key")
    words = ("source=way", "destination_type=queue", "destination=end", "properties_key=a.%23")
    admin("delete", "binding", *words)
    assert bound not in admin.rows("bindings", "source", "destination", "routing_key")
    admin("delete", "exchange", "name=way")
    admin("delete", "queue", "name=end")
    assert "end" not in [row["name"] for row in admin.rows("queues")]


def test_policies_and_parameters(admin: Admin) -> None:
    admin("declare", "policy", "name=p", "pattern=^p", 'definition={"max-length": 3}', "priority=2")
    admin("declare", "operator_policy", "name=o", "pattern=^p", 'definition={"expires": 60000}')
    assert [row["name"] for row in admin.rows("policies")] == ["p"]
    assert [row["name"] for row in admin.rows("operator_policies")] == ["o"]
    assert [row["component"] for row in admin.rows("parameters")] == ["operator_policy"]
    value = '{"src-uri": "amqp://", "src-queue": "a", "dest-uri": "amqp://", "dest-queue": "b"}'
    admin("declare", "parameter", "component=shovel", "name=s", f"value={value}")
    assert "s" in [row["name"] for row in admin.rows("parameters")]
    admin("delete", "parameter", "component=shovel", "name=s")
    admin("delete", "operator_policy", "name=o")
    admin("delete", "policy", "name=p")
    assert not admin.rows("policies") and not admin.rows("operator_policies") and not admin.rows("parameters")


def test_publishing_getting_and_purging(admin: Admin) -> None:
    admin("declare", "queue", "name=post")
    said = admin("publish", "routing_key=post", "payload=hello", 'properties={"delivery_mode": 2}')
    assert "published" in said and "NOT routed" not in said
    assert "NOT routed" in admin("publish", "routing_key=nowhere", "payload=hello")
    got = json.loads(admin("-f", "raw_json", "get", "queue=post", "ackmode=ack_requeue_true"))
    assert got[0]["payload"] == "hello" and got[0]["properties"] == {"delivery_mode": 2}
    admin("purge", "queue", "name=post")
    assert json.loads(admin("-f", "raw_json", "get", "queue=post")) == []
    admin("delete", "queue", "name=post")


def test_clients_are_listed_and_closed(admin: Admin, connection: pika.BlockingConnection) -> None:
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.basic_consume(queue, lambda *_: None, consumer_tag="tag")
    (name,) = [str(row["name"]) for row in admin.rows("connections")]
    assert [row["name"] for row in admin.rows("channels")] == [f"{name} (1)"]
    assert [row["consumer_tag"] for row in admin.rows("consumers")] == ["tag"]
    admin("close", "connection", f"name={name}")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(30)
    assert closed.value.reply_code == 320


def test_the_overview_and_the_node_are_shown(admin: Admin, node: MirrorMQ) -> None:
    assert "3.10.8" in admin("show", "overview", "rabbitmq_version")
    assert [row["name"] for row in admin.rows("nodes")] == [node.node_name]
    for form in ("table", "long", "kvp", "tsv", "bash", "pretty_json"):
        assert "guest" in admin("-f", form, "list", "users")


def test_definitions_go_out_and_come_back(admin: Admin, tmp_path: Path) -> None:
    admin("declare", "queue", "name=kept", "durable=true")
    file = tmp_path / "definitions.json"
    admin("export", str(file))
    admin("delete", "queue", "name=kept")
    admin("import", str(file))
    assert "kept" in [row["name"] for row in admin.rows("queues")]
    admin("delete", "queue", "name=kept")
