"""Cluster controller: when a node's application starts and stops, whom it follows, what it discards."""

from __future__ import annotations

from typing import Any

import pytest

from mirrormq.cluster.lifecycle import LEAVING_MS, STOPPED_BY_OPERATOR
from mirrormq.cluster.partitions import AUTOHEAL, DISAGREEMENT_MS, PAUSE_MINORITY, PartitionHandling
from mirrormq.metadata import commands as c
from mirrormq.metadata.records import Exchange, Queue
from mirrormq.simulator.network import LATENCY_MS
from tests.cluster.controllers import Cluster

LOST = "stop: the other nodes count this node as lost"
MINORITY = "stop: the node reaches too few of its peers"


def mirrored(
    count: int, handling: PartitionHandling | None = None, latency_ms: int = LATENCY_MS, **policy: Any
) -> Cluster:
    """Return a cluster with a queue whose master is on a, with synchronised mirrors on all nodes."""
    cluster = Cluster(count, handling, latency_ms=latency_ms)
    cluster.mirror_all(**policy)
    cluster.declare("q", "a")
    cluster.until(lambda: len(cluster.ring("q", "a")) == count)
    cluster.synchronise("q", "a")
    return cluster


def test_an_incarnation_is_claimed_before_it_begins() -> None:
    cluster = Cluster(3)
    for name in cluster.names:
        assert cluster.application(name).calls[0] == "start 1"
        assert all(node.running and node.incarnation == 1 for node in cluster.state(name).nodes.values())


def test_a_node_that_stops_while_it_claims_an_incarnation_is_not_recorded_as_running() -> None:
    cluster = Cluster(3)
    cluster.run(2000)
    controller = cluster.nodes["c"].controller
    controller.want(False)
    cluster.run(5000)
    assert not cluster.state("a").nodes["c"].running
    controller.want(True)
    controller.want(False)
    cluster.run(2000)
    assert cluster.state("a").nodes["c"].incarnation == 2, "it was agreed to"
    assert not cluster.state("a").nodes["c"].running


def test_a_node_on_its_own_serves_at_once() -> None:
    assert Cluster(1).timeline.now_ms < 50


def alone(cluster: Cluster) -> list[str]:
    return [name for name, node in cluster.nodes.items() if node.controller.alone]


def test_only_a_serving_node_without_other_members_is_alone() -> None:
    cluster = Cluster(1)
    assert alone(cluster) == ["a"]
    cluster.nodes["a"].controller.want(False)
    cluster.run(5000)
    assert alone(cluster) == []
    pair = Cluster(2)
    assert alone(pair) == []
    pair.cut("a", "b")
    pair.run(20_000)
    assert alone(pair) == [], "the other one may come back"


def test_a_killed_master_is_replaced_and_comes_back_as_its_next_incarnation() -> None:
    cluster = mirrored(3)
    cluster.nodes["a"].die(power=False)
    assert cluster.until(lambda: cluster.ring("q", "b") == "BC") < 500
    cluster.nodes["a"].start()
    cluster.until(lambda: cluster.serving() == ["a", "b", "c"])
    assert cluster.application("a").calls == ["start 2"]
    cluster.until(lambda: cluster.ring("q", "a") == "BCa")


def test_a_node_that_is_cut_off_stops_by_itself_and_goes_on_when_it_sees_the_others() -> None:
    cluster = mirrored(3)
    cluster.cut("a", "bc")
    cluster.until(lambda: cluster.serving() == ["b", "c"])
    cluster.until(lambda: cluster.ring("q", "b") == "BC")
    assert cluster.application("a").calls[-1] == MINORITY
    cluster.run(20_000)
    assert cluster.serving() == ["b", "c"] and cluster.ring("q", "a") == "ABC", "it knows nothing of all that"
    cluster.heal()
    cluster.until(lambda: cluster.serving() == ["a", "b", "c"])
    assert cluster.application("a").calls[-1] == "start 2"
    cluster.until(lambda: cluster.ring("q", "a") == "BCa")


def test_a_frozen_node_learns_when_it_wakes_that_it_was_given_up() -> None:
    cluster = mirrored(3)
    cluster.network.freeze("a")
    assert cluster.until(lambda: cluster.ring("q", "b") == "BC") < 4500
    assert cluster.application("a").serving, "it does not know anything"
    cluster.network.thaw("a")
    cluster.until(lambda: not cluster.application("a").serving)
    assert cluster.application("a").calls[-1] in (LOST, MINORITY)
    cluster.until(lambda: cluster.application("a").calls[-1] == "start 2")


def test_an_undetected_restart_is_another_incarnation_all_the_same() -> None:
    cluster = mirrored(3)
    cluster.nodes["b"].die(power=True)
    cluster.nodes["b"].start()
    cluster.until(lambda: cluster.application("b").calls == ["start 2"])
    cluster.until(lambda: cluster.ring("q", "a") == "ACb")


def test_after_a_power_cut_all_serve_again_and_nothing_is_lost() -> None:
    cluster = mirrored(3)
    for node in cluster.nodes.values():
        node.die(power=True)
    for name in "cab":
        cluster.nodes[name].start()
        cluster.run(300)
    cluster.until(lambda: cluster.serving() == ["a", "b", "c"])
    cluster.until(lambda: len(cluster.ring("q", "a")) == 3)
    assert cluster.state("a").queues["/", "q"].waits_for == ()


def passing(cluster: Cluster) -> Cluster:
    """Return a cluster with an exchange that survives any node, but not a restart of all of them."""
    cluster.write("a", c.PutExchange(Exchange("/", "passing", "fanout", durable=False)))
    return cluster


def has_passing(cluster: Cluster, name: str = "a") -> bool:
    return ("/", "passing") in cluster.state(name).exchanges


@pytest.mark.parametrize(
    "handling", [PartitionHandling(), PartitionHandling(PAUSE_MINORITY), PartitionHandling(AUTOHEAL)]
)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_transient_exchange_goes_when_the_whole_cluster_was_down(
    count: int, handling: PartitionHandling
) -> None:
    cluster = passing(Cluster(count, handling))
    for node in cluster.nodes.values():
        node.die(power=True)
    for node in cluster.nodes.values():
        node.start()
    cluster.until(lambda: cluster.serving() == cluster.names)
    cluster.run(1000)
    assert not any(has_passing(cluster, name) for name in cluster.names)


def test_a_transient_exchange_outlives_restarts_of_single_nodes() -> None:
    cluster = passing(Cluster(3))
    for name in cluster.names:
        cluster.nodes[name].die(power=True)
        cluster.run(2000)
        cluster.nodes[name].start()
        cluster.until(lambda: cluster.serving() == cluster.names)
    assert all(has_passing(cluster, name) for name in cluster.names)


def test_a_stop_hands_masters_over_before_clients_are_closed() -> None:
    cluster = mirrored(3)
    cluster.nodes["a"].controller.want(False)
    cluster.until(lambda: cluster.ring("q", "a")[0] == "B" or not cluster.application("a").serving)
    assert cluster.ring("q", "a")[0] == "B", "it goes when it has nothing left to give away"
    cluster.until(lambda: not cluster.application("a").serving)
    assert cluster.application("a").calls[-1] == f"stop: {STOPPED_BY_OPERATOR}"
    cluster.until(lambda: not cluster.state("b").nodes["a"].running)
    assert cluster.state("b").nodes["a"].shutdown and not cluster.state("b").nodes["a"].maintenance
    cluster.run(20_000)
    assert cluster.serving() == ["b", "c"], "it stays stopped"
    cluster.nodes["a"].controller.want(True)
    cluster.until(lambda: cluster.application("a").calls[-1] == "start 2")


def test_a_stop_does_not_wait_for_ever() -> None:
    cluster = mirrored(3)
    cluster.cut("a", "b", "c")
    cluster.run(100)
    cluster.nodes["a"].controller.want(False)
    assert cluster.until(lambda: not cluster.application("a").serving) < LEAVING_MS + 4000


def test_exclusive_and_transient_queues_go_with_their_node() -> None:
    cluster = Cluster(3)
    for queue in (Queue("/", "x", durable=False, exclusive=True, node="b"), Queue("/", "kept", node="b")):
        cluster.write("b", c.PutQueue(queue))
    cluster.nodes["b"].die(power=False)
    cluster.until(lambda: [name for _, name in cluster.state("a").queues] == ["kept"])
    cluster.until(lambda: cluster.state("a").queues["/", "kept"].waits_for == ("b",))
    cluster.nodes["b"].start()
    cluster.until(lambda: cluster.state("a").queues["/", "kept"].waits_for == ())


def test_a_broken_connection_costs_no_incarnation_while_other_nodes_see_the_node() -> None:
    cluster = mirrored(3)
    for one, other in ("ab", "bc", "ca"):
        cluster.network.reset(one, other)
        cluster.run(1000)
    assert all(cluster.application(name).calls == ["start 1"] for name in "abc")
    assert cluster.ring("q", "a") == "ABC"


def test_a_leader_that_slept_does_not_insist_on_what_it_thinks_it_saw() -> None:
    cluster = mirrored(3)
    leader = next(name for name in cluster.names if cluster.nodes[name].member.leading)
    cluster.network.freeze(leader)
    others = [name for name in cluster.names if name != leader]
    cluster.until(lambda: not cluster.state(others[0]).nodes[leader].running)
    cluster.network.thaw(leader)
    cluster.until(lambda: cluster.application(leader).calls[-1] == "start 2")
    cluster.run(20_000)
    assert all(cluster.application(name).calls == ["start 1"] for name in others)


# -- partial partitions ----------------------------------------------------------------------------


def test_of_two_nodes_that_do_not_see_each_other_one_stops_until_they_do() -> None:
    cluster = mirrored(3)
    leader = next(name for name in cluster.names if cluster.nodes[name].member.leading)
    one, other = (name for name in cluster.names if name != leader)
    cluster.network.cut(one, other)
    cluster.network.cut(other, one)
    cluster.until(lambda: cluster.serving() == sorted([leader, one]), 2 * DISAGREEMENT_MS + 10_000)
    assert cluster.application(other).calls[-1] == LOST
    cluster.run(20_000)
    assert cluster.serving() == sorted([leader, one]), "it does not come back half seen"
    assert cluster.nodes[other].controller.partitions == [one]
    cluster.heal()
    cluster.until(lambda: cluster.serving() == ["a", "b", "c"])
    assert cluster.nodes[other].controller.partitions == []


@pytest.mark.parametrize("handling", [PartitionHandling(), PartitionHandling(AUTOHEAL)])
def test_a_node_that_does_not_see_the_leader_stops_though_it_sees_others(handling: PartitionHandling) -> None:
    cluster = mirrored(3, handling)
    leader = next(name for name in cluster.names if cluster.nodes[name].member.leading)
    other, third = (name for name in cluster.names if name != leader)
    cluster.network.cut(leader, other)
    cluster.network.cut(other, leader)
    assert cluster.until(lambda: cluster.serving() == sorted([leader, third])) < 7000
    assert (
        cluster.application(other).calls[-1]
        == f"stop: the node cannot reach {leader}, the leader of its peers"
    )
    cluster.run(20_000)
    assert cluster.serving() == sorted([leader, third])
    cluster.heal()
    cluster.until(lambda: cluster.serving() == ["a", "b", "c"])


def test_a_cut_in_one_direction_is_a_cut() -> None:
    cluster = mirrored(3)
    for other in "bc":
        cluster.network.cut("a", other)
    cluster.until(lambda: cluster.serving() == ["b", "c"])
    cluster.until(lambda: cluster.ring("q", "b") == "BC")
    cluster.heal()
    cluster.until(lambda: cluster.serving() == ["a", "b", "c"])


# -- modes -----------------------------------------------------------------------------------------


def test_two_nodes_go_on_alone_and_heal_by_themselves() -> None:
    cluster = mirrored(2)
    cluster.cut("a", "b")
    cluster.until(lambda: cluster.ring("q", "a") == "A" and cluster.ring("q", "b") == "B")
    assert cluster.serving() == ["a", "b"]
    assert "part" in cluster.application("a").calls and "part" in cluster.application("b").calls
    cluster.declare("mine", "a")
    cluster.declare("yours", "b")
    cluster.application("b").clients = 2
    cluster.heal()
    cluster.until(lambda: bool(cluster.nodes["a"].member.consensus.forks))
    assert cluster.nodes["a"].controller.partitions == ["b"]
    cluster.until(lambda: cluster.application("a").calls[-1].startswith("start 2"))
    assert "give up to 2 queues" in cluster.application("a").calls, "q and yours"
    assert not any(call.startswith(("stop", "give")) for call in cluster.application("b").calls)
    cluster.until(lambda: cluster.ring("q", "a") == "Ba")
    assert sorted(name for _, name in cluster.state("a").queues) == ["q", "yours"]
    cluster.until(lambda: cluster.application("a").calls[-1] == cluster.application("b").calls[-1] == "whole")
    assert cluster.nodes["a"].controller.partitions == []


def test_three_nodes_with_autoheal_follow_the_side_with_the_clients() -> None:
    cluster = mirrored(3, PartitionHandling("autoheal"))
    cluster.application("a").clients = 1
    cluster.cut("a", "bc")
    cluster.until(lambda: cluster.ring("q", "a") == "A" and cluster.ring("q", "b") == "BC")
    cluster.declare("mine", "a")
    cluster.heal()
    cluster.until(lambda: cluster.ring("q", "b") == cluster.ring("q", "c") in ("Abc", "Acb"))
    for name in "bc":
        assert any(call.startswith("give up") for call in cluster.application(name).calls)
        assert ("/", "mine") in cluster.state(name).queues


def test_ignore_shows_the_partition_until_an_operator_restarts_a_side() -> None:
    cluster = mirrored(2, PartitionHandling("ignore"))
    cluster.cut("a", "b")
    cluster.until(lambda: cluster.ring("q", "a") == "A" and cluster.ring("q", "b") == "B")
    cluster.heal()
    cluster.until(lambda: cluster.nodes["a"].controller.partitions == ["b"])
    cluster.run(30_000)
    assert cluster.serving() == ["a", "b"] and cluster.nodes["b"].controller.partitions == ["a"]
    cluster.nodes["b"].die(power=False)
    cluster.nodes["b"].start()
    cluster.until(lambda: cluster.ring("q", "b") == "Ab")
    assert "give up to 1 queues" in cluster.application("b").calls
    cluster.until(lambda: cluster.nodes["a"].controller.partitions == [])


@pytest.mark.parametrize("alone_ms", range(0, 1500, 61))
def test_a_restarted_side_does_not_serve_before_it_knows_which_history_it_has(alone_ms: int) -> None:
    cluster = mirrored(3, PartitionHandling("ignore"), latency_ms=150)
    cluster.cut("a", "bc")
    cluster.until(lambda: cluster.ring("q", "a") == "A" and cluster.ring("q", "b") == "BC")
    cluster.nodes["a"].die(power=False)
    cluster.nodes["a"].start()
    cluster.run(alone_ms)
    cluster.heal()
    cluster.until(lambda: cluster.application("a").serving)
    assert "give up to 1 queues" in cluster.application("a").calls
    cluster.until(lambda: cluster.ring("q", "a") == cluster.ring("q", "b"))
    cluster.until(lambda: not any(node.controller.partitions for node in cluster.nodes.values()), 5000)


def test_pause_if_all_down_lets_nodes_serve_that_see_a_listed_node() -> None:
    cluster = mirrored(3, PartitionHandling("pause_if_all_down", frozenset("c")))
    cluster.cut("ab", "c")
    cluster.until(lambda: cluster.serving() == ["c"])
    cluster.until(lambda: cluster.ring("q", "c") == "C")
    assert cluster.application("a").calls[-1] == MINORITY
    cluster.heal()
    cluster.until(lambda: cluster.serving() == ["a", "b", "c"])
    cluster.until(lambda: sorted(cluster.ring("q", "a")) == ["C", "a", "b"])


def test_of_two_nodes_the_one_that_starts_alone_goes_on_alone() -> None:
    cluster = mirrored(2)
    cluster.nodes["b"].controller.want(False)
    cluster.until(lambda: cluster.serving() == ["a"])
    for name in "ba":
        cluster.nodes[name].die(power=False)
    cluster.nodes["a"].start()
    assert cluster.until(lambda: cluster.serving() == ["a"]) < 4000
    assert cluster.ring("q", "a") == "A"


@pytest.mark.parametrize("count", [2, 3])
def test_a_flapping_link_ends_with_one_history(count: int) -> None:
    cluster = mirrored(count)
    for _ in range(5):
        cluster.network.reset("a", "b")
        cluster.run(400)
    cluster.until(lambda: cluster.serving() == cluster.names)
    cluster.until(lambda: len({cluster.ring("q", name) for name in cluster.names}) == 1)
    cluster.until(lambda: len(cluster.ring("q", "a")) == count)
