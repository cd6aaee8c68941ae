"""Take screenshots of every page of a cluster under load.

A look is one of desktop and phone, of light and dark, of English and Chinese; all eight, if none is named.

    python docs/images/take_pages.py FOLDER [desktop-light-en] [phone-dark-zh] ...

The folder gets a file per page and look, and a sheet per look to see all pages at once. Look at them after a
change of the page. Chinese text needs a font (Debian: fonts-noto-cjk).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from itertools import product
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from mirrormq.testing import Cluster

CHROMIUM = "/usr/bin/chromium"
VIEWPORTS = {"desktop": (1280, 900), "phone": (390, 844)}
THEMES = ("light", "dark")
LANGUAGES = {"en": "en-GB", "zh": "zh-CN"}
LOADS = (
    ["--queue", "orders", "--durable", "--persistent", "--rate", "300", "--confirm-window", "100"],
    ["--queue", "invoices", "--durable", "--persistent", "--rate", "100", "--mode", "publish"],
)
PAGES = (
    "overview", "connections", "channels", "exchanges", "exchanges/%2F/amq.topic", "queues",
    "queues/%2F/orders", "cluster", "nodes/mirror2@localhost", "nodes/mirror3@localhost", "timeline",
    "bridges", "admin/users", "admin/users/guest", "admin/vhosts", "admin/vhosts/%2F", "admin/permissions",
    "admin/policies", "admin/limits", "admin/definitions", "admin/flags", "pipeline",
)  # fmt: skip
SETTLE_MS = 1200
SHEET_MS = 180_000
SHEET_COLUMNS = {"desktop": 4, "phone": 8}
LOAD_S = 40


def api(port: int, path: str, body: object = None) -> list[dict[str, str]]:
    """Send a request to the HTTP API as guest: PUT with a body, GET without."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/api/{path}", data, method="PUT" if data else "GET"
    )
    request.add_header("Content-Type", "application/json")
    request.add_header("Authorization", "Basic Z3Vlc3Q6Z3Vlc3Q=")
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read()
    return list(json.loads(text)) if text else []


def first_name(port: int, path: str) -> str:
    """Return the name of the first object of a list, as soon as the list has one."""
    while not (rows := api(port, path)):
        time.sleep(1)
    return rows[0]["name"]


def fill(port: int) -> None:
    """Create objects that the lists show."""
    api(port, "vhosts/billing", {"description": "Invoices and payments", "tags": "production"})
    api(port, "users/anna", {"password": "secret", "tags": "monitoring"})
    api(port, "permissions/billing/anna", {"configure": "", "write": "", "read": ".*"})
    api(port, "topic-permissions/%2F/anna", {"exchange": "amq.topic", "write": "^eu", "read": ".*"})
    api(
        port,
        "policies/%2F/short",
        {"pattern": "^log", "definition": {"max-length": 10}, "apply-to": "queues"},
    )
    api(port, "vhost-limits/billing/max-queues", {"value": 100})
    for number in range(8):
        api(port, f"queues/%2F/log.{number}", {"durable": True})


def log_in(browser: Browser, port: int, kind: str, theme: str, language: str) -> Page:
    """Open the page with a look, and log in."""
    width, height = VIEWPORTS[kind]
    context = browser.new_context(
        viewport={"width": width, "height": height}, locale=LANGUAGES[language],
        color_scheme="dark" if theme == "dark" else "light",
    )  # fmt: skip
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{port}/")
    page.fill("[name=username]", "guest")
    page.fill("[name=password]", "guest")
    page.keyboard.press("Enter")
    page.wait_for_selector("nav.places", state="attached")
    return page


def take(page: Page, addresses: list[str], target: Path) -> list[Path]:
    """Take a picture of each address."""
    taken = []
    for address in addresses:
        page.evaluate("where => { location.hash = `#/${where}` }", address)
        page.wait_for_timeout(SETTLE_MS)
        name = address.replace("/", "_").replace("%2F", "default")
        taken.append(target / f"{name[:60]}.png")
        page.screenshot(path=str(taken[-1]), full_page=True)
    return taken


def make_sheet(browser: Browser, kind: str, pictures: list[Path], target: Path) -> None:
    """Put the pictures of one look on one sheet."""
    cells = "".join(
        f'<figure><figcaption>{picture.stem}</figcaption><img src="{picture.as_uri()}">'
        for picture in pictures
    )
    style = f"body{{display:grid;grid-template-columns:repeat({SHEET_COLUMNS[kind]},1fr);align-items:start"
    style += ";background:#999}"
    style += "figure{margin:4px}img{width:100%}"
    source = target.with_suffix(".html")
    source.write_text(f"<!doctype html><style>{style}</style>{cells}")
    page = browser.new_page(viewport={"width": 2000, "height": 1200})
    page.goto(source.as_uri())
    page.screenshot(path=str(target), full_page=True, timeout=SHEET_MS)
    page.close()


def main() -> None:
    folder, wanted = Path(sys.argv[1]).resolve(), sys.argv[2:]
    with Cluster(nodes=3, mirror_all=True) as cluster, sync_playwright() as playwright:
        port = cluster.management_port(1)
        fill(port)
        for queue in ("orders", "invoices"):
            cluster.ctl("add_queue", queue)  # on the node that is killed first
        perf = [sys.executable, "-m", "mirrormq", "perf", "--uri", cluster.uri(1), "--duration", "3600"]
        loads = [subprocess.Popen([*perf, *words], stdout=subprocess.DEVNULL) for words in LOADS]
        time.sleep(LOAD_S / 2)  # the charts need something to show
        cluster.kill(0)
        time.sleep(LOAD_S / 2)
        cluster.start(0)
        cluster.kill(2)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        connection, channel = first_name(port, "connections"), first_name(port, "channels")
        addresses = [*PAGES, f"connections/{connection}", f"channels/{channel}"]
        looks = [
            look for look in product(VIEWPORTS, THEMES, LANGUAGES) if not wanted or "-".join(look) in wanted
        ]
        for kind, theme, language in looks:
            target = folder / f"{kind}-{theme}-{language}"
            target.mkdir(parents=True, exist_ok=True)
            pictures = take(log_in(browser, port, kind, theme, language), addresses, target)
            make_sheet(browser, kind, pictures, folder / f"{target.name}.png")
            print(target.name, flush=True)
        browser.close()
        for load in loads:
            load.terminate()
            load.wait()


if __name__ == "__main__":
    main()
