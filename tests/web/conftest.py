"""A node with a page, and Debian's chromium to look at it.

Playwright's own loop runs in this thread while it is started, and other tests have loops of their own: so it
is started for a file of tests and stopped after it. What the page's console complains about fails the test.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.brokers.mirrormq import MirrorMQ
from tests.management.conftest import managed
from tests.management.http import Client
from tests.web.watching import Watched

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WAIT_MS = 15_000
"""For anything to appear: the machine may be busy."""

expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="module")
def node() -> Iterator[MirrorMQ]:
    """One node for a file of tests."""
    with managed() as broker:
        yield broker


@pytest.fixture
def client(node: MirrorMQ) -> Client:
    """guest's view of its API."""
    return Client(node.management_port)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip("chromium is not installed")
    # Chromium's sandbox does not work for root, who runs these tests in a container.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=arguments)
        yield found
        found.close()


Opener = Callable[..., Watched]


@pytest.fixture
def open_page(browser: Browser, node: MirrorMQ) -> Iterator[Opener]:
    """Opens the page in a browser of its own: `open_page(color_scheme="dark", width=390)`."""
    contexts: list[tuple[BrowserContext, Watched]] = []

    def opened(*, width: int = 1280, height: int = 900, **options: object) -> Watched:
        settings = {"locale": "en-GB", "viewport": {"width": width, "height": height}, **options}
        context = browser.new_context(**settings)  # type: ignore[arg-type]
        context.set_default_timeout(WAIT_MS)
        watched = Watched(context.new_page(), f"http://127.0.0.1:{node.management_port}/")
        contexts.append((context, watched))
        watched.page.goto(watched.address)
        return watched

    yield opened
    for context, watched in contexts:
        complaints = watched.complaints
        context.close()
        assert not complaints, complaints


@pytest.fixture
def page(open_page: Opener) -> Page:
    """guest, logged in, on the overview."""
    watched = open_page()
    watched.log_in()
    return watched.page
