"""Page of a node in a cluster of three: its resources, links, listeners, log; the page of a dead node."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

import pytest
from playwright.sync_api import Browser, Page, expect

from mirrormq.testing import Cluster
from tests.brokers.mirrormq import MirrorMQ
from tests.management.http import Client
from tests.waiting import until
from tests.web.conftest import Opener
from tests.web.watching import watched_page

MIRROR_ALL = True
QUEUES = 30
RECORDS_TEXT = """
  window.drawn = [];
  const fill = CanvasRenderingContext2D.prototype.fillText;
  CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
    window.drawn.push(text);
    return fill.call(this, text, ...rest);
  };
"""
"""Script that keeps the texts of all drawings of the page."""

NODES = 3


@pytest.fixture(scope="module")
def page(cluster: Cluster, browser: Browser) -> Iterator[Page]:
    """Page of the user guest on the first node."""
    with watched_page(browser, cluster.management_port(0)) as watched:
        watched.log_in()
        yield watched.page


def test_a_node_shows_its_resources_links_listeners_and_log(page: Page, cluster: Cluster) -> None:
    page.get_by_role("link", name="Cluster", exact=True).first.click()
    page.get_by_role("region", name="Nodes").get_by_role("link", name="mirror2@localhost").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("mirror2@localhost")
    expect(page.get_by_role("meter", name="File handles")).to_be_visible()
    expect(page.get_by_role("meter", name="Client sockets")).to_be_visible()
    memory = page.get_by_role("region", name="Memory by use")
    expect(memory).to_contain_text("Interpreter, metadata, buffers")
    links = page.get_by_role("region", name="Links")
    expect(links.get_by_role("link")).to_have_text(["mirror1@localhost", "mirror3@localhost"])
    expect(page.get_by_role("region", name="Listeners")).to_contain_text(str(cluster.management_port(1)))
    expect(page.get_by_role("region", name="Log")).to_contain_text("mirror2@localhost serves clients")
    expect(page.locator("figure.chart")).to_have_count(8)
    expect(page.get_by_role("region", name="Churn")).to_contain_text("Queues deleted")
    page.get_by_role("button", name="Reset statistics of this node").click()
    address = f"127.0.0.1:{cluster.management_port(0)}/api/reset/mirror2%40localhost"
    with page.expect_response(lambda reply: reply.url.endswith(address)) as waiting:
        page.get_by_role("dialog").get_by_role("button", name="Reset").click()
    assert waiting.value.status == 204
    expect(page.get_by_text("The statistics are reset.")).to_be_visible()


def test_the_ticks_of_bytes_are_round(cluster: Cluster, browser: Browser) -> None:
    """Memory is shown in MiB, so the ticks are powers of two: 64 MiB, not 71.5 MiB."""
    with watched_page(browser, cluster.management_port(0)) as watched:
        watched.page.add_init_script(RECORDS_TEXT)
        watched.page.reload()
        watched.log_in()
        watched.go("nodes/mirror1%40localhost")
        texts = until(lambda: [each for each in watched.page.evaluate("drawn") if "iB" in each])
    assert all(re.fullmatch(r"\d+ [KMG]iB(/s)?", each) for each in texts), texts


def test_a_user_without_the_tag_administrator_sees_no_log(
    clients: list[Client], cluster: Cluster, browser: Browser
) -> None:
    assert clients[0].put("users/watcher", {"password": "w", "tags": "monitoring"}).status == 201
    with watched_page(browser, cluster.management_port(0)) as watched:
        watched.log_in("watcher", "w")
        watched.go("nodes/mirror1%40localhost")
        expect(watched.page.get_by_role("region", name="Churn")).to_be_visible()
        expect(watched.page.get_by_role("region", name="Log")).to_have_count(0)


def test_a_queue_is_declared_on_the_chosen_node(page: Page, clients: list[Client]) -> None:
    page.evaluate("location.hash = '#/queues'")
    page.get_by_text("Add a queue", exact=True).click()
    form = page.get_by_role("form", name="Add a queue")
    form.get_by_label("Name", exact=False).first.fill("placed")
    form.get_by_label("Node").select_option("mirror3@localhost")
    form.get_by_role("button", name="Declare").click()
    expect(page.get_by_role("rowheader", name="placed")).to_be_visible()
    assert clients[0].get("queues/%2F/placed")["node"] == "mirror3@localhost"


def test_a_dead_nodes_page_leads_to_living_nodes(
    page: Page, cluster: Cluster, clients: list[Client], browser: Browser
) -> None:
    for number in range(QUEUES):
        body = {"durable": True, "node": "mirror3@localhost"}
        assert clients[0].put(f"queues/%2F/many{number:02}", body).status == 201
    rows = partial(clients[0].get, "queues")
    until(lambda: all(len(row["mirrormq"]["in_sync"]) == NODES for row in rows()))
    with watched_page(browser, cluster.management_port(2)) as watched:
        watched.log_in()
        watched.go("queues")
        watched.settle()
        cluster.kill(2)
        alert = watched.page.get_by_role("alert")
        expect(alert).to_contain_text("The node does not reply.")
        address = f"http://127.0.0.1:{cluster.management_port(0)}/#/queues"
        expect(alert.get_by_role("link", name="mirror1@localhost")).to_have_attribute("href", address)
    page.evaluate("location.hash = '#/nodes/mirror3%40localhost'")
    expect(page.get_by_role("alert")).to_contain_text("This node is not running")
    expect(page.get_by_role("alert").get_by_role("link", name="mirror2@localhost")).to_be_visible()


def test_a_failover_of_many_queues_is_one_row_that_opens(page: Page) -> None:
    page.evaluate("location.hash = '#/timeline'")
    promoted = page.locator("[aria-labelledby=events] .event.accent")
    expect(promoted).to_have_count(1)
    expect(promoted).to_contain_text(f"{QUEUES + 1} queues")
    expect(promoted).to_contain_text("mirror3@localhost")
    expect(promoted).to_contain_text("longest gap")
    expect(promoted.get_by_role("link", name="many07")).to_have_count(0)
    promoted.locator("summary").click()
    expect(promoted.get_by_role("link", name="many07")).to_be_visible()
    expect(promoted.get_by_role("link", name="placed")).to_be_visible()


def test_a_node_names_its_settings_file_and_its_log(
    open_page: Opener, client: Client, node: MirrorMQ
) -> None:
    row = client.get("nodes")[0]
    (settings_file,), logs = row["config_files"], row["log_files"]
    assert settings_file.startswith("/") and settings_file.endswith("mirrormq.conf")
    watched = open_page()
    watched.log_in()
    watched.go(f"nodes/{row['name']}")
    details = watched.page.get_by_role("region", name="Details")
    for text in (settings_file, *logs, "Silence after which a node is down", "47.7 MiB"):
        expect(details).to_contain_text(text)
