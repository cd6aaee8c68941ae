"""State transfer: a loser fetches the winner's metadata, and two nodes never swap their states."""

from __future__ import annotations

from mirrormq.cluster.partitions import PartitionHandling
from mirrormq.cluster.state_transfer import WINNER_TIMEOUT_MS, StateChunk, StateFetch, StateRequest
from mirrormq.metadata.state import MetadataState
from tests.cluster.controllers import Cluster


def parted() -> Cluster:
    """Return two forked nodes that are connected again; no arbiter heals them."""
    cluster = Cluster(2, PartitionHandling("ignore"))
    cluster.cut("a", "b")
    cluster.until(lambda: not any(node.member.linked for node in cluster.nodes.values()))
    cluster.declare("mine", "a")
    cluster.declare("yours", "b")
    cluster.heal()
    cluster.until(lambda: all(node.member.consensus.forks for node in cluster.nodes.values()))
    return cluster


def names(cluster: Cluster, node: str) -> list[str]:
    return sorted(name for _, name in cluster.state(node).queues)


def state_fetch(cluster: Cluster, node: str) -> StateFetch:
    return cluster.nodes[node].controller._fork_recovery._state_fetch


def test_two_nodes_that_join_each_other_do_not_swap_their_histories() -> None:
    cluster = parted()
    state_fetch(cluster, "a").begin("b")
    state_fetch(cluster, "b").begin("a")
    cluster.until(lambda: names(cluster, "a") == names(cluster, "b"))
    assert names(cluster, "a") == ["mine"], "the smaller name's stays"
    assert not any(call.startswith("give up") for call in cluster.application("a").calls)
    cluster.until(lambda: cluster.serving() == ["a", "b"])


def test_a_node_that_has_just_adopted_a_state_passes_on_that_state() -> None:
    cluster = parted()
    controller = cluster.nodes["b"].controller
    state_fetch(cluster, "b").begin("a")
    cluster.until(lambda: not controller.member.consensus.forks)
    part = controller._fork_recovery._exports.part("a", StateRequest(0, 0))
    assert b"mine" in part.data and b"yours" not in part.data


def test_a_node_that_gives_up_has_nothing_to_give() -> None:
    cluster = parted()
    state_fetch(cluster, "b").begin("a")
    cluster.until(lambda: cluster.application("b").calls[-1].startswith("give up"))
    assert not state_fetch(cluster, "b").lets_follow("a")


def test_a_silent_winner_is_not_waited_for_for_ever() -> None:
    cluster = parted()
    asked: list[StateRequest] = []
    member = cluster.nodes["a"].member
    waiting = StateFetch(member, lambda state, common, done: done(), lambda peer, want: asked.append(want))
    waiting.begin("b")
    assert waiting.goes_on(1000)
    waiting.received("b", StateChunk(1, 0, 10, b"12345"))
    assert asked == [StateRequest(0, 0), StateRequest(1, 5)]
    assert waiting.goes_on(1000 + WINNER_TIMEOUT_MS), "it was heard of since"
    assert waiting.goes_on(1000 + 2 * WINNER_TIMEOUT_MS - 1)
    assert not waiting.goes_on(1000 + 2 * WINNER_TIMEOUT_MS)


def test_the_transfer_ends_when_there_is_no_fork_any_more() -> None:
    cluster = Cluster(2)
    given_up: list[MetadataState] = []
    waiting = StateFetch(
        cluster.nodes["a"].member, lambda state, common, done: given_up.append(state), lambda peer, want: None
    )
    waiting.begin("b")
    assert not waiting.goes_on(0) and not given_up
