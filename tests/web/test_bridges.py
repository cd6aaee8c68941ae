"""Bridges page, moving of messages on the page of a queue, and the graph of links on the Cluster page."""

from __future__ import annotations

import re
from functools import partial

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.brokers.mirrormq import MirrorMQ
from tests.management.http import Client
from tests.waiting import until
from tests.web.conftest import Opener

FULL = 20
"""Messages that the limited destination takes."""


def publish(client: Client, queue: str, count: int) -> None:
    message = {"properties": {"delivery_mode": 2}, "routing_key": queue, "payload": "m"}
    for _ in range(count):
        body = {**message, "payload_encoding": "string"}
        assert client.post("exchanges/%2F/amq.default/publish", body).status == 200


def ready(client: Client, queue: str) -> int:
    found: int = client.get(f"queues/%2F/{queue}").get("messages_ready", 0)
    return found


def open_bridges(page: Page) -> None:
    page.get_by_role("link", name="Bridges", exact=True).first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Bridges")


def move_to(page: Page, queue: str, destination: str) -> Locator:
    page.evaluate("name => { location.hash = `#/queues/%2F/${name}` }", queue)
    panel = page.get_by_role("region", name="Move messages")
    panel.get_by_label("Destination queue").fill(destination)
    panel.get_by_role("button", name="Move messages").click()
    return panel


def test_messages_are_moved_to_another_queue(page: Page, client: Client) -> None:
    client.put("queues/%2F/crowded", {"durable": True})
    publish(client, "crowded", 50)
    until(partial(lambda: ready(client, "crowded") == 50))
    move_to(page, "crowded", "roomy")
    expect(page.get_by_text("All messages are moved to queue roomy.")).to_be_visible()
    until(lambda: (ready(client, "crowded"), ready(client, "roomy")) == (0, 50))
    assert client.get("parameters/shovel") == [], "the shovel has deleted itself"
    expect(page.get_by_role("region", name="Move messages").get_by_label("Destination queue")).to_be_visible()


def test_a_full_destination_shows_how_far_the_move_is_and_why_it_waits(page: Page, client: Client) -> None:
    client.put("queues/%2F/long", {"durable": True})
    limits = {"x-max-length": FULL, "x-overflow": "reject-publish"}
    client.put("queues/%2F/small", {"durable": True, "arguments": limits})
    publish(client, "long", 50)
    until(lambda: ready(client, "long") == 50)
    panel = move_to(page, "long", "small")
    bar = panel.get_by_role("progressbar", name="Moved messages")
    expect(bar).to_have_attribute("value", str(FULL / 50))
    expect(panel).to_contain_text("20 of 50 messages")
    expect(panel).to_contain_text(re.compile(r"messages · [\d.]+/s, .+ left"))
    expect(panel.get_by_role("alert")).to_contain_text("rejected: the destination refuses messages")
    client.delete("queues/%2F/small/contents")
    expect(panel).to_contain_text("40 of 50 messages")
    panel.get_by_role("button", name="Stop").click()
    expect(page.get_by_text("Moving has stopped.")).to_be_visible()
    until(lambda: (ready(client, "long"), ready(client, "small")) == (10, FULL))


def test_a_policymaker_without_the_tag_monitoring_moves_messages(open_page: Opener, client: Client) -> None:
    client.put("users/planner", {"password": "p", "tags": "policymaker"})
    client.put("permissions/%2F/planner", {"configure": ".*", "write": ".*", "read": ".*"})
    client.put("queues/%2F/planned", {"durable": True})
    publish(client, "planned", 3)
    watched = open_page()
    watched.log_in("planner", "p")
    move_to(watched.page, "planned", "planned-to")
    expect(watched.page.get_by_text("All messages are moved to queue planned-to.")).to_be_visible()
    open_bridges(watched.page)
    expect(watched.page.get_by_role("region", name="Upstreams")).to_be_visible()
    expect(watched.page.get_by_role("region", name="Federation links")).to_have_count(0)


def test_a_user_who_sets_no_parameters_cannot_move_messages(open_page: Opener, client: Client) -> None:
    client.put("users/reader", {"password": "r", "tags": "management"})
    client.put("permissions/%2F/reader", {"configure": ".*", "write": ".*", "read": ".*"})
    client.put("queues/%2F/plain", {"durable": True})
    watched = open_page()
    watched.log_in("reader", "r")
    watched.go("queues/%2F/plain")
    expect(watched.page.get_by_role("region", name="Get messages")).to_be_visible()
    expect(watched.page.get_by_role("region", name="Move messages")).to_have_count(0)
    expect(watched.page.get_by_role("link", name="Bridges", exact=True)).to_have_count(0)


def test_a_shovel_is_added_restarted_and_deleted(page: Page, client: Client) -> None:
    open_bridges(page)
    page.get_by_text("Add a shovel", exact=True).click()
    form = page.get_by_role("form", name="Add a shovel")
    form.get_by_label("Name").fill("copier")
    form.get_by_label("Source", exact=False).nth(2).fill("copied")
    form.get_by_label("URI of the destination").fill("amqp:// amqp:///%2F")
    form.get_by_label("Destination", exact=True).fill("copies")
    form.get_by_label("Prefetch count").fill("7")
    form.get_by_role("button", name="Save").click()
    row = page.get_by_role("region", name="Shovels").get_by_role("row").filter(has_text="copier")
    expect(row).to_contain_text("running")
    expect(row).to_contain_text("this cluster")
    value = client.get("parameters/shovel/%2F/copier")["value"]
    assert value == {
        "src-uri": "amqp://", "dest-uri": ["amqp://", "amqp:///%2F"], "ack-mode": "on-confirm",
        "src-queue": "copied", "dest-queue": "copies", "src-prefetch-count": 7,
    }  # fmt: skip
    publish(client, "copied", 3)
    expect(row.locator("[data-label=Moved]")).to_have_text("3")
    page.get_by_role("button", name="Restart copier").click()
    expect(page.get_by_text("copier starts again.")).to_be_visible()
    expect(row.locator("[data-label=Moved]")).to_have_text("0")
    page.get_by_role("button", name="Delete shovel copier").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(row).to_have_count(0)
    assert client.get("parameters/shovel") == []


def test_a_failing_shovel_says_why_and_shows_no_password(page: Page, client: Client, node: MirrorMQ) -> None:
    value = {
        "src-uri": "amqp://", "src-queue": "kept",
        "dest-uri": f"amqp://guest:secret@127.0.0.1:{node.amqp_port}", "dest-queue": "never",
    }  # fmt: skip
    assert client.put("parameters/shovel/%2F/refused", {"value": value}).status == 201
    try:
        open_bridges(page)
        row = page.get_by_role("region", name="Shovels").get_by_role("row").filter(has_text="refused")
        expect(row).to_contain_text("failed")
        expect(row).to_contain_text("ACCESS_REFUSED - Login was refused")
        expect(row).to_contain_text("next attempt")
        assert "secret" not in page.content()
        page.get_by_role("link", name="Cluster", exact=True).first.click()
        graph = page.get_by_role("region", name="Links to other brokers")
        drawn = graph.get_by_role("img", name="One link to another broker; running: 0.")
        expect(drawn).to_be_visible()
        expect(drawn.locator(".bridge-link.bad")).to_contain_text("refused")
        expect(drawn).to_contain_text(f"127.0.0.1:{node.amqp_port}")
        assert "secret" not in page.content()
        graph.get_by_role("link", name="Bridges").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Bridges")
    finally:
        client.delete("parameters/shovel/%2F/refused")


@pytest.fixture
def upstream_vhost(client: Client) -> str:
    """Vhost that stands for the upstream: a link may lead to another vhost of the same cluster."""
    client.put("vhosts/up", {})
    client.put("permissions/up/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    client.put("exchanges/up/news", {"type": "fanout", "durable": True})
    return "up"


def test_an_upstream_is_added_its_link_is_shown_restarted_and_it_is_deleted(
    page: Page, client: Client, upstream_vhost: str
) -> None:
    open_bridges(page)
    page.get_by_text("Add an upstream", exact=True).click()
    form = page.get_by_role("form", name="Add an upstream")
    form.get_by_label("Vhost").select_option("/")
    form.get_by_label("Name").fill("near")
    form.get_by_label("URI").fill(f"amqp:///{upstream_vhost}")
    form.get_by_label("Hops").fill("2")
    form.get_by_role("button", name="Save").click()
    upstreams = page.get_by_role("region", name="Upstreams")
    expect(upstreams.get_by_role("rowheader", name="near")).to_be_visible()
    expect(upstreams).to_contain_text("max-hops = 2")
    links = page.get_by_role("region", name="Federation links")
    expect(links).to_contain_text("A policy with the key federation-upstream")
    client.put("exchanges/%2F/news", {"type": "fanout", "durable": True})
    policy = {"pattern": "^news$", "apply-to": "exchanges", "definition": {"federation-upstream": "near"}}
    client.put("policies/%2F/federate", policy)
    try:
        row = links.get_by_role("row").filter(has_text="news")
        expect(row).to_contain_text("running")
        expect(row).to_contain_text(f"amqp:///{upstream_vhost}")
        links.get_by_role("button", name="Restart near").click()
        expect(page.get_by_text("near starts again.")).to_be_visible()
        page.get_by_role("link", name="Cluster", exact=True).first.click()
        graph = page.get_by_role("region", name="Links to other brokers")
        expect(graph.locator(".bridge-link.good")).to_contain_text("near")
        open_bridges(page)
        upstreams.get_by_role("button", name="Delete upstream near").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(row).to_have_count(0)
        expect(upstreams).to_contain_text("No upstreams.")
    finally:
        client.delete("policies/%2F/federate")


def test_the_bridges_page_speaks_chinese(page: Page) -> None:
    open_bridges(page)
    page.get_by_role("button", name="中文").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("桥接")
    expect(page.get_by_role("region", name="Federation 链路")).to_be_visible()
    expect(page.locator("main")).not_to_contain_text(re.compile(r"\b(bridge|shovel|federation)\.[a-z]"))
