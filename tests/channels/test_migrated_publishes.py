"""Publishes of a migration: an administrator's header restores where a message was first published."""

from __future__ import annotations

from typing import Any

import pytest

from mirrormq.auth.passwords import SHA256, hash_password
from mirrormq.metadata import records
from mirrormq.metadata.commands import PutPermission, PutUser
from mirrormq.wire import methods
from mirrormq.wire.fields import Field, Table, table_of
from tests.harness import Client, Node, Received

ADDRESS: dict[str, Any] = {"exchange": "orders", "routing-key": "eu.1"}


def headers(number: int, before: dict[str, Any]) -> Table:
    return table_of({"n": 1, "x-producer": "migration:m", "x-publish-id": number}) | {
        "x-migrated-from": Field("F", table_of(before))
    }


def moved(client: Client, before: dict[str, Any], number: int = 1) -> Received:
    client.call(methods.encode_queue_declare("work", durable=True))
    client.publish("work", b"body", persistent=True, headers=headers(number, before))
    found = client.get("work", no_ack=True)
    assert found is not None and found.properties is not None
    return found


def test_a_consumer_sees_the_first_exchange_and_routing_key() -> None:
    found = moved(Node().connect(), ADDRESS | {"user-id": "app", "CC": ["other"]})
    assert (found.method.exchange, found.method.routing_key) == ("orders", "eu.1")
    assert found.properties is not None and found.properties.headers is not None
    assert found.properties.user_id == "app"
    assert list(found.properties.headers) == ["n", "x-producer", "x-publish-id", "CC"]


def test_a_migrated_publish_outlasts_a_restart_and_its_number_counts() -> None:
    node = Node()
    client = node.connect()
    client.call(methods.encode_queue_declare("work", durable=True))
    client.publish("work", b"body", persistent=True, headers=headers(1, ADDRESS))
    client.read()
    node.restart()
    client = node.connect()
    client.publish("work", b"again", persistent=True, headers=headers(1, ADDRESS))
    found = client.get("work", no_ack=True)
    assert found is not None and found.method.exchange == "orders"
    assert client.get("work") is None


def test_the_mark_of_a_repeat_stays() -> None:
    found = moved(Node().connect(), ADDRESS | {"redelivered": True})
    assert found.properties is not None and found.properties.headers is not None
    assert found.properties.headers["x-migrated-from"] == Field("F", table_of({"redelivered": True}))


def test_messages_of_one_write_keep_their_own_addresses() -> None:
    client = Node().connect()
    client.call(methods.encode_queue_declare("work", durable=True))
    for number in range(1, 4):
        before = ADDRESS | {"routing-key": f"eu.{number}"}
        client.publish("work", b"body", persistent=True, headers=headers(number, before))
    keys = [client.get("work", no_ack=True) for _ in range(3)]
    assert [each and each.method.routing_key for each in keys] == ["eu.1", "eu.2", "eu.3"]


def test_other_users_cannot_write_a_false_address() -> None:
    node = Node()
    hashed = hash_password(b"app", b"salt", SHA256)
    node.write(PutUser(records.User("app", hashed, SHA256, [])))
    node.write(PutPermission(records.Permission("app", "/", ".*", ".*", ".*")))
    node.connect().call(methods.encode_queue_declare("work", durable=True))
    found = moved(node.connect(user="app"), ADDRESS)
    assert (found.method.exchange, found.method.routing_key) == ("", "work")
    assert found.properties is not None and found.properties.headers is not None
    assert "x-migrated-from" in found.properties.headers


@pytest.mark.parametrize("before", [{}, {"exchange": "orders"}, {"exchange": 5, "routing-key": "x"}])
def test_a_malformed_header_changes_nothing(before: dict[str, Any]) -> None:
    found = moved(Node().connect(), before)
    assert (found.method.exchange, found.method.routing_key) == ("", "work")


def test_a_header_that_is_no_table_changes_nothing() -> None:
    client = Node().connect()
    client.call(methods.encode_queue_declare("work", durable=True))
    named = table_of({"x-producer": "m", "x-publish-id": 1, "x-migrated-from": "orders"})
    client.publish("work", b"body", headers=named)
    found = client.get("work", no_ack=True)
    assert found is not None and found.method.exchange == ""
