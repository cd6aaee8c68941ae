"""Definitions on the page: export to a file, and import with a preview of the changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, expect

from tests.management.http import Client


def document(path: Path, **parts: Any) -> Path:
    path.write_text(json.dumps(parts))
    return path


def choose_file(page: Page, path: Path) -> None:
    page.evaluate("location.hash = '#/admin/definitions'")
    form = page.get_by_role("form", name="Import")
    form.get_by_label("Definitions file").set_input_files(path)
    form.get_by_role("button", name="Preview").click()


def test_definitions_are_exported_to_a_file(page: Page, client: Client, tmp_path: Path) -> None:
    client.put("queues/%2F/exported", {})
    page.evaluate("location.hash = '#/admin/definitions'")
    form = page.get_by_role("form", name="Export")
    form.get_by_label("File name").fill("all.json")
    with page.expect_download() as waiting:
        form.get_by_role("button", name="Download").click()
    assert waiting.value.suggested_filename == "all.json"
    waiting.value.save_as(tmp_path / "all.json")
    found = json.loads((tmp_path / "all.json").read_text())
    assert [queue["name"] for queue in found["queues"]] == ["exported"]
    assert [user["name"] for user in found["users"]] == ["guest"]
    form.get_by_label("Vhost").select_option("/")
    with page.expect_download() as waiting:
        form.get_by_role("button", name="Download").click()
    waiting.value.save_as(tmp_path / "one.json")
    assert "users" not in json.loads((tmp_path / "one.json").read_text())
    client.delete("queues/%2F/exported")


def test_an_import_is_previewed_before_it_changes_anything(
    page: Page, client: Client, tmp_path: Path
) -> None:
    client.put("queues/%2F/old", {"durable": True})
    policy = {"vhost": "/", "name": "short", "pattern": "^old", "definition": {"max-length": 5}}
    client.put("policies/%2F/short", {"pattern": "^old", "definition": {"max-length": 3}})
    queues = [{"vhost": "/", "name": "old", "durable": False}, {"vhost": "/", "name": "new", "durable": True}]
    path = document(tmp_path / "plan.json", queues=queues, policies=[policy])
    choose_file(page, path)
    changes = page.get_by_role("region", name="Changes of this import")
    expect(changes).to_contain_text("Policies 1 changed")
    expect(changes).to_contain_text("1 new")
    expect(changes).to_contain_text("1 kept as they are")
    assert client.request("GET", "queues/%2F/new").status == 404, "the preview changes nothing"
    changes.get_by_role("button", name="Cancel").click()
    expect(changes).to_have_count(0)
    choose_file(page, path)
    changes.get_by_role("button", name="Import").click()
    expect(page.get_by_text("The definitions are imported.")).to_be_visible()
    assert client.get("queues/%2F/new")["durable"] is True
    assert client.get("queues/%2F/old")["durable"] is True
    assert client.get("policies/%2F/short")["definition"] == {"max-length": 5}


def test_an_import_into_one_vhost_touches_no_other(page: Page, client: Client, tmp_path: Path) -> None:
    assert client.put("vhosts/copy", {}).status == 201
    path = document(tmp_path / "one.json", queues=[{"name": "moved", "durable": True}])
    page.evaluate("location.hash = '#/admin/definitions'")
    form = page.get_by_role("form", name="Import")
    form.get_by_label("Vhost").select_option("copy")
    choose_file(page, path)
    changes = page.get_by_role("region", name="Changes of this import")
    expect(changes).to_contain_text("in vhost copy")
    changes.get_by_role("button", name="Import").click()
    expect(page.get_by_text("The definitions are imported.")).to_be_visible()
    assert client.get("queues/copy/moved")["name"] == "moved"
    assert client.delete("vhosts/copy").status == 204


def test_a_file_that_cannot_be_imported_is_refused_in_words(page: Page, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{not json")
    choose_file(page, broken)
    expect(page.locator(".toast.bad")).to_contain_text("This file is not JSON")
    choose_file(page, document(tmp_path / "list.json"))
    expect(page.get_by_text("The file contains no definitions.")).to_be_visible()


def test_the_preview_names_what_an_import_skips(page: Page, client: Client, tmp_path: Path) -> None:
    quorum = {"vhost": "/", "name": "five", "durable": True, "arguments": {"x-queue-type": "quorum"}}
    queues = [{"vhost": "nowhere", "name": "lost"}, quorum, {"vhost": "/", "name": "plain"}]
    path = document(tmp_path / "some.json", queues=queues)
    choose_file(page, path)
    changes = page.get_by_role("region", name="Changes of this import")
    expect(changes).to_contain_text("Skipped: 2")
    expect(changes).to_contain_text("Virtual host 'nowhere' does not exist")
    expect(changes).to_contain_text("not classic")
    page.get_by_label("Turn quorum queues").check()
    choose_file(page, path)
    expect(changes).to_contain_text("Skipped: 1")
    changes.get_by_role("button", name="Import").click()
    expect(page.get_by_text("The definitions are imported.")).to_be_visible()
    names = {queue["name"] for queue in client.get("queues/%2F")}
    assert {"five", "plain"} <= names and "lost" not in names
