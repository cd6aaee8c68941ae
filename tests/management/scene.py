"""Scene with at least one object of every kind that a GET of the API shows, created equally on any broker.

The scene contains users of each tag, a second vhost, limits, policies, all kinds of bindings, queues with
ready and unacknowledged messages, consumers, confirms and returns.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel

from tests.management.http import Client

PASSWORD = "secret"
SETTLE_DEADLINE_S = 20.0
USERS = {"monitor": "monitoring", "maker": "policymaker", "manager": "management", "nobody": ""}


class Scene:
    """Context manager of the scene; its connections stay open inside the block."""

    def __init__(self, amqp_port: int, management_port: int) -> None:
        self.amqp_port = amqp_port
        self.client = Client(management_port)
        self.connections: list[pika.BlockingConnection] = []

    def __enter__(self) -> Scene:
        self._declare()
        self._act()
        self._wait_for_statistics()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self.connections:
            if connection.is_open:
                connection.close()

    def connect(self, name: str) -> pika.BlockingConnection:
        parameters = pika.ConnectionParameters(
            "127.0.0.1",
            self.amqp_port,
            client_properties={"connection_name": name},
            heartbeat=600,
        )
        connection = pika.BlockingConnection(parameters)
        self.connections.append(connection)
        return connection

    @property
    def connection_name(self) -> str:
        """Name of the busy connection in the API."""
        rows: list[dict[str, Any]] = self.client.get("connections")
        return next(str(row["name"]) for row in rows if row.get("user_provided_name") == "busy")

    def _put(self, path: str, body: Any) -> None:
        answer = self.client.put(path, body)
        assert answer.status in (201, 204), (path, answer.status, answer.body)

    def _declare(self) -> None:
        put = self._put
        put("vhosts/other", {"description": "Another one", "tags": "first,second"})
        for name, tags in USERS.items():
            put(f"users/{name}", {"password": PASSWORD, "tags": tags})
            if name != "nobody":
                put(f"permissions/%2F/{name}", {"configure": "^mine", "write": ".*", "read": "^scene"})
        put("topic-permissions/%2F/manager", {"exchange": "amq.topic", "write": "^a", "read": ".*"})
        put("vhost-limits/other/max-connections", {"value": 100})
        put("user-limits/maker/max-channels", {"value": 50})
        policy = {
            "pattern": "^scene",
            "definition": {"max-length": 1000},
            "priority": 2,
            "apply-to": "queues",
        }
        put("policies/%2F/bounded", policy)
        put("operator-policies/%2F/capped", {"pattern": "^scene", "definition": {"expires": 3600000}})
        put("global-parameters/colour", {"value": {"name": "blue"}})
        put("global-parameters/word", {"value": "text"})
        put(
            "exchanges/%2F/scene.direct",
            {"type": "direct", "arguments": {"alternate-exchange": "amq.fanout"}},
        )
        put("exchanges/%2F/scene.fanout", {"type": "fanout", "durable": False, "auto_delete": True})
        put("queues/%2F/scene.full", {"durable": True, "arguments": {"x-max-length": 100}})
        put("queues/%2F/scene.busy", {"durable": True})
        put("queues/%2F/scene.idle", {"durable": False, "auto_delete": True})
        put("queues/other/elsewhere", {"durable": True})
        post = self.client.post
        bind = {"routing_key": "key", "arguments": {}}
        assert post("bindings/%2F/e/scene.direct/q/scene.full", bind).status == 201
        matching = {"routing_key": "", "arguments": {"x-match": "all", "size": 3}}
        assert post("bindings/%2F/e/amq.headers/q/scene.full", matching).status == 201
        assert post("bindings/%2F/e/scene.direct/e/scene.fanout", bind).status == 201

    def _act(self) -> None:
        busy = self.connect("busy")
        first, second = busy.channel(1), busy.channel(2)
        self._publish(first)
        second.basic_qos(prefetch_count=5)
        second.basic_consume("scene.busy", lambda *_: None, consumer_tag="eater", arguments={"x-priority": 3})
        self.connect("quiet").channel(1).queue_declare("scene.exclusive", exclusive=True)
        deadline = time.monotonic() + SETTLE_DEADLINE_S
        held: list[int] = []
        second.add_on_return_callback(lambda *_: None)
        while len(held) < 3:
            assert time.monotonic() < deadline, "no message came"
            method, _, _ = first.basic_get("scene.full", auto_ack=False)
            assert method is not None
            held.append(method.delivery_tag)
        first.basic_ack(held[0])
        first.basic_nack(held[1], requeue=True)
        first.basic_get("scene.full", auto_ack=True)
        busy.process_data_events(0)

    def _publish(self, channel: BlockingChannel) -> None:
        channel.confirm_delivery()
        persistent = pika.BasicProperties(
            delivery_mode=2, headers={"h": 1, "t": {"deep": [1, "two"]}}, content_type="text/plain"
        )
        for number in range(5):
            channel.basic_publish("scene.direct", "key", b"body %d" % number, persistent)
        for _ in range(4):
            channel.basic_publish("", "scene.busy", b"\xff\xfe")
        try:
            channel.basic_publish("", "nowhere", b"", mandatory=True)
        except pika.exceptions.UnroutableError:
            return
        raise AssertionError("an unroutable message was not returned")

    def _wait_for_statistics(self) -> None:
        """Wait for statistics: RabbitMQ's numbers are up to five seconds old."""
        deadline = time.monotonic() + SETTLE_DEADLINE_S
        while not self._numbers_are_in():
            assert time.monotonic() < deadline, "the statistics never came"
            for connection in self.connections:
                connection.process_data_events(0.05)

    def _numbers_are_in(self) -> bool:
        queue = self.client.get("queues/%2F/scene.full")
        channels = self.client.get("channels")
        busy = self.client.get("queues/%2F/scene.busy")
        totals = self.client.get("overview").get("queue_totals", {})
        return (
            queue.get("messages_unacknowledged") == 1
            and queue.get("messages_ready") == 2
            and "redeliver" in queue.get("message_stats", {})
            and busy.get("messages_unacknowledged") == 4
            and any(row.get("messages_unacknowledged") == 4 for row in channels)
            and all("state" in row and "number" in row for row in channels)
            and len(self.client.get("consumers")) == 1
            and len(self.client.get("connections")) == 2
            and all("state" in row for row in self.client.get("connections"))
            and totals.get("messages_ready") == 2
        )
