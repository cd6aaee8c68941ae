"""Cluster page on three real nodes: the ring's buttons, and the display after a node is killed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pika
import pytest
from playwright.sync_api import Browser, Page, expect

from mirrormq.testing import Cluster
from tests.management.http import Client
from tests.management.three import NODES
from tests.waiting import until
from tests.web.watching import watched_page

MESSAGES = 4_000
SYNC_BYTES_PER_S = 1_000_000
"""Slow enough to be observed and stopped, and complete in a few seconds."""
RESTING_MS = 2_500
"""Longer than the interval of the stream, which is one second."""
CONF = f"mirroring_sync_max_throughput = {SYNC_BYTES_PER_S}\n"


@pytest.fixture(scope="module")
def page(cluster: Cluster, browser: Browser) -> Iterator[Page]:
    """Page of the user guest on the first node."""
    with watched_page(browser, cluster.management_port(0)) as watched:
        watched.log_in()
        yield watched.page


def go(page: Page, where: str) -> None:
    page.evaluate("where => { location.hash = where }", f"#/{where}")


def rests(page: Page, asked: list[str]) -> bool:
    """Report whether the page sends no requests for a while: it has processed the declaration."""
    asked.clear()
    page.wait_for_timeout(RESTING_MS)
    return not asked


def test_a_queue_is_declared_and_its_messages_are_live(
    page: Page, cluster: Cluster, clients: list[Client]
) -> None:
    go(page, "queues")
    page.get_by_text("Add a queue", exact=True).click()
    declaring = page.get_by_role("form", name="Add a queue")
    declaring.locator("[name=name]").fill("orders")
    declaring.get_by_role("button", name="Declare").click()
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="orders"))
    expect(row).to_contain_text("mirror1")
    assert clients[2].put("queues/%2F/far", {"durable": True}).status == 201
    far = page.get_by_role("row").filter(has=page.get_by_role("link", name="far"))
    expect(far).to_contain_text("mirror3")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    until(lambda: rests(page, asked))
    with pika.BlockingConnection(pika.URLParameters(cluster.uri(1))) as connection:
        for _ in range(7):
            connection.channel().basic_publish("", "far", b"x")
    expect(far).to_contain_text("7")
    assert not [url for url in asked if "/api/queues" in url], "the stream told it, nobody asked"


def test_a_message_is_published_from_its_page(page: Page, clients: list[Client]) -> None:
    go(page, "queues/%2F/orders")
    form = page.get_by_role("form", name="Publish")
    form.get_by_label("Payload").fill("by hand")
    form.get_by_role("button", name="Publish").click()
    expect(page.get_by_text("Published, and routed to a queue.").first).to_be_visible()
    (message,) = (
        clients[1]
        .post("queues/%2F/orders/get", {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"})
        .json
    )
    assert message["payload"] == "by hand"


def test_the_ring_is_filled_stopped_and_filled_by_its_buttons(
    page: Page, cluster: Cluster, clients: list[Client]
) -> None:
    with pika.BlockingConnection(pika.URLParameters(cluster.uri(0))) as connection:
        channel = connection.channel()
        for _ in range(MESSAGES):
            channel.basic_publish("", "orders", b"x" * 1000, pika.BasicProperties(delivery_mode=2))
    until(lambda: clients[0].get("queues/%2F/orders")["messages"] == MESSAGES + 1)
    manual = {"ha-mode": "all", "ha-sync-mode": "manual"}
    assert clients[1].put("policies/%2F/all", {"pattern": "^orders$", "definition": manual}).status == 201
    expect(page.locator(".ring-list li.behind, .ring-list li.joining")).to_have_count(2)
    expect(page.get_by_role("button", name="Stop synchronising")).to_be_disabled()
    page.get_by_role("button", name="Synchronise", exact=True).click()
    expect(page.locator(".ring-list li.syncing").first).to_be_visible()
    expect(page.get_by_role("progressbar").first).to_be_visible()
    page.get_by_role("button", name="Stop synchronising").click()
    expect(page.locator(".ring-list li.behind, .ring-list li.joining")).to_have_count(2)
    page.get_by_role("button", name="Synchronise", exact=True).click()
    expect(page.locator(".ring-list li.synchronised")).to_have_count(2)
    expect(page.locator(".ring-list li.master")).to_contain_text(cluster.name(0))
    expect(page.get_by_role("button", name="Synchronise", exact=True)).to_be_disabled()


def test_the_master_is_moved_and_moved_back(page: Page, cluster: Cluster, clients: list[Client]) -> None:
    form = page.get_by_role("form", name="Move master")
    form.get_by_label("New master").select_option(cluster.name(2))
    form.get_by_role("button").click()
    expect(page.locator(".ring-list li.master")).to_contain_text(cluster.name(2))
    until(lambda: clients[0].get("queues/%2F/orders")["node"] == cluster.name(2))


def test_masters_are_spread_from_the_cluster_page(
    page: Page, cluster: Cluster, clients: list[Client]
) -> None:
    body = {"pattern": "^even", "definition": {"ha-mode": "all"}}
    assert clients[0].put("policies/%2F/even", body).status == 201
    for number in range(6):
        assert clients[0].put(f"queues/%2F/even{number}", {"durable": True}).status == 201
    until(lambda: all(len(queue["mirrormq"]["in_sync"]) == NODES for queue in evens(clients[0])))
    go(page, "cluster")
    page.get_by_role("button", name="Rebalance").click()
    page.get_by_role("dialog").get_by_role("button", name="Rebalance").click()
    until(lambda: len({queue["node"] for queue in evens(clients[0])}) == NODES)


def evens(client: Client) -> list[dict[str, Any]]:
    return [queue for queue in client.get("queues") if queue["name"].startswith("even")]


def test_a_killed_master_leaves_the_ring_and_it_closes(
    page: Page, cluster: Cluster, clients: list[Client]
) -> None:
    go(page, "queues/%2F/orders")
    expect(page.locator(".ring-list li.master")).to_contain_text(cluster.name(2))
    epoch = clients[0].get("queues/%2F/orders")["mirrormq"]["epoch"]
    cluster.kill(2)
    expect(page.locator(".ring-list li.master")).not_to_contain_text(cluster.name(2))
    expect(page.locator(".ring-list li.synchronised")).to_have_count(1)
    expect(page.locator(".ring-arc.whole")).to_have_count(2)
    assert clients[0].get("queues/%2F/orders")["mirrormq"]["epoch"] > epoch
    until(lambda: clients[0].get("queues/%2F/orders")["messages"] == MESSAGES + 1)
    cluster.start(2)
    expect(page.locator(".ring-member")).to_have_count(NODES)


def test_a_queue_is_emptied_and_deleted(page: Page, clients: list[Client]) -> None:
    page.get_by_role("button", name="Purge").click()
    page.get_by_role("dialog").get_by_role("button", name="Purge").click()
    until(lambda: clients[1].get("queues/%2F/orders")["messages"] == 0)
    page.get_by_role("button", name="Delete", exact=True).first.click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Queues")
    until(lambda: clients[1].request("GET", "queues/%2F/orders").status == 404)
