"""Description of the API: it contains exactly the routes."""

from __future__ import annotations

import http.client
import re

from mirrormq.management.api_routes import ROUTES
from mirrormq.management.descriptions import BODIES, SENTENCES
from mirrormq.management.live_push import LivePush
from mirrormq.management.openapi import OpenApiGuide
from mirrormq.management.route_table import ApiRoute
from tests.brokers.mirrormq import MirrorMQ
from tests.management.http import Client


def _operations(routes: list[ApiRoute]) -> set[tuple[str, str]]:
    return {(method, route.path) for route in routes for method in route.handlers}


def test_every_operation_is_described_and_nothing_else() -> None:
    live = [ApiRoute("mirrormq/live", lambda _: None, {"GET": LivePush.watch})]  # type: ignore[dict-item]
    known = _operations([*ROUTES, *live, *OpenApiGuide([]).routes])
    assert set(SENTENCES) == known
    assert set(BODIES) <= known


def test_the_document_has_every_route(client: Client) -> None:
    document = client.get("openapi.json")
    described = {
        (method.upper(), path[1:]) for path, operations in document["paths"].items() for method in operations
    }
    assert described == set(SENTENCES)


def test_the_document_is_well_formed(client: Client) -> None:
    document = client.get("openapi.json")
    assert document["openapi"].startswith("3.0.")
    names = set()
    for path, operations in document["paths"].items():
        for operation in operations.values():
            assert operation["operationId"] not in names
            names.add(operation["operationId"])
            given = [each["name"] for each in operation["parameters"] if each["in"] == "path"]
            assert given == re.findall(r"{(\w+)}", path)
            assert operation["summary"] and operation["responses"]


def test_lists_have_the_parameters_of_lists(client: Client) -> None:
    paths = client.get("openapi.json")["paths"]
    asked = {each["name"] for each in paths["/queues"]["get"]["parameters"]}
    assert {"page", "sort", "columns", "msg_rates_age"} <= asked
    assert "page" not in {each["name"] for each in paths["/whoami"]["get"]["parameters"]}


def test_the_page_can_be_read_without_a_login(node: MirrorMQ) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", node.management_port, timeout=30)
    connection.request("GET", "/api/")
    answer = connection.getresponse()
    text = answer.read().decode()
    assert answer.status == 200 and answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    for method, path in SENTENCES:
        assert f"<td>{method}</td><td><code>/api/{path}</code></td>" in text


def test_lists_are_described_with_the_parameters_of_lists() -> None:
    paths = OpenApiGuide(ROUTES).document()["paths"]
    names = [parameter["name"] for parameter in paths["/policies"]["get"]["parameters"]]
    assert {"page", "page_size", "sort", "columns"} <= set(names)
    assert not paths["/whoami"]["get"]["parameters"]
