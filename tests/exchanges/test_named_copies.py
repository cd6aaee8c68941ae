"""Named copies: what leads to a queue leads to its copies."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mirrormq.exchanges.binding import to_queue
from mirrormq.exchanges.exchange_types import create
from mirrormq.exchanges.named_copies import NamedCopies
from mirrormq.exchanges.router import Router

NAMES = "abcdef"
PATTERNS = ("#", "x.*", "*.y", "x.y", "", "nothing")
KEYS = ("", "x", "x.y", "x.z", "w.y")


def test_a_copy_is_where_its_source_is_and_nowhere_else() -> None:
    copies = NamedCopies()
    copies.add("copy", "source")
    assert copies.reached(["source"], "k") == ("copy", "source")
    assert copies.reached(["other"], "k") == ("other",)
    assert copies.reached(["copy"], "k") == ("copy",)
    assert copies.reached([], "k") == ()


def test_a_pattern_chooses_by_the_routing_key() -> None:
    copies = NamedCopies()
    copies.add("orders", "all", "order.#")
    copies.add("new", "all", "*.new")
    assert copies.reached(["all"], "order.new") == ("all", "new", "orders")
    assert copies.reached(["all"], "order.old.and.gone") == ("all", "orders")
    assert copies.reached(["all"], "") == ("all",)


def test_copies_of_copies_are_reached_and_circles_end() -> None:
    copies = NamedCopies()
    copies.add("b", "a")
    copies.add("c", "b", "x.#")
    copies.add("a", "c")
    assert copies.reached(["a"], "x") == ("a", "b", "c")
    assert copies.reached(["a"], "y") == ("a", "b")
    assert copies.reached(["c"], "y") == ("a", "b", "c")
    copies.add("d", "d")
    assert copies.reached(["d"], "x") == ("d",)


def test_nothing_is_left_of_copies_that_are_gone() -> None:
    copies = NamedCopies()
    copies.add("b", "a")
    copies.add("b", "z")
    assert copies.reached(["a"], "k") == ("a",), "a queue has one source"
    copies.remove("b")
    copies.remove("b")
    assert not copies.sources
    assert copies.reached(["a", "z"], "k") == ("a", "z")


def test_a_queue_that_may_not_be_a_copy_is_none() -> None:
    copies = NamedCopies(lambda source, copy: (source, copy) != ("a", "b"))
    copies.add("b", "a")
    copies.add("c", "b")
    assert copies.reached(["a"], "k") == ("a",)
    assert copies.reached(["b"], "k") == ("b", "c")


def test_the_router_adds_copies_to_what_it_finds_and_remembers_them() -> None:
    queues = {"source", "copy", "bound"}
    router = Router(queues)
    router.add(create("topic", "t", {}, lambda count: 0))
    router.add(create("headers", "h", {}, lambda count: 0))
    router.bind("t", to_queue("source", "#"))
    router.bind("t", to_queue("bound", "#"))
    assert router.route("t", ["x.y"]) == ("bound", "source")
    for name in ("copy", "bound"):
        router.copies.add(name, "source", "x.#")
    router.invalidate()
    for _ in range(2):
        assert router.route("t", ["x.y"]) == ("bound", "copy", "source")
        assert router.route("t", ["y"]) == ("bound", "source")
        assert router.route("", ["source"]) == ("source",)
        assert router.route("", ["x.y", "source"]) == ("bound", "copy", "source")
        assert router.route("h", ["x.y"]) == ()
    assert router.may_remember("t")


edges = st.dictionaries(st.sampled_from(NAMES), st.tuples(st.sampled_from(NAMES), st.sampled_from(PATTERNS)))


@given(edges, st.lists(st.sampled_from(NAMES)), st.sets(st.sampled_from(NAMES)), st.sampled_from(KEYS))
def test_reached_copies_equal_those_of_a_step_by_step_search(
    wishes: dict[str, tuple[str, str]], removed: list[str], names: set[str], key: str
) -> None:
    copies = NamedCopies()
    for copy, (source, pattern) in wishes.items():
        copies.add(copy, source, pattern)
    for copy in removed:
        copies.remove(copy)
    left = {copy: wish for copy, wish in wishes.items() if copy not in removed}
    expected = set(names)
    while more := {
        copy
        for copy, (source, pattern) in left.items()
        if source in expected and copy not in expected and matches(pattern, key)
    }:
        expected |= more
    assert copies.reached(names, key) == tuple(sorted(expected))


def matches(pattern: str, key: str) -> bool:
    """Only what the patterns above need."""
    words = key.split(".") if key else []
    if pattern == "#":
        return True
    wanted = pattern.split(".") if pattern else []
    return len(words) == len(wanted) and all(w in ("*", k) for w, k in zip(wanted, words, strict=True))
