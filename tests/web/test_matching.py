"""Preview of a policy: names that its pattern matches, and those where another policy applies."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from mirrormq.management.resources.list_filter import NAMES_SHOWN_MAX
from tests.brokers.mirrormq import MirrorMQ
from tests.management.http import Answer, Client


def ask(client: Client, **query: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in query.items()}
    return client.request("GET", f"mirrormq/matching/%2F?{urlencode(named)}")


@pytest.fixture(scope="module", autouse=True)
def queues(node: MirrorMQ) -> None:
    client = Client(node.management_port)
    for name in ("orders.eu", "orders.us", "Orders.old", "invoices"):
        assert client.put(f"queues/%2F/{name}", {}).status == 201


def test_names_are_matched_as_policies_match_them(client: Client) -> None:
    found = ask(client, pattern=r"^orders\.", apply_to="queues").json
    assert [item["name"] for item in found["queues"]["items"]] == ["orders.eu", "orders.us"], "case matters"
    assert "exchanges" not in found and found["complete"] is True
    both = ask(client, pattern="i").json
    assert both["queues"]["total"] == 1 and both["exchanges"]["total"] > 0


def test_objects_that_a_higher_priority_governs_are_marked(client: Client) -> None:
    policy = {"pattern": "eu$", "definition": {"max-length": 10}, "priority": 5}
    assert client.put("policies/%2F/strong", policy).status == 201

    def governed(**query: str) -> dict[str, bool]:
        items = ask(client, pattern="^orders", apply_to="queues", **query).json["queues"]["items"]
        return {item["name"]: item["governed"] for item in items}

    assert governed(name="new", priority="1") == {"orders.eu": False, "orders.us": True}
    assert governed(name="new", priority="6") == {"orders.eu": True, "orders.us": True}
    assert governed(name="strong", priority="0") == {"orders.eu": True, "orders.us": True}, "itself, changed"
    client.delete("policies/%2F/strong")


@pytest.mark.parametrize(
    "query",
    [
        {"pattern": "("},
        {"pattern": "*"},
        {"pattern": "a", "apply_to": "cats"},
        {"pattern": "a", "priority": "x"},
    ],
)
def test_an_unusable_value_is_refused(client: Client, query: dict[str, str]) -> None:
    assert ask(client, **query).status == 400


def test_a_pattern_that_runs_wild_is_given_up(client: Client) -> None:
    definitions = {
        "queues": [
            {"name": "a" * 200 + str(number), "vhost": "/", "durable": False} for number in range(1500)
        ]
    }
    assert client.post("definitions", definitions).status == 204
    assert ask(client, pattern="^(([a-z])+.)+[A-Z]([a-z])+$", apply_to="queues").json["complete"] is False
    whole = ask(client, pattern="^a+", apply_to="queues").json
    assert (whole["queues"]["total"], len(whole["queues"]["items"])) == (1500, NAMES_SHOWN_MAX)


def test_a_vhost_of_others_is_not_looked_into(node: MirrorMQ, client: Client) -> None:
    client.put("users/outsider", {"password": "o", "tags": "policymaker"})
    assert ask(Client(node.management_port, "outsider", "o"), pattern="o").status == 401
