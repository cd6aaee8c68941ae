"""Failover: nodes that fail, return, restart unnoticed, stop and leave, all at once or one by one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mirrormq.cluster.coordinator import PROMOTION_TIMEOUT_MS
from mirrormq.cluster.master_moves import CannotMove, drain, move, recover, revive, still_to_leave
from mirrormq.metadata import commands as c
from mirrormq.metadata.records import Queue
from tests.cluster.desk import Desk


def test_71_the_oldest_synchronised_mirror_is_promoted() -> None:
    desk = Desk("abc", ha_mode="all")
    before = desk.declare("q", "a")
    desk.lose("a")
    assert desk.ring("q") == "BC"
    assert desk.view("q").epoch == before.epoch + 1


def test_72_a_younger_synchronised_mirror_beats_an_older_one_with_holes() -> None:
    desk = Desk("abc", ha_mode="all")
    desk.declare("q", "a")
    desk.fall_behind("q", "b")
    desk.lose("a")
    assert desk.ring("q") == "Cb"


def test_76_a_mirrors_death_changes_no_epoch() -> None:
    desk = Desk("abc", ha_mode="all")
    before = desk.declare("q", "a")
    desk.lose("c")
    assert desk.ring("q") == "AB" and desk.view("q").epoch == before.epoch


def test_78_the_last_node_to_stop_is_waited_for() -> None:
    desk = Desk("abc", ha_mode="all")
    desk.declare("q", "a")
    for name in "abc":
        desk.stop(name)
    assert desk.queue("q").waits_for == ("c",)
    desk.start("a")
    desk.start("b")
    assert desk.queue("q").waits_for == ("c",), "they lack what only the last one saw"
    desk.start("c")
    assert desk.ring("q") == "Cab" and desk.queue("q").waits_for == ()


def test_79_forgetting_the_node_that_is_waited_for_gives_the_queue_to_the_next_best() -> None:
    desk = Desk("abc", ha_mode="all", ha_promote_on_failure="when-synced")
    desk.declare("q", "a")
    desk.fall_behind("q", "b", "c")
    desk.lose("a")
    desk.forget("a")
    assert desk.ring("q") == "Bc"


def test_79_forgotten_while_the_mirrors_are_down_the_first_mirror_to_return_takes_over() -> None:
    desk = Desk("abc", ha_mode="all")
    desk.declare("q", "a")
    desk.fall_behind("q", "b")
    desk.lose("c")
    desk.lose("a", "b")
    assert desk.queue("q").waits_for == ("a",)
    desk.forget("a")
    assert desk.queue("q").waits_for == ("b",)
    desk.start("c")
    assert desk.queue("q").waits_for == ("b",)
    desk.start("b")
    assert desk.ring("q") == "Bc"


def test_79_a_queue_without_any_copy_left_is_gone() -> None:
    desk = Desk("ab")
    desk.declare("q", "a")
    desk.lose("a")
    desk.forget("a")
    assert not desk.state.queues


def test_80_an_unmirrored_durable_queue_waits_for_its_home() -> None:
    desk = Desk("ab")
    before = desk.declare("q", "a")
    desk.lose("a")
    assert desk.queue("q").waits_for == ("a",) and desk.queue("q").node == "a"
    assert desk.view("q").epoch == before.epoch
    desk.start("a")
    assert desk.queue("q").waits_for == () and desk.view("q").epoch == before.epoch + 1


def test_a_node_that_was_back_before_its_failure_was_detected_is_another_member() -> None:
    desk = Desk("abc", ha_mode="all")
    before = desk.declare("q", "a")
    desk.start("b")
    assert desk.ring("q") == "ACb" and desk.view("q").epoch == before.epoch
    desk.synchronise("q")
    desk.start("a")
    assert desk.ring("q") == "CBa" and desk.view("q").epoch == before.epoch + 1
    assert desk.view("q").incarnations == {("a", 2), ("b", 2), ("c", 1)}


def test_a_master_alone_that_restarts_unnoticed_is_master_in_a_new_epoch() -> None:
    desk = Desk("ab")
    before = desk.declare("q", "a")
    desk.start("a")
    assert desk.ring("q") == "A"
    assert desk.view("q").epoch == before.epoch + 1 and desk.view("q").incarnation_of("a") == 2


def power_cut(nodes: str = "abc", **definition: str) -> Desk:
    """Return a cluster after a power cut of all nodes; every copy of a queue with master a was
    synchronised."""
    desk = Desk(nodes, ha_mode="all", **definition)
    desk.declare("q", "a")
    desk.lose(*nodes)
    assert set(desk.queue("q").waits_for) == set(nodes)
    return desk


def test_after_a_power_cut_no_copy_is_master_before_all_that_were_in_sync_have_reported() -> None:
    desk = Desk("abc", ha_mode="all")
    desk.declare("q", "a")
    desk.fall_behind("q", "c")
    desk.reachable.clear()
    for name in "cb":
        desk.start(name)
        assert desk.queue("q").waits_for, "a was in sync and has not reported"
    assert desk.queue("q").waits_for == ("a",)
    desk.start("a")
    assert desk.ring("q") == "Abc" and desk.queue("q").copies == ()


def test_the_copy_with_the_highest_durable_position_is_master_after_a_power_cut() -> None:
    desk = power_cut()
    desk.disks = {"a": 5, "b": 9, "c": 7}
    for name in "abc":
        desk.start(name)
    assert desk.ring("q") == "Bac"


@pytest.mark.parametrize("fault", [{"journal": "new"}, {"damaged": True}, {"outdated": 1}])
def test_a_journal_that_is_not_the_one_it_was_is_not_trusted(fault: dict[str, Any]) -> None:
    desk = power_cut()
    desk.disks = {"a": 99}
    for name in "abc":
        desk.start(name, **(fault if name == "a" else {}))
    assert desk.view("q").master == "b", "a claims more, but its journal is not the one it had"
    assert desk.state.nodes["a"].journal_fault and desk.state.nodes["a"].intact_since == 2
    desk.synchronise("q")
    desk.lose("b", "c", "a")
    for name in "abc":
        desk.start(name)
    assert desk.view("q").master == "a", "it was synchronised since, and holds the most"
    assert not desk.state.nodes["a"].journal_fault


def test_when_no_copy_is_trusted_the_best_is_taken_as_nothing_better_can_come() -> None:
    desk = power_cut("ab", ha_promote_on_failure="when-synced")
    desk.disks = {"a": 3, "b": 4}
    desk.start("a", damaged=True)
    assert desk.queue("q").waits_for == ("b",)
    desk.start("b", damaged=True)
    assert desk.view("q").master == "b"


def test_a_living_mirror_with_holes_goes_before_a_copy_that_is_not_trusted() -> None:
    desk = Desk("ab", ha_mode="all", ha_promote_on_failure="when-synced")
    desk.declare("q", "a")
    desk.fall_behind("q", "b")
    desk.lose("a")
    assert desk.queue("q").waits_for == ("a",)
    desk.start("a", journal="new")
    assert desk.ring("q") == "Ba"


def test_always_ends_the_wait_for_a_member_after_the_promotion_timeout() -> None:
    desk = power_cut()
    desk.coordinator.tick(1_000)
    desk.start("b")
    desk.coordinator.tick(1_000 + PROMOTION_TIMEOUT_MS - 1)
    desk.work()
    assert desk.queue("q").waits_for == ("a", "c")
    desk.coordinator.tick(1_000 + PROMOTION_TIMEOUT_MS)
    desk.work()
    assert desk.view("q").master == "b" and not desk.queue("q").waits_for


def test_when_synced_waits_for_a_member_without_limit() -> None:
    desk = power_cut(ha_promote_on_failure="when-synced")
    desk.start("b")
    for hours in range(1, 4):
        desk.coordinator.tick(hours * 3_600_000)
        desk.work()
        assert desk.queue("q").waits_for == ("a", "c")
    desk.forget("a")
    assert desk.queue("q").waits_for == ("c",), "forget_cluster_node ends the wait for a node"
    desk.start("c")
    assert desk.view("q").master in "bc"


def test_a_report_of_an_earlier_incarnation_does_not_count() -> None:
    desk = power_cut("ab")
    desk.start("a")
    desk.lose("a")
    assert desk.queue("q").copies
    desk.start("b")
    assert desk.queue("q").waits_for == ("a",)


def test_two_deaths_at_once_are_one_change() -> None:
    desk = Desk("abc", ha_mode="all")
    before = desk.declare("q", "a")
    desk.lose("a", "b")
    assert desk.ring("q") == "C"
    assert desk.view("q").version == before.version + 1


def test_a_death_between_two_changes_is_dealt_with_by_the_next() -> None:
    desk = Desk("abc", ha_mode="all")
    desk.declare("q", "a")
    desk.reachable = {"b", "c"}
    desk.coordinator.reach(frozenset("bc"))
    lost, promoting_b = desk.coordinator.work()
    desk.write(lost)
    desk.write(c.PutNode(msgspec.structs.replace(desk.state.nodes["b"], running=False)))
    desk.write(promoting_b)
    assert desk.view("q").master == "b", "adopted, although it is dead by now"
    desk.lose("b")
    assert desk.ring("q") == "C"


def test_a_promotion_that_comes_too_late_changes_nothing() -> None:
    desk = Desk("abc", ha_mode="all")
    desk.declare("q", "a")
    desk.coordinator.reach(frozenset("bc"))
    lost, late = desk.coordinator.work()
    desk.write(lost)
    desk.fall_behind("q", "b")
    assert desk.ring("q") == "Cb"
    desk.write(late)
    assert desk.ring("q") == "Cb"


def test_only_the_leader_acts_and_a_new_one_looks_at_everything() -> None:
    desk = Desk("abc", ha_mode="all")
    desk.declare("q", "a")
    desk.coordinator.lead(False)
    desk.lose("a")
    assert desk.ring("q") == "ABC" and desk.coordinator.work() == []
    desk.coordinator.lead(True)
    desk.work()
    assert desk.ring("q") == "BC"


def test_a_death_and_what_follows_from_it_are_written_together() -> None:
    desk = Desk("abc", ha_mode="all")
    desk.declare("q", "a")
    desk.coordinator.reach(frozenset("bc"))
    kinds = [type(command) for command in desk.coordinator.work()]
    assert kinds == [c.PutNode, c.ChangeViews], "no round of the log lies between them"


def test_each_lost_node_is_declared_once_until_it_is_seen_again() -> None:
    desk = Desk("ab")
    desk.coordinator.reach(frozenset("a"))
    assert len(desk.coordinator.work()) == 1
    assert not desk.coordinator.pending, "the proposal is on its way"
    desk.coordinator.reach(frozenset("ab"))
    desk.coordinator.reach(frozenset("a"))
    assert len(desk.coordinator.work()) == 1


def test_a_draining_node_hands_its_masters_to_the_least_loaded_mirrors_and_keeps_its_mirrors() -> None:
    desk = Desk("abc", ha_mode="all")
    for number in range(6):
        desk.declare(f"q{number}", "a")
    desk.declare("own", "b")
    desk.declare("alone", "a", durable=False, exclusive=True)
    desk.write(drain(desk.state.nodes["a"]))
    assert len(list(still_to_leave(desk.state, desk.coordinator.replica_index, "a"))) == 6
    desk.work()
    masters = desk.coordinator.replica_index.masters
    assert (masters["a"], masters["b"], masters["c"]) == (1, 4, 3)
    assert not list(still_to_leave(desk.state, desk.coordinator.replica_index, "a"))
    assert all("a" in desk.view(f"q{number}").in_sync for number in range(6))
    assert desk.declare("new", "b").members == ("b", "c"), "nothing new goes there"
    desk.write(revive(desk.state.nodes["a"]))
    desk.work()
    assert desk.ring("new") == "BCa"


def test_a_draining_node_keeps_masters_without_another_copy() -> None:
    desk = Desk("abc", ha_mode="all")
    desk.declare("q", "a")
    desk.fall_behind("q", "b", "c")
    desk.write(drain(desk.state.nodes["a"]))
    desk.work()
    assert desk.ring("q") == "Abc"
    desk.synchronise("q", "c")
    assert desk.view("q").master == "c", "and gives them away as soon as somebody can"


def test_draining_every_node_does_not_send_masters_round_in_circles() -> None:
    desk = Desk("abc", ha_mode="nodes", ha_params=["a", "b"])
    desk.declare("q", "a")
    for name in "abc":
        desk.write(drain(desk.state.nodes[name]))
    desk.work()
    assert desk.view("q").master in "ab"


def test_a_stop_after_draining_loses_no_master() -> None:
    desk = Desk("abc", ha_mode="all")
    before = desk.declare("q", "a")
    desk.write(drain(desk.state.nodes["a"]))
    desk.work()
    handed = desk.view("q")
    desk.stop("a")
    assert desk.view("q").epoch == handed.epoch == before.epoch + 1


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ("x", "node 'x' is not a member of the cluster"),
        ("c", "node 'c' has no synchronised mirror of queue 'q' in vhost '/'"),
        ("d", "node 'd' has no synchronised mirror of queue 'q' in vhost '/'"),
    ],
)
def test_a_master_moves_only_to_a_synchronised_mirror(node: str, why: str) -> None:
    desk = Desk("abcd", ha_mode="nodes", ha_params=["a", "b", "c"])
    desk.declare("q", "a")
    desk.fall_behind("q", "c")
    with pytest.raises(CannotMove, match=why):
        move(desk.state, desk.queue("q"), node)
    assert move(desk.state, desk.queue("q"), "a").changes == []


def test_a_queue_that_is_down_is_forced_onto_a_mirror_with_holes() -> None:
    desk = Desk("abc", ha_mode="all", ha_promote_on_failure="when-synced")
    before = desk.declare("q", "a")
    desk.fall_behind("q", "b", "c")
    with pytest.raises(CannotMove, match="is not down"):
        recover(desk.state, desk.queue("q"), "c")
    desk.lose("a")
    with pytest.raises(CannotMove, match="does not run"):
        recover(desk.state, desk.queue("q"), "a")
    desk.write(recover(desk.state, desk.queue("q"), "c"))
    desk.work()
    assert desk.ring("q") == "Cb" and desk.queue("q").waits_for == ()
    assert desk.view("q").epoch == before.epoch + 1
    desk.start("a")
    assert desk.ring("q") == "Cba", "the old master comes back as a mirror"


def test_a_queue_that_is_down_is_forced_onto_a_node_that_never_had_it() -> None:
    desk = Desk("ab")
    desk.declare("q", "a")
    desk.lose("a")
    desk.write(recover(desk.state, desk.queue("q"), "b"))
    desk.work()
    assert desk.ring("q") == "B" and desk.queue("q").node == "b"
    assert desk.view("q").incarnations == {("b", 1)}
    desk.start("a")
    assert desk.ring("q") == "B"


def test_a_ring_of_unknown_incarnations_counts_as_a_former_one() -> None:
    desk = Desk("ab")
    desk.declare("q", "a")
    queue = desk.queue("q")
    desk.state.store(msgspec.structs.replace(queue, view=queue.ring._replace(incarnations=frozenset())))
    desk.coordinator.lead(False)
    desk.coordinator.lead(True)
    desk.work()
    assert desk.ring("q") == "A" and desk.view("q").incarnation_of("a") == 1


def test_a_queue_deleted_meanwhile_is_nobodys_business() -> None:
    desk = Desk("ab", ha_mode="all")
    desk.declare("q", "a")
    desk.coordinator.reach(frozenset("b"))
    desk.write(c.DeleteQueue("/", "q"))
    desk.work()
    assert not desk.state.queues
    desk.write(c.PutQueue(Queue("/", "q", node="b")))
    desk.work()
    assert desk.ring("q") == "B"
