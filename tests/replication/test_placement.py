"""Placement and promotion, rule by rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.metadata.ring_view import View
from mirrormq.replication.placement import (
    Mirroring,
    locate_master,
    mirroring,
    next_view,
    rebalance,
    wanted,
)
from mirrormq.replication.promotion import (
    CopyTrust,
    MemberStatus,
    PromotionRules,
    QueueDown,
    QueueLost,
    StoredCopy,
    rules,
    settle,
)

NODES = ("a", "b", "c", "d")


def first(count: int) -> int:
    return 0


def view(members: str, in_sync: str | None = None, epoch: int = 1) -> View:
    return View(epoch, 1, tuple(members), frozenset(members if in_sync is None else in_sync))


def walk(
    policy: Mirroring | None, start: View, running: tuple[str, ...], synchronise: bool = True
) -> list[View]:
    """Return all views on the way; each mirror is synchronised as soon as it is a member."""
    views = [start]
    for _ in range(20):
        master, mirrors = wanted(policy, views[-1], running, first)
        following = next_view(views[-1], master, mirrors)
        if following == views[-1]:
            return views
        if synchronise:
            following = following._replace(in_sync=frozenset(following.members))
        views.append(following)
    raise AssertionError("placement does not come to rest")


def test_all_puts_a_mirror_on_every_running_node() -> None:
    assert walk(Mirroring("all"), view("b"), ("a", "b", "c"))[-1].members == ("b", "a", "c")


def test_exactly_counts_the_master() -> None:
    assert walk(Mirroring("exactly", 2), view("a"), NODES)[-1].members == ("a", "b")
    assert walk(Mirroring("exactly", 1), view("abc"), NODES)[-1].members == ("a",)


def test_exactly_more_than_there_are_nodes_means_all() -> None:
    assert set(walk(Mirroring("exactly", 9), view("a"), ("a", "b", "c"))[-1].members) == {"a", "b", "c"}


def test_exactly_replaces_a_mirror_whose_node_is_gone() -> None:
    assert walk(Mirroring("exactly", 2), view("a"), ("a", "c"))[-1].members == ("a", "c")


def test_nodes_moves_by_way_of_both_sets_and_keeps_the_old_master_until_a_mirror_is_synchronised() -> None:
    views = walk(Mirroring("nodes", nodes=("c", "d")), view("ab"), NODES)
    assert views[1].members == ("a", "b", "c", "d")
    assert views[-1].members == ("c", "d")
    waiting = walk(Mirroring("nodes", nodes=("c", "d")), view("a"), NODES, synchronise=False)
    assert waiting[-1].members == ("a", "c", "d"), "the only one with the messages stays"


def test_nodes_of_which_none_is_running_leave_the_queue_where_it_is() -> None:
    assert walk(Mirroring("nodes", nodes=("x",)), view("a"), NODES)[-1].members == ("a",)


def test_no_policy_leaves_the_master_alone() -> None:
    assert walk(None, view("abc"), NODES)[-1].members == ("a",)


def test_mirrors_are_added_before_others_are_taken_away() -> None:
    for before, after in zip(
        views := walk(Mirroring("nodes", nodes=("c", "d")), view("ab"), NODES), views[1:], strict=False
    ):
        added, removed = set(after.members) - set(before.members), set(before.members) - set(after.members)
        assert not (added and removed)


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ({}, None),
        ({"ha-mode": "all"}, Mirroring("all")),
        ({"ha-mode": "exactly", "ha-params": 2}, Mirroring("exactly", 2)),
        ({"ha-mode": "nodes", "ha-params": ["a", "b"]}, Mirroring("nodes", nodes=("a", "b"))),
    ],
)
def test_policies_are_read(definition: dict[str, object], expected: Mirroring | None) -> None:
    assert mirroring(definition) == expected


def test_locators() -> None:
    masters = {"a": 3, "b": 1, "c": 1}
    assert locate_master("client-local", "a", NODES[:3], masters, first) == "a"
    assert locate_master("min-masters", "a", NODES[:3], masters, first) == "b"
    assert locate_master("random", "a", NODES[:3], masters, lambda n: n - 1) == "c"
    assert locate_master("client-local", "x", NODES[:3], masters, first) == "a"
    assert locate_master("min-masters", "x", (), masters, first) == "x"


def test_rebalance_spreads_three_queues_over_three_nodes() -> None:
    masters = {"q1": "a", "q2": "a", "q3": "a"}
    moves = rebalance(masters, dict.fromkeys(masters, ("b", "c")))
    assert sorted({**masters, **moves}.values()) == ["a", "b", "c"]


@given(
    st.dictionaries(st.sampled_from([f"q{i}" for i in range(12)]), st.sampled_from(NODES), min_size=1),
    st.data(),
)
def test_rebalance_moves_only_where_it_may_and_never_makes_it_worse(
    masters: dict[str, str], data: st.DataObject
) -> None:
    movable = {q: data.draw(st.sets(st.sampled_from(NODES))) - {at} for q, at in masters.items()}
    moves = rebalance(masters, movable)
    assert all(target in movable[queue] for queue, target in moves.items())
    assert _spread({**masters, **moves}) <= _spread(masters)


def _spread(masters: dict[str, str]) -> int:
    counts = [list(masters.values()).count(name) for name in NODES]
    return sum(count * count for count in counts)


# -- promotion ----------------------------------------------------------------------------------


def after(
    before: View,
    gone: str,
    policy: PromotionRules,
    *,
    returned: str = "",
    shutdown: bool = False,
    survives: bool = True,
    copies: dict[str, StoredCopy] | None = None,
) -> View | QueueDown | QueueLost:
    statuses = dict.fromkeys(before.members, MemberStatus.ALIVE)
    statuses |= dict.fromkeys(gone, MemberStatus.GONE) | dict.fromkeys(returned, MemberStatus.RETURNED)
    found = settle(before, statuses, policy, shutdown=shutdown, survives=survives, copies=copies)
    return found._replace(joined=frozenset()) if isinstance(found, View) else found


def test_the_oldest_synchronised_mirror_becomes_master() -> None:
    assert after(view("abc"), "a", PromotionRules()) == View(2, 2, ("b", "c"), frozenset("bc"))


def test_an_older_mirror_with_holes_is_passed_over() -> None:
    assert after(view("abc", "ac"), "a", PromotionRules()) == View(2, 2, ("c", "b"), frozenset("c"))


def test_a_mirror_with_holes_is_promoted_on_failure_by_default_and_is_then_alone_in_sync() -> None:
    assert after(view("abc", "a"), "a", PromotionRules()) == View(2, 2, ("b", "c"), frozenset("b"))


def test_on_shutdown_a_queue_without_synchronised_mirror_is_down_and_says_for_whom_it_waits() -> None:
    before = view("ab", "a")
    assert after(before, "a", PromotionRules(), shutdown=True) == QueueDown(("a",), before)


def test_promote_on_failure_when_synced_rules_shutdown_too() -> None:
    policy = rules({"ha-promote-on-failure": "when-synced", "ha-promote-on-shutdown": "always"})
    before = view("ab", "a")
    assert after(before, "a", policy, shutdown=True) == QueueDown(("a",), before)
    assert after(before, "a", policy) == QueueDown(("a",), before)


def test_promote_on_shutdown_always() -> None:
    policy = rules({"ha-promote-on-shutdown": "always"})
    assert after(view("ab", "a"), "a", policy, shutdown=True) == View(2, 2, ("b",), frozenset("b"))


def test_a_mirror_that_dies_only_leaves_the_ring() -> None:
    assert after(view("abc"), "b", PromotionRules()) == View(1, 2, ("a", "c"), frozenset("ac"))


def test_a_mirror_that_returned_is_the_youngest_and_not_synchronised() -> None:
    assert after(view("abc"), "", PromotionRules(), returned="b") == View(
        1, 2, ("a", "c", "b"), frozenset("ac")
    )


def test_a_living_copy_beats_one_that_came_back_and_that_beats_one_with_holes() -> None:
    assert after(view("abc"), "", PromotionRules(), returned="ab") == View(
        2, 2, ("c", "a", "b"), frozenset("c")
    )
    copies = {"b": StoredCopy(CopyTrust.INTACT, (1, 0, 0))}
    before = view("abc", "b")
    assert after(before, "a", PromotionRules(), returned="b") == QueueDown(("b",), before), (
        "b has not reported"
    )
    promoted = View(2, 2, ("b", "c"), frozenset("b"))
    assert after(before, "a", PromotionRules(), returned="b", copies=copies) == promoted


def test_a_queue_without_a_disk_is_lost_where_another_would_wait() -> None:
    assert (
        after(view("ab", "a"), "a", rules({"ha-promote-on-failure": "when-synced"}), survives=False)
        == QueueLost()
    )
    assert isinstance(after(view("ab"), "", PromotionRules(), returned="ab", survives=False), QueueLost)


def test_a_member_that_was_joining_has_to_begin_again_under_a_new_master() -> None:
    before = view("abc", "ab")._replace(joining=frozenset("c"))
    assert after(before, "a", PromotionRules()) == View(2, 2, ("b", "c"), frozenset("b"))
