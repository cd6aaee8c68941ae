"""Page under observation: its console output is kept, and navigation is one call."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, expect

EXPECTED_REFUSALS = ("status of 400", "status of 401", "status of 404", "net::ERR_")
"""Console messages of error replies, which the page shows itself."""

WAIT_MS = 15_000
"""Timeout of any appearance on a busy machine."""

STREAM = "/api/mirrormq/live"
"""Path of the only request that never ends."""

# A page is drawn at once; what its parts do afterwards (ask the node, move the focus) runs behind the next
# picture, and may draw again.
DRAWN = """async () => {
  for (let picture = 0; picture < 2; picture += 1) {
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  }
}"""
GO = """where => new Promise((done) => {
  if (location.hash === where) return done();
  addEventListener('hashchange', () => done(), { once: true });
  location.hash = where;
})"""


class Watched:
    """Single tab."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.complaints: list[str] = []
        self.alerts: list[str] = []
        self._asked: set[Request] = set()
        page.on("request", lambda request: self._asked.add(request))
        page.on("requestfinished", lambda request: self._asked.discard(request))
        page.on("requestfailed", lambda request: self._asked.discard(request))
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", self._dismiss)

    def _dismiss(self, dialog: Dialog) -> None:
        self.alerts.append(dialog.message)
        dialog.dismiss()

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not any(
            part in message.text for part in EXPECTED_REFUSALS
        ):
            self.complaints.append(message.text)

    def log_in(self, name: str = "guest", password: str = "guest") -> None:
        self.page.fill("[name=username]", name)
        self.page.fill("[name=password]", password)
        self.page.keyboard.press("Enter")
        expect(self.page.locator("nav.places")).to_be_attached()

    def go(self, where: str) -> None:
        """Navigate to an address behind the hash and wait until the new page has loaded."""
        self.page.evaluate(GO, f"#/{where}")
        self.settle()
        expect(self.page.locator("main h1")).to_have_count(1)

    def settle(self) -> None:
        """Wait until the page is rendered and has no open requests."""
        deadline = time.monotonic() + WAIT_MS / 1000
        self.page.evaluate(DRAWN)
        while any(not request.url.endswith(STREAM) for request in self._asked):
            assert time.monotonic() < deadline, [request.url for request in self._asked]
            self.page.evaluate(DRAWN)
        self.page.evaluate(DRAWN)

    def assets(self) -> str:
        """Return the path of the page's files."""
        source: str = self.page.evaluate("document.querySelector('script[type=module]').src")
        return source.removesuffix("main.js")


@contextmanager
def watched_page(
    browser: Browser, port: int, *, width: int = 1280, height: int = 900, **options: object
) -> Iterator[Watched]:
    """Open a node's page in a new browser; console errors fail the test at the end."""
    settings = {"locale": "en-GB", "viewport": {"width": width, "height": height}, **options}
    context = browser.new_context(**settings)  # type: ignore[arg-type]
    context.set_default_timeout(WAIT_MS)
    watched = Watched(context.new_page(), f"http://127.0.0.1:{port}/")
    watched.page.goto(watched.address)
    try:
        yield watched
    finally:
        context.close()
    assert not watched.complaints, watched.complaints
