"""Names that contain markup."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.management.http import Client, part
from tests.web.conftest import Opener

RUDE = "<script>alert(1)</script>"
RUDER = "\"><img src=x onerror=alert(2)>'&{{7*7}}"


def test_names_are_text_wherever_they_stand(open_page: Opener, client: Client) -> None:
    for name in (RUDE, RUDER):
        assert client.put(f"queues/%2F/{part(name)}", {}).status == 201
        assert client.put(f"exchanges/%2F/{part(name)}", {"type": "fanout"}).status == 201
        assert client.post(f"bindings/%2F/e/{part(name)}/q/{part(name)}", {"routing_key": name}).status == 201
        assert client.put(f"vhosts/{part(name)}", {"description": name}).status == 201
        assert client.put(f"users/{part(name)}", {"password": "p", "tags": [name]}).status == 201
        assert (
            client.put(
                f"policies/%2F/{part(name)}",
                {"pattern": "none", "definition": {"dead-letter-exchange": name}},
            ).status
            == 201
        )
        message = {"properties": {"headers": {name: name}, "type": name}, "routing_key": "", "payload": name}
        assert (
            client.post(
                f"exchanges/%2F/{part(name)}/publish", {**message, "payload_encoding": "string"}
            ).status
            == 200
        )
    watched = open_page()
    watched.log_in()
    page = watched.page
    for where in ("queues", "exchanges", "admin/vhosts", "admin/users", "admin/policies"):
        watched.go(where)
        for name in (RUDE, RUDER):
            expect(page.locator("main").get_by_text(name, exact=True).first).to_be_visible()
    for name in (RUDE, RUDER):
        watched.go(f"queues/%2F/{part(name)}")
        expect(page.get_by_role("heading", level=1)).to_contain_text(name)
        page.get_by_role("form", name="Get messages").get_by_role("button", name="Get").click()
        expect(page.locator(".message pre")).to_have_text(name)
        watched.go(f"exchanges/%2F/{part(name)}")
        expect(page.get_by_role("rowheader").first).to_contain_text(name)
    assert watched.alerts == []
    expect(page.locator("img, main script")).to_have_count(0)
    for name in (RUDE, RUDER):
        for kind in ("queues/%2F", "exchanges/%2F", "vhosts", "users", "policies/%2F"):
            assert client.delete(f"{kind}/{part(name)}").status == 204
