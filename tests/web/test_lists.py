"""Lists of the page: filter, order and page in the address, columns, vhost filter, pause button."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.brokers.mirrormq import MirrorMQ
from tests.management.http import Client
from tests.web.conftest import Opener

QUEUES = 120


@pytest.fixture(scope="module")
def lists(node: MirrorMQ) -> Iterator[Client]:
    client = Client(node.management_port)
    assert client.put("vhosts/many", {}).status == 201
    rows = [{"name": f"many{number:03}", "vhost": "many", "durable": False} for number in range(QUEUES)]
    assert client.post("definitions", {"queues": rows}).status == 204
    assert client.put("queues/%2F/single", {}).status == 201
    yield client
    assert client.delete("vhosts/many").status == 204


def headings(page: Page) -> list[str]:
    return [text.rstrip(" ↑↓") for text in page.locator("main thead th").all_inner_texts()]


def test_the_address_restores_filter_order_and_page(page: Page, lists: Client) -> None:
    page.evaluate("location.hash = '#/queues'")
    page.get_by_label("Filter by name").fill("many")
    expect(page.get_by_text(f"{QUEUES} of ")).to_be_visible()
    page.get_by_role("columnheader", name="Name").get_by_role("button").click()
    page.get_by_role("columnheader", name="Name").get_by_role("button").click()
    expect(page.get_by_role("rowheader").first).to_have_text("many119")
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("rowheader").first).to_have_text("many069")
    assert "name=many" in page.url and "sort=name" in page.url and "page=2" in page.url
    page.reload()
    expect(page.get_by_role("rowheader").first).to_have_text("many069")
    expect(page.get_by_label("Filter by name")).to_have_value("many")
    page.get_by_role("link", name="many069").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("many069")
    page.go_back()
    expect(page.get_by_role("rowheader").first, "the Back button leads to the same page").to_have_text(
        "many069"
    )


def test_a_page_has_as_many_rows_as_the_user_chooses(page: Page, lists: Client) -> None:
    page.evaluate("location.hash = '#/queues?name=many'")
    expect(page.get_by_text("Page 1 of 3")).to_be_visible()
    page.get_by_label("Rows per page").select_option("500")
    expect(page.get_by_role("rowheader")).to_have_count(QUEUES)


def test_a_page_that_is_gone_becomes_the_first(page: Page, lists: Client) -> None:
    page.evaluate("location.hash = '#/queues?name=many&page=9'")
    expect(page.get_by_text("Page 1 of 3")).to_be_visible()
    assert "page=" not in page.url.partition("#")[2]


def test_an_invalid_pattern_is_marked_in_its_field(page: Page, lists: Client) -> None:
    page.evaluate("location.hash = '#/queues'")
    page.get_by_label("regular expression").check()
    field = page.get_by_label("Filter by name")
    field.fill("many[")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.get_by_role("alert")).to_have_text("This is not a valid regular expression.")
    field.fill("^many00[0-3]$")
    expect(page.get_by_role("rowheader")).to_have_count(4)
    expect(field).not_to_have_attribute("aria-invalid", "true")


def test_columns_are_chosen_and_remembered(page: Page, lists: Client) -> None:
    page.evaluate("location.hash = '#/queues'")
    expect(page.get_by_role("rowheader").first).to_be_visible()
    assert "State" in headings(page) and "Memory" not in headings(page)
    page.locator(".column-choice summary").click()
    page.locator(".column-choice").get_by_label("Memory", exact=True).check()
    page.locator(".column-choice").get_by_label("State").uncheck()
    page.reload()
    expect(page.get_by_role("columnheader", name="Memory")).to_be_visible()
    expect(page.get_by_role("columnheader", name="State")).to_have_count(0)


def test_one_vhost_filters_every_list_and_is_the_first_of_a_form(page: Page, lists: Client) -> None:
    page.evaluate("location.hash = '#/queues'")
    chosen = page.get_by_label("Show one vhost")
    chosen.select_option("/")
    expect(page.get_by_role("rowheader", name="single")).to_be_visible()
    expect(page.get_by_role("rowheader", name="many000")).to_have_count(0)
    chosen.select_option("many")
    expect(page.get_by_text(f"{QUEUES} in total")).to_be_visible()
    page.get_by_text("Add a queue").click()
    form = page.get_by_role("form", name="Add a queue")
    expect(form.get_by_label("Vhost")).to_have_value("many")
    page.get_by_role("link", name="Exchanges").first.click()
    expect(page.get_by_text("7 in total")).to_be_visible()
    for place in ("Connections", "Channels"):
        page.get_by_role("link", name=place, exact=True).first.click()
        expect(page.get_by_text("0 in total")).to_be_visible()
    page.get_by_label("Show one vhost").select_option("")


def test_a_deleted_vhost_filters_nothing(open_page: Opener, lists: Client) -> None:
    assert lists.put("vhosts/brief", {}).status == 201
    watched = open_page()
    watched.log_in()
    watched.page.get_by_label("Show one vhost").select_option("brief")
    assert lists.delete("vhosts/brief").status == 204
    expect(watched.page.get_by_label("Show one vhost")).to_have_value("")
    watched.go("queues")
    expect(watched.page.get_by_text(f"{QUEUES + 1} in total")).to_be_visible()


def test_a_pause_holds_the_numbers_until_the_user_resumes(open_page: Opener, lists: Client) -> None:
    paused, running = open_page(), open_page()
    for watched in (paused, running):
        watched.log_in()
        watched.go("queues?name=single")
    ready = [
        watched.page.get_by_role("row").last.locator("[data-label=Ready]") for watched in (paused, running)
    ]
    expect(ready[0]).to_have_text("0")
    paused.page.get_by_role("button", name="Pause the updates").click()
    expect(paused.page.locator(".live")).to_have_text("paused")
    asked: list[str] = []
    paused.page.on("request", lambda request: asked.append(request.url))
    body = {"properties": {}, "routing_key": "single", "payload": "x", "payload_encoding": "string"}
    assert lists.post("exchanges/%2F/amq.default/publish", body).json["routed"] is True
    expect(ready[1], "the other tab goes on").to_have_text("1")
    assert asked == [], "a paused page asks nothing"
    expect(ready[0]).to_have_text("0")
    paused.page.get_by_role("button", name="Resume the updates").click()
    expect(ready[0]).to_have_text("1")
    assert lists.delete("queues/%2F/single/contents").status == 204


@pytest.fixture
def people(lists: Client) -> Iterator[Client]:
    """Two users, two policies and an operator policy beside those that every node has."""
    for name, tags in (("zoe", "monitoring"), ("yan", "policymaker")):
        lists.put(f"users/{name}", {"password": "p", "tags": tags})
    lists.put("permissions/many/zoe", {"configure": "", "write": "", "read": ".*"})
    policy = {"pattern": "^q", "definition": {"max-length": 1}}
    lists.put("policies/%2F/first", policy | {"priority": 2})
    lists.put("policies/%2F/second", policy | {"priority": 1})
    lists.put("operator-policies/%2F/first-limit", policy)
    yield lists
    for path in ("users/zoe", "users/yan", "policies/%2F/first", "policies/%2F/second"):
        assert lists.delete(path).status == 204
    assert lists.delete("operator-policies/%2F/first-limit").status == 204


def test_users_are_filtered_and_sorted(page: Page, people: Client) -> None:
    """Lists that the node sends whole have the fields of paged lists, as on RabbitMQ's page."""
    names = page.locator("main").get_by_role("rowheader")
    page.evaluate("location.hash = '#/admin/users'")
    expect(names).to_have_text(["guest", "yan", "zoe"])
    page.get_by_role("columnheader", name="Tags").get_by_role("button").click()
    page.get_by_role("columnheader", name="Tags").get_by_role("button").click()
    expect(names).to_have_text(["yan", "zoe", "guest"])
    page.get_by_label("Filter by name").fill("Z")
    expect(names).to_have_text(["zoe"])
    expect(page.get_by_text("1 of 3")).to_be_visible()
    page.reload()
    expect(names).to_have_text(["zoe"])
    page.get_by_label("regular expression").check()
    page.get_by_label("Filter by name").fill("n[")
    expect(page.get_by_role("alert")).to_have_text("This is not a valid regular expression.")
    page.get_by_label("Filter by name").fill("^(yan|guest)$")
    expect(names).to_have_text(["yan", "guest"])


def test_vhosts_name_their_users_and_have_columns(page: Page, people: Client) -> None:
    page.evaluate("location.hash = '#/admin/vhosts'")
    expect(page.get_by_role("row", name="many").get_by_text("zoe")).to_be_visible()
    assert "Ready" not in headings(page)
    page.locator(".column-choice summary").click()
    page.locator(".column-choice").get_by_label("Ready", exact=True).check()
    expect(page.get_by_role("columnheader", name="Ready")).to_be_visible()
    page.get_by_label("Filter by name").fill("man")
    expect(page.locator("main").get_by_role("rowheader")).to_have_text(["many"])


def test_policies_and_flags_are_filtered(page: Page, people: Client) -> None:
    page.evaluate("location.hash = '#/admin/policies'")
    policies = page.get_by_role("region", name="Policies", exact=True)
    policies.get_by_role("columnheader", name="Priority").get_by_role("button").click()
    expect(policies.get_by_role("rowheader")).to_have_text(["second", "first"])
    policies.get_by_label("Filter by name").fill("sec")
    expect(policies.get_by_role("rowheader")).to_have_text(["second"])
    operator = page.get_by_role("region", name="Operator policies")
    expect(operator.get_by_role("rowheader"), "each list has a filter of its own").to_have_text(
        ["first-limit"]
    )
    page.evaluate("location.hash = '#/admin/flags'")
    page.get_by_label("Filter by name").fill("maintenance")
    expect(page.locator("main").get_by_role("rowheader")).to_have_text(["maintenance_mode_status"])


def test_arguments_of_a_queue_are_marks_in_the_list(page: Page, lists: Client) -> None:
    arguments = {"x-message-ttl": 60000, "x-dead-letter-exchange": "dead", "x-of-an-application": 1}
    lists.put("queues/%2F/marked", {"durable": True, "arguments": arguments})
    page.evaluate("location.hash = '#/queues?name=marked'")
    row = page.get_by_role("row", name="marked")
    for mark, title in (("TTL", "x-message-ttl: 60000"), ("DLX", "x-dead-letter-exchange: dead")):
        expect(row.get_by_text(mark, exact=True)).to_have_attribute("title", title)
    expect(row.get_by_text("Args", exact=True)).to_have_attribute("title", "x-of-an-application: 1")
    assert lists.delete("queues/%2F/marked").status == 204
