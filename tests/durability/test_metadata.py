"""Durable declarations survive a kill right after the reply; transient ones do not."""

from __future__ import annotations

import json

from mirrormq.wire import methods
from tests.durability.node import Node
from tests.durability.traffic import publish_all, ready


def rows(node: Node, *arguments: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(node.control("--formatter", "json", *arguments))
    return found


def names(node: Node, verb: str, *arguments: str) -> set[object]:
    return {row["name"] for row in rows(node, verb, *arguments)}


def test_durable_things_survive_a_kill_and_transient_ones_do_not() -> None:
    with Node() as node:
        client = node.dial()
        for durable in (True, False):
            kind = "durable" if durable else "transient"
            client.call(methods.encode_exchange_declare(f"{kind}-x", "topic", durable=durable))
            client.declare_queue(f"{kind}-q", durable=durable)
            client.call(methods.encode_queue_bind(f"{kind}-q", f"{kind}-x", "a.#"))
        client.call(methods.encode_queue_bind("durable-q", "transient-x", "b"))
        client.declare_queue("exclusive-q", durable=True, exclusive=True)
        node.kill()
        node.boot()
        assert names(node, "list_queues", "name") == {"durable-q"}
        exchanges = names(node, "list_exchanges", "name")
        assert "durable-x" in exchanges
        assert "transient-x" not in exchanges
        bindings = rows(node, "list_bindings", "source_name", "destination_name", "routing_key")
        assert [row for row in bindings if row["source_name"]] == [
            {"source_name": "durable-x", "destination_name": "durable-q", "routing_key": "a.#"}
        ]


def test_each_declaration_survives_a_kill_right_after_its_answer() -> None:
    with Node() as node:
        for number in range(3):
            node.dial().declare_queue(f"q{number}", durable=True)
            node.kill()
            node.boot()
            assert names(node, "list_queues", "name") == {f"q{n}" for n in range(number + 1)}


def test_users_policies_and_vhosts_survive_a_kill() -> None:
    with Node() as node:
        node.control("add_user", "anna", "secret")
        node.control("set_user_tags", "anna", "monitoring")
        node.control("add_vhost", "v")
        node.control("set_permissions", "-p", "v", "anna", "c", "w", "r")
        node.control("set_policy", "short", "^q", '{"max-length": 5}', "--apply-to", "queues")
        node.kill()
        node.boot()
        assert rows(node, "list_users")[0]["user"] == "anna" or rows(node, "list_users")[1]["user"] == "anna"
        assert {row["name"] for row in rows(node, "list_vhosts", "name")} == {"/", "v"}
        [permission] = rows(node, "list_permissions", "-p", "v")
        assert permission == {"user": "anna", "configure": "c", "write": "w", "read": "r"}
        [policy] = rows(node, "list_policies")
        assert (policy["name"], policy["pattern"], policy["definition"]) == (
            "short",
            "^q",
            '{"max-length":5}',
        )
        node.control("authenticate_user", "anna", "secret")
        node.dial().declare_queue("q", durable=True)
        publish_all(node, "q", 20)
        assert ready(node, "q") == 5, "the policy is in force"


def test_a_deleted_queue_stays_deleted() -> None:
    with Node() as node:
        client = node.dial()
        client.declare_queue("q", durable=True)
        publish_all(node, "q", 100)
        client.call(methods.encode_queue_delete("q"))
        node.kill()
        node.boot()
        assert names(node, "list_queues", "name") == set()
        node.dial().declare_queue("q", durable=True)
        assert ready(node, "q") == 0
