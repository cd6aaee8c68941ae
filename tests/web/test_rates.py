"""Rates on the page: of connections and channels, and the display if the node reports no rates."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pika
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.brokers.mirrormq import MirrorMQ
from tests.management.conftest import managed
from tests.web.watching import watched_page

DEADLINE_S = 30.0
BODY = b"x" * 3000
QUIET = "management.rates_mode = none\n"


@pytest.fixture
def channel(node: MirrorMQ) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.amqp_port))
    channel = connection.channel()
    channel.confirm_delivery()
    channel.queue_declare("busy")
    yield channel
    channel.queue_delete("busy")
    connection.close()


def await_rate(
    page: Page, shown: Locator, zero: str, channel: pika.adapters.blocking_connection.BlockingChannel
) -> None:
    """Publish until the page shows a rate, which lasts as long as its cause."""
    deadline = time.monotonic() + DEADLINE_S
    expect(shown).to_be_visible()
    while shown.inner_text() in (zero, "–"):
        assert time.monotonic() < deadline, shown.inner_text()
        channel.basic_publish("", "busy", BODY)
        channel.basic_get("busy", auto_ack=True)
        page.wait_for_timeout(20)


def test_connections_count_received_and_sent_bytes(
    page: Page, channel: pika.adapters.blocking_connection.BlockingChannel
) -> None:
    page.evaluate("location.hash = '#/connections'")
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader"))
    await_rate(page, row.locator("[data-label='From client']"), "0 B/s", channel)
    await_rate(page, row.locator("[data-label='To client']"), "0 B/s", channel)
    row.get_by_role("link").click()
    facts = page.get_by_role("region", name="Details")
    expect(facts).to_contain_text("From client")
    expect(facts).to_contain_text("in total")


def test_channels_count_published_confirmed_and_delivered_messages(
    page: Page, channel: pika.adapters.blocking_connection.BlockingChannel
) -> None:
    page.evaluate("location.hash = '#/channels'")
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader"))
    for label in ("Published", "Confirmed", "Delivered"):
        await_rate(page, row.locator(f"[data-label={label}]"), "0/s", channel)


def test_a_node_that_shows_no_rates_says_so(browser: Browser) -> None:
    with managed(QUIET) as quiet, watched_page(browser, quiet.management_port) as watched:
        page = watched.page
        with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", quiet.amqp_port)) as connection:
            connection.channel().queue_declare("q")
            connection.channel().basic_publish("", "q", b"x")
        watched.log_in()
        expect(page.locator(".stat", has_text="Ready").locator("dd")).to_have_text("1")
        expect(page.locator(".stat", has_text="Published").locator("dd")).to_have_text("–")
        expect(page.get_by_text("management.rates_mode is none")).to_be_visible()
        expect(page.get_by_role("region", name="Traffic").locator(".chart canvas")).to_have_count(1)
        watched.go("queues")
        row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="q"))
        expect(row.locator("[data-label=Published]")).to_have_text("–")
        watched.go("exchanges/%2F/amq.default")
        expect(page.get_by_role("region", name="Details")).not_to_contain_text("0/s")
