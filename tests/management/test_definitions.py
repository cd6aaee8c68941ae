"""Definitions exchanged between a real RabbitMQ and this node, passwords included."""

from __future__ import annotations

from typing import Any

import pytest

from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.rabbitmq import RabbitMQ
from tests.management.http import Client

DECLARED = ("vhosts", "queues", "exchanges", "bindings", "policies", "permissions", "parameters")


def fill(client: Client) -> None:
    """Declare objects of every kind in a separate vhost."""
    calls = [
        ("vhosts/travel", {}),
        ("users/traveller", {"password": "luggage", "tags": "management"}),
        ("permissions/travel/traveller", {"configure": ".*", "write": ".*", "read": ".*"}),
        (
            "queues/travel/trunk",
            {"durable": True, "arguments": {"x-max-priority": 4, "x-overflow": "drop-head"}},
        ),
        ("exchanges/travel/road", {"type": "topic", "durable": True}),
        ("policies/travel/rule", {"pattern": "^t", "definition": {"max-length": 9}, "apply-to": "queues"}),
        ("operator-policies/travel/cap", {"pattern": "^t", "definition": {"expires": 90000}}),
        ("vhost-limits/travel/max-queues", {"value": 50}),
    ]
    for path, body in calls:
        assert client.put(path, body).status in (201, 204), path
    bound = client.post("bindings/travel/e/road/q/trunk", {"routing_key": "a.*", "arguments": {"n": 1}})
    assert bound.status == 201


def of_the_vhost(document: dict[str, Any]) -> dict[str, Any]:
    """Return the definitions of the vhost, without an order."""
    found = {name: [row for row in document[name] if row.get("vhost") == "travel"] for name in DECLARED}
    return {name: sorted(rows, key=repr) for name, rows in found.items()}


def in_order(document: dict[str, Any]) -> dict[str, Any]:
    return {
        name: sorted((sorted(row.items(), key=repr) for row in rows), key=repr)
        for name, rows in of_the_vhost(document).items()
    }


@pytest.mark.rabbitmq
def test_definitions_go_from_rabbitmq_to_us_and_back(rabbitmq: RabbitMQ, node: MirrorMQ) -> None:
    theirs, ours = Client(rabbitmq.management_port), Client(node.management_port)
    fill(theirs)
    original = theirs.get("definitions")
    assert ours.post("definitions", original).status == 204
    assert in_order(ours.get("definitions")) == in_order(original)
    assert Client(node.management_port, "traveller", "luggage").get("whoami")["name"] == "traveller"
    assert Client(node.management_port, "traveller", "wrong").request("GET", "whoami").status == 401
    exported = ours.get("definitions")
    assert theirs.delete("vhosts/travel").status == 204
    assert theirs.delete("users/traveller").status == 204
    back = theirs.post("definitions", exported)
    assert back.status == 204, back.body
    assert in_order(theirs.get("definitions")) == in_order(original)
    assert Client(rabbitmq.management_port, "traveller", "luggage").get("whoami")["name"] == "traveller"


def test_definitions_come_back_into_an_emptied_vhost(client: Client) -> None:
    fill(client)
    original = client.get("definitions/travel")
    assert client.delete("vhosts/travel").status == 204
    assert client.put("vhosts/travel", {}).status == 201
    assert client.post("definitions/travel", original).status == 204
    again = client.get("definitions/travel")
    assert {name: sorted(map(repr, rows)) for name, rows in again.items() if name in DECLARED} == {
        name: sorted(map(repr, rows)) for name, rows in original.items() if name in DECLARED
    }


BAD = {"vhosts": [{"name": "half"}], "policies": [{"vhost": "half", "name": "p", "pattern": "("}]}


def test_a_bad_document_changes_nothing_on_request(client: Client) -> None:
    before = client.get("definitions")
    assert client.post("definitions?all_or_nothing=true", BAD).status == 400
    assert client.get("definitions") == before


def test_an_entry_that_cannot_be_imported_leaves_the_others(client: Client) -> None:
    refused = client.post("definitions", BAD)
    assert refused.status == 400
    assert refused.json["reason"] == (
        "The definitions are invalid: the key 'definition' is missing. The rest was imported."
    )
    assert client.get("vhosts/half")["name"] == "half"
    assert client.delete("vhosts/half").status == 204


def test_skipped_entries_are_listed_on_request(client: Client) -> None:
    quorum = {"name": "votes", "vhost": "half", "durable": True, "arguments": {"x-queue-type": "quorum"}}
    answer = client.post(
        "definitions?skip_unsupported=true&convert=quorum%3Dmirrored", {**BAD, "queues": [quorum]}
    )
    assert answer.status == 200
    assert answer.json == {
        "skipped": [
            {
                "kind": "policies",
                "name": "p",
                "reason": "the key 'definition' is missing",
                "remedy": "Add the key 'definition' to the entry and import the file again.",
            }
        ],
        "converted": ["queue 'votes' in vhost 'half' becomes a mirrored queue"],
    }
    assert client.get("queues/half/votes")["policy"] == "converted-quorum-3"
    assert client.delete("vhosts/half").status == 204
