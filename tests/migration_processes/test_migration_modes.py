"""Migrations without a proxy, with one address for all clients, and of quorum queues and streams."""

from __future__ import annotations

import time

import pika
import pytest

from tests.bridge_processes.broker_messages import connected, drain, publish
from tests.migration_processes.migration_stand import MigrationStand
from tests.waiting import until

pytestmark = [pytest.mark.rabbitmq, pytest.mark.slow, pytest.mark.timeout(900)]

BODIES = [str(number) for number in range(300)]
USAGE, UNAVAILABLE, DIFFERENT = 64, 69, 1


def prepare(stand: MigrationStand, vhost: str) -> None:
    """Create a vhost with one queue and its backlog."""
    api = stand.blue_api
    api.put(f"vhosts/{vhost}", {})
    api.put(f"permissions/{vhost}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    publish(stand.blue.port(0), "orders", BODIES, vhost)


def bodies(port: int, vhost: str) -> list[str]:
    return [body for body, _ in drain(port, "orders", vhost)]


def test_without_a_proxy_the_team_stops_its_clients(stand: MigrationStand) -> None:
    prepare(stand, "manual")
    consumer = connected(stand.blue.port(0), "manual")
    channel = consumer.channel()
    channel.basic_qos(prefetch_count=10)
    channel.basic_consume("orders", lambda *_: None)
    stand.command("plan", *stand.plan_words(), "--vhost", "manual")
    stand.start()
    stand.await_phase("following")
    shown = stand.command("switch", "consumers", "--timeout", "4", code=USAGE)
    assert (
        "1 consumers are still on the old cluster, for example of queue 'orders' in vhost 'manual'" in shown
    )
    assert stand.phase() == "consumers-leaving"
    stand.command("rollback", "--timeout", "20")
    assert stand.phase() == "following"
    consumer.close()
    stand.command("switch", "consumers")
    publish(stand.blue.port(1), "orders", ["late"], "manual")
    stand.command("switch", "producers")
    assert "No unexplained difference" in stand.command("verify")
    # A producer that was overlooked: its message still moves, and is counted.
    publish(stand.blue.port(1), "orders", ["overlooked"], "manual")
    until(lambda: stand.moved == len(BODIES) + 2)
    stand.command("finish")
    # The first ten came back from the consumer; they are in front, as before.
    assert bodies(stand.green.port(0), "manual") == [*BODIES, "late", "overlooked"]


def test_without_a_proxy_a_rollback_waits_for_all_clients(stand: MigrationStand) -> None:
    prepare(stand, "back")
    stand.command("plan", *stand.plan_words(), "--vhost", "back")
    stand.start()
    stand.await_phase("following")
    stand.command("switch", "consumers")
    stand.command("switch", "producers")
    consumer = connected(stand.green.port(0), "back")
    channel = consumer.channel()
    channel.basic_qos(prefetch_count=10)
    channel.basic_consume("orders", lambda *_: None)
    consumer.process_data_events(1)
    shown = stand.command("rollback", "--timeout", "8", code=USAGE)
    assert "1 clients are still connected to the new cluster: " in shown
    assert "stop all clients until the rollback has ended" in shown
    assert stand.phase() == "rollback-draining"
    publish(stand.green.port(1), "orders", ["late"], "back")
    early = connected(stand.blue.port(0), "back")
    consumer.close()
    until(lambda: "1 clients are still connected to the old cluster: " in stand.command("status"))
    early.close()
    stand.await_phase("following")
    assert bodies(stand.blue.port(0), "back") == [*BODIES, "late"]


def test_one_address_for_all_clients(stand: MigrationStand) -> None:
    prepare(stand, "shared")
    words = ["--haproxy", str(stand.socket), "--consumers", "consumers", "--producers", "consumers"]
    stand.command("plan", *stand.plan_words(), *words, "--vhost", "shared")
    stand.start()
    stand.await_phase("following")
    assert "use 'mirrormq migrate switch all'" in stand.command("switch", "consumers", code=USAGE)
    parameters = pika.ConnectionParameters("127.0.0.1", stand.consumer_port, "shared")
    before = pika.BlockingConnection(parameters)
    stand.command("switch", "all")
    with pytest.raises(pika.exceptions.AMQPError):
        before.channel()
    after = pika.BlockingConnection(parameters)
    assert after.channel().queue_declare("orders", passive=True).method.message_count == len(BODIES)
    after.close()
    stand.command("rollback")
    assert bodies(stand.consumer_port, "shared") == BODIES


def test_quorum_queues_become_mirrored_and_streams_block(stand: MigrationStand) -> None:
    prepare(stand, "kinds")
    for name, kind in (("votes", "quorum"), ("log", "stream")):
        stand.blue_api.put(f"queues/kinds/{name}", {"durable": True, "arguments": {"x-queue-type": kind}})
    shown = stand.command("plan", *stand.plan_words(), "--vhost", "kinds", code=DIFFERENT)
    assert "Blockers: 1." in shown
    assert "blockers: queues:log" in stand.command("run", code=USAGE)
    stand.command("plan", *stand.plan_words(), "--vhost", "kinds", "--accept", "queues:log")
    publish(stand.blue.port(0), "", BODIES[:20], "kinds", exchange="amq.fanout")
    stand.blue_api.post("bindings/kinds/e/amq.fanout/q/votes", {"routing_key": ""})
    publish(stand.blue.port(0), "key", BODIES[:20], "kinds", exchange="amq.fanout")
    stand.start()
    stand.await_phase("following")
    for command in (["switch", "consumers"], ["switch", "producers"], ["finish"]):
        stand.command(*command)
    taken = drain(stand.green.port(0), "votes", "kinds")
    assert [body for body, _ in taken] == BODIES[:20]
    votes = stand.green_api.get("queues/kinds/votes")
    assert votes["arguments"] == {} and votes["policy"].startswith("converted-quorum")


def test_a_cluster_that_restarts_meanwhile(stand: MigrationStand) -> None:
    """A node of the new cluster dies while messages move: the links continue over the other one."""
    prepare(stand, "restart")
    stand.command("plan", *stand.plan_words(), "--vhost", "restart")
    stand.start()
    stand.await_phase("following")
    stand.command("switch", "consumers")
    stand.green.kill(0)
    publish(stand.blue.port(0), "orders", ["late"], "restart")
    time.sleep(1)
    stand.green.start(0)
    stand.command("switch", "producers")
    assert "No unexplained difference" in stand.command("verify")
    stand.command("finish")
    taken = bodies(stand.green.port(1), "restart")
    assert list(dict.fromkeys(taken)) == [*BODIES, "late"]


def test_a_queue_that_the_old_cluster_refuses_does_not_hold_a_rollback(stand: MigrationStand) -> None:
    prepare(stand, "limited")
    stand.command("plan", *stand.plan_words(), *stand.proxy_words(), "--vhost", "limited")
    stand.start()
    stand.await_phase("following")
    stand.command("switch", "consumers")
    stand.command("switch", "producers")
    publish(stand.producer_port, "own", ["kept"], "limited")
    stand.blue_api.put("vhost-limits/limited/max-queues", {"value": 1})
    shown = stand.command("rollback", "--timeout", "60")
    assert "queues own in limited cannot be created on the old cluster" in shown
    assert "its messages stay on the new cluster" in shown
    assert bodies(stand.consumer_port, "limited") == BODIES
    shown = stand.command("rollback")
    assert "vhosts limited cannot be removed: queue 'own' has messages or consumers" in shown
    assert [body for body, _ in drain(stand.green.port(0), "own", "limited")] == ["kept"]
