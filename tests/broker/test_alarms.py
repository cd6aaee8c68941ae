"""Alarms of this node and of other nodes: which connections are blocked, why, and until when."""

from __future__ import annotations

from mirrormq.broker.alarms import DISK, MEMORY, Alarms
from mirrormq.wire import methods
from tests.harness import Node


def test_any_nodes_alarm_is_in_force_until_that_node_clears_it() -> None:
    alarms = Alarms()
    assert alarms.hear({"b": (MEMORY,), "c": ()}) == ["memory resource limit alarm set on node b"]
    assert alarms.in_force == {MEMORY} and not alarms.raised
    assert alarms.reason == "low on memory"
    assert alarms.set(DISK, True)
    assert alarms.reason == "low on memory & disk"
    assert alarms.by_node("a") == [("a", DISK), ("b", MEMORY)]
    assert alarms.hear({"c": (MEMORY, DISK)}) == [
        "memory resource limit alarm cleared on node b",
        "disk resource limit alarm set on node c",
        "memory resource limit alarm set on node c",
    ]
    assert alarms.set(DISK, False)
    assert alarms.in_force == {MEMORY, DISK}, "c is still short of both"
    alarms.hear({"c": (DISK,)})
    assert alarms.reason == "low on disk"
    alarms.hear({})
    assert (alarms.in_force, alarms.by_node("a")) == (frozenset(), [])


def test_only_news_are_told() -> None:
    alarms = Alarms()
    told: list[frozenset[str]] = []
    alarms.listeners.append(lambda: told.append(alarms.in_force))
    for _ in range(2):
        alarms.hear({"b": (MEMORY,)})
        alarms.hear({"b": [MEMORY]})
    alarms.hear({})
    alarms.hear({"b": ()})
    assert told == [{MEMORY}, frozenset()]


def test_a_publisher_rests_while_another_node_is_short() -> None:
    node = Node()
    client, reader = node.connect(), node.connect()
    client.call(methods.encode_queue_declare("q"))
    node.broker.alarms.hear({"b": (DISK,)})
    client.publish("q", b"during")
    assert client.methods() == [methods.ConnectionBlocked("low on disk")]
    assert reader.drain("q") == []
    node.broker.alarms.hear({"b": (MEMORY,)})
    node.broker.alarms.set(MEMORY, True)
    node.broker.alarms.set(MEMORY, False)
    assert client.methods() == [], "one of them goes on"
    node.broker.alarms.hear({})
    assert methods.ConnectionUnblocked() in client.methods()
