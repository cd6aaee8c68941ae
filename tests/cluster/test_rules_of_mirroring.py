"""RabbitMQ's rules for mirrored queues, point by point: which nodes hold a queue, and which becomes master.

The number in a test's name is the point's number in our table of mirrored-queue features. Rings are written
with the master first and synchronised members in capitals.
"""

from __future__ import annotations

import pytest

from mirrormq.metadata.policy_matching import PolicyInvalid, validate_policy
from mirrormq.metadata.records import Queue
from tests.cluster.desk import Desk


def test_01_each_queue_has_its_own_master_and_mirrors_on_other_nodes() -> None:
    desk = Desk("abc", ha_mode="all")
    desk.declare("p", "a")
    desk.declare("q", "b")
    assert (desk.ring("p"), desk.ring("q")) == ("ABC", "BAC")


def test_04_a_queue_becomes_mirrored_and_unmirrored_by_policy_alone() -> None:
    desk = Desk("abc")
    desk.declare("q", "b")
    desk.policy(ha_mode="all")
    assert desk.ring("q") == "Bac"
    desk.clear_policy()
    assert desk.ring("q") == "B"


def test_05_a_mirrored_queue_may_have_no_mirror_for_want_of_nodes() -> None:
    desk = Desk("a", ha_mode="exactly", ha_params=2)
    desk.declare("q", "a")
    assert desk.ring("q") == "A"
    desk.start("b")
    assert desk.ring("q") == "Ab"


def test_06_all_puts_a_replica_on_every_node_and_on_new_ones() -> None:
    desk = Desk("ab", ha_mode="all")
    desk.declare("q", "b")
    desk.start("c")
    assert desk.ring("q") == "BAc"


def test_07_exactly_counts_the_master_and_replaces_a_lost_mirror() -> None:
    desk = Desk("abcd", ha_mode="exactly", ha_params=2)
    desk.declare("q", "a")
    first = desk.view("q").members[1]
    desk.lose(first)
    assert len(desk.view("q").members) == 2
    assert desk.view("q").master == "a" and first not in desk.view("q").members


def test_07_exactly_with_fewer_nodes_than_asked_for_takes_all() -> None:
    desk = Desk("abc", ha_mode="exactly", ha_params=9)
    desk.declare("q", "a")
    assert sorted(desk.view("q").members) == ["a", "b", "c"]


def test_08_exactly_one_behaves_like_an_unmirrored_queue() -> None:
    desk = Desk("abc", ha_mode="exactly", ha_params=1)
    desk.declare("q", "b")
    assert desk.ring("q") == "B"
    desk.lose("b")
    assert desk.queue("q").waits_for == ("b",)


def test_09_exactly_picks_mirrors_by_chance_and_gives_up_those_with_holes_first() -> None:
    desk = Desk("abcdefgh", ha_mode="exactly", ha_params=2)
    assert len({desk.declare(f"q{number}", "a").members[1] for number in range(50)}) == 7
    desk = Desk("abcd", ha_mode="all")
    desk.declare("q", "a")
    desk.fall_behind("q", "b", "c")
    desk.policy(ha_mode="exactly", ha_params=2)
    assert desk.ring("q") == "AD", "RabbitMQ keeps the oldest, whatever it has"


def test_10_bringing_a_cluster_down_leaves_the_queue_with_the_last_complete_copy() -> None:
    desk = Desk("abc", ha_mode="exactly", ha_params=2)
    desk.declare("q", "a")
    desk.stop(desk.view("q").members[1])
    desk.stop(desk.view("q").members[1])
    desk.stop("a")
    assert desk.queue("q").waits_for == ("a",)
    dangerous = Desk("abc", ha_mode="exactly", ha_params=2, ha_promote_on_shutdown="always")
    dangerous.declare("q", "a")
    dangerous.stop(dangerous.view("q").members[1])
    dangerous.stop("a")
    assert dangerous.view("q").master != "a", "as documented: queues wander and lose messages"


def test_11_names_that_are_no_nodes_are_no_error() -> None:
    desk = Desk("abc", ha_mode="nodes", ha_params=["nobody", "c", "b"])
    desk.declare("q", "b")
    assert desk.ring("q") == "BC"


def test_11_a_queue_none_of_whose_nodes_runs_lands_where_its_client_is() -> None:
    desk = Desk("abc", ha_mode="nodes", ha_params=["d", "e"])
    desk.declare("q", "b")
    assert desk.ring("q") == "B"
    desk.start("d")
    assert desk.ring("q") == "Bd"
    desk.synchronise("q", "d")
    assert desk.ring("q") == "D", "and moves when one of them does"


def test_12_a_master_outside_the_list_stays_until_a_listed_mirror_is_synchronised() -> None:
    desk = Desk("abcd", ha_mode="nodes", ha_params=["a", "b"])
    desk.declare("q", "a")
    desk.policy(ha_mode="nodes", ha_params=["c", "d"])
    assert desk.ring("q") == "Acd"
    desk.synchronise("q", "d")
    assert desk.ring("q") == "Dc"


def test_13_the_first_listed_node_that_is_synchronised_becomes_master() -> None:
    desk = Desk("abcd", ha_mode="all")
    desk.declare("q", "a")
    desk.fall_behind("q", "d")
    desk.policy(ha_mode="nodes", ha_params=["d", "c", "b"])
    assert desk.ring("q") == "CBd"


def test_14_a_policy_change_keeps_mirrors_where_it_can_and_adds_before_it_drops() -> None:
    desk = Desk("abcd", ha_mode="nodes", ha_params=["a", "b"])
    desk.declare("q", "a")
    desk.written.clear()
    desk.policy(ha_mode="nodes", ha_params=["a", "c"])
    members = [change.view.members for command in desk.written for change in command.changes]
    assert members == [("a", "b", "c"), ("a", "c")]
    desk.policy(ha_mode="exactly", ha_params=3)
    assert desk.view("q").members[:2] == ("a", "c")


@pytest.mark.parametrize(
    "definition",
    [
        {"ha-params": 2},
        {"ha-sync-mode": "automatic"},
        {"ha-mode": "exactly", "ha-params": 0},
        {"ha-mode": "nodes", "ha-params": []},
        {"ha-mode": "nodes", "ha-params": [1]},
        {"ha-mode": "some"},
        {"ha-mode": "all", "ha-orphans": "drop"},
    ],
)
def test_16_a_policy_that_makes_no_sense_is_refused(definition: dict[str, object]) -> None:
    with pytest.raises(PolicyInvalid):
        validate_policy(definition)


def test_21_a_masters_shutdown_promotes_only_a_synchronised_mirror_by_default() -> None:
    desk = Desk("ab", ha_mode="all")
    desk.declare("q", "a")
    desk.fall_behind("q", "b")
    desk.stop("a")
    assert desk.queue("q").waits_for == ("a",)
    desk.start("a")
    assert desk.ring("q") == "Ab" and desk.queue("q").waits_for == ()


def test_21_promote_on_shutdown_always_takes_any_mirror() -> None:
    desk = Desk("ab", ha_mode="all", ha_promote_on_shutdown="always")
    desk.declare("q", "a")
    desk.fall_behind("q", "b")
    desk.stop("a")
    assert desk.ring("q") == "B"


def test_22_a_masters_failure_promotes_any_mirror_by_default() -> None:
    desk = Desk("ab", ha_mode="all")
    desk.declare("q", "a")
    desk.fall_behind("q", "b")
    desk.lose("a")
    assert desk.ring("q") == "B"


def test_22_promote_on_failure_when_synced_does_not() -> None:
    desk = Desk("ab", ha_mode="all", ha_promote_on_failure="when-synced")
    desk.declare("q", "a")
    desk.fall_behind("q", "b")
    desk.lose("a")
    assert desk.queue("q").waits_for == ("a",)


def test_23_when_synced_on_failure_rules_on_shutdown_too() -> None:
    rules = {"ha_promote_on_failure": "when-synced", "ha_promote_on_shutdown": "always"}
    desk = Desk("ab", ha_mode="all", **rules)
    desk.declare("q", "a")
    desk.fall_behind("q", "b")
    desk.stop("a")
    assert desk.queue("q").waits_for == ("a",)


def test_24_a_queue_that_waits_for_its_master_goes_on_when_it_returns() -> None:
    desk = Desk("abc", ha_mode="all", ha_promote_on_failure="when-synced")
    before = desk.declare("q", "a")
    desk.fall_behind("q", "b", "c")
    desk.lose("a")
    assert desk.queue("q").waits_for == ("a",)
    desk.start("a")
    assert desk.ring("q") == "Abc" and desk.queue("q").waits_for == ()
    assert desk.view("q").epoch == before.epoch + 1, "nothing of its former life is mixed up with this one"


def test_24_a_laxer_policy_also_lets_it_go_on() -> None:
    desk = Desk("ab", ha_mode="all", ha_promote_on_failure="when-synced")
    desk.declare("q", "a")
    desk.fall_behind("q", "b")
    desk.lose("a")
    desk.policy(ha_mode="all")
    assert desk.ring("q") == "B" and desk.queue("q").waits_for == ()


def test_25_a_mirror_that_may_not_be_promoted_stays_in_the_ring_with_its_copy() -> None:
    desk = Desk("ab", ha_mode="all", ha_promote_on_failure="when-synced")
    desk.declare("q", "a")
    desk.fall_behind("q", "b")
    joined = desk.view("q").joined_with("b")
    desk.lose("a")
    desk.start("a")
    assert desk.view("q").joined_with("b") == joined


def test_26_an_exclusive_queue_is_never_mirrored_and_goes_with_its_node() -> None:
    desk = Desk("ab", ha_mode="all")
    desk.declare("q", "a", durable=False, exclusive=True)
    desk.declare("kept", "a")
    assert desk.ring("q") == "A"
    desk.lose("a")
    assert [name for _, name in desk.state.queues] == ["kept"]


def test_27_a_transient_queue_may_be_mirrored_and_goes_with_the_last_node_that_has_it() -> None:
    desk = Desk("abc", ha_mode="all", ha_promote_on_failure="when-synced")
    desk.declare("q", "a", durable=False)
    desk.lose("a")
    assert desk.ring("q") == "BC"
    desk.fall_behind("q", "c")
    desk.lose("b")
    assert ("/", "q") not in desk.state.queues, "nobody has it on disk, so there is nothing to wait for"


def test_27_an_unmirrored_transient_queue_goes_with_its_node_at_once() -> None:
    desk = Desk("ab")
    desk.declare("q", "a", durable=False)
    desk.start("a")
    assert ("/", "q") not in desk.state.queues, "also if the node was back before anybody missed it"


def test_31_lazy_priority_and_limited_queues_are_mirrored_like_any_other() -> None:
    desk = Desk("ab", ha_mode="all", queue_mode="lazy", max_length=5)
    desk.declare("q", "a", {"x-overflow": "reject-publish"})
    assert desk.ring("q") == "AB"


# -- 43 to 48: placement of masters ----------------------------------------------------------------


def test_43_the_argument_beats_the_policy_and_the_policy_beats_the_setting() -> None:
    desk = Desk("abc", queue_master_locator="min-masters")
    desk.declare("one", "a")
    desk.declare("two", "a")
    assert {desk.view("one").master, desk.view("two").master} == {"a", "b"}
    assert desk.declare("three", "a", {"x-queue-master-locator": "client-local"}).master == "a"


def test_43_random_uses_every_node() -> None:
    desk = Desk("abc", queue_master_locator="random")
    assert {desk.declare(f"q{number}", "a").master for number in range(30)} == {"a", "b", "c"}


def test_43_min_masters_with_a_list_of_nodes_counts_only_those() -> None:
    desk = Desk("abc", queue_master_locator="min-masters", ha_mode="nodes", ha_params=["b", "c"])
    masters = [desk.declare(f"q{number}", "a").master for number in range(4)]
    assert sorted(masters) == ["b", "b", "c", "c"]


def test_44_balanced_is_understood_as_fewest_masters() -> None:
    desk = Desk("abc", queue_leader_locator="balanced")
    assert sorted(desk.declare(f"q{number}", "a").master for number in range(3)) == ["a", "b", "c"]


def test_45_an_exclusive_queue_is_where_its_client_is() -> None:
    desk = Desk("abc", queue_master_locator="min-masters", ha_mode="nodes", ha_params=["c"])
    assert desk.declare("q", "b", durable=False, exclusive=True).members == ("b",)


def test_46_rebalancing_spreads_masters_over_synchronised_mirrors() -> None:
    from mirrormq.cluster.master_moves import rebalance

    desk = Desk("abc", ha_mode="all")
    for number in range(9):
        desk.declare(f"q{number}", "a")
    for command in rebalance(desk.state, lambda queue: True):
        desk.write(command)
    desk.work()
    assert desk.coordinator.replica_index.masters == {"a": 3, "b": 3, "c": 3}
    assert all(len(queue.ring.in_sync) == 3 for queue in desk.state.queues.values())


def test_46_rebalancing_concerns_the_queues_asked_for() -> None:
    from mirrormq.cluster.master_moves import rebalance

    desk = Desk("abc", ha_mode="all")
    for number in range(6):
        desk.declare(f"q{number}", "a")

    def concerns(queue: Queue) -> bool:
        return queue.name < "q3"

    for command in rebalance(desk.state, concerns):
        desk.write(command)
    assert desk.coordinator.replica_index.masters == {"a": 4, "b": 1, "c": 1}


def test_47_a_temporary_policy_of_high_priority_moves_a_master() -> None:
    desk = Desk("ab", ha_mode="all")
    desk.declare("q", "a")
    desk.policy("^q$", "move", 10, ha_mode="nodes", ha_params=["b"])
    assert desk.ring("q") == "B"
    desk.clear_policy("move")
    assert desk.ring("q") == "Ba"


def test_48_a_moved_master_is_there_after_one_change() -> None:
    from mirrormq.cluster.master_moves import move

    desk = Desk("abc", ha_mode="all")
    before = desk.declare("q", "a")
    desk.write(move(desk.state, desk.queue("q"), "c"))
    assert desk.ring("q") == "CBA"
    assert desk.view("q").version == before.version + 1 and desk.view("q").epoch == before.epoch + 1
