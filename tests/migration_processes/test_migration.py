"""Migration of a live RabbitMQ cluster with mirrored queues, publishers and consumers, through HAProxy.

MIGRATION_MESSAGES sets the number of messages: `make acceptance` runs it with 200,000.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

import pytest

from mirrormq.client.client_events import Delivery
from mirrormq.wire import methods
from tests.bridge_processes.broker_messages import drain, publish
from tests.management.http import Client
from tests.migration_processes.load import LoadConsumer, LoadPublisher, connect, judge, seen
from tests.migration_processes.migration_stand import MigrationStand
from tests.waiting import until

MESSAGES = int(os.environ.get("MIGRATION_MESSAGES", "4000"))
MESSAGES_BACK = min(MESSAGES, 20_000)
"""Messages of the rollback."""
PUBLISHERS = 2
RATE = 100.0 if MESSAGES < 50_000 else 1_500.0
"""Messages per second of each publisher: the migration's phases pass while they publish."""
QUEUES = ("orders-eu", "orders-all")
BACKLOG = "archive"
"""Queue without consumers: it gets every message, and the digests of both clusters are compared."""
PATIENCE_S = 120.0 + MESSAGES / 500
"""Time for a share of the messages, on a machine that is busy with other tests."""

pytestmark = [pytest.mark.rabbitmq, pytest.mark.slow, pytest.mark.timeout(3600)]


def prepare(stand: MigrationStand, vhost: str) -> None:
    """Create the objects of the old cluster."""
    api = stand.blue_api
    if vhost != "%2F":
        api.put(f"vhosts/{vhost}", {})
        api.put(f"permissions/{vhost}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
        definition = {"ha-mode": "all", "ha-sync-mode": "automatic"}
        api.put(f"policies/{vhost}/ha", {"pattern": ".*", "definition": definition, "apply-to": "queues"})
    api.put("users/app", {"password": "app-secret", "tags": "management"})
    api.put(f"permissions/{vhost}/app", {"configure": ".*", "write": ".*", "read": ".*"})
    api.put(f"exchanges/{vhost}/orders", {"type": "topic", "durable": True})
    for queue, key in ((QUEUES[0], "eu.*"), (QUEUES[1], "#"), (BACKLOG, "#")):
        api.put(f"queues/{vhost}/{queue}", {"durable": True})
        api.post(f"bindings/{vhost}/e/orders/q/{queue}", {"routing_key": key})


class Load:
    """Clients of one test."""

    def __init__(self, stand: MigrationStand, vhost: str, messages: int) -> None:
        self._messages = messages
        self.publishers = [
            LoadPublisher(stand.producer_port, vhost, number, RATE) for number in range(PUBLISHERS)
        ]
        self.consumers = [LoadConsumer(stand.consumer_port, vhost, queue) for queue in QUEUES]
        for worker in (*self.consumers, *self.publishers):
            worker.start()

    @property
    def published(self) -> dict[int, int]:
        return {publisher.number: publisher.published for publisher in self.publishers}

    @property
    def confirmed(self) -> int:
        return sum(publisher.confirmed for publisher in self.publishers)

    def await_share(self, share: float) -> None:
        """Wait until this share of the messages is confirmed."""
        until(lambda: self.confirmed > self._messages * share, f"{share:.0%} of the messages", PATIENCE_S)

    def finish(self) -> None:
        """Wait until all messages are published and consumed."""
        self.await_share(1.0)
        for publisher in self.publishers:
            publisher.enough.set()
        for publisher in self.publishers:
            publisher.join()
        wanted = sum(self.published.values())
        for consumer in self.consumers:
            self._await_all(consumer, wanted)

    def _await_all(self, consumer: LoadConsumer, wanted: int) -> None:
        until(
            lambda: len({each[:2] for each in consumer.seen}) >= wanted,
            lambda: f"{consumer.queue}: {len(consumer.seen)} deliveries, {wanted} messages",
        )
        consumer.stopping.set()
        consumer.join()


def assert_sound(load: Load) -> dict[str, int]:
    """Nothing lost, order per publisher kept, every duplicate flagged; return the duplicates by queue."""
    duplicates = {}
    for consumer in load.consumers:
        found = judge(consumer.seen, load.published)
        assert (found.lost, found.reordered, found.unflagged) == ([], [], []), consumer.queue
        assert found.wrong_address == 0
        duplicates[consumer.queue] = found.duplicates
    return duplicates


def test_a_live_cluster_moves_and_nothing_is_lost(stand: MigrationStand) -> None:
    prepare(stand, "%2F")
    load = Load(stand, "%2F", MESSAGES)
    load.await_share(0.05)
    shown = stand.command("plan", *stand.plan_words(), *stand.proxy_words())
    assert "Nothing blocks the migration" in shown
    stand.start()
    stand.kill_and_start()  # planned, or within the first import
    stand.await_phase("following")
    stand.kill_and_start()
    assert_followed(stand)
    began_s = time.monotonic()
    stand.command("switch", "consumers", "--timeout", "0")
    stand.kill_and_start()
    stand.await_phase("moving")
    consumers_s = time.monotonic() - began_s
    until(lambda: stand.moved, "the first message", PATIENCE_S)
    stand.kill_and_start()
    load.await_share(0.6)
    began_s = time.monotonic()
    stand.command("switch", "producers", "--timeout", "0")
    stand.kill_and_start()
    stand.await_phase("drained")
    producers_s = time.monotonic() - began_s
    stand.kill_and_start()
    load.finish()
    duplicates = assert_sound(load)

    rows = assert_equal(stand)
    archived = [seen(each) for each in drained(stand.green.port(1), BACKLOG, "%2F")]
    found = judge(archived, load.published)
    assert (found.lost, found.reordered, found.unflagged, found.wrong_address) == ([], [], [], 0)
    assert "were moved" in stand.command("finish")
    assert stand.process is not None and stand.process.wait(120) == 0
    moved = sum(row["moved"] for row in rows.values())
    repeats = {row["queue"]: row["repeats"] for row in rows.values()}
    resent = sum(publisher.resent for publisher in load.publishers)
    figures = {
        "messages": f"{sum(load.published.values())} to each of 3 queues",
        "moved": moved,
        "kill -9 of the command": stand.kills,
        "moved again, all flagged": repeats,
        "resent by publishers": resent,
        "seen again by consumers, all flagged": {**duplicates, BACKLOG: found.duplicates},
        "lost": 0,
        "reordered": 0,
        "consumers paused (s)": round(consumers_s, 1),
        "producers paused (s)": round(producers_s, 1),
    }
    print("\n" + json.dumps(figures, indent=1))


def assert_followed(stand: MigrationStand) -> None:
    """A queue and its binding appear on the new cluster, and disappear again."""
    stand.blue_api.put("queues/%2F/late", {"durable": True})
    stand.blue_api.post("bindings/%2F/e/orders/q/late", {"routing_key": "late.#"})
    until(lambda: stand.green_api.request("GET", "bindings/%2F/e/orders/q/late").shown[:1])
    stand.blue_api.delete("queues/%2F/late")
    until(lambda: stand.green_api.request("GET", "queues/%2F/late").status == 404)


def assert_equal(stand: MigrationStand) -> dict[str, dict[str, Any]]:
    """The verification finds no difference; return its rows by queue."""
    report = json.loads(stand.command("verify", "--json"))
    rows = {row["queue"]: row for row in report["rows"]}
    assert not report["definitions"]
    assert not any(row["difference"] or row["left"] for row in rows.values())
    assert rows[BACKLOG]["digest"] == ("not read" if rows[BACKLOG]["repeats"] else "equal")
    return rows


def test_a_rollback_returns_everything_in_order(stand: MigrationStand) -> None:
    prepare(stand, "shop")
    load = Load(stand, "shop", MESSAGES_BACK)
    load.await_share(0.05)
    stand.command("plan", *stand.plan_words(), *stand.proxy_words(), "--vhost", "shop")
    stand.start()
    stand.await_phase("following")
    until(lambda: stand.green_api.request("GET", "queues/shop/archive").status == 200)
    assert not any(row["vhost"] == "/" for row in stand.green_api.get("queues"))
    stand.command("switch", "consumers")
    stand.command("switch", "producers")
    load.await_share(0.3)
    # Created after the switch: it goes back, but RabbitMQ cannot take the hash of its password.
    stand.green_api.put("users/later", {"password": "later-secret", "tags": ""})
    publish(stand.green.port(1), "later", ["kept"], "shop")
    stand.command("rollback", "--timeout", "0")
    stand.kill_and_start()
    stand.await_phase("returning")
    stand.kill_and_start()
    stand.await_phase("following")
    load.finish()
    assert_sound_on_the_old_cluster(load)
    assert [body for body, _ in drain(stand.blue.port(1), "later", "shop")] == ["kept"]
    assert "user 'later' needs a new password on the old cluster" in stand.command("status")
    # The imported hash of an old user works on the new cluster until the definitions are removed.
    assert Client(stand.green.management_port(0), "app", "app-secret").request("GET", "whoami").status == 200
    assert "later" in stand.command("rollback", "--timeout", "0")
    stand.kill_and_start()
    assert stand.process is not None and stand.process.wait(120) == 0
    assert stand.green_api.request("GET", "vhosts/shop").status == 404
    assert stand.green_api.request("GET", "users/app").status == 404
    archived = judge([seen(each) for each in drained(stand.blue.port(0), BACKLOG, "shop")], load.published)
    assert (archived.lost, archived.reordered, archived.unflagged) == ([], [], [])


def assert_sound_on_the_old_cluster(load: Load) -> None:
    """As `assert_sound`; RabbitMQ does not restore exchange and routing key of a message that came back."""
    for consumer in load.consumers:
        found = judge(consumer.seen, load.published)
        assert (found.lost, found.reordered, found.unflagged) == ([], [], []), consumer.queue


def drained(port: int, queue: str, vhost: str) -> list[Delivery]:
    """Take everything out of a queue."""
    taken: list[Delivery] = []
    with connect(port, vhost) as client:
        client.call(methods.encode_basic_consume(queue, "drain", no_ack=True))
        while found := [each for each in client.events(2.0) if isinstance(each, Delivery)]:
            taken += found
    return taken
