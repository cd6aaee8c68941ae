"""A page that is being watched: what its console says is kept, and going somewhere is one call."""

from __future__ import annotations

from playwright.sync_api import ConsoleMessage, Page, expect

EXPECTED_REFUSALS = ("status of 400", "status of 401", "status of 404", "net::ERR_")
"""The console mentions every answer that is an error; the page shows those itself."""


class Watched:
    """One tab."""

    def __init__(self, page: Page, address: str) -> None:
        self.page = page
        self.address = address
        self.complaints: list[str] = []
        self.alerts: list[str] = []
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (self.alerts.append(dialog.message), dialog.dismiss()))

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
        """To an address behind the hash."""
        self.page.evaluate("where => { location.hash = where }", f"#/{where}")
        self.page.wait_for_function("document.querySelector('main h1')")

    def assets(self) -> str:
        """Where the page's files are."""
        source: str = self.page.evaluate("document.querySelector('script[type=module]').src")
        return source.removesuffix("main.js")
