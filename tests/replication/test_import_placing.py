"""Queues of a definitions file: placed like a client's, by locator and with all their mirrors."""

from __future__ import annotations

from collections import Counter

from mirrormq.config.settings import Settings
from mirrormq.metadata import commands as c
from mirrormq.metadata.records import Node, Policy, Queue, Vhost
from mirrormq.metadata.state import MetadataState
from mirrormq.replication.import_placement import ImportPlacement
from mirrormq.wire.fields import Field

NODES = ("a", "b", "c")


def state() -> MetadataState:
    found = MetadataState()
    found.apply(c.PutVhost(Vhost("/")))
    for name in NODES:
        found.apply(c.PutNode(Node(name, f"{name}:1", 1, running=True)))
    return found


def places(found: MetadataState, *policies: Policy) -> ImportPlacement:
    scratch = MetadataState()
    scratch.apply(c.PutVhost(Vhost("/")))
    made = ImportPlacement(found, scratch, Settings(name="a"), lambda count: 0)
    for policy in policies:
        made.heed(c.PutPolicy(policy))
    return made


def test_masters_are_spread_as_the_policy_that_comes_with_them_says() -> None:
    policy = Policy("/", "ha", ".*", definition={"ha-mode": "all", "queue-master-locator": "min-masters"})
    found = places(state(), policy)
    placed = [found.placed(Queue("/", f"q{number}"), {}) for number in range(9)]
    assert Counter(queue.node for queue in placed) == dict.fromkeys(NODES, 3)
    assert all(queue.ring.in_sync == frozenset(NODES) for queue in placed)


def test_a_queues_own_wish_counts_and_without_one_it_stays_here() -> None:
    before = state()
    before.apply(c.PutQueue(Queue("/", "old", node="a")))
    found = places(before)
    wish = {"x-queue-master-locator": Field("S", b"min-masters")}
    assert found.placed(Queue("/", "new"), wish).node == "b"
    assert found.placed(Queue("/", "other"), {}).node == "a"
    assert found.placed(Queue("/", "old"), {}).node == "a"


def test_a_policy_that_is_there_already_counts() -> None:
    before = state()
    before.apply(c.PutPolicy(Policy("/", "ha", ".*", definition={"ha-mode": "nodes", "ha-params": ["c"]})))
    assert places(before).placed(Queue("/", "q"), {}).node == "c"
