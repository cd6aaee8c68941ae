"""Page of another site in a real browser that remembers a login: it cannot change anything as the user.

Both sites have names that are not the machine's own. For these names a browser sends no `Sec-Fetch-Site`
over plain HTTP, and users have such names.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import Page, sync_playwright

from tests.brokers.mirrormq import MirrorMQ
from tests.management.http import Client
from tests.needs import not_installed
from tests.web.conftest import BROWSERS

USERS = {"users": [{"name": "mallory", "password": "x", "tags": "administrator"}]}
FORM = """<!doctype html><meta name="referrer" content="{policy}">
<form method="post" enctype="multipart/form-data" action="http://rabbit.example:{port}/api/definitions">
<textarea name="file">{definitions}</textarea></form>
<script>document.forms[0].submit()</script>"""
FETCH = """<!doctype html><meta name="referrer" content="{policy}"><script>
const form = new FormData(); form.append("file", new Blob([`{definitions}`]), "x.json");
fetch("http://rabbit.example:{port}/api/definitions",
      {{method: "POST", mode: "no-cors", credentials: "include", body: form}})
  .then(() => document.title = "sent", () => document.title = "failed");</script>"""


@pytest.fixture(scope="module")
def foreign() -> Iterator[ThreadingHTTPServer]:
    """Server of another site, which serves `page`."""

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.server.page.encode()  # type: ignore[attr-defined]
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def victim(node: MirrorMQ) -> Iterator[Page]:
    """Browser of guest, which has logged in to the node before."""
    path = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if path is None:
        pytest.skip(not_installed("chromium"))
    arguments = ["--host-resolver-rules=MAP *.example 127.0.0.1", "--no-proxy-server"]
    arguments += ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        context = browser.new_context(http_credentials={"username": "guest", "password": "guest"})
        page = context.new_page()
        answer = page.goto(f"http://rabbit.example:{node.management_port}/api/whoami")
        assert answer is not None and answer.status == 200
        yield page
        browser.close()


@pytest.mark.parametrize("policy", ["unsafe-url", "no-referrer"])
@pytest.mark.parametrize("template", [FORM, FETCH], ids=["form", "fetch"])
def test_a_foreign_page_changes_nothing(
    node: MirrorMQ, client: Client, foreign: ThreadingHTTPServer, victim: Page, template: str, policy: str
) -> None:
    foreign.page = template.format(  # type: ignore[attr-defined]
        policy=policy, port=node.management_port, definitions=json.dumps(USERS)
    )
    with victim.expect_response(lambda response: response.url.endswith("/api/definitions")) as answered:
        victim.goto(f"http://evil.example:{foreign.server_port}/", wait_until="commit")
    assert answered.value.status == 403
    assert "sec-fetch-site" not in answered.value.request.all_headers(), "the reason why Origin is compared"
    assert [user["name"] for user in client.get("users")] == ["guest"]


def test_the_node_s_own_page_changes_things(node: MirrorMQ, client: Client, victim: Page) -> None:
    status = victim.evaluate(
        """async () => {
            const form = new FormData();
            form.append("file", new Blob(['{"vhosts": [{"name": "own"}]}']), "x");
            return (await fetch("/api/definitions", {method: "POST", body: form})).status;
        }"""
    )
    assert status == 204
    assert client.delete("vhosts/own").status == 204
