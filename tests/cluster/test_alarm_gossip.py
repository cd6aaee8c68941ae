"""Alarm gossip: each node knows the resource alarms of connected nodes that serve."""

from __future__ import annotations

from tests.cluster.controllers import Cluster

SOON_MS = 200
"""Some ticks, and a few times what a link takes."""


class Heard:
    """Alarms of other nodes that each node was notified of."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __getitem__(self, name: str) -> dict[str, tuple[str, ...]]:
        return self._cluster.application(name).alarms


def watched(count: int) -> tuple[Cluster, Heard]:
    cluster = Cluster(count)
    return cluster, Heard(cluster)


def raise_alarms(cluster: Cluster, name: str, *alarms: str) -> None:
    cluster.nodes[name].controller.own_alarms = alarms


def test_alarms_are_known_everywhere_at_once_and_lifted_when_they_are_cleared() -> None:
    cluster, heard = watched(3)
    raise_alarms(cluster, "b", "memory")
    assert cluster.until(lambda: heard["a"] == heard["c"] == {"b": ("memory",)}) < SOON_MS
    assert heard["b"] == {}
    raise_alarms(cluster, "c", "disk", "memory")
    assert cluster.until(lambda: heard["a"] == {"b": ("memory",), "c": ("disk", "memory")}) < SOON_MS
    raise_alarms(cluster, "b")
    assert cluster.until(lambda: heard["a"] == {"c": ("disk", "memory")}) < SOON_MS
    assert cluster.nodes["a"].controller.peer_alarms == heard["a"]


def test_the_alarms_of_a_lost_node_are_lifted() -> None:
    cluster, heard = watched(3)
    raise_alarms(cluster, "b", "memory")
    cluster.until(lambda: heard["a"])
    cluster.nodes["b"].die(power=True)
    cluster.until(lambda: heard["a"] == heard["c"] == {})


def test_the_alarms_of_an_isolated_node_are_lifted_and_set_again() -> None:
    cluster, heard = watched(3)
    raise_alarms(cluster, "b", "memory")
    cluster.until(lambda: heard["a"])
    cluster.cut("b", "ac")
    cluster.until(lambda: heard["a"] == heard["c"] == {})
    cluster.heal()
    cluster.until(lambda: heard["a"] == heard["c"] == {"b": ("memory",)})


def test_a_node_without_clients_is_short_of_nothing() -> None:
    cluster, heard = watched(3)
    raise_alarms(cluster, "b", "memory")
    cluster.until(lambda: heard["a"])
    cluster.nodes["b"].controller.want(False)
    cluster.until(lambda: heard["a"] == heard["c"] == {})
    assert "b" in cluster.nodes["a"].member.linked


def test_a_node_that_starts_learns_of_alarms_raised_before() -> None:
    cluster, heard = watched(3)
    cluster.nodes["a"].die(power=False)
    raise_alarms(cluster, "b", "memory")
    cluster.run(1000)
    cluster.nodes["a"].start()
    cluster.until(lambda: heard["a"] == {"b": ("memory",)})
