"""Fixtures: a node with a page, and Debian's chromium.

Playwright's event loop runs in this thread while it is started, and other tests have their own loops. It
is therefore started for a file of tests and stopped after it. Errors in the page's console fail the test.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.brokers.mirrormq import MirrorMQ
from tests.management.conftest import managed
from tests.management.http import Client
from tests.management.three import clients, cluster  # noqa: F401 - fixtures for the files beside
from tests.needs import not_installed
from tests.web.watching import WAIT_MS, Watched, watched_page

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
expect.set_options(timeout=WAIT_MS)


@pytest.fixture(scope="module")
def node() -> Iterator[MirrorMQ]:
    """Node shared by a file of tests."""
    with managed() as broker:
        yield broker


@pytest.fixture
def client(node: MirrorMQ) -> Client:
    """API client of the user guest."""
    return Client(node.management_port)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip(not_installed("chromium"))
    # Chromium's sandbox does not work for root, which runs these tests in a container.
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=arguments)
        yield launched
        launched.close()


Opener = Callable[..., Watched]


@pytest.fixture
def open_page(browser: Browser, node: MirrorMQ) -> Iterator[Opener]:
    """Open the page in a new browser: `open_page(color_scheme="dark", width=390)`."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(watched_page(browser, node.management_port, **options))


@pytest.fixture
def page(open_page: Opener) -> Page:
    """Page of the user guest, logged in, on the overview."""
    watched = open_page()
    watched.log_in()
    return watched.page
