"""Pages of one user and one vhost, topic permissions, limits, feature flags, cluster name."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.brokers.mirrormq import MirrorMQ
from tests.management.http import Client
from tests.web.conftest import Opener


def open_user(page: Page, name: str) -> None:
    page.evaluate("name => { location.hash = `#/admin/users/${name}` }", name)
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    page.get_by_text("Change this user").click()


def save_user(page: Page) -> None:
    page.get_by_role("form", name="Change this user").get_by_role("button", name="Save").click()


def test_a_new_password_leaves_the_tags_and_the_session(page: Page, client: Client, node: MirrorMQ) -> None:
    open_user(page, "guest")
    page.get_by_label("New password").fill("other")
    save_user(page)
    expect(page.get_by_text("User guest is saved.")).to_be_visible()
    administrator = Client(node.management_port, "guest", "other")
    try:
        assert administrator.get("whoami")["tags"] == ["administrator"]
        # The page continues with the new password.
        page.evaluate("location.hash = '#/admin/users'")
        expect(page.get_by_role("rowheader", name="guest")).to_be_visible()
    finally:
        administrator.put("users/guest", {"password": "guest", "tags": "administrator"})


def test_own_new_tags_change_the_page_at_once(open_page: Opener, client: Client) -> None:
    client.put("users/deputy", {"password": "d", "tags": "administrator"})
    watched = open_page()
    watched.log_in("deputy", "d")
    page = watched.page
    open_user(page, "deputy")
    page.get_by_label("administrator").uncheck()
    page.get_by_label("monitoring").check()
    save_user(page)
    expect(page.locator("nav.places").get_by_role("link", name="Admin")).to_have_count(0)
    expect(page.locator("nav.places").get_by_role("link", name="Cluster")).to_be_visible()
    expect(page.locator(".who")).to_have_attribute("title", "monitoring")
    client.delete("users/deputy")


def test_a_user_without_management_tags_is_logged_out(open_page: Opener, client: Client) -> None:
    client.put("users/deputy", {"password": "d", "tags": "administrator"})
    watched = open_page()
    watched.log_in("deputy", "d")
    open_user(watched.page, "deputy")
    watched.page.get_by_label("administrator").uncheck()
    save_user(watched.page)
    expect(watched.page.get_by_text("You were logged out")).to_be_visible()
    client.delete("users/deputy")


def test_the_only_administrator_cannot_lose_that_tag(page: Page, client: Client) -> None:
    open_user(page, "guest")
    page.get_by_label("administrator").uncheck()
    page.get_by_label("management").check()
    save_user(page)
    expect(page.locator(".toast.bad")).to_contain_text("guest is the only administrator")
    assert client.get("users/guest")["tags"] == ["administrator"]


def test_tags_are_a_set(page: Page, client: Client) -> None:
    client.put("users/clerk", {"password": "c", "tags": "monitoring,impersonator"})
    before = client.get("users/clerk")["password_hash"]
    open_user(page, "clerk")
    expect(page.get_by_label("monitoring")).to_be_checked()
    expect(page.get_by_label("Other tags")).to_have_value("impersonator")
    page.get_by_label("policymaker").check()
    save_user(page)
    # The new tags and a fresh form come together; the old form has a label of the same text.
    expect(page.get_by_role("region", name="Details").locator("dd").first).to_contain_text("policymaker")
    found = client.get("users/clerk")
    assert sorted(found["tags"]) == ["impersonator", "monitoring", "policymaker"]
    assert found["password_hash"] == before, "the password stays"
    page.get_by_label("Password", exact=True).select_option("none")
    save_user(page)
    expect(page.get_by_role("region", name="Details")).to_contain_text("Has a passwordno")
    assert client.get("users/clerk")["password_hash"] == ""
    client.delete("users/clerk")


def test_a_user_that_exists_is_not_replaced_by_add(page: Page, client: Client) -> None:
    page.evaluate("location.hash = '#/admin/users'")
    page.get_by_text("Add a user").click()
    form = page.get_by_role("form", name="Add a user")
    form.get_by_label("Name").fill("guest")
    form.get_by_role("button", name="Add").click()
    expect(page.locator(".toast.bad")).to_contain_text("User guest exists")
    assert client.get("users/guest")["tags"] == ["administrator"]


def test_permissions_topic_permissions_and_limits_of_a_user(page: Page, client: Client) -> None:
    client.put("users/seller", {"password": "s", "tags": ""})
    open_user(page, "seller")
    page.get_by_text("Set permissions").click()
    form = page.get_by_role("form", name="Set permissions")
    form.get_by_label("Configure").fill("^mine")
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_role("region", name="Permissions", exact=True)).to_contain_text("^mine")
    assert client.get("permissions/%2F/seller")["configure"] == "^mine"

    topics = page.get_by_role("region", name="Topic permissions")
    topics.get_by_text("Set topic permissions").click()
    form = page.get_by_role("form", name="Set topic permissions")
    for exchange in ("amq.topic", "other"):
        form.get_by_label("Exchange").fill(exchange)
        form.get_by_label("Write").fill("^eu")
        form.get_by_role("button", name="Save").click()
        expect(topics.get_by_role("cell", name=exchange)).to_be_visible()
    row = topics.get_by_role("row").filter(has_text="other")
    row.get_by_role("button", name="Clear").click()
    page.get_by_role("dialog").get_by_role("button", name="Clear").click()
    expect(row).to_have_count(0)
    (kept,) = client.get("topic-permissions/%2F/seller")
    assert (kept["exchange"], kept["write"]) == ("amq.topic", "^eu")

    limits = page.get_by_role("region", name="Limits")
    limits.get_by_text("Set a limit").click()
    limits.get_by_label("Value").fill("3")
    limits.get_by_role("button", name="Save").click()
    expect(limits.get_by_role("rowheader", name="max-connections")).to_be_visible()
    assert client.get("user-limits/seller")[0]["value"] == {"max-connections": 3}
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("rowheader", name="guest")).to_be_visible()
    assert client.request("GET", "users/seller").status == 404


def test_a_vhost_is_added_changed_and_deleted_on_its_page(page: Page, client: Client) -> None:
    page.evaluate("location.hash = '#/admin/vhosts'")
    page.get_by_text("Add a vhost").click()
    form = page.get_by_role("form", name="Add a vhost")
    form.get_by_label("Name").fill("branch")
    form.get_by_role("button", name="Save").click()
    page.get_by_role("rowheader", name="branch").get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("branch")
    expect(page.locator("figure.chart")).to_have_count(3)
    page.get_by_text("Change this vhost").click()
    form = page.get_by_role("form", name="Change this vhost")
    form.get_by_label("Description").fill("the shop")
    form.get_by_label("Tags").fill("eu, test")
    form.get_by_label("Tracing").check()
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_role("region", name="Details")).to_contain_text("the shop")
    found = client.get("vhosts/branch")
    assert (found["description"], found["tags"], found["tracing"]) == ("the shop", ["eu", "test"], True)
    page.get_by_text("Set permissions").click()
    page.get_by_role("form", name="Set permissions").get_by_role("button", name="Save").click()
    expect(page.get_by_role("region", name="Permissions", exact=True)).to_contain_text("guest")
    limits = page.get_by_role("region", name="Limits")
    limits.get_by_text("Set a limit").click()
    limits.get_by_label("Limit", exact=True).select_option("max-queues")
    limits.get_by_label("Value").fill("5")
    limits.get_by_role("button", name="Save").click()
    expect(limits.get_by_role("rowheader", name="max-queues")).to_be_visible()
    assert client.get("vhost-limits/branch")[0]["value"] == {"max-queues": 5}
    limits.get_by_role("button", name="Clear").click()
    expect(limits.get_by_role("rowheader", name="max-queues")).to_have_count(0)
    page.get_by_role("button", name="Show only this vhost").click()
    expect(page.get_by_text("0 in total")).to_be_visible()
    page.evaluate("location.hash = '#/admin/vhosts/branch'")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("rowheader", name="branch")).to_have_count(0)
    assert client.request("GET", "vhosts/branch").status == 404


def test_feature_flags_are_listed(page: Page, client: Client) -> None:
    page.evaluate("location.hash = '#/admin/flags'")
    names = [flag["name"] for flag in client.get("feature-flags")]
    expect(page.get_by_role("rowheader")).to_have_text(names)
    expect(page.get_by_role("cell", name="enabled")).to_have_count(len(names))


def test_the_cluster_gets_a_name(page: Page, client: Client) -> None:
    page.evaluate("location.hash = '#/cluster'")
    page.get_by_text("Change the cluster name").click()
    form = page.get_by_role("form", name="Change the cluster name")
    form.get_by_label("Cluster name").fill("warehouse")
    form.get_by_role("button", name="Save").click()
    expect(page.get_by_text("The cluster is named warehouse.")).to_be_visible()
    assert client.get("cluster-name")["name"] == "warehouse"
    page.get_by_role("link", name="Overview").click()
    expect(page.get_by_text("Cluster warehouse")).to_be_visible()


def test_statistics_are_reset(page: Page, client: Client) -> None:
    page.evaluate("location.hash = '#/cluster'")
    page.get_by_role("button", name="Reset statistics").click()
    with page.expect_response(lambda reply: reply.url.endswith("/api/reset")) as waiting:
        page.get_by_role("dialog").get_by_role("button", name="Reset statistics").click()
    assert waiting.value.status == 204
    expect(page.get_by_text("The statistics are reset.")).to_be_visible()


def test_the_api_is_described_behind_a_link(page: Page) -> None:
    page.get_by_role("link", name="HTTP API").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("The HTTP API")
