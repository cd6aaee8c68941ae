"""Partition modes: which nodes continue, which side wins, and which nodes are isolated."""

from __future__ import annotations

import itertools

import pytest

from mirrormq.cluster.autoheal import (
    LoserNotice,
    Presence,
    accepts_notice,
    arbiter_decisions,
    is_arbiter,
    no_side_continues,
    node_to_join,
    nodes_to_join,
    sides,
    winner,
)
from mirrormq.cluster.partitions import (
    DISAGREEMENT_MS,
    ConnectivityMatrix,
    PartitionHandling,
    may_start,
    partitioned,
)
from mirrormq.consensus.quorum import Majority, Reachable

ABC = frozenset("abc")


def goes_on(handling: PartitionHandling, side: str, members: str = "abc") -> bool:
    """Tell whether all nodes of a side continue when they reach only each other."""
    answers = {handling.may_go_on(name, members, set(side) - {name}) for name in side}
    assert len(answers) == 1, "a side is of one mind"
    return answers.pop()


@pytest.mark.parametrize(
    ("handling", "members", "sides_that_go_on"),
    [
        (PartitionHandling("pause_minority"), "abc", {"abc", "ab", "ac", "bc"}),
        (PartitionHandling("pause_minority"), "ab", {"ab"}),
        (PartitionHandling("pause_minority"), "a", {"a"}),
        (PartitionHandling("ignore"), "abc", {"abc", "ab", "ac", "bc", "a", "b", "c"}),
        (PartitionHandling("autoheal"), "ab", {"ab", "a", "b"}),
        (PartitionHandling("pause_if_all_down", frozenset("c")), "abc", {"abc", "ac", "bc", "c"}),
        (PartitionHandling("pause_if_all_down", frozenset("ac")), "abc", {"abc", "ab", "ac", "bc", "a", "c"}),
        (
            PartitionHandling("pause_if_all_down", frozenset("x")),
            "abc",
            {"abc", "ab", "ac", "bc", "a", "b", "c"},
        ),
        (PartitionHandling("auto"), "abc", {"abc", "ab", "ac", "bc"}),
        (PartitionHandling("auto"), "ab", {"ab", "a", "b"}),
        (PartitionHandling("auto"), "abcd", {"abcd", "abc", "abd", "acd", "bcd"}),
    ],
)
def test_sides_that_go_on(handling: PartitionHandling, members: str, sides_that_go_on: set[str]) -> None:
    subsets = ["".join(s) for n in range(1, len(members) + 1) for s in itertools.combinations(members, n)]
    assert {side for side in subsets if goes_on(handling, side, members)} == sides_that_go_on


@pytest.mark.parametrize("mode", ["pause_minority", "auto"])
def test_with_a_majority_mode_two_sides_never_both_go_on(mode: str) -> None:
    for members in ("abc", "abcd", "abcde"):
        for size in range(1, len(members)):
            for part in itertools.combinations(members, size):
                rest = [name for name in members if name not in part]
                both = (
                    goes_on(PartitionHandling(mode), "".join(part), members),
                    goes_on(PartitionHandling(mode), "".join(rest), members),
                )
                assert sum(both) <= 1


def test_the_quorum_rule_follows_from_the_mode() -> None:
    assert type(PartitionHandling("pause_minority").quorum()) is Majority
    assert (
        type(PartitionHandling("ignore").quorum())
        is type(PartitionHandling("autoheal").quorum())
        is Reachable
    )
    automatic = PartitionHandling("auto").quorum()
    assert automatic.electorate(ABC, frozenset(), "a") == ABC
    assert automatic.electorate(frozenset("ab"), frozenset(), "a") == {"a"}
    listed = PartitionHandling("pause_if_all_down", frozenset("c")).quorum()
    assert listed.electorate(ABC, frozenset(), "c") == {"c"} and listed.may_go_on(ABC, frozenset(), "c")
    assert not listed.may_go_on(ABC, frozenset("b"), "a"), "it sees no listed node"
    assert listed.may_go_on(ABC, frozenset("c"), "a")


def test_modes_that_heal_by_themselves() -> None:
    healing = [
        PartitionHandling("autoheal"),
        PartitionHandling("pause_if_all_down", frozenset("a"), "autoheal"),
    ]
    others = [
        PartitionHandling("ignore"),
        PartitionHandling("pause_minority"),
        PartitionHandling("pause_if_all_down", frozenset("a")),
    ]
    assert all(handling.heals(ABC) for handling in healing)
    assert not any(handling.heals(ABC) for handling in others)
    assert PartitionHandling("auto").heals("ab") and not PartitionHandling("auto").heals(ABC)


def test_a_partition_is_shown_by_the_nodes_that_see_it() -> None:
    assert partitioned("a", "bc", [], ABC) == []
    assert partitioned("a", "b", [], ABC) == ["c"], "it runs, the others say"
    assert partitioned("a", "bc", ["c"], ABC) == ["c"], "linked again, but of another story"
    assert partitioned("a", "b", [], frozenset("ab")) == [], "who is down is not partitioned"


# -- partial partitions ----------------------------------------------------------------------------


def connectivity(**seen: str) -> ConnectivityMatrix:
    found = ConnectivityMatrix()
    for node, reachable in seen.items():
        found.report(node, reachable)
    return found


def after_patience(found: ConnectivityMatrix, running: str) -> frozenset[str]:
    assert found.nodes_to_isolate(running, 1000) == frozenset(), "links take a moment to come back"
    assert found.nodes_to_isolate(running, 1000 + DISAGREEMENT_MS - 1) == frozenset()
    return found.nodes_to_isolate(running, 1000 + DISAGREEMENT_MS)


def test_of_two_nodes_out_of_each_others_sight_one_has_to_go() -> None:
    assert after_patience(connectivity(a="bc", b="a", c="a"), "abc") == {"c"}


def test_the_one_with_fewer_links_goes() -> None:
    assert after_patience(connectivity(a="bcd", b="a", c="ad", d="ac"), "abcd") == {"b"}


def test_a_view_in_one_direction_only_is_none() -> None:
    assert after_patience(connectivity(a="bc", b="ac", c="a"), "abc") == {"c"}


def test_several_pairs_lose_as_few_as_possible() -> None:
    found = connectivity(a="bcde", b="a", c="ade", d="ace", e="acd")
    assert after_patience(found, "abcde") == {"b"}


def test_a_short_disagreement_is_forgotten() -> None:
    found = connectivity(a="bc", b="a", c="a")
    found.nodes_to_isolate("abc", 0)
    found.report("b", "ac")
    found.report("c", "ab")
    assert found.nodes_to_isolate("abc", DISAGREEMENT_MS) == frozenset()
    found.report("b", "a")
    assert found.nodes_to_isolate("abc", 2 * DISAGREEMENT_MS) == frozenset(), "its patience begins anew"


def test_an_unreachable_or_stopped_node_is_no_opponent() -> None:
    found = connectivity(a="bc", b="a", c="a")
    found.forget("c")
    assert after_patience(found, "abc") == frozenset()
    assert after_patience(connectivity(a="bc", b="a", c="a"), "ab") == frozenset()


def test_a_victim_comes_back_when_it_sees_every_serving_node() -> None:
    assert not may_start("c", "ab", "a")
    assert may_start("c", "ab", "ab") and may_start("c", "a", "a") and may_start("c", "c", "")


# -- healing ---------------------------------------------------------------------------------------


def presence(
    node: str,
    leader: str,
    clients: int = 0,
    forked: str = "",
    serving: bool = True,
    history: tuple[int, int] = (1, 1),
) -> Presence:
    others = tuple(name for name in "abc" if name != node)
    return Presence(node, 1, serving, clients, leader, others, tuple(forked), history=history)


def by_name(*found: Presence) -> dict[str, Presence]:
    return {each.node: each for each in found}


def test_the_side_with_more_clients_wins_then_the_one_with_more_nodes_then_the_first_name() -> None:
    few = sides([presence("a", "a", 3), presence("b", "b", 1), presence("c", "b", 1)])
    assert winner(few).leader == "a"
    equal = sides([presence("a", "a", 2), presence("b", "b", 1), presence("c", "b", 1)])
    assert winner(equal).nodes == ("b", "c")
    alike = sides([presence("b", "b", 1), presence("a", "a", 1)])
    assert winner(alike).leader == "a"


def test_of_sides_alike_the_one_that_went_on_for_longer_wins() -> None:
    later = sides([presence("a", "a", 1, history=(2, 90)), presence("b", "b", 1, history=(3, 7))])
    assert winner(later).leader == "b", "its leader was elected later"
    longer = sides([presence("a", "a", 1, history=(3, 6)), presence("b", "b", 1, history=(3, 7))])
    assert winner(longer).leader == "b"


def test_a_winner_stays_the_winner_while_it_serves() -> None:
    found = sides([presence("a", "a", 2), presence("b", "b", 3)])
    assert winner(found, before="a").leader == "a", "a client more would turn it round"
    assert winner(found, before="c").leader == "b"
    stopped = sides([presence("a", "a", serving=False), presence("b", "b", 3)])
    assert winner(stopped, before="a").leader == "b"


def test_no_node_serves_if_all_are_present_without_a_leader() -> None:
    waiting = by_name(presence("a", "", serving=False), presence("b", "", serving=False))
    assert no_side_continues("ab", waiting)
    assert not no_side_continues("abc", waiting), "the third may serve somewhere"
    assert not no_side_continues("ab", waiting | by_name(presence("b", "b", serving=False))), "it soon serves"
    assert not no_side_continues("ab", waiting | by_name(presence("b", "")))


def test_a_side_without_clients_loses() -> None:
    found = sides([presence("a", "a", 9, serving=False), presence("b", "b", 0)])
    assert winner(found).leader == "b"


def test_the_arbiter_sends_the_winner_to_each_node_of_a_losing_side() -> None:
    found = by_name(
        presence("a", "a", 1, forked="bc"),
        presence("b", "b", 5, forked="a"),
        presence("c", "b", 0, forked="a"),
    )
    assert arbiter_decisions("a", "bc", found) == [("a", LoserNotice("b"))]
    assert arbiter_decisions("b", "ac", found) == [], "only one decides"
    found["a"] = presence("a", "a", 9, forked="bc")
    assert arbiter_decisions("a", "bc", found) == [("b", LoserNotice("a")), ("c", LoserNotice("a"))]


def test_nothing_is_decided_before_every_answer_or_with_one_history() -> None:
    found = by_name(presence("a", "a", forked="b"), presence("b", "b", forked="a"))
    assert arbiter_decisions("a", "bc", found) == []
    assert arbiter_decisions("a", "b", found) == [("b", LoserNotice("a"))]
    whole = by_name(presence("a", "b"), presence("b", "b"), presence("c", ""))
    assert arbiter_decisions("a", "bc", whole) == []


def test_three_sides_follow_one() -> None:
    found = by_name(
        presence("a", "a", 1, forked="bc"),
        presence("b", "b", 2, forked="ac"),
        presence("c", "c", 3, forked="ab"),
    )
    assert arbiter_decisions("a", "bc", found) == [("a", LoserNotice("c")), ("b", LoserNotice("c"))]


def test_a_node_obeys_the_arbiter_it_would_name_itself_and_only_if_it_is_forked() -> None:
    word = LoserNotice("c")
    assert accepts_notice("b", "ac", "c", "a", word)
    assert not accepts_notice("b", "ac", "c", "c", word), "not the arbiter"
    assert not accepts_notice("b", "ac", "", "a", word), "it has followed already"
    assert is_arbiter("a", "bc") and not is_arbiter("b", "ac") and is_arbiter("a", "")


def test_a_node_that_starts_joins_serving_nodes_if_none_shares_its_history() -> None:
    found = by_name(presence("b", "b", 1), presence("c", "b", 0))
    assert nodes_to_join("bc", "bc", found) == [found["b"], found["c"]]
    assert nodes_to_join("bc", "c", found) == [], "b is of its own story"
    idle = by_name(presence("b", "b", serving=False))
    assert nodes_to_join("b", "b", idle) == []
    assert nodes_to_join("", "", {}) == []


def test_a_node_joins_the_better_side_as_soon_as_that_has_a_leader() -> None:
    found = by_name(presence("b", "b", 1), presence("c", "d", 5), presence("d", "", 5))
    others = nodes_to_join("bcd", "bcd", found)
    assert others == [found["b"], found["c"], found["d"]]
    assert node_to_join(others) == "d"
    assert node_to_join([found["d"]]) is None
    assert nodes_to_join("bc", "bc", found) == [found["b"]], "d is out of sight"
