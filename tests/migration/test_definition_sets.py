"""Definitions: what moves, what changed between two exports, what the new cluster lacks."""

from __future__ import annotations

from mirrormq.migration.definition_sets import difference, lacking, queue_names, select


def queue(name: str, vhost: str = "/", **arguments: object) -> dict[str, object]:
    named = {key.replace("_", "-"): value for key, value in arguments.items()}
    return {"name": name, "vhost": vhost, "durable": True, "auto_delete": False, "arguments": named}


def binding(source: str, destination: str, key: str = "") -> dict[str, object]:
    return {
        "source": source, "vhost": "/", "destination": destination, "destination_type": "queue",
        "routing_key": key, "arguments": {},
    }  # fmt: skip


def test_links_of_the_old_cluster_and_their_objects_stay() -> None:
    document = {
        "queues": [queue("work"), queue("federation: x -> c", x_internal_purpose="federation")],
        "bindings": [binding("orders", "work"), binding("orders", "federation: x -> c")],
        "parameters": [
            {"vhost": "/", "component": "shovel", "name": "s", "value": {}},
            {"vhost": "/", "component": "vhost-limits", "name": "limits", "value": {"max-queues": 5}},
        ],
        "global_parameters": [{"name": "cluster_name", "value": "blue"}, {"name": "own", "value": 1}],
        "users": [{"name": "app"}, {"name": "guest"}],
    }
    moves, left_out = select(document, [], ["guest"])
    assert queue_names(moves) == [("/", "work")]
    assert [entry["destination"] for entry in moves["bindings"]] == ["work"]
    assert [entry["name"] for entry in moves["parameters"]] == ["limits"]
    assert [entry["name"] for entry in moves["global_parameters"]] == ["own"]
    assert [entry["name"] for entry in moves["users"]] == ["app"]
    assert len(left_out) == 5


def test_a_choice_of_vhosts_keeps_users_and_drops_other_vhosts() -> None:
    document = {
        "vhosts": [{"name": "/"}, {"name": "shop"}],
        "users": [{"name": "app"}],
        "queues": [queue("a"), queue("b", "shop")],
    }
    moves, left_out = select(document, ["shop"], [])
    assert queue_names(moves) == [("shop", "b")]
    assert moves["vhosts"] == [{"name": "shop"}]
    assert moves["users"] == [{"name": "app"}]
    assert not left_out


def test_changes_between_two_exports() -> None:
    before = {"queues": [queue("a"), queue("b")], "bindings": [binding("x", "a"), binding("x", "b")]}
    after = {"queues": [queue("a"), queue("c")], "bindings": [binding("x", "a"), binding("x", "a", "k")]}
    change = difference(before, after)
    assert [entry["name"] for entry in change.added["queues"]] == ["c"]
    assert [entry["routing_key"] for entry in change.added["bindings"]] == ["k"]
    assert [(kind, entry.get("destination") or entry["name"]) for kind, entry in change.removed] == [
        ("bindings", "b"),
        ("queues", "b"),
    ]
    assert change.size == 4
    assert difference(after, after).size == 0


def test_a_lacking_or_different_entry_is_named() -> None:
    moves = {
        "queues": [queue("a"), queue("b", x_max_length=5), queue("q", x_queue_type="quorum"), queue("log")],
        "users": [
            {"name": "app", "password_hash": "x", "hashing_algorithm": "h", "tags": "management,monitoring"}
        ],
    }
    present = {
        "queues": [queue("b"), queue("q")],
        "users": [
            {
                "name": "app",
                "password_hash": "x",
                "hashing_algorithm": "h",
                "tags": ["monitoring", "management"],
            }
        ],
    }
    found = lacking(moves, present, [("queues", "log")])
    assert [tuple(each) for each in found] == [
        ("queues", "a in /", "is missing on the new cluster"),
        ("queues", "b in /", "differs on the new cluster"),
    ]


def test_queues_that_are_deleted_by_themselves_may_be_missing() -> None:
    temporary = [queue("replies") | {"auto_delete": True}, queue("sessions", x_expires=1000)]
    moves = {
        "queues": [*temporary, queue("work")],
        "bindings": [binding("x", "replies"), binding("x", "sessions"), binding("x", "work")],
    }
    assert [each.name for each in lacking(moves, {}, [])] == ["work in /", "x → work () in /"]
