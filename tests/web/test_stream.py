"""Live event stream: its contents per user, and its end."""

from __future__ import annotations

import base64
import http.client
import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika
import pytest

from mirrormq.management.live_push import VIEWERS_MAX
from mirrormq.management.live_rows import ROWS_MAX
from tests.brokers.mirrormq import MirrorMQ
from tests.management.conftest import managed
from tests.management.http import Client
from tests.management.test_server import QUEUES, STALL_MS_MAX, stall_ms
from tests.ranges.range_requests import Asker

DEADLINE_S = 30.0


class Stream:
    """Stream of one viewer."""

    def __init__(self, port: int, user: str = "guest", password: str = "guest") -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
        login = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._connection.request("GET", "/api/mirrormq/live", headers={"Authorization": f"Basic {login}"})
        self.answer = self._connection.getresponse()

    def event(self) -> tuple[str, Any] | None:
        """Return the next event; None at the end."""
        name = ""
        for raw in self.answer:
            line = raw.decode().rstrip("\n")
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                return name, json.loads(line.removeprefix("data: "))
        return None

    def frames(self) -> Iterator[dict[str, Any]]:
        """Yield frames until the end or the deadline."""
        deadline = time.monotonic() + DEADLINE_S
        while (event := self.event()) is not None:
            assert time.monotonic() < deadline, "what was waited for did not come"
            if event[0] == "frame":
                yield event[1]

    def close(self) -> None:
        self.answer.close()
        self._connection.close()


@contextmanager
def watching(node: MirrorMQ, user: str = "guest", password: str = "guest") -> Iterator[Stream]:
    stream = Stream(node.management_port, user, password)
    try:
        yield stream
    finally:
        stream.close()


@pytest.fixture
def channel(node: MirrorMQ) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.amqp_port))
    yield connection.channel()
    connection.close()


def test_history_comes_first_then_a_frame_a_second(node: MirrorMQ) -> None:
    with watching(node) as stream:
        assert stream.answer.headers["content-type"].startswith("text/event-stream")
        assert stream.answer.headers["cache-control"] == "no-store"
        name, lines = stream.event() or ("", [])
        assert name == "history" and lines and len(lines[0]) == 13
        frames = stream.frames()
        times = [next(frames)["at_ms"] for _ in range(4)]
        assert 500 < (times[-1] - times[0]) / 3 < 5000, "the machine may be busy"


def test_a_frame_contains_totals_nodes_and_changed_queues(
    node: MirrorMQ, channel: pika.adapters.blocking_connection.BlockingChannel
) -> None:
    channel.queue_declare("quiet")
    channel.queue_declare("busy")
    with watching(node) as stream:
        frames = stream.frames()
        next(frames)
        for number in range(10):
            channel.basic_publish("", "busy", str(number).encode())
        channel.basic_get("busy")
        busy = next(row for frame in frames for row in frame["queues"] if row["messages"] == 10)
        assert (busy["name"], busy["messages_ready"], busy["messages_unacknowledged"]) == ("busy", 9, 1)
        assert busy["message_stats"]["publish_details"]["rate"] > 0
        frame = next(frames)
        assert frame["totals"]["queue_totals"]["messages"] == 10
        assert frame["totals"]["object_totals"]["queues"] == 2
        assert [row["name"] for row in frame["nodes"]] == [node.node_name]
        assert "quiet" not in [row["name"] for row in frame["queues"]]
        resting = next(frame for frame in frames if not frame["queues"])
        assert resting["more"] is False, "rates have come to rest"


def test_a_change_of_definitions_is_counted(node: MirrorMQ, client: Client) -> None:
    with watching(node) as stream:
        frames = stream.frames()
        before = next(frames)["definitions"]
        assert client.put("queues/%2F/counted", {}).status == 201
        assert next(frame for frame in frames if frame["definitions"] > before)
        client.delete("queues/%2F/counted")


def test_jobs_and_leases_are_counted_by_themselves(node: MirrorMQ) -> None:
    range_client = Asker(f"amqp://guest:guest@127.0.0.1:{node.amqp_port}/%2F")
    range_client.channel.queue_declare("lent")
    range_client.publish("lent", b"x")
    with watching(node) as stream:
        frames = stream.frames()
        before = next(frames)
        range_client.ask("report", job="one", kind="stats", state="done")
        reported = next(frame for frame in frames if frame["pipeline"] > before["pipeline"])
        range_client.take("lent", "lease", 1, 1)
        taken = next(frame for frame in frames if frame["pipeline"] > reported["pipeline"])
        assert taken["definitions"] == before["definitions"]
    range_client.channel.queue_delete("lent")
    range_client.close()


def test_a_user_sees_only_vhosts_with_permissions(
    node: MirrorMQ, client: Client, channel: pika.adapters.blocking_connection.BlockingChannel
) -> None:
    client.put("users/wanda", {"password": "w", "tags": "management"})
    client.put("vhosts/wandas", {})
    client.put("permissions/wandas/wanda", {"configure": ".*", "write": ".*", "read": ".*"})
    wanda = Client(node.management_port, "wanda", "w")
    assert wanda.put("queues/wandas/hers", {}).status == 201
    channel.queue_declare("not hers")
    with watching(node, "wanda", "w") as stream:
        frames = stream.frames()
        next(frames)
        channel.basic_publish("", "not hers", b"x")
        message = {"routing_key": "hers", "properties": {}, "payload": "x", "payload_encoding": "string"}
        assert wanda.post("exchanges/wandas/amq.default/publish", message).json == {"routed": True}
        seen = []
        for frame in frames:
            assert frame["nodes"] == []
            seen += [row["name"] for row in frame["queues"]]
            if "hers" in seen and frame["totals"]["queue_totals"]["messages"] == 1:
                break
        assert set(seen) == {"hers"}


def test_a_stream_ends_with_its_user(node: MirrorMQ, client: Client) -> None:
    client.put("users/brief", {"password": "b", "tags": "monitoring"})
    with watching(node, "brief", "b") as stream:
        frames = stream.frames()
        next(frames)
        assert client.put("users/brief", {"password": "other", "tags": "monitoring"}).status == 204
        assert len(list(frames)) <= 2, "it ends, after what was on its way"
    client.delete("users/brief")


def test_a_user_without_a_tag_is_refused(node: MirrorMQ, client: Client) -> None:
    client.put("users/plain", {"password": "p", "tags": ""})
    stream = Stream(node.management_port, "plain", "p")
    assert stream.answer.status == 401
    stream.close()
    client.delete("users/plain")


def test_a_viewer_beyond_the_limit_gets_an_error() -> None:
    with managed() as node:
        streams = [Stream(node.management_port) for _ in range(VIEWERS_MAX)]
        for stream in streams:
            assert stream.event() is not None
        late = Stream(node.management_port)
        assert late.answer.status == 503 and b"viewers" in late.answer.read()
        for stream in [*streams, late]:
            stream.close()
        deadline = time.monotonic() + DEADLINE_S
        while (again := Stream(node.management_port)).answer.status != 200:
            assert time.monotonic() < deadline, "those who left are still counted"
            again.close()
        again.close()


def test_a_node_stops_while_a_client_watches() -> None:
    with managed() as node, watching(node) as stream:
        next(stream.frames())
        assert node._process is not None
        node._process.send_signal(signal.SIGTERM)
        assert node._process.wait(timeout=DEADLINE_S) == 0
        assert "has stopped" in node.output


@pytest.mark.slow
def test_watching_ten_thousand_queues_does_not_hold_up_deliveries() -> None:
    with managed() as node:
        client = Client(node.management_port)
        queues = [{"name": f"q{number}", "vhost": "/", "durable": False} for number in range(QUEUES)]
        assert client.post("definitions", {"queues": queues}).status == 204
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.amqp_port))
        channel = connection.channel()
        channel.queue_declare("ping")
        with watching(node) as stream:
            next(stream.frames())
            for number in range(QUEUES):
                channel.basic_publish("", f"q{number}", b"x")
            worst = []
            for _ in range(5):  # Other load may delay one event, but a real stall occurs every second.
                until = time.monotonic() + 1.5
                stalls = [0.0]
                while time.monotonic() < until:
                    stalls.append(stall_ms(node, channel))
                worst.append(max(stalls))
            received = [frame for frame, _ in zip(stream.frames(), range(5), strict=False)]
            assert (
                any(frame["more"] for frame in received)
                and max(len(frame["queues"]) for frame in received) == ROWS_MAX
            )
        assert min(worst) < STALL_MS_MAX, worst
        connection.close()
