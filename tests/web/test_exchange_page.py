"""Exchanges on the page: declare, bind to a queue and to an exchange, publish with properties, delete."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.management.http import Client


def declare(page: Page, name: str, kind: str) -> None:
    page.evaluate("location.hash = '#/exchanges'")
    form = page.get_by_role("form", name="Add an exchange")
    if not form.is_visible():
        page.get_by_text("Add an exchange").click()
    form.get_by_label("Name", exact=False).first.fill(name)
    form.get_by_label("Type", exact=True).select_option(kind)
    form.get_by_role("button", name="alternate-exchange").click()
    form.get_by_label("Value of argument 1").fill("amq.fanout")
    form.get_by_role("button", name="Declare").click()
    expect(page.get_by_role("rowheader", name=name)).to_be_visible()


def bind(page: Page, kind: str, name: str, key: str) -> None:
    form = page.get_by_role("form", name="Add a binding")
    if not form.is_visible():
        page.get_by_text("Add a binding").click()
    form.get_by_label("To a").select_option(kind)
    form.locator("[name=destination]").fill(name)
    form.get_by_label("Routing key").fill(key)
    form.get_by_role("button", name="Bind").click()
    expect(page.get_by_role("row").filter(has_text=name)).to_contain_text(key)


def test_an_exchange_is_declared_bound_used_and_deleted(page: Page, client: Client) -> None:
    client.put("queues/%2F/letters", {})
    declare(page, "first", "topic")
    declare(page, "second", "direct")
    found = client.get("exchanges/%2F/first")
    assert (found["type"], found["durable"]) == ("topic", True)
    assert found["arguments"] == {"alternate-exchange": "amq.fanout"}
    page.evaluate("location.hash = '#/exchanges/%2F/second'")
    bind(page, "queue", "letters", "key")
    page.evaluate("location.hash = '#/exchanges/%2F/first'")
    expect(page.get_by_role("heading", level=1)).to_contain_text("first")
    bind(page, "exchange", "second", "#")

    form = page.get_by_role("form", name="Publish a message")
    form.get_by_label("Routing key").fill("key")
    form.get_by_label("Payload").fill("hello")
    form.get_by_text("Headers and properties").click()
    form.get_by_role("button", name="message_id").click()
    form.get_by_label("Value of argument 1").last.fill("m1")
    form.get_by_label("Name of argument 1").first.fill("colour")
    form.get_by_label("Value of argument 1").first.fill("red")
    form.get_by_role("button", name="Publish").click()
    expect(page.get_by_text("Published, and routed to a queue.")).to_be_visible()
    asked = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    (message,) = client.post("queues/%2F/letters/get", asked).json
    assert message["payload"] == "hello"
    assert message["properties"]["message_id"] == "m1"
    assert message["properties"]["headers"] == {"colour": "red"}
    assert message["properties"]["delivery_mode"] == 2

    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Exchanges")
    assert client.request("GET", "exchanges/%2F/first").status == 404
    client.delete("exchanges/%2F/second")
    client.delete("queues/%2F/letters")
