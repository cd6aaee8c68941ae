"""The walk through exchanges: bindings between them, alternates, cycles, and what is remembered."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.exchanges.binding import Destination, to_queue
from mirrormq.exchanges.exchange import NO_PROPERTIES, Properties
from mirrormq.exchanges.exchange_types import create
from mirrormq.exchanges.fanout import FanoutExchange
from mirrormq.exchanges.router import CACHE_ENTRIES_MAX, Router
from mirrormq.wire.fields import Table, table_of
from tests.exchanges.bindings import encode_arguments, to_exchange


def router_with(kinds: dict[str, str], queues: Iterable[str] = (), **arguments: Table) -> Router:
    router = Router(set(queues))
    for name, kind in kinds.items():
        router.add(create(kind, name, arguments.get(name, {}), lambda count: 0))
    return router


def never() -> Table:
    raise AssertionError("nothing on the way looks at headers")


def test_the_default_exchange_leads_to_the_queue_named_by_the_key() -> None:
    queues = {"q", "p"}
    router = Router(queues)
    assert router.route("", ["q"], never) == ("q",)
    assert router.route("", ["nobody"], never) == ()
    assert router.route("", ["q", "nobody", "p", "q"], never) == ("p", "q")
    queues.remove("q")
    assert router.route("", ["q"], never) == ()


def test_an_unknown_exchange_is_the_callers_mistake() -> None:
    with pytest.raises(KeyError):
        router_with({}).route("nowhere", ["k"])


def test_a_queue_comes_up_once_however_many_bindings_match() -> None:
    router = router_with({"t": "topic", "f": "fanout"})
    for pattern in ("#", "a.*", "a.b"):
        router.bind("t", to_queue("q", pattern))
    router.bind("t", to_exchange("f", "#"))
    router.bind("f", to_queue("q"))
    router.bind("f", to_queue("p"))
    assert router.route("t", ["a.b"], never) == ("p", "q")


def test_cc_keys_count_for_direct_and_topic_and_for_no_other_type() -> None:
    kinds = {kind: kind for kind in ("direct", "topic", "x-consistent-hash", "x-modulus-hash", "x-random")}
    router = router_with(kinds)
    for name in kinds:
        for number in range(1, 6):
            router.bind(name, to_queue(f"q{number}", str(number)))
    keys = ["1", "3", "5"]
    assert router.route("direct", keys) == router.route("topic", keys) == ("q1", "q3", "q5")
    for name in ("x-consistent-hash", "x-modulus-hash", "x-random"):
        assert router.route(name, keys) == router.route(name, keys[:1])
        assert len(router.route(name, keys)) == 1


def test_bindings_between_exchanges_may_form_a_cycle() -> None:
    router = router_with({"a": "fanout", "b": "fanout", "c": "direct"})
    router.bind("a", to_exchange("b"))
    router.bind("b", to_exchange("c", "ignored"))
    router.bind("c", to_exchange("a", "k"))
    router.bind("c", to_exchange("c", "k"))
    for name in "abc":
        router.bind(name, to_queue(f"q{name}", "k"))
    assert [router.route(name, ["k"]) for name in "abc"] == [("qa", "qb", "qc")] * 3
    assert router.route("c", ["other"]) == ()


def test_the_alternate_gets_what_nothing_matched() -> None:
    router = router_with({"main": "direct", "spare": "direct", "last": "fanout"})
    router.set_alternate("main", "spare")
    router.set_alternate("spare", "last")
    router.set_alternate("last", "main")
    router.bind("main", to_queue("q1", "1"))
    router.bind("spare", to_queue("q2", "2"))
    assert [router.route("main", [key]) for key in "123"] == [("q1",), ("q2",), ()]
    router.bind("last", to_queue("q3"))
    assert [router.route("main", [key]) for key in "123"] == [("q1",), ("q2",), ("q3",)]
    assert router.route("main", ["3", "1"]) == ("q1",)
    router.set_alternate("main", None)
    assert router.route("main", ["2"]) == ()


def test_a_match_that_leads_to_no_queue_is_still_a_match() -> None:
    router = router_with({"main": "fanout", "empty": "fanout", "spare": "fanout"})
    router.bind("spare", to_queue("q"))
    router.set_alternate("main", "spare")
    router.bind("main", to_exchange("empty"))
    assert router.route("main", [""]) == ()
    router.unbind("main", to_exchange("empty"))
    assert router.route("main", [""]) == ("q",)


def test_an_alternate_works_behind_another_exchange_and_may_be_missing() -> None:
    router = router_with({"front": "fanout", "main": "direct", "spare": "fanout"})
    router.bind("front", to_exchange("main"))
    router.bind("spare", to_queue("q"))
    router.set_alternate("main", "missing")
    assert router.route("front", ["k"]) == ()
    router.set_alternate("main", "spare")
    assert router.route("front", ["k"]) == ("q",)


def test_the_default_exchange_as_an_alternate_leads_nowhere() -> None:
    router = router_with({"main": "direct"}, queues={"q"})
    router.set_alternate("main", "")
    assert router.route("main", ["q"]) == ()


def test_headers_and_properties_are_fetched_when_a_row_is_opened() -> None:
    hashed = table_of({"hash-property": "message_id"})
    router = router_with({"f": "fanout", "h": "headers", "c": "x-consistent-hash"}, c=hashed)
    router.bind("f", to_exchange("h"))
    router.bind("h", to_exchange("c", "", encode_arguments(table_of({"a": 1}))))
    for number in range(8):
        router.bind("c", to_queue(f"q{number}", "1"))
    message_ids = iter(range(64))
    found = {
        router.route("f", ["k"], lambda: table_of({"a": 1}), lambda: {"message_id": next(message_ids)})
        for _ in range(64)
    }
    assert next(message_ids, None) is None
    assert found == {(f"q{number}",) for number in range(8)}
    assert router.route("f", ["k"], lambda: table_of({"a": 2})) == ()


def test_exchanges_that_keep_messages_get_them_wherever_they_stand() -> None:
    router = router_with({"f": "fanout", "rh": "x-recent-history"})
    router.bind("f", to_exchange("rh"))
    router.bind("rh", to_queue("q"))
    for message in ("one", "two"):
        assert router.route("f", ["k"], message=message) == ("q",)
    router.route("f", ["k"], lambda: table_of({"x-recent-history-no-store": True}), message="three")
    assert router.exchanges["rh"].on_bind(to_queue("p")) == ["one", "two"]


class CountingFanout(FanoutExchange):
    """Counts how often it is asked."""

    asked = 0

    def route(
        self, routing_key: str, headers: Table, properties: Properties = NO_PROPERTIES
    ) -> Iterable[Destination]:
        self.asked += 1
        return super().route(routing_key, headers, properties)


def test_a_route_is_found_once_and_again_after_every_change() -> None:
    router = Router(set())
    exchange = CountingFanout("f")
    router.add(exchange)
    for _ in range(3):
        assert router.route("f", ["k"]) == ()
    assert exchange.asked == 1
    changes = [
        lambda: router.bind("f", to_queue("q")),
        lambda: router.unbind("f", to_queue("q")),
        lambda: router.set_alternate("f", "elsewhere"),
        lambda: router.add(FanoutExchange("elsewhere")),
        lambda: router.remove("elsewhere"),
        router.invalidate,
    ]
    for number, change in enumerate(changes, 2):
        version = router.version
        change()
        assert router.version > version
        for _ in range(3):
            router.route("f", ["k"])
        assert exchange.asked == number


def test_changes_that_change_nothing_keep_what_is_remembered() -> None:
    router = router_with({"f": "fanout"})
    router.bind("f", to_queue("q"))
    version = router.version
    assert not router.bind("f", to_queue("q"))
    assert not router.unbind("f", to_queue("nobody"))
    assert not router.unbind("nowhere", to_queue("q"))
    assert router.version == version


def test_the_memory_of_routes_is_bounded() -> None:
    router = router_with({"f": "fanout"})
    router.bind("f", to_queue("q"))
    for number in range(CACHE_ENTRIES_MAX + 10):
        assert router.route("f", [str(number)]) == ("q",)
    assert len(router._cache) == 10


def test_a_random_choice_behind_a_fanout_is_made_for_every_message() -> None:
    rolls = iter([0, 1, 0])
    router = router_with({"f": "fanout"})
    router.add(create("x-random", "r", {}, lambda count: next(rolls)))
    router.bind("f", to_exchange("r"))
    router.bind("r", to_queue("a"))
    router.bind("r", to_queue("b"))
    assert [router.route("f", ["k"]) for _ in range(3)] == [("a",), ("b",), ("a",)]


def test_whether_a_route_may_be_remembered_depends_on_all_that_lies_behind() -> None:
    router = router_with({"f": "fanout", "t": "topic", "h": "headers"})
    router.bind("f", to_exchange("t"))
    router.bind("t", to_exchange("f", "#"))
    assert router.may_remember("") and router.may_remember("f") and not router.may_remember("h")
    router.bind("t", to_exchange("h", "rare"))
    assert not router.may_remember("f")
    router.unbind("t", to_exchange("h", "rare"))
    assert router.may_remember("f")
    router.set_alternate("t", "h")
    assert not router.may_remember("f")
    router.remove("h")
    assert router.may_remember("f")


def test_bindings_are_found_by_where_they_lead() -> None:
    router = router_with({"d": "direct", "t": "topic"})
    one, two, other = to_queue("q", "1"), to_queue("q", "2"), to_queue("p", "1")
    for source, binding in (("d", one), ("t", two), ("d", other), ("t", to_exchange("d", "#"))):
        router.bind(source, binding)
    assert router.bindings_to(Destination("queue", "q")) == [("d", one), ("t", two)]
    router.remove("d")
    assert router.bindings_to(Destination("queue", "q")) == [("t", two)]
    assert router.exchanges["t"].bindings() == [two]
    assert router.bindings_to(Destination("queue", "p")) == []


NAMES = st.sampled_from("abcd")
EDGES = st.lists(st.tuples(NAMES, NAMES), max_size=12)


@given(EDGES, EDGES, st.dictionaries(NAMES, NAMES))
def test_a_walk_finds_what_can_be_reached(
    between: list[tuple[str, str]], to_queues: list[tuple[str, str]], alternates: dict[str, str]
) -> None:
    router = router_with(dict.fromkeys("abcd", "fanout"))
    for source, target in between:
        router.bind(source, to_exchange(target))
    for source, queue in to_queues:
        router.bind(source, to_queue(queue))
    for name, alternate in alternates.items():
        router.set_alternate(name, alternate)
    for start in "abcd":
        reached: set[str] = set()
        growing = {start}
        while growing != reached:
            reached = set(growing)
            for name in reached:
                growing |= {target for source, target in between if source == name}
                if not any(source == name for source, _ in between + to_queues) and name in alternates:
                    growing.add(alternates[name])
        expected = tuple(sorted({queue for source, queue in to_queues if source in reached}))
        assert router.route(start, ["k"]) == expected
