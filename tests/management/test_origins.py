"""Pages of other sites: what a browser is told, as RabbitMQ 3.10.8 tells it, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

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
    told = {"allow-origin": origin, "allow-credentials": "true"}
    assert _told(open_to_some, "GET", path, origin) == told


@pytest.mark.parametrize("origin", [EVIL, "null", "", f"{ONE}.evil.example"])
def test_another_one_is_not(open_to_some: Client, origin: str) -> None:
    assert _told(open_to_some, "GET", "whoami", origin) == {}
    assert _told(open_to_some, "OPTIONS", "queues/%2F/q", origin) == {}


def test_a_refusal_can_be_read_too(open_to_some: Client) -> None:
    wrong = {"Origin": ONE, "Authorization": "Basic Z3Vlc3Q6eA=="}
    answer = open_to_some.request("GET", "whoami", headers=wrong)
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (401, ONE)


def test_a_browser_that_asks_first_is_told_the_methods(open_to_some: Client) -> None:
    told = {"allow-origin": ONE, "allow-credentials": "true", "allow-methods": METHODS}
    asked = _told(open_to_some, "OPTIONS", "queues/%2F/q", ONE, Access_Control_Request_Method="PUT")
    assert asked == {**told, "max-age": "77"}
    asked = _told(
        open_to_some, "OPTIONS", "queues/%2F/q", ONE, Access_Control_Request_Headers="authorization,x-foo"
    )
    assert asked == {**told, "allow-headers": "authorization,x-foo"}


@pytest.mark.parametrize(("origin", "status"), [(ONE, 201), (EVIL, 403)])
def test_only_an_allowed_site_may_change_anything(open_to_some: Client, origin: str, status: int) -> None:
    headers = {"Origin": origin, "Sec-Fetch-Site": "cross-site"}
    answer = open_to_some.request("PUT", f"queues/%2F/{status}", {}, headers)
    assert answer.status == status


def test_without_a_setting_nobody_else_is_told_anything(client: Client) -> None:
    assert _told(client, "GET", "whoami", ONE) == {}
    headers = {"Origin": ONE, "Sec-Fetch-Site": "cross-site"}
    assert client.request("PUT", "queues/%2F/foreign", {}, headers).status == 403


def test_a_star_allows_all_that_have_a_name() -> None:
    with managed("management.cors.allow_origins.1 = *") as broker:
        client = Client(broker.management_port)
        assert _told(client, "GET", "whoami", EVIL)["allow-origin"] == EVIL
        assert _told(client, "OPTIONS", "whoami", EVIL)["max-age"] == "1800"
        assert _told(client, "GET", "whoami", "null") == {}
