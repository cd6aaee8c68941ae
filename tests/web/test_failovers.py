"""Failover timeline of a cluster whose nodes are killed: every node's replies, and the page."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from typing import Any

import pika
import pytest
from playwright.sync_api import Browser, expect

from mirrormq.testing import Cluster
from tests.management.http import Client
from tests.management.three import NODES
from tests.metrics.scene import scrape
from tests.waiting import until
from tests.web.watching import watched_page

MIRROR_ALL = True
LASTING = ("node", "vhost", "queue", "redelivered", "text")
TAKEN = 3
"""Unacknowledged messages of a consumer when the master fails; the next master redelivers them."""


class Scene:
    """Mirrored queue on three nodes."""

    def __init__(self, cluster: Cluster, clients: list[Client]) -> None:
        self.cluster = cluster
        self.names = [cluster.name(index) for index in range(NODES)]
        self.clients = clients

    def whole(self, asked: int) -> bool:
        facts = self.clients[asked].get("queues/%2F/orders")["mirrormq"]
        return len(facts["in_sync"]) == NODES

    def master(self, asked: int) -> int:
        return self.names.index(str(self.clients[asked].get("queues/%2F/orders")["node"]))

    def promotions(self, asked: int) -> list[dict[str, Any]]:
        reported = self.clients[asked].get("mirrormq/timeline")
        return [event for event in reported if (event["kind"], event["queue"]) == ("promoted", "orders")]

    def tells(self, asked: int, event: dict[str, Any]) -> bool:
        """Return the event of this promotion. Its time and outage may change: a busy node sees the
        promotion later."""
        return any(
            all(reported[name] == event[name] for name in LASTING) for reported in self.promotions(asked)
        )

    def story(self, asked: int) -> list[str]:
        return sorted(str(event) for event in self.clients[asked].get("mirrormq/timeline"))


@pytest.fixture(scope="module")
def scene(cluster: Cluster, clients: list[Client]) -> Scene:
    connection = pika.BlockingConnection(pika.URLParameters(cluster.uri(0)))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("orders", durable=True)
    for _ in range(10):
        channel.basic_publish("", "orders", b"x", pika.BasicProperties(delivery_mode=2))
    connection.close()
    return Scene(cluster, clients)


@pytest.fixture(scope="module")
def failover(scene: Scene) -> tuple[int, int, dict[str, Any]]:
    """Kill the master while a client of another node has its messages; return the dead node, the queried
    node and its event."""
    until(lambda: scene.whole(0))
    dead = scene.master(0)
    asked = (dead + 1) % NODES
    connection = pika.BlockingConnection(pika.URLParameters(scene.cluster.uri(asked)))
    channel = connection.channel()
    for _ in range(TAKEN):
        assert channel.basic_get("orders", auto_ack=False)[0] is not None
    scene.cluster.kill(dead)
    event = until(lambda: [e for e in scene.promotions(asked) if e["redelivered"] is not None])[-1]
    connection.close()
    return dead, asked, event


def test_a_promotion_reports_the_dead_node_the_duration_and_the_redeliveries(
    scene: Scene, failover: tuple[int, int, dict[str, Any]]
) -> None:
    dead, asked, event = failover
    assert event["node"] != scene.names[dead] and event["text"] == f"in place of {scene.names[dead]}"
    assert event["redelivered"] == TAKEN
    assert 0 <= event["gap_ms"] < 20_000
    reported = scene.clients[asked].get("mirrormq/timeline")
    assert [e["text"] for e in reported if (e["kind"], e["node"]) == ("node_down", scene.names[dead])] == [
        "lost"
    ]
    log = scene.cluster.directory / event["node"] / "log" / "node.log"
    until(lambda: f"rabbit on node {scene.names[dead]} down" in log.read_text())
    promoted = re.compile(r"Mirrored queue 'orders' in vhost '/': Promoting mirror <.*> to leader")
    until(lambda: promoted.search(log.read_text()))
    assert [e["at_ms"] for e in reported] == sorted(e["at_ms"] for e in reported)
    other = 3 - dead - asked
    until(lambda: scene.story(other) == scene.story(asked))


def counted(port: int, expected: dict[str, float]) -> None:
    """Wait until the node's metrics have these values; facts of other nodes arrive later."""

    def now() -> dict[str, list[float]]:
        found = scrape(port)
        return {name: found.values(name) for name in expected}

    wanted = {name: [value] for name, value in expected.items()}
    with suppress(AssertionError):
        until(lambda: now() == wanted)
    assert now() == wanted


def test_metrics_count_it(scene: Scene, failover: tuple[int, int, dict[str, Any]]) -> None:
    dead, _, event = failover
    successor = scene.names.index(event["node"])
    counted(scene.cluster.management_port(successor), {
        "mirrormq_failovers_total": 1, "mirrormq_rings": 1, "mirrormq_ring_members": 2,
        "mirrormq_ring_in_sync_members": 2, "mirrormq_ring_lag_messages": 0, "mirrormq_ring_epochs": 2,
        "mirrormq_queues_unsynchronised": 0, "mirrormq_cluster_nodes": 3, "mirrormq_cluster_nodes_running": 2,
        "mirrormq_orphan_messages": 0, "mirrormq_queues_down": 0,
    })  # fmt: skip
    each = scrape(scene.cluster.management_port(successor), "/metrics/per-object")
    assert each.values("mirrormq_ring_epoch", queue="orders", vhost="/") == [2]
    other = scene.cluster.management_port(3 - dead - successor)
    counted(other, {"mirrormq_failovers_total": 1, "mirrormq_rings": 0})


def test_the_page_draws_it(scene: Scene, failover: tuple[int, int, dict[str, Any]], browser: Browser) -> None:
    dead, asked, event = failover
    with watched_page(browser, scene.cluster.management_port(asked)) as watched:
        page = watched.page
        watched.log_in()
        watched.go("timeline")
        promoted = page.locator("[aria-labelledby=events] .event.accent").filter(has_text="orders")
        expect(promoted).to_have_count(1)
        expect(promoted).to_contain_text(event["node"])
        expect(promoted).to_contain_text(scene.names[dead])
        expect(promoted.locator(".event-numbers li").nth(1)).to_contain_text(str(TAKEN))
        expect(page.locator("[aria-labelledby=events] .event.bad")).to_contain_text(scene.names[dead])
        expect(page.locator("[aria-labelledby=lanes] rect.lanes-down")).to_have_count(1)
        expect(page.locator("[aria-labelledby=lanes] .lanes-mark.promoted")).to_have_count(1)


def test_the_timeline_outlives_the_nodes_that_saw_it(
    scene: Scene, failover: tuple[int, int, dict[str, Any]]
) -> None:
    """Check that the timeline survives: the new master, which alone counted redeliveries, fails too; then
    all nodes restart."""
    dead, _, event = failover
    scene.cluster.start(dead)
    until(lambda: scene.whole(dead))
    successor = scene.names.index(event["node"])
    scene.cluster.kill(successor)
    until(lambda: len(scene.promotions(dead)) == 2)
    until(lambda: scene.tells(dead, event))
    scene.cluster.start(successor)
    scene.cluster.local.stop_all()
    scene.cluster.local.start_all()
    for index in range(NODES):
        until(partial(scene.tells, index, event))
