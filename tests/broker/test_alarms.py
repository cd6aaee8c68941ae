"""Alarms of this node and of other nodes: which connections are blocked, why, and until when."""

from __future__ import annotations

from mirrormq.broker.alarms import DISK, MEMORY, Alarms
from mirrormq.wire import methods
from tests.harness import Node


def test_any_nodes_alarm_is_in_force_until_that_node_clears_it() -> None:
    alarms = Alarms()
    assert alarms.update_peers({"b": (MEMORY,), "c": ()}) == ["memory resource limit alarm set on node b"]
    assert alarms.in_force == {MEMORY} and not alarms.raised
    assert alarms.reason == "low on memory"
    assert alarms.set(DISK, True)
    assert alarms.reason == "low on memory & disk"
    assert alarms.by_node("a") == [("a", DISK), ("b", MEMORY)]
    assert alarms.update_peers({"c": (MEMORY, DISK)}) == [
        "memory resource limit alarm cleared on node b",
        "disk resource limit alarm set on node c",
        "memory resource limit alarm set on node c",
    ]
    assert alarms.set(DISK, False)
    assert alarms.in_force == {MEMORY, DISK}, "c is still short of both"
    alarms.update_peers({"c": (DISK,)})
    assert alarms.reason == "low on disk"
    alarms.update_peers({})
    assert (alarms.in_force, alarms.by_node("a")) == (frozenset(), [])


def test_only_changes_are_reported() -> None:
    alarms = Alarms()
    reported: list[frozenset[str]] = []
    alarms.listeners.append(lambda: reported.append(alarms.in_force))
    for _ in range(2):
        alarms.update_peers({"b": (MEMORY,)})
        alarms.update_peers({"b": [MEMORY]})
    alarms.update_peers({})
    alarms.update_peers({"b": ()})
    assert reported == [{MEMORY}, frozenset()]


def test_a_publisher_rests_while_another_node_is_short() -> None:
    node = Node()
    client, reader = node.connect(), node.connect()
    client.call(methods.encode_queue_declare("q"))
    node.broker.alarms.update_peers({"b": (DISK,)})
    client.publish("q", b"during")
    assert client.methods() == [methods.ConnectionBlocked("low on disk")]
    assert reader.drain("q") == []
    node.broker.alarms.update_peers({"b": (MEMORY,)})
    node.broker.alarms.set(MEMORY, True)
    node.broker.alarms.set(MEMORY, False)
    assert client.methods() == [], "one of them goes on"
    node.broker.alarms.update_peers({})
    assert methods.ConnectionUnblocked() in client.methods()
