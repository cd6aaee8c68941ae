"""Buttons of the page: a user sees none that the node would refuse."""

from __future__ import annotations

from collections.abc import Iterator

import pika
import pytest
from playwright.sync_api import Page, expect

from tests.brokers.mirrormq import MirrorMQ
from tests.management.http import Client
from tests.web.conftest import Opener

USERS = {
    "reader": ("management", {"configure": "^$", "write": "^$", "read": "^public"}),
    "watcher": ("monitoring", None),
    "maker": ("policymaker", {"configure": "^mine", "write": "^mine", "read": ".*"}),
}


@pytest.fixture(scope="module")
def users(node: MirrorMQ) -> Iterator[Client]:
    client = Client(node.management_port)
    for name, (tags, permissions) in USERS.items():
        assert client.put(f"users/{name}", {"password": name, "tags": tags}).status == 201
        if permissions is not None:
            assert client.put(f"permissions/%2F/{name}", permissions).status == 201
    for queue in ("public", "private", "mine"):
        assert client.put(f"queues/%2F/{queue}", {}).status == 201
    yield client


def login(open_page: Opener, name: str) -> Page:
    watched = open_page()
    watched.log_in(name, name)
    expect(watched.page.locator(".live.open")).to_be_visible()
    return watched.page


def buttons(page: Page, where: str) -> set[str]:
    """Return the buttons of a page, once it knows the user's rights."""
    with page.expect_response(lambda reply: "/rights" in reply.url):
        page.evaluate("where => { location.hash = where }", f"#/{where}")
    page.wait_for_function("document.querySelector('main h1') !== null")
    expect(page.locator("main .panel, main .toolbar").first).to_be_visible()
    found = page.locator("main button:not(.legend-button):not([aria-pressed]):not(.sort)").all_text_contents()
    return {text.strip() for text in found if len(text.strip()) > 1}


def test_a_user_who_may_only_read_gets_and_purges(open_page: Opener, users: Client) -> None:
    page = login(open_page, "reader")
    assert buttons(page, "queues/%2F/public") == {"Purge", "Get"}
    assert buttons(page, "queues/%2F/private") == set()
    assert "Declare" not in buttons(page, "queues")


def test_a_user_with_permissions_for_some_names_sees_their_buttons(open_page: Opener, users: Client) -> None:
    page = login(open_page, "maker")
    mine = buttons(page, "queues/%2F/mine")
    assert {"Purge", "Delete", "Get", "Bind"} <= mine and "Synchronise" not in mine
    others = buttons(page, "queues/%2F/private")
    assert others == {"Purge", "Get", "Move messages"}
    assert "Declare" in buttons(page, "queues")


def test_a_monitor_without_permissions_sees_no_forms(
    open_page: Opener, users: Client, node: MirrorMQ
) -> None:
    page = login(open_page, "watcher")
    page.evaluate("location.hash = '#/queues'")
    expect(page.locator("main .toolbar")).to_be_visible()
    expect(page.get_by_text("Add a queue")).to_have_count(0)
    parameters = pika.ConnectionParameters("127.0.0.1", node.amqp_port)
    with pika.BlockingConnection(parameters) as connection:
        connection.channel()
        page.get_by_role("link", name="Connections", exact=True).first.click()
        page.get_by_role("rowheader").get_by_role("link").click()
        expect(page.get_by_role("region", name="Details")).to_contain_text("guest")
        expect(page.get_by_role("button", name="Close connection")).to_have_count(0)
    page.evaluate("location.hash = '#/cluster'")
    expect(page.get_by_role("region", name="Cluster name")).to_be_visible()
    expect(page.get_by_text("Change the cluster name")).to_have_count(0)
    expect(page.get_by_role("button", name="Rebalance")).to_have_count(0)


def test_the_node_says_what_a_user_may_do(users: Client, node: MirrorMQ) -> None:
    reader = Client(node.management_port, "reader", "reader")
    assert reader.get("mirrormq/rights") == [
        {"vhost": "/", "configure": "^$", "write": "^$", "read": "^public"}
    ]
    may = {"configure": False, "write": False, "read": True}
    assert reader.get("mirrormq/rights/%2F/public") == may
    assert reader.get("mirrormq/rights/%2F/private") == dict.fromkeys(may, False)
    guest = users.get("mirrormq/rights/%2F/amq.default")
    assert guest == dict.fromkeys(may, True)
