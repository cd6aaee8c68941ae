"""Message statistics, compared with those of a real RabbitMQ that did the same work."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pika
import pytest

from tests.brokers.mirrormq import MirrorMQ
from tests.management import record, work
from tests.management.conftest import managed
from tests.management.http import Client
from tests.needs import need_rabbitmq
from tests.waiting import until

RECORDED: dict[str, Any] = json.loads(record.COUNTED.read_text())

NOBODY_THERE: dict[str, dict[str, int | None]] = {
    "exchanges in_transactions/": {"publish_out": 7},
    "exchanges queue_deleted/": {"publish_out": 3},
    "exchanges through_the_api/": {"publish_out": 2},
    "exchanges unroutable_confirmed/": {"publish_out": None},
}
"""Cases in which RabbitMQ counts a message as routed by the default exchange although the queue does not
exist."""


@pytest.fixture(scope="module")
def counted() -> dict[str, Any]:
    with managed(work.OFTEN) as broker:
        return work.observe(broker.amqp_port, broker.management_port)


KEPT = {
    "channels queue_deleted": [
        {"publish": 4, "confirm": 4, "drop_unroutable": 1, "deliver": 3, "deliver_get": 3}
    ]
}
"""Cases in which RabbitMQ's channels drop delivery counts of a deleted queue."""


def _expected(name: str) -> Any:
    found = KEPT.get(name, RECORDED[name])
    if name not in NOBODY_THERE:
        return found
    return {key: value for key, value in {**found, **NOBODY_THERE[name]}.items() if value is not None}


@pytest.mark.parametrize("name", sorted(name for name, found in RECORDED.items() if found))
def test_both_brokers_count_equally(name: str, counted: dict[str, Any]) -> None:
    assert counted[name] == _expected(name)


def test_nothing_else_is_counted(counted: dict[str, Any]) -> None:
    silent = {name for name, found in RECORDED.items() if not found}
    assert {name: counted[name] for name in silent & counted.keys() if counted[name]} == {}


@pytest.mark.rabbitmq
@pytest.mark.slow
def test_the_recording_is_what_rabbitmq_counts() -> None:
    need_rabbitmq()
    assert record.count() == RECORDED


# -- rates, histories, churn ------------------------------------------------------------------------

RANGE = "msg_rates_age=20&msg_rates_incr=5&lengths_age=20&lengths_incr=10&data_rates_age=20&data_rates_incr=5"


@pytest.fixture(scope="module")
def busy() -> Iterator[tuple[Client, MirrorMQ]]:
    """Node with a message published every now and then for a while."""
    with managed(work.OFTEN) as broker:
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
        channel = connection.channel()
        channel.queue_declare("q")
        until = time.monotonic() + 12
        while time.monotonic() < until:
            channel.basic_publish("", "q", b"x" * 100)
            connection.process_data_events(0.1)
        yield Client(broker.management_port), broker
        connection.close()


def _details(row: dict[str, Any], *path: str) -> Any:
    for name in path:
        row = row[name]
    return row


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("queues/%2F/q", ("message_stats", "publish_details")),
        ("exchanges/%2F/amq.default", ("message_stats", "publish_in_details")),
        ("vhosts/%2F", ("message_stats", "publish_details")),
        ("overview", ("message_stats", "publish_details")),
        ("overview", ("queue_totals", "messages_details")),
        ("queues/%2F/q", ("messages_ready_details",)),
        ("vhosts/%2F", ("recv_oct_details",)),
    ],
)
def test_a_history_can_be_asked_for(busy: tuple[Client, MirrorMQ], path: str, where: tuple[str, ...]) -> None:
    shown = _details(busy[0].get(f"{path}?{RANGE}"), *where)
    samples = [sample["sample"] for sample in shown["samples"]]
    times = [sample["timestamp"] for sample in shown["samples"]]
    assert samples == sorted(samples, reverse=True) and samples[0] > samples[-1] >= 0
    steps = {before - after for before, after in pairwise(times)}
    assert steps == {10_000 if "messages" in where[-1] else 5_000} and times[0] % 5_000 == 0
    assert shown["avg"] == pytest.approx(sum(samples) / len(samples))
    assert shown["avg_rate"] == pytest.approx((samples[0] - samples[-1]) * 1000 / (times[0] - times[-1]))
    assert shown["rate"] == pytest.approx((samples[0] - samples[1]) * 1000 / (times[0] - times[1]))
    assert "samples" not in _details(busy[0].get(path), *where)


def test_lists_show_histories_too(busy: tuple[Client, MirrorMQ]) -> None:
    (channel,) = busy[0].get(f"channels?{RANGE}")
    assert len(channel["message_stats"]["publish_details"]["samples"]) == 5
    (connection,) = busy[0].get(f"connections?{RANGE}")
    assert connection["recv_oct_details"]["samples"][0]["sample"] > 1000
    (node,) = busy[0].get("nodes?node_stats_age=60&node_stats_incr=30")
    assert len(node["mem_used_details"]["samples"]) == 3
    assert len(node["connection_created_details"]["samples"]) == 3
    churn = busy[0].get(f"overview?{RANGE}")["churn_rates"]
    assert churn["connection_created_details"]["samples"][0]["sample"] == churn["connection_created"]


@pytest.mark.parametrize("wrong", ["msg_rates_age=30", "msg_rates_age=x&msg_rates_incr=5"])
def test_half_a_range_is_none(busy: tuple[Client, MirrorMQ], wrong: str) -> None:
    assert busy[0].get(f"queues/%2F/q?{wrong}")["message_stats"]["publish_details"].keys() == {"rate"}


@pytest.mark.parametrize(
    ("age", "step", "reason"),
    [
        ("30", "0", "Invalid range parameters: age 30, incr 0"),
        ("-30", "5", "Invalid range parameters: age -30, incr 5"),
        ("999999", "1", "Invalid range parameters: age 999999, incr 1"),
    ],
)
def test_a_range_that_makes_no_sense_is_refused(
    busy: tuple[Client, MirrorMQ], age: str, step: str, reason: str
) -> None:
    answer = busy[0].request("GET", f"queues/%2F/q?msg_rates_age={age}&msg_rates_incr={step}")
    assert (answer.status, answer.json) == (400, {"error": "bad_request", "reason": reason})


def _churn(client: Client) -> dict[str, int]:
    return {name: n for name, n in client.get("overview")["churn_rates"].items() if isinstance(n, int)}


def test_objects_that_are_created_and_removed_are_counted(busy: tuple[Client, MirrorMQ]) -> None:
    client, broker = busy
    before = _churn(client)
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
    first, second = connection.channel(), connection.channel()
    first.queue_declare("churned")
    first.queue_declare("churned")
    first.queue_declare("churned", passive=True)
    second.queue_delete("churned")
    connection.close()
    client.put("queues/%2F/churned", {})
    client.delete("queues/%2F/churned")
    deadline = time.monotonic() + 60
    expected = {
        "connection_created": 1, "connection_closed": 1, "channel_created": 2, "channel_closed": 2,
        "queue_declared": 3, "queue_created": 2, "queue_deleted": 2,
    }  # fmt: skip
    while (grown := {name: n - before[name] for name, n in _churn(client).items()}) != expected:
        assert time.monotonic() < deadline, grown
        time.sleep(0.1)


def test_bytes_are_counted_both_ways(busy: tuple[Client, MirrorMQ]) -> None:
    (row,) = busy[0].get("connections")
    assert row["recv_oct"] > row["recv_cnt"] > 0
    assert row["send_oct"] > row["send_cnt"] > 0 and row["send_pend"] == 0


def _past(client: Client, path: str, kind: str, *where: str) -> list[int]:
    """Return samples of the last 20 seconds, the latest first."""
    shown = _details(client.get(f"{path}?{kind}_age=20&{kind}_incr=5"), *where)
    return [sample["sample"] for sample in shown["samples"]]


def test_statistics_start_anew_and_counters_go_on(busy: tuple[Client, MirrorMQ]) -> None:
    client = busy[0]
    of_queue = ("queues/%2F/q", "msg_rates", "message_stats", "publish_details")
    of_vhost = ("overview", "msg_rates", "message_stats", "publish_details")
    until(lambda: all(_past(client, *asked)[2] for asked in (of_queue, of_vhost)))
    published = client.get("queues/%2F/q")["message_stats"]["publish"]
    assert client.delete("reset").status == 204
    for asked in (of_queue, of_vhost):
        latest, _, *older = _past(client, *asked)
        assert latest == published and not any(older)
    assert client.get("overview")["message_stats"]["publish"] == published > 0
