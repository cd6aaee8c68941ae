"""Nodes' lives and queues' rings in the metadata."""

from __future__ import annotations

import msgspec
import pytest

from mirrormq.metadata import commands as c
from mirrormq.metadata.records import Binding, Exchange, Node, Queue, Vhost
from mirrormq.metadata.ring_view import View, alone
from mirrormq.metadata.state import MetadataState


def cluster(*names: str) -> MetadataState:
    state = MetadataState()
    state.apply(c.PutVhost(Vhost("/")))
    for name in names:
        state.apply(c.PutNode(Node(name, incarnation=1, running=True)))
    return state


def ring(members: str) -> View:
    return View(1, 0, tuple(members), frozenset(members))


def test_a_new_queue_has_the_current_incarnations_of_its_members() -> None:
    state = cluster("a", "b")
    state.apply(c.PutNode(Node("b", incarnation=3, running=True)))
    state.apply(c.PutQueue(Queue("/", "q", node="a", view=ring("ab"))))
    state.apply(c.PutQueue(Queue("/", "alone", node="b")))
    assert state.queues["/", "q"].ring.incarnations == {("a", 1), ("b", 3)}
    assert state.queues["/", "alone"].ring == alone("b")._replace(incarnations=frozenset({("b", 3)}))


def test_incarnations_survive_a_snapshot_and_follow_membership() -> None:
    state = cluster("a", "b")
    state.apply(c.PutQueue(Queue("/", "q", node="a", view=ring("ab"))))
    state = MetadataState.from_snapshot(state.snapshot())
    view = state.queues["/", "q"].ring
    assert view.incarnation_of("b") == 1
    gone = view.with_members(("a",))
    assert gone.incarnation_of("b") == 0
    again = gone.with_members(("a", "b")).with_incarnations({"a": 9, "b": 2})
    assert (again.incarnation_of("a"), again.incarnation_of("b")) == (1, 2), (
        "a member that stayed keeps its life"
    )


def _running(state: MetadataState) -> list[str]:
    return [name for name, node in state.nodes.items() if node.running]


def test_an_ended_incarnation_does_not_run_again() -> None:
    state = cluster("a")
    state.apply(c.PutNode(Node("a", incarnation=1)))
    state.apply(c.PutNode(Node("a", incarnation=1, running=True, maintenance=True)))
    assert _running(state) == []
    state.apply(c.PutNode(Node("a", incarnation=2, running=True)))
    assert _running(state) == ["a"]
    state.apply(c.PutNode(Node("a", incarnation=1)))
    assert _running(state) == ["a"], "news of an earlier life"


def test_only_the_successor_of_a_view_replaces_it() -> None:
    state = cluster("a", "b")
    state.apply(c.PutQueue(Queue("/", "q", node="a", view=ring("ab"))))
    view = state.queues["/", "q"].ring
    late = view.with_members(("a",))
    assert state.apply(c.ChangeViews([c.ViewChange(1, view.with_members(("b", "a"), epoch=2))]))
    assert not state.apply(c.ChangeViews([c.ViewChange(1, late)]))
    assert state.queues["/", "q"].node == "b"


def test_a_mirrored_transient_queue_survives_its_masters_restart() -> None:
    state = cluster("a", "b")
    mirrored = Queue("/", "mirrored", durable=False, node="a", view=ring("ab"))
    for queue in (
        mirrored,
        msgspec.structs.replace(mirrored, name="own", view=None),
        Queue("/", "kept", node="a"),
    ):
        state.apply(c.PutQueue(queue))
    state.apply(c.DropTransient("a"))
    assert sorted(name for _, name in state.queues) == ["kept", "mirrored"]


@pytest.mark.parametrize(
    ("over", "left"),
    [
        (None, {"passing"}),
        ([], {"passing"}),
        ([("b", 1)], set()),
        ([("b", 0)], {"passing"}),
        ([("c", 1)], {"passing"}),
    ],
)
def test_transient_exchanges_go_when_the_first_node_starts_again(
    over: list[tuple[str, int]] | None, left: set[str]
) -> None:
    state = cluster("a", "b")
    state.apply(c.PutNode(Node("c", incarnation=5, running=False)))
    state.apply(c.PutExchange(Exchange("/", "passing", "fanout", durable=False)))
    state.apply(c.PutQueue(Queue("/", "passing", durable=False, node="a", view=ring("ab"))))
    state.apply(c.decode(c.encode(c.DropTransient("a", over))))
    assert {name for _, name in state.exchanges if not name.startswith("amq.") and name} == left
    assert {name for _, name in state.queues} == left


@pytest.mark.parametrize("lost", [c.DeleteQueues([1, 7]), c.DropTransient("a", [])])
def test_queues_lost_with_their_node_take_an_auto_delete_exchange_along(lost: c.Command) -> None:
    state = cluster("a", "b")
    state.apply(c.PutExchange(Exchange("/", "x", "fanout", auto_delete=True)))
    state.apply(c.PutQueue(Queue("/", "q", durable=False, node="a")))
    state.apply(c.PutBinding(Binding("/", "x", "queue", "q", "")))
    changes = state.apply(c.decode(c.encode(lost)))
    assert len(changes) == 3
    assert not state.queues and not state.bindings and ("/", "x") not in state.exchanges
