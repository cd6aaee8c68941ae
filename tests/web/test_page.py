"""Page in a real browser against a real node: login and logout, queues and messages."""

from __future__ import annotations

import re
import time

import pika
from playwright.sync_api import Page, Route, expect

from tests.brokers.mirrormq import MirrorMQ
from tests.management.http import Client, part
from tests.web.conftest import Opener

PLACES = (
    "Overview", "Connections", "Channels", "Exchanges", "Queues", "Cluster", "Failovers", "Admin", "Pipeline",
)  # fmt: skip
DEADLINE_S = 20.0


def test_a_wrong_password_is_refused_in_words(open_page: Opener) -> None:
    watched = open_page()
    watched.page.fill("[name=username]", "guest")
    watched.page.fill("[name=password]", "wrong")
    watched.page.get_by_role("button", name="Log in").click()
    expect(watched.page.get_by_role("alert")).to_have_text("The name or the password is wrong.")
    expect(watched.page.locator("nav.places")).to_have_count(0)
    watched.log_in()
    expect(watched.page.get_by_role("heading", level=1)).to_have_text("Overview")


def test_a_login_survives_a_reload_and_ends_with_log_out(open_page: Opener) -> None:
    watched = open_page()
    watched.log_in()
    watched.page.reload()
    expect(watched.page.locator("nav.places")).to_be_attached()
    assert watched.page.context.cookies() == [], "nothing that a browser would send by itself"
    watched.page.get_by_role("button", name="Log out").click()
    expect(watched.page.locator("[name=password]")).to_be_visible()
    watched.page.reload()
    expect(watched.page.locator("[name=password]")).to_be_visible()


def test_a_user_whose_login_ends_gets_a_notice(open_page: Opener, client: Client) -> None:
    client.put("users/fired", {"password": "f", "tags": "monitoring"})
    watched = open_page()
    watched.log_in("fired", "f")
    expect(watched.page.locator(".live.open")).to_be_visible()
    client.delete("users/fired")
    expect(watched.page.get_by_role("alert")).to_contain_text("logged out")


def test_names_and_passwords_may_hold_anything(open_page: Opener, client: Client) -> None:
    client.put(f"users/{part('甲 <b>')}", {"password": "密:码 é", "tags": "management"})
    watched = open_page()
    watched.log_in("甲 <b>", "密:码 é")
    expect(watched.page.locator(".who")).to_have_text("甲 <b>")


def test_a_user_sees_the_places_of_their_tags(open_page: Opener, client: Client) -> None:
    client.put("users/modest", {"password": "m", "tags": "management"})
    watched = open_page()
    watched.log_in("modest", "m")
    allowed = [name for name in PLACES if name not in ("Cluster", "Failovers", "Admin")]
    expect(watched.page.locator("nav.places a:not(.places-foot a)")).to_have_text(allowed)


def test_declare_publish_see_it_live_get_purge_delete(page: Page) -> None:
    page.get_by_role("link", name="Queues", exact=True).first.click()
    page.get_by_text("Add a queue").click()
    form = page.get_by_role("form", name="Add a queue")
    form.get_by_label("Name", exact=False).first.fill("letters")
    form.get_by_label("Name of argument 1").fill("x-max-length")
    form.get_by_label("Value of argument 1").fill("5")
    form.get_by_label("Type of argument 1").select_option("number")
    form.get_by_role("button", name="Declare").click()
    expect(page.get_by_role("status").filter(has_text="Queue letters is declared.")).to_be_visible()
    page.get_by_role("rowheader", name="letters").get_by_role("link").click()

    publish = page.get_by_role("form", name="Publish a message")
    publish.get_by_label("Payload").fill('{"to": "<b>you</b>"}')
    for _ in range(2):
        publish.get_by_role("button", name="Publish").click()
    expect(page.get_by_text("Published, and routed to a queue.").first).to_be_visible()
    ready = page.locator(".stat", has_text="Ready").locator("dd")
    expect(ready).to_have_text("2")
    expect(page.get_by_text("x-max-length")).to_be_visible()

    get = page.get_by_role("form", name="Get messages")
    get.get_by_label("After reading").select_option("ack_requeue_false")
    get.get_by_role("button", name="Get").click()
    expect(page.locator(".message pre")).to_have_text('{"to": "<b>you</b>"}')
    expect(ready).to_have_text("1")

    page.get_by_role("button", name="Purge").click()
    page.get_by_role("dialog").get_by_role("button", name="Purge").click()
    expect(ready).to_have_text("0")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("letters")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Queues")
    expect(page.get_by_role("rowheader", name="letters")).to_have_count(0)


def test_numbers_move_without_a_reload(page: Page, node: MirrorMQ) -> None:
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.amqp_port))
    channel = connection.channel()
    channel.queue_declare("moving")
    page.get_by_role("link", name="Queues", exact=True).first.click()
    row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="moving"))
    expect(row.locator("[data-label=Ready]")).to_have_text("0")
    for _ in range(7):
        channel.basic_publish("", "moving", b"x")
    expect(row.locator("[data-label=Ready]")).to_have_text("7")
    deadline = time.monotonic() + DEADLINE_S
    while row.locator("[data-label=Published]").inner_text() == "0/s":  # A rate lasts as long as its cause.
        assert time.monotonic() < deadline
        channel.basic_publish("", "moving", b"x")
        page.wait_for_timeout(50)
    page.get_by_role("link", name="Overview").click()
    expect(page.locator(".stat", has_text="Connections").locator("dd")).to_have_text("1")
    expect(page.get_by_role("region", name="Traffic").locator(".chart canvas")).to_have_count(3)
    expect(page.locator(".legend").first).to_contain_text("Published")
    channel.queue_delete("moving")
    connection.close()


def test_a_refusal_of_the_node_is_a_sentence(page: Page) -> None:
    page.evaluate("location.hash = '#/exchanges/%2F/amq.topic'")
    page.get_by_text("Add a binding").click()
    form = page.get_by_role("form", name="Add a binding")
    form.locator("[name=destination]").fill("no such queue")
    form.get_by_role("button", name="Bind").click()
    said = page.locator(".toast.bad")
    expect(said).to_contain_text("The node refused the request:")
    expect(said).to_contain_text("no such queue")


def test_bindings_are_made_and_removed(page: Page, client: Client) -> None:
    client.put("queues/%2F/bound", {})
    page.evaluate("location.hash = '#/queues/%2F/bound'")
    page.get_by_text("Add a binding").click()
    form = page.get_by_role("form", name="Add a binding")
    form.get_by_label("From exchange").fill("amq.topic")
    form.get_by_label("Routing key").fill("a.#")
    form.get_by_role("button", name="Bind").click()
    row = page.get_by_role("row").filter(has_text="a.#")
    expect(row).to_be_visible()
    row.get_by_role("button", name="Unbind").click()
    page.get_by_role("dialog").get_by_role("button", name="Unbind").click()
    expect(row).to_have_count(0)
    client.delete("queues/%2F/bound")


def test_filters_sort_and_pages_are_the_nodes(page: Page, client: Client) -> None:
    assert client.put("vhosts/many", {}).status == 201
    rows = [{"name": f"many{number:03}", "vhost": "many", "durable": False} for number in range(120)]
    assert client.post("definitions", {"queues": rows}).status == 204
    page.evaluate("location.hash = '#/queues'")
    expect(page.get_by_text("Page 1 of 3")).to_be_visible()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("rowheader", name="many060")).to_be_visible()
    page.get_by_label("Filter by name").fill("many11")
    expect(page.get_by_text(re.compile("10 of 1[0-9][0-9]"))).to_be_visible()
    page.get_by_role("columnheader", name="Name").get_by_role("button").click()
    page.get_by_role("columnheader", name="Name").get_by_role("button").click()
    expect(page.get_by_role("columnheader", name="Name")).to_have_attribute("aria-sort", "descending")
    expect(page.get_by_role("rowheader").first).to_have_text("many119")
    assert client.delete("vhosts/many").status == 204


def test_an_object_that_is_gone_is_named_so(open_page: Opener) -> None:
    watched = open_page()
    watched.log_in()
    for where in ("connections/gone", "channels/gone", "queues/%2F/gone", "exchanges/%2F/gone", "nodes/gone"):
        watched.go(where)
        expect(watched.page.get_by_role("alert")).to_have_text("There is no such object, or no longer.")


def test_a_list_claims_nothing_before_the_node_replied(open_page: Opener) -> None:
    watched = open_page()
    watched.log_in()
    held: list[Route] = []
    watched.page.route("**/api/users/guest/permissions", lambda route: held.append(route))
    with watched.page.expect_request("**/api/users/guest/permissions"):
        watched.page.evaluate("location.hash = '#/admin/users/guest'")
    panel = watched.page.get_by_role("region", name="Permissions", exact=True)
    expect(panel).to_be_visible()
    expect(panel.locator(".nothing")).to_have_count(0)
    for route in held:
        route.continue_()
    expect(panel.get_by_role("table")).to_be_visible()
