"""Survey: each thing that cannot move, or moves differently, is a finding with reason and remedy."""

from __future__ import annotations

from typing import Any

from mirrormq.migration.definition_sets import select
from mirrormq.migration.migration_records import Plan
from mirrormq.migration.survey_findings import (
    BLOCKER,
    CHANGE,
    LINKS_MAX,
    NOTE,
    Finding,
    NewCluster,
    OldCluster,
    survey,
)

OVERVIEW = {"rabbitmq_version": "3.10.8", "cluster_name": "blue", "product_name": "RabbitMQ"}


def findings(
    *, queues: list[dict[str, Any]] | None = None, connections: list[dict[str, Any]] | None = None,
    definitions: dict[str, Any] | None = None, preview: dict[str, Any] | None = None,
    present: dict[str, Any] | None = None, overview: dict[str, Any] = OVERVIEW,
) -> list[Finding]:  # fmt: skip
    document = definitions or {}
    old = OldCluster(overview, document, queues or [], connections or [])
    selection = select(document, [], ["guest"])
    return survey(old, NewCluster(present or {}, preview or {}, "guest"), selection)


def severities(found: list[Finding]) -> dict[str, str]:
    return {each.id: each.severity for each in found}


def test_an_ordinary_cluster_has_no_blocker() -> None:
    queue = {"name": "work", "vhost": "/", "arguments": {}, "messages": 5, "state": "running"}
    found = findings(queues=[queue])
    assert severities(found) == {"cluster:blue": NOTE}
    assert "1 queues with about 5 messages" in found[0].reason


def test_entries_that_the_import_skips() -> None:
    skipped = [
        {"kind": "queues", "name": "log", "reason": "a stream", "remedy": "archive it"},
        {"kind": "policies", "name": "p", "reason": "an unknown key", "remedy": "remove it"},
    ]
    converted = ["queue 'votes' in vhost '/' becomes a mirrored queue"]
    found = severities(findings(preview={"skipped": skipped, "converted": converted}))
    assert found["queues:log"] == BLOCKER
    assert found["policies:p"] == CHANGE
    assert found["queues:votes"] == CHANGE


def test_queues_that_change_on_the_way() -> None:
    def queue(name: str, **more: Any) -> dict[str, Any]:
        return {"name": name, "vhost": "/", "state": "running", **more}

    found = findings(
        queues=[
            queue("expires", arguments={"x-expires": 1000}),
            queue("ttl", effective_policy_definition={"message-ttl": 1000}),
            queue("mine", exclusive=True),
            queue("short", auto_delete=True, consumers=1),
            queue("down", state="down"),
            queue("federation: x", arguments={"x-internal-purpose": "federation"}),
        ]
    )
    assert severities(found) == {
        "queues:down in /": BLOCKER,
        "queues:expires in /": CHANGE,
        "queues:short in /": CHANGE,
        "cluster:blue": NOTE,
        "queues:ttl in /": NOTE,
        "queues:mine in /": NOTE,
    }
    assert [each.severity for each in found] == sorted(
        (each.severity for each in found), key=(BLOCKER, CHANGE, NOTE).index
    )


def test_clients_of_other_protocols_block() -> None:
    pika = {"protocol": "AMQP 0-9-1", "client_properties": {"product": "Pika", "version": "1.3"}}
    found = findings(connections=[pika, pika, {"protocol": "MQTT 3.1.1", "name": "sensor"}])
    assert severities(found) == {
        "connections:sensor": BLOCKER,
        "cluster:blue": NOTE,
        "clients:Pika 1.3": NOTE,
    }
    assert next(each.reason for each in found if each.kind == "clients") == "2 connections"


def test_objects_that_stay_behind_or_exist_already() -> None:
    definitions = {
        "parameters": [{"vhost": "/", "component": "shovel", "name": "s", "value": {}}],
        "users": [{"name": "guest"}],
        "queues": [{"name": "work", "vhost": "/", "arguments": {}}],
    }
    found = findings(definitions=definitions, present={"queues": [{"name": "work", "vhost": "/"}]})
    assert severities(found) == {
        "parameters:shovel s in /": CHANGE,
        "users:guest": CHANGE,
        "queues:work in /": CHANGE,
        "cluster:blue": NOTE,
    }


def test_a_version_that_was_not_tried_is_named() -> None:
    assert severities(findings(overview={"rabbitmq_version": "4.0.1"}))["version:4.0.1"] == CHANGE


def test_more_queues_than_links() -> None:
    queues = [{"name": str(number), "vhost": "/"} for number in range(LINKS_MAX + 1)]
    assert severities(findings(queues=queues))["cluster:queues"] == BLOCKER


def test_accepted_blockers_do_not_block() -> None:
    found = findings(connections=[{"protocol": "STOMP 1.2", "name": "s"}])
    for accepted, count in (([], 1), (["connections:s"], 0)):
        plan = Plan("1", "now", [], [], [], [], [], [], found, accepted)
        assert len(plan.blockers) == count
