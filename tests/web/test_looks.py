"""Appearance and use of the page: languages, themes, narrow screens, keyboard, screen readers."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.brokers.mirrormq import MirrorMQ
from tests.management.http import Client
from tests.needs import not_installed
from tests.ranges.range_requests import Asker
from tests.web.conftest import Opener

ADDRESSES = (
    "overview", "connections", "channels", "exchanges", "exchanges/%2F/amq.topic",
    "exchanges/%2F/amq.default", "queues", "queues/%2F/wide", "queues/%2F/missing", "cluster", "timeline",
    "bridges", "admin/users", "admin/users/guest", "admin/vhosts", "admin/vhosts/%2F", "admin/permissions",
    "admin/policies", "admin/limits", "admin/definitions", "admin/flags", "nodes/missing", "channels/missing",
    "pipeline", "pipeline/%2F/wide", "pipeline/%2F/missing", "nowhere",
)  # fmt: skip


def test_languages_are_switched_and_remembered(page: Page) -> None:
    page.get_by_role("button", name="中文").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("概览")
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")
    page.reload()
    expect(page.get_by_role("link", name="队列").first).to_be_visible()
    page.get_by_role("button", name="EN").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


def test_a_chinese_browser_is_greeted_in_chinese(open_page: Opener) -> None:
    expect(open_page(locale="zh-CN").page.get_by_role("button", name="登录")).to_be_visible()


def await_ground(page: Page, where: str) -> None:
    """Wait until the page's background is dark or light."""
    page.wait_for_function(
        "where => (getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3)"
        ".reduce((sum, each) => sum + Number(each), 0) < 384) === (where === 'dark')",
        arg=where,
    )


def test_themes_follow_the_system_until_one_is_chosen(open_page: Opener) -> None:
    watched = open_page(color_scheme="dark")
    await_ground(watched.page, "dark")
    watched.page.emulate_media(color_scheme="light")
    await_ground(watched.page, "light")
    watched.page.get_by_role("button", name=re.compile("^Theme")).click()
    watched.page.get_by_role("button", name=re.compile("^Theme: light")).click()
    await_ground(watched.page, "dark")
    watched.page.reload()
    expect(watched.page.locator("html"), "it is remembered").to_have_attribute("data-theme", "dark")


@pytest.mark.parametrize("width", [390, 1280])
def test_buttons_of_a_row_do_not_overlap(open_page: Opener, client: Client, width: int) -> None:
    client.put("policies/%2F/apart", {"pattern": "^apart", "definition": {"max-length": 1}})
    watched = open_page(width=width)
    watched.log_in()
    watched.go("admin/policies")
    edit = watched.page.get_by_role("button", name="Edit policy apart").bounding_box()
    delete = watched.page.get_by_role("button", name="Delete policy apart").bounding_box()
    client.delete("policies/%2F/apart")
    assert edit is not None and delete is not None
    assert edit["x"] + edit["width"] <= delete["x"] + 1 or edit["y"] + edit["height"] <= delete["y"] + 1


@pytest.mark.parametrize("width", [800, 1280])
def test_a_badge_stays_on_one_line_in_chinese(open_page: Opener, client: Client, width: int) -> None:
    client.put(f"queues/%2F/{'long.name.' * 6}", {})
    watched = open_page(width=width, locale="zh-CN")
    watched.log_in()
    watched.go("queues")
    state = watched.page.locator(".badge.good", has_text="运行中").first
    box = state.bounding_box()
    client.delete(f"queues/%2F/{'long.name.' * 6}")
    assert box is not None and box["height"] < 30, "two lines"


@pytest.mark.parametrize("width", [320, 390, 800])
def test_no_page_is_wider_than_its_screen(
    open_page: Opener, client: Client, node: MirrorMQ, width: int
) -> None:
    range_client = Asker(f"amqp://guest:guest@127.0.0.1:{node.amqp_port}/%2F")
    rows = [{f"column {number}": "text" * 10 for number in range(20)}]
    words: dict[str, Any] = {
        "text": "word" * 100,
        "numbers": {"n" * 60: "n" * 200},
        "table": json.dumps(rows),
    }
    range_client.ask("report", job="wide", kind="k" * 100, state="running", **words)
    range_client.channel.queue_declare("leased")
    range_client.publish("leased", b"x")
    range_client.take("leased", "lease" * 40, 1, 1)
    client.put(f"vhosts/{'vhost' * 20}", {})
    client.put("queues/%2F/wide", {"arguments": {"x-dead-letter-exchange": "x" * 120}})
    client.put(f"queues/%2F/{'long' * 50}", {})
    watched = open_page(width=width)
    watched.log_in()
    for where in ADDRESSES:
        watched.go(where)
        watched.page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
        watched.settle()
        inside, outside = watched.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert inside <= outside, (where, inside, outside)
    client.delete(f"vhosts/{'vhost' * 20}")
    range_client.channel.queue_delete("leased")
    range_client.close()


def test_a_phone_has_a_menu(open_page: Opener) -> None:
    watched = open_page(width=390, has_touch=True, is_mobile=True)
    watched.log_in()
    link = watched.page.get_by_role("link", name="Queues", exact=True).first
    expect(watched.page.locator("nav.places")).to_be_hidden()
    watched.page.get_by_role("button", name="Menu").tap()
    watched.page.locator("nav.places").get_by_role("link", name="Queues").tap()
    expect(watched.page.get_by_role("heading", level=1)).to_have_text("Queues")
    expect(watched.page.locator("nav.places")).to_be_hidden()
    expect(link).to_be_hidden()


def focused(page: Page) -> str:
    found: str = page.evaluate("(document.activeElement.innerText || document.activeElement.id || '').trim()")
    return found


def test_the_keyboard_goes_everywhere(page: Page) -> None:
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.reload()
    expect(page.locator("nav.places")).to_be_attached()
    for _ in range(30):
        page.keyboard.press("Tab")
        if focused(page) == "Queues":
            break
    expect(page.locator("nav.places").get_by_role("link", name="Queues")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Queues")
    expect(page.locator("#main"), "the new page is where reading goes on").to_be_focused()
    expect(page.locator("nav.places [aria-current=page]")).to_have_text("Queues")


def test_a_dialog_keeps_the_focus_and_escape_means_no(page: Page, client: Client) -> None:
    client.put("queues/%2F/kept", {})
    page.evaluate("location.hash = '#/queues/%2F/kept'")
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    for _ in range(4):
        page.keyboard.press("Tab")
        inside = page.evaluate(
            "document.activeElement === document.body || !!document.activeElement.closest('dialog')"
        )
        assert inside
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert client.get("queues/%2F/kept")["name"] == "kept"


def test_every_input_has_a_name_and_every_page_one_heading(open_page: Opener, client: Client) -> None:
    client.put("queues/%2F/wide", {})
    watched = open_page()
    watched.log_in()
    for where in ADDRESSES:
        watched.go(where)
        watched.page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
        expect(watched.page.locator("h1"), where).to_have_count(1)
        nameless = watched.page.evaluate(
            "[...document.querySelectorAll('input, select, textarea')].filter(each =>"
            " !each.labels.length && !each.getAttribute('aria-label')).map(each => each.outerHTML)"
        )
        assert nameless == [], where
        silent = watched.page.evaluate(
            "[...document.querySelectorAll('button, a')].filter(each =>"
            " !each.textContent.trim() && !each.getAttribute('aria-label')).map(each => each.outerHTML)"
        )
        assert silent == [], where


GLYPHS = """letters => letters.map((letter) => {
  const canvas = Object.assign(document.createElement("canvas"), { width: 40, height: 40 });
  const drawing = canvas.getContext("2d");
  drawing.font = `24px ${getComputedStyle(document.documentElement).fontFamily}`;
  drawing.fillText(letter, 4, 30);
  return canvas.toDataURL();
})"""


def test_chinese_letters_are_drawn(open_page: Opener) -> None:
    """Check that the page's fonts contain the letters: a missing letter is the same box as another one."""
    fonts = subprocess.run(["fc-list", ":lang=zh"], capture_output=True, check=True)
    if not fonts.stdout:
        pytest.skip(not_installed("fonts-noto-cjk"))
    watched = open_page(locale="zh-CN")
    drawn = watched.page.evaluate(GLYPHS, list("队列镜像主"))
    assert len(set(drawn)) == len(drawn)
