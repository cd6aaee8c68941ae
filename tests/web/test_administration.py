"""Administration on the page: policies, users, permissions, limits, connections."""

from __future__ import annotations

import pika
import pytest
from playwright.sync_api import Page, expect

from tests.brokers.mirrormq import MirrorMQ
from tests.management.http import Client


def test_a_policy_is_previewed_while_it_is_typed(page: Page, client: Client) -> None:
    for name in ("shop.eu", "shop.us", "stock"):
        client.put(f"queues/%2F/{name}", {})
    page.evaluate("location.hash = '#/admin/policies'")
    page.get_by_text("Add a policy").click()
    form = page.get_by_role("form", name="Add a policy")
    form.get_by_role("textbox", name="Pattern").fill("^shop")
    preview = page.get_by_role("region", name="Matching names")
    expect(preview).to_contain_text("Queues: 2")
    expect(preview).to_contain_text("shop.eu")
    expect(preview).not_to_contain_text("stock")
    form.get_by_role("textbox", name="Pattern").fill("^shop(")
    expect(preview).to_contain_text("at position")
    form.get_by_role("textbox", name="Pattern").fill("^stock$")
    expect(preview).to_contain_text("Queues: 1")
    form.get_by_label("Name", exact=False).first.fill("short")
    form.get_by_label("Name of argument 1").fill("max-length")
    form.get_by_label("Value of argument 1").fill("9")
    form.get_by_label("Type of argument 1").select_option("number")
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_role("rowheader", name="short")).to_be_visible()
    assert client.get("policies/%2F/short")["definition"] == {"max-length": 9}
    assert client.get("queues/%2F/stock")["policy"] == "short"
    client.delete("policies/%2F/short")


def test_a_policy_is_edited_in_place_with_hints_for_its_keys(page: Page, client: Client) -> None:
    client.put("queues/%2F/edited", {})
    body = {"pattern": "^edited$", "apply-to": "queues", "priority": 3, "definition": {"max-length": 9}}
    assert client.put("policies/%2F/old", body).status == 201
    page.evaluate("location.hash = '#/admin/policies'")
    page.get_by_role("button", name="Edit policy old").click()
    form = page.get_by_role("form", name="Edit policy old")
    expect(form.get_by_label("Priority")).to_have_value("3")
    expect(form.get_by_label("Value of argument 1")).to_have_value("9")
    expect(form).to_contain_text("Number of ready messages")
    form.get_by_label("Value of argument 1").fill("11")
    form.get_by_role("button", name="ha-mode").click()
    expect(form.get_by_label("Value of argument 2")).to_have_value("all")
    form.get_by_role("button", name="message-ttl").click()
    expect(form.get_by_label("Type of argument 3"), "a known key brings its type").to_have_value("number")
    form.get_by_label("Value of argument 3").fill("60000")
    form.get_by_role("button", name="Save").click()
    expect(form).to_have_count(0)
    found = client.get("policies/%2F/old")
    assert found["definition"] == {"max-length": 11, "ha-mode": "all", "message-ttl": 60000}
    assert (found["priority"], found["apply-to"]) == (3, "queues")
    page.get_by_role("button", name="Delete policy old").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("rowheader", name="old")).to_have_count(0)
    client.delete("queues/%2F/edited")


def test_an_operator_policy_is_set(page: Page, client: Client) -> None:
    page.evaluate("location.hash = '#/admin/policies'")
    page.get_by_text("Add an operator policy").click()
    form = page.get_by_role("form", name="Add an operator policy")
    form.get_by_role("textbox", name="Pattern").fill("^stock$")
    form.get_by_label("Name", exact=False).first.fill("capped")
    form.get_by_label("Name of argument 1").fill("expires")
    form.get_by_label("Value of argument 1").fill("3600000")
    form.get_by_label("Type of argument 1").select_option("number")
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_role("rowheader", name="capped")).to_be_visible()
    assert client.get("operator-policies/%2F/capped")["definition"] == {"expires": 3600000}
    client.delete("operator-policies/%2F/capped")


def test_users_permissions_and_limits_are_set(page: Page, client: Client, node: MirrorMQ) -> None:
    page.evaluate("location.hash = '#/admin/users'")
    page.get_by_text("Add a user").click()
    form = page.get_by_role("form", name="Add a user")
    form.get_by_label("Name").fill("newcomer")
    form.get_by_label("Password").fill("secret")
    form.get_by_label("monitoring").check()
    form.get_by_role("button", name="Add").click()
    expect(page.get_by_role("rowheader", name="newcomer")).to_be_visible()
    assert Client(node.management_port, "newcomer", "secret").get("whoami")["tags"] == ["monitoring"]

    page.evaluate("location.hash = '#/admin/permissions'")
    page.get_by_text("Set permissions", exact=True).click()
    form = page.get_by_role("form", name="Set permissions", exact=True)
    form.get_by_label("User").select_option("newcomer")
    form.get_by_label("Configure").fill("^mine")
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_role("row").filter(has_text="newcomer")).to_contain_text("^mine")
    assert client.get("permissions/%2F/newcomer")["configure"] == "^mine"

    page.evaluate("location.hash = '#/admin/limits'")
    panel = page.get_by_role("region", name="Limits of users")
    panel.get_by_text("Set a limit").click()
    panel.get_by_label("User", exact=True).select_option("newcomer")
    panel.get_by_label("Value").fill("3")
    panel.get_by_role("button", name="Save").click()
    expect(panel.get_by_role("row").filter(has_text="newcomer")).to_contain_text("3")
    assert client.get("user-limits/newcomer")[0]["value"] == {"max-connections": 3}
    client.delete("users/newcomer")


def test_a_connection_is_closed(page: Page, node: MirrorMQ) -> None:
    connection = pika.BlockingConnection(
        pika.ConnectionParameters(
            "127.0.0.1", node.amqp_port, client_properties={"connection_name": "visitor"}
        )
    )
    connection.channel()
    page.get_by_role("link", name="Connections").first.click()
    page.get_by_role("rowheader").filter(has_text="visitor").get_by_role("link").click()
    expect(page.get_by_role("region", name="Channels").get_by_role("row")).to_have_count(2)
    page.get_by_role("button", name="Close connection").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Reason")).to_have_value("Closed via management plugin")
    dialog.get_by_label("Reason").fill("维护 maintenance")
    dialog.get_by_role("button", name="Close connection").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Connections")
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(10)
    assert closed.value.reply_text == "CONNECTION_FORCED - 维护 maintenance"


def test_a_connection_is_left_open_if_the_user_cancels(page: Page, node: MirrorMQ) -> None:
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", node.amqp_port)) as connection:
        page.get_by_role("link", name="Connections").first.click()
        page.get_by_role("rowheader").get_by_role("link").first.click()
        page.get_by_role("button", name="Close connection").click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
        expect(page.get_by_role("dialog")).to_have_count(0)
        connection.channel().queue_declare("", exclusive=True)
