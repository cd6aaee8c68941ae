"""Failure and restart of a node while its page is open."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.brokers.mirrormq import MirrorMQ
from tests.web.conftest import Opener


def test_the_page_says_so_and_goes_on_when_the_node_is_back(open_page: Opener, node: MirrorMQ) -> None:
    watched = open_page()
    watched.log_in()
    expect(watched.page.locator(".live.open")).to_be_visible()
    node.kill()
    # A list that was being loaded at that moment has an alert of its own.
    lost = watched.page.get_by_role("alert").filter(has_text="The node does not reply.")
    expect(lost).to_be_visible()
    node.boot()
    expect(watched.page.locator(".live.open")).to_be_visible(timeout=40_000)
    expect(watched.page.get_by_role("alert")).to_have_count(0)
