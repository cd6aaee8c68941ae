"""Definitions that are followed and taken back, between two real nodes: the API of both is RabbitMQ's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mirrormq.migration.migration_records import Plan
from mirrormq.migration_io.broker_api import BrokerApi
from mirrormq.migration_io.definition_follower import DefinitionFollower
from mirrormq.migration_io.migration_directory import MigrationDirectory
from tests.bridge_processes.broker_messages import connected, publish, ready
from tests.brokers.mirrormq import MirrorMQ
from tests.management.conftest import managed
from tests.management.http import Client

ALL = {"configure": ".*", "write": ".*", "read": ".*"}


class Pair:
    """Old and new node, and the follower of a migration between them."""

    def __init__(self, old: MirrorMQ, new: MirrorMQ, directory: Path) -> None:
        self.old_port, self.new_port = old.amqp_port, new.amqp_port
        self.old, self.new = Client(old.management_port), Client(new.management_port)
        uris = [f"http://guest:guest@127.0.0.1:{each.management_port}" for each in (old, new)]
        amqp = [f"amqp://127.0.0.1:{each.amqp_port}" for each in (old, new)]
        plan = Plan("1", "now", uris[:1], amqp[:1], uris[1:], amqp[1:], [], ["guest"], [], [])
        files = MigrationDirectory(directory)
        files.create(plan)
        apis = BrokerApi("old", plan.old_api), BrokerApi("new", plan.new_api)
        self.follower = DefinitionFollower(files, plan, *apis)
        self.follower.remember_before()

    def create(self, vhost: str, *queues: str) -> None:
        """Create a vhost on the old node, with queues that are bound to an exchange."""
        self.old.put(f"vhosts/{vhost}", {})
        self.old.put(f"permissions/{vhost}/guest", ALL)
        self.old.put(f"exchanges/{vhost}/orders", {"type": "fanout", "durable": True})
        for queue in queues:
            self.old.put(f"queues/{vhost}/{queue}", {"durable": True})
            self.old.post(f"bindings/{vhost}/e/orders/q/{queue}", {"routing_key": ""})

    def queues(self, vhost: str) -> set[str]:
        answer = self.new.request("GET", f"queues/{vhost}")
        return set() if answer.status == 404 else {row["name"] for row in answer.json}

    def bound(self, vhost: str) -> set[str]:
        """Return the queues that the exchange of the new node reaches."""
        rows = self.new.get(f"exchanges/{vhost}/orders/bindings/source")
        return {row["destination"] for row in rows}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with managed() as old, managed() as new:
        yield Pair(old, new, tmp_path)


def test_a_queue_in_use_on_the_new_cluster_stays_with_its_bindings(pair: Pair) -> None:
    pair.create("shop", "idle", "consumed", "full")
    pair.follower.follow()
    consumer = connected(pair.new_port, "shop")
    consumer.channel().basic_consume("consumed", lambda *_: None)
    publish(pair.new_port, "full", ["kept"], "shop")
    for queue in ("idle", "consumed", "full"):
        pair.old.delete(f"queues/shop/{queue}")
    pair.old.delete("exchanges/shop/orders")
    pair.follower.follow()
    assert pair.queues("shop") == pair.bound("shop") == {"consumed", "full"}
    named = "\n".join(pair.follower.problems.values())
    assert "queues consumed in shop cannot be removed" in named and "in use" in named
    assert "queues full in shop cannot be removed" in named
    assert ready(pair.new_port, "full", "shop") == 1
    # A queue of that name on the old cluster is followed again.
    pair.old.put("queues/shop/consumed", {"durable": True})
    pair.follower.follow()
    assert ("shop", "consumed") in pair.follower.queues()
    assert not any("consumed" in sentence for sentence in pair.follower.problems.values())
    consumer.close()


def test_a_vhost_with_a_queue_in_use_stays_as_it_is(pair: Pair) -> None:
    pair.create("shop", "idle", "full")
    pair.create("empty", "idle")
    pair.follower.follow()
    publish(pair.new_port, "full", ["kept"], "shop")
    for vhost in ("shop", "empty"):
        pair.old.delete(f"vhosts/{vhost}")
    pair.follower.follow()
    assert pair.queues("shop") == pair.bound("shop") == {"idle", "full"}
    assert pair.new.request("GET", "vhosts/empty").status == 404
    assert list(pair.follower.problems.values()) == [
        "vhosts shop cannot be removed: queue 'full' has messages or consumers on the new cluster"
    ]
    assert ready(pair.new_port, "full", "shop") == 1, "the permissions are there"


def test_removing_the_imported_definitions_spares_queues_in_use(pair: Pair) -> None:
    pair.create("shop", "idle")
    pair.create("%2F", "idle", "consumed")
    pair.follower.follow()
    # A client's own queue, which the old cluster did not take.
    publish(pair.new_port, "own", ["kept"], "shop")
    consumer = connected(pair.new_port)
    consumer.channel().basic_consume("consumed", lambda *_: None)
    pair.follower.undo()
    assert pair.queues("%2F") == pair.bound("%2F") == {"consumed"}
    assert ready(pair.new_port, "own", "shop") == 1
    consumer.close()
    assert ready(pair.new_port, "consumed") == 0
    connection = connected(pair.new_port, "shop")
    connection.channel().queue_purge("own")
    connection.close()
    pair.follower.undo()
    assert pair.queues("%2F") == set()
    assert pair.new.request("GET", "vhosts/shop").status == 404
    assert not pair.follower.problems


def test_a_queue_that_the_old_cluster_refuses_does_not_return(pair: Pair) -> None:
    pair.create("shop", "orders")
    pair.follower.follow()
    pair.old.put("vhost-limits/shop/max-queues", {"value": 1})
    publish(pair.new_port, "own", ["kept"], "shop")
    pair.follower.take_back()
    assert pair.follower.returning_queues() == [("shop", "orders")]
    (sentence,) = pair.follower.problems.values()
    assert sentence.startswith("queues own in shop cannot be created on the old cluster: ")
    assert sentence.endswith("; its messages stay on the new cluster")
    pair.old.delete("vhost-limits/shop/max-queues")
    pair.follower.take_back()
    assert set(pair.follower.returning_queues()) == {("shop", "orders"), ("shop", "own")}
    assert not pair.follower.problems
