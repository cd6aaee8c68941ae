"""Mirrored exchanges: queues bound to an exchange with x-mirrored are mirrored on all nodes."""

from __future__ import annotations

from mirrormq.metadata import commands as c
from mirrormq.metadata.records import Binding, Exchange
from mirrormq.wire.fields import Field, encode_table
from tests.cluster.desk import Desk


def exchange(desk: Desk, name: str, mirrored: object = True) -> None:
    kind = "t" if isinstance(mirrored, bool) else "S"
    arguments = encode_table({"x-mirrored": Field(kind, mirrored)})[4:]
    desk.write(c.PutExchange(Exchange("/", name, "fanout", arguments=arguments), if_absent=False))
    desk.work()


def bind(desk: Desk, source: str, queue: str, key: str = "") -> None:
    desk.write(c.PutBinding(Binding("/", source, "queue", queue, key)))
    desk.work()


def unbind(desk: Desk, source: str, queue: str, key: str = "") -> None:
    desk.write(c.DeleteBinding("/", source, "queue", queue, key))
    desk.work()


def mirrored(nodes: str = "abc") -> Desk:
    desk = Desk(nodes)
    exchange(desk, "x")
    desk.declare("q", "b")
    bind(desk, "x", "q")
    return desk


def test_a_queue_has_mirrors_on_all_nodes_from_its_binding_on() -> None:
    desk = mirrored()
    assert desk.ring("q") == "Bac"
    desk.declare("other", "a")
    assert desk.ring("other") == "A"
    desk.start("d")
    assert desk.ring("q") == "Bacd"


def test_the_mirrors_go_with_the_last_binding() -> None:
    desk = mirrored()
    bind(desk, "x", "q", "again")
    unbind(desk, "x", "q")
    assert desk.ring("q") == "Bac"
    unbind(desk, "x", "q", "again")
    assert desk.ring("q") == "B"


def test_the_mirrors_go_with_the_exchange() -> None:
    desk = mirrored()
    desk.write(c.DeleteExchange("/", "x"))
    desk.work()
    assert desk.ring("q") == "B"


def test_a_policy_about_mirroring_comes_first() -> None:
    desk = mirrored()
    desk.policy(ha_mode="nodes", ha_params=["b", "c"])
    assert desk.ring("q") == "Bc"
    desk.policy(max_length=5)
    assert sorted(desk.view("q").members) == ["a", "b", "c"], "this policy does not speak of mirroring"
    desk.clear_policy()
    assert sorted(desk.view("q").members) == ["a", "b", "c"]


def test_an_exchange_that_is_not_mirrored_mirrors_nothing() -> None:
    desk = Desk("ab")
    for name, value in (("no", False), ("text", b"true")):
        exchange(desk, name, value)
        desk.declare(name, "a")
        bind(desk, name, name)
        assert desk.ring(name) == "A"
    exchange(desk, "no", True)
    assert desk.ring("no") == "Ab", "definitions were imported that say so"


def test_a_binding_to_an_exchange_that_mirrors_nothing_costs_no_decision() -> None:
    desk = Desk("ab")
    exchange(desk, "x", False)
    desk.declare("q", "a")
    desk.write(c.PutBinding(Binding("/", "x", "queue", "q", "key")))
    assert not desk.coordinator.pending


def test_a_way_through_another_exchange_does_not_count() -> None:
    desk = Desk("ab")
    exchange(desk, "x")
    exchange(desk, "plain", False)
    desk.write(c.PutBinding(Binding("/", "x", "exchange", "plain", "")))
    desk.declare("q", "a")
    bind(desk, "plain", "q")
    assert desk.ring("q") == "A"


def test_exclusive_queues_are_never_mirrored() -> None:
    desk = Desk("ab")
    exchange(desk, "x")
    desk.declare("q", "a", exclusive=True, durable=False)
    bind(desk, "x", "q")
    assert desk.ring("q") == "A"


def test_a_mirror_takes_over_as_under_a_policy() -> None:
    desk = mirrored()
    desk.synchronise("q", "c")
    desk.lose("b")
    assert desk.ring("q") == "Ca"


def test_a_new_leader_finds_bound_queues_too() -> None:
    desk = Desk("abc")
    desk.coordinator.lead(False)
    exchange(desk, "x")
    desk.declare("q", "b")
    bind(desk, "x", "q")
    assert desk.ring("q") == "B"
    desk.coordinator.lead(True)
    desk.work()
    assert desk.ring("q") == "Bac"
