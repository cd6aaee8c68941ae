"""CORS and CSRF: headers for browsers as in RabbitMQ 3.10.8, and refused requests of other sites' pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.brokers.mirrormq import MirrorMQ
from tests.management.conftest import managed
from tests.management.http import Client

ONE, TWO, EVIL = "https://one.example", "https://two.example", "https://evil.example"
SETTINGS = f"""
management.cors.allow_origins.1 = {ONE}
management.cors.allow_origins.2 = {TWO}
management.cors.max_age = 77
"""
METHODS = "HEAD, GET, PUT, DELETE, OPTIONS"


@pytest.fixture(scope="module")
def open_to_some() -> Iterator[Client]:
    with managed(SETTINGS) as broker:
        yield Client(broker.management_port)


def _told(client: Client, method: str, path: str, origin: str, **headers: str) -> dict[str, str]:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    answer = client.request(method, path, headers={"Origin": origin, **given})
    return {
        name.removeprefix("access-control-"): value
        for name, value in answer.headers.items()
        if name.startswith("access-control-")
    }


@pytest.mark.parametrize("path", ["whoami", "nothing", "queues/%2F/missing"])
@pytest.mark.parametrize("origin", [ONE, TWO])
def test_an_allowed_origin_is_named(open_to_some: Client, path: str, origin: str) -> None:
    reported = {"allow-origin": origin, "allow-credentials": "true"}
    assert _told(open_to_some, "GET", path, origin) == reported


@pytest.mark.parametrize("origin", [EVIL, "null", "", f"{ONE}.evil.example"])
def test_another_one_is_not(open_to_some: Client, origin: str) -> None:
    assert _told(open_to_some, "GET", "whoami", origin) == {}
    assert _told(open_to_some, "OPTIONS", "queues/%2F/q", origin) == {}


def test_a_refusal_can_be_read_too(open_to_some: Client) -> None:
    wrong = {"Origin": ONE, "Authorization": "Basic Z3Vlc3Q6eA=="}
    answer = open_to_some.request("GET", "whoami", headers=wrong)
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (401, ONE)


def test_a_preflight_request_gets_the_methods(open_to_some: Client) -> None:
    reported = {"allow-origin": ONE, "allow-credentials": "true", "allow-methods": METHODS}
    asked = _told(open_to_some, "OPTIONS", "queues/%2F/q", ONE, Access_Control_Request_Method="PUT")
    assert asked == {**reported, "max-age": "77"}
    asked = _told(
        open_to_some, "OPTIONS", "queues/%2F/q", ONE, Access_Control_Request_Headers="authorization,x-foo"
    )
    assert asked == {**reported, "allow-headers": "authorization,x-foo"}


@pytest.mark.parametrize(("origin", "status"), [(ONE, 201), (EVIL, 403)])
def test_only_an_allowed_site_may_change_anything(open_to_some: Client, origin: str, status: int) -> None:
    headers = {"Origin": origin, "Sec-Fetch-Site": "cross-site"}
    answer = open_to_some.request("PUT", f"queues/%2F/{status}", {}, headers)
    assert answer.status == status


def test_without_a_setting_there_are_no_cors_headers(client: Client) -> None:
    assert _told(client, "GET", "whoami", ONE) == {}
    headers = {"Origin": ONE, "Sec-Fetch-Site": "cross-site"}
    assert client.request("PUT", "queues/%2F/foreign", {}, headers).status == 403


def test_a_star_allows_all_that_have_a_name() -> None:
    with managed("management.cors.allow_origins.1 = *") as broker:
        client = Client(broker.management_port)
        assert _told(client, "GET", "whoami", EVIL)["allow-origin"] == EVIL
        assert _told(client, "OPTIONS", "whoami", EVIL)["max-age"] == "1800"
        assert _told(client, "GET", "whoami", "null") == {}


def changes(client: Client, **headers: str | None) -> int:
    """Return the status of a changing request."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return client.request("PUT", "queues/%2F/changed", {}, given).status


@pytest.mark.parametrize("kind", ["Origin", "Referer"])
def test_the_page_s_own_requests_are_taken(node: MirrorMQ, client: Client, kind: str) -> None:
    for host in (f"127.0.0.1:{node.management_port}", "Rabbit.example", "rabbit.example:80"):
        assert changes(client, Host=host, **{kind: f"http://{host.lower()}"}) in (201, 204)
    assert changes(client, Host="inner:1", X_Forwarded_Host="rabbit.example", Origin="https://rabbit.example")
    assert (
        changes(client, Host="inner:1", Sec_Fetch_Site="same-origin", Origin="https://rabbit.example") == 204
    )


@pytest.mark.parametrize("kind", ["Origin", "Referer"])
@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "http://rabbit.example:81", "https://rabbit.example.evil.example", "null", "x",
     "http://rabbit.example@evil.example", "http://[", "file://", "http://rabbit.example:port"],
)  # fmt: skip
def test_other_pages_requests_are_refused(client: Client, kind: str, origin: str) -> None:
    given = {"Host": "rabbit.example", kind: origin}
    for method, path in (
        ("PUT", "queues/%2F/foreign"),
        ("POST", "definitions"),
        ("DELETE", "queues/%2F/q"),
        ("POST", "login"),
        ("POST", "exchanges/%2F/amq.default/publish"),
    ):
        assert client.request(method, path, {}, given).status == 403, method
    assert client.request("GET", "whoami", headers=given).status == 200


def test_programs_that_name_no_origin_are_served(client: Client) -> None:
    assert changes(client) in (201, 204)
    assert changes(client, Sec_Fetch_Site="none") == 204


def test_a_site_that_the_browser_calls_foreign_is_refused_without_an_origin(client: Client) -> None:
    assert changes(client, Sec_Fetch_Site="cross-site") == 403
    assert changes(client, Sec_Fetch_Site="same-site") == 403
