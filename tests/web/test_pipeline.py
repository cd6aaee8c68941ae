"""Pipeline page on a real node: leases of clients, and jobs that have reported."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.brokers.mirrormq import MirrorMQ
from tests.management.http import Client, part
from tests.ranges.range_requests import Asker
from tests.web.conftest import Opener

RUDE = "<script>alert(1)</script>"


@pytest.fixture
def range_client(node: MirrorMQ) -> Iterator[Asker]:
    range_client = Asker(f"amqp://guest:guest@127.0.0.1:{node.amqp_port}/%2F")
    yield range_client
    range_client.close()


def report(range_client: Asker, job: str, **more: Any) -> None:
    range_client.ask("report", **{"job": job, "kind": "stats", "state": "running", **more})


def go(page: Page, where: str) -> None:
    page.evaluate("where => { location.hash = where }", f"#/{where}")


def row_of(page: Page, name: str) -> Any:
    return page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name, exact=True))


def test_an_empty_pipeline_says_how_to_begin(page: Page, node: MirrorMQ) -> None:
    go(page, "pipeline")
    expect(page.get_by_text("No job has reported yet.")).to_be_visible()
    expect(page.get_by_text("There are no leases.")).to_be_visible()
    uri = f"'amqp://guest:PASSWORD@127.0.0.1:{node.amqp_port}/%2F'"
    expect(page.locator(".command pre").first).to_contain_text(f"mirrormq pipeline archive --uri {uri}")


def test_a_command_is_copied(open_page: Opener, node: MirrorMQ) -> None:
    watched = open_page(permissions=["clipboard-read", "clipboard-write"])
    watched.log_in()
    watched.go("pipeline")
    watched.page.get_by_role("button", name="Copy the command for stats").click()
    expect(watched.page.get_by_text("Copied.")).to_be_visible()
    copied = watched.page.evaluate("navigator.clipboard.readText()")
    assert re.fullmatch(rf"mirrormq pipeline stats --uri 'amqp://.*:{node.amqp_port}/%2F' --to stats", copied)


def test_a_lease_appears_and_the_button_gives_it_back(page: Page, range_client: Asker) -> None:
    go(page, "pipeline")
    expect(page.get_by_text("There are no leases.")).to_be_visible()
    range_client.channel.queue_declare("leased", durable=True)
    range_client.publish("leased", *[b"x" * 100] * 8)
    range_client.take("leased", "nightly", 1, 5)
    row = row_of(page, "nightly")
    expect(row).to_contain_text("leased")
    expect(row.locator("[data-label='Messages held']")).to_have_text("5")
    expect(row.locator("[data-label=Size]")).to_have_text("500 B")

    row.get_by_role("link", name="leased").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("leased")
    expect(row.locator("[data-label='Messages held']")).to_have_text("5")
    row.get_by_role("button", name="Release lease nightly of queue leased").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("5 messages return to leased")
    dialog.get_by_role("button", name="Cancel").click()
    assert [lease.name for lease in range_client.leases("leased")] == ["nightly"]
    row.get_by_role("button", name="Release lease nightly of queue leased").click()
    dialog.get_by_role("button", name="Release").click()
    expect(page.get_by_text("Lease nightly is released.")).to_be_visible()
    expect(row).to_have_count(0)
    assert range_client.leases("leased") == []
    assert [marked for _, marked in range_client.drain("leased")] == [True] * 5 + [False] * 3
    range_client.channel.queue_delete("leased")


def test_a_job_that_reports_is_seen_live_with_its_results(
    page: Page, range_client: Asker, client: Client
) -> None:
    go(page, "pipeline")
    rows = [
        {"begin": f"2026-01-31T10:00:{second:02}", "kind": kind, "queue": "orders", "per_second": 1000.5}
        for second in (0, 10, 20)
        for kind in ("published", "delivered")
    ]
    numbers = {"rows": 12_345, "rows_per_s": Decimal("251.6"), "size_bytes": 2048}
    report(range_client, "live", text="first", numbers=numbers)
    row = row_of(page, "live")
    expect(row.locator("[data-label='Last report']")).to_have_text("first")
    expect(row.locator("[data-label=State]")).to_have_text("running")
    expect(row.locator("[data-label=Numbers]")).to_contain_text("12,345")
    report(range_client, "live", state="done", text="second", numbers=numbers, table=json.dumps(rows))
    expect(row.locator("[data-label='Last report']")).to_have_text("second")
    expect(row.locator("[data-label=State]")).to_have_text("done")

    row.get_by_role("link", name="live").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("live")
    facts = page.locator(".facts")
    expect(facts.nth(0)).to_contain_text("second")
    expect(facts.nth(1)).to_contain_text("252/s")
    expect(facts.nth(1)).to_contain_text("2 KiB")
    results = page.get_by_role("table", name="Results")
    expect(results.get_by_role("rowheader")).to_have_count(len(rows))
    expect(results.get_by_role("columnheader", name="per_second")).to_be_visible()
    chart = page.get_by_role("figure", name="In the results")
    expect(chart.locator(".legend li")).to_have_count(2)
    expect(chart.locator("canvas")).to_be_visible()

    page.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Pipeline")
    expect(row).to_have_count(0)
    assert client.get("mirrormq/jobs") == []


def test_the_report_of_a_job_is_text(open_page: Opener, range_client: Asker, client: Client) -> None:
    range_client.channel.queue_declare(RUDE, durable=True)
    range_client.publish(RUDE, b"x")
    range_client.take(RUDE, RUDE, 1, 1)
    table = json.dumps([{RUDE: RUDE}])
    report(range_client, RUDE, kind=RUDE, state="failed", text=RUDE, numbers={RUDE: RUDE}, table=table)
    watched = open_page()
    watched.log_in()
    page = watched.page
    watched.go("pipeline")
    # The name of the job, its kind, last report, name of a number and number; also a lease and its queue.
    expect(page.get_by_text(RUDE, exact=True)).to_have_count(6)
    watched.go(f"pipeline/%2F/{part(RUDE)}")
    expect(page.get_by_role("table", name="Results").get_by_role("rowheader")).to_have_text(RUDE)
    expect(page.get_by_role("columnheader", name=RUDE)).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text(RUDE)
    assert watched.alerts == []
    expect(page.locator("main script")).to_have_count(0)
    assert client.delete(f"mirrormq/jobs/%2F/{part(RUDE)}").status == 204
    range_client.channel.queue_delete(RUDE)


def test_a_user_who_may_not_release_gets_an_error(
    open_page: Opener, range_client: Asker, client: Client
) -> None:
    range_client.channel.queue_declare("guarded", durable=True)
    range_client.publish("guarded", b"x")
    range_client.take("guarded", "mine", 1, 1)
    assert client.put("users/mona", {"password": "m", "tags": "monitoring"}).status == 201
    assert client.put("permissions/%2F/mona", {"configure": "", "write": "", "read": ""}).status == 201
    report(range_client, "of guest")
    watched = open_page()
    watched.log_in("mona", "m")
    watched.go("pipeline")
    row_of(watched.page, "mine").get_by_role("button").click()
    watched.page.get_by_role("dialog").get_by_role("button", name="Release").click()
    said = "The node refused the request: access to queue 'guarded' in vhost '/' refused for user 'mona'"
    expect(watched.page.locator(".toast.bad")).to_contain_text(said)
    watched.page.get_by_role("button", name="Dismiss").click()
    watched.page.get_by_role("link", name="of guest").click()
    expect(watched.page.get_by_role("heading", level=1)).to_contain_text("of guest")
    expect(watched.page.get_by_role("button", name="Remove")).to_have_count(0)
    assert client.delete("mirrormq/jobs/%2F/of%20guest").status == 204
    range_client.channel.queue_delete("guarded")
