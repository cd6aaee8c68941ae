"""Pages of a channel, a connection, an exchange and a queue: facts, charts from samples, breakdown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pika
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.brokers.mirrormq import MirrorMQ
from tests.management.conftest import managed
from tests.management.http import Client
from tests.waiting import until

CONF = "management.rates_mode = detailed\ncollect_statistics_interval = 1000\n"
PUBLISHED = 30
PREFETCH = 7
BODY_BYTES = 100
POINTS_OF_A_DAY = 49
POINTS_OF_HISTORY = 100
"""Fewer than the samples of ten minutes, and more than a new tab has received."""


@pytest.fixture(scope="module")
def node() -> Iterator[MirrorMQ]:
    with managed(CONF) as broker:
        yield broker


@pytest.fixture(scope="module")
def connection(node: MirrorMQ) -> Iterator[pika.BlockingConnection]:
    """Client that publishes to an exchange and consumes from its queue, counted by the node."""
    parameters = pika.ConnectionParameters(
        "127.0.0.1", node.amqp_port, client_properties={"connection_name": "shop"}
    )
    connection = pika.BlockingConnection(parameters)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.exchange_declare("sales", "topic")
    channel.queue_declare("bills")
    channel.queue_bind("bills", "sales", "#")
    channel.basic_qos(prefetch_count=PREFETCH)
    channel.basic_consume("bills", lambda *_: None, consumer_tag="printer")
    for _ in range(PUBLISHED):
        channel.basic_publish("sales", "paper", b"x" * BODY_BYTES)
    client = Client(node.management_port)
    until(lambda: bool(client.get("queues/%2F/bills").get("deliveries")))
    until(lambda: bool(client.get("exchanges/%2F/sales").get("outgoing")))
    yield connection
    connection.close()


def facts(page: Page) -> Locator:
    return page.get_by_role("region", name="Details")


def points(page: Page, chart: str) -> int:
    found: Any = page.locator(f"figure.chart:has-text('{chart}')").get_attribute("data-points")
    return int(found)


def test_a_channel_shows_its_connection_consumers_and_traffic(
    page: Page, client: Client, connection: pika.BlockingConnection
) -> None:
    (row,) = client.get("channels")
    page.get_by_role("link", name="Channels", exact=True).first.click()
    page.get_by_role("link", name=row["name"]).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(row["name"])
    expect(facts(page)).to_contain_text("confirm")
    expect(facts(page)).to_contain_text(row["connection_details"]["name"])
    consumers = page.get_by_role("region", name="Consumers")
    expect(consumers).to_contain_text("printer")
    expect(consumers.get_by_role("link", name="bills")).to_be_visible()
    breakdown = page.get_by_role("region", name="Rates by counterpart")
    expect(breakdown.get_by_role("link", name="sales")).to_be_visible()
    expect(breakdown.get_by_role("link", name="bills")).to_be_visible()
    assert points(page, "Message rates") > POINTS_OF_HISTORY


def test_a_connection_draws_its_data_and_names_its_client(
    page: Page, client: Client, connection: pika.BlockingConnection
) -> None:
    (row,) = client.get("connections")
    page.evaluate("name => { location.hash = `#/connections/${encodeURIComponent(name)}` }", row["name"])
    expect(facts(page)).to_contain_text("shop")
    expect(page.locator("figure.chart")).to_contain_text("Received")
    expect(page.locator("figure.chart[data-points='120']")).to_be_visible()


def test_an_exchange_draws_its_traffic_and_names_both_sides(
    page: Page, client: Client, connection: pika.BlockingConnection
) -> None:
    page.evaluate("location.hash = '#/exchanges/%2F/sales'")
    breakdown = page.get_by_role("region", name="Rates by counterpart")
    expect(breakdown.get_by_role("link", name="bills")).to_be_visible()
    expect(breakdown.get_by_role("link", name=client.get("channels")[0]["name"])).to_be_visible()
    expect(page.locator("figure.chart[data-points='120']")).to_be_visible()


def test_a_queue_draws_what_happened_before_the_tab_was_opened(
    page: Page, connection: pika.BlockingConnection
) -> None:
    page.evaluate("location.hash = '#/queues/%2F/bills'")
    expect(page.locator("figure.chart")).to_have_count(2)
    until(lambda: points(page, "Messages in queues") > POINTS_OF_HISTORY)
    page.get_by_role("button", name="1 day").click()
    expect(page.locator(f"figure.chart[data-points='{POINTS_OF_A_DAY}']").first).to_be_visible()
    page.get_by_role("button", name="8 h").click()
    expect(page.locator(f"figure.chart[data-points='{POINTS_OF_A_DAY}']").first).to_be_visible()
    breakdown = page.get_by_role("region", name="Rates by counterpart")
    expect(breakdown.get_by_role("link", name="sales")).to_be_visible()
    for name, messages in (("Unacknowledged bytes", PREFETCH), ("Ready bytes", PUBLISHED - PREFETCH)):
        value = facts(page).locator("dt", has_text=name).locator("xpath=following-sibling::dd[1]")
        size = messages * BODY_BYTES
        expect(value).to_have_text(f"{size} B" if size < 1024 else f"{size / 1024:.1f} KiB")


def test_a_line_is_hidden_by_its_name(page: Page, connection: pika.BlockingConnection) -> None:
    page.evaluate("location.hash = '#/queues/%2F/bills'")
    name = page.locator(".legend-button", has_text="Acknowledged").first
    expect(name).to_have_attribute("aria-pressed", "true")
    name.click()
    expect(name).to_have_attribute("aria-pressed", "false")


def test_the_overview_draws_confirms_unroutable_messages_disk_and_churn(
    page: Page, client: Client, connection: pika.BlockingConnection
) -> None:
    for name in ("Confirmed", "Unroutable (returned)", "Unroutable (dropped)", "Written to disk"):
        expect(page.locator(".legend-button", has_text=name)).to_be_visible()
    churn = page.get_by_role("region", name="Churn")
    row = churn.get_by_role("row").filter(has_text="Channels opened")
    expect(row).to_contain_text(str(client.get("overview")["churn_rates"]["channel_created"]))
    expect(churn.locator("figure.chart[data-points='120']")).to_have_count(3)
    for name in ("Connections closed", "Channels opened", "Queues declared"):
        expect(churn.locator(".legend-button", has_text=name)).to_be_visible()
