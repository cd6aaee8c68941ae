"""Former members: nodes that were in sync keep their copies, in case that the disks of the others fail."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mirrormq.cluster.coordinator import PROMOTION_TIMEOUT_MS
from mirrormq.metadata import commands as c
from mirrormq.metadata.ring_commands import OUTDATED
from tests.cluster.desk import Desk


def stopped_in_order(policy: str = "when-synced") -> Desk:
    """Mirrors b and c stop before the master a, one after the other: a is alone in the ring, and stops."""
    desk = Desk("abc", ha_mode="all", ha_promote_on_failure=policy)
    desk.declare("q", "a")
    for name in "bca":
        desk.stop(name)
    assert desk.ring("q") == "A" and [former.node for former in desk.queue("q").former] == ["b", "c"]
    return desk


def test_the_member_that_stopped_last_is_master_again_whatever_the_others_have() -> None:
    desk = stopped_in_order()
    desk.disks = {"b": 9, "c": 9}
    for name in "bc":
        desk.start(name)
        assert desk.queue("q").waits_for == ("a",), "it may have confirmed more"
    desk.start("a")
    assert desk.ring("q") == "Abc" and desk.queue("q").rescue is None
    desk.synchronise("q")
    assert desk.queue("q").former == ()


def test_the_member_that_stopped_last_does_not_wait_for_the_others_if_its_journal_is_sound() -> None:
    desk = stopped_in_order()
    desk.start("a")
    assert desk.ring("q") == "A" and not desk.queue("q").waits_for


@pytest.mark.parametrize("fault", [{"journal": "new"}, {"damaged": True}, {"outdated": 1}])
def test_the_former_member_that_left_last_replaces_one_whose_journal_failed(fault: dict[str, Any]) -> None:
    desk = stopped_in_order()
    desk.disks = {"a": 3, "b": 5, "c": 5}
    desk.start("a", **fault)
    assert desk.queue("q").waits_for == ("b", "c")
    desk.start("b")
    assert desk.queue("q").waits_for == ("c",), "it left later than b"
    desk.start("c")
    assert desk.ring("q") == "Cab" and not desk.queue("q").waits_for
    rescue = desk.queue("q").rescue
    assert rescue is not None and (rescue.epoch, rescue.highest_sequence) == (desk.view("q").epoch, 5)


def test_a_former_member_that_left_earlier_is_not_waited_for() -> None:
    desk = stopped_in_order()
    desk.start("c")
    desk.start("a", journal="new")
    assert desk.ring("q") == "Ca", "c has all that b has"


def test_a_former_member_with_a_failed_journal_gives_way_to_one_that_left_earlier() -> None:
    desk = stopped_in_order()
    desk.start("a", journal="new")
    desk.start("c", damaged=True)
    assert desk.queue("q").waits_for == ("b",)
    desk.start("b")
    assert desk.view("q").master == "b"


def test_an_outdated_copy_that_is_later_than_the_former_members_is_promoted() -> None:
    desk = stopped_in_order()
    desk.disks = {"a": 7, "b": 5, "c": 5}
    for name in "bc":
        desk.start(name)
    desk.start("a", outdated=1)
    assert desk.view("q").master == "a", "it was taken after b and c had left"


def test_a_damaged_copy_is_not_promoted_even_if_it_has_more() -> None:
    desk = stopped_in_order()
    desk.disks = {"a": 7, "b": 5, "c": 5}
    for name in "bc":
        desk.start(name)
    desk.start("a", damaged=True)
    assert desk.view("q").master == "c", "what a has above 5 becomes orphans"
    rescue = desk.queue("q").rescue
    assert rescue is not None and rescue.highest_sequence == 5


def test_a_damaged_copy_that_is_promoted_names_nodes_that_may_have_its_missing_messages() -> None:
    desk = Desk("abc", ha_mode="all", ha_promote_on_failure="when-synced")
    desk.declare("q", "a")
    desk.synchronise("q")
    desk.fall_behind("q", "c")
    desk.lose("a", "b", "c")
    desk.disks = {"a": 3, "b": 5, "c": 4}
    for name in "abc":
        desk.start(name, damaged=True)
    queue = desk.queue("q")
    assert queue.ring.master == "b" and queue.rescue is not None
    in_sync_until_then = [former.node for former in queue.former if former.version == queue.rescue.version]
    assert in_sync_until_then == ["a"], "what c has may have been acknowledged after it left"


def test_a_sound_copy_that_is_promoted_without_another_member_has_no_holes() -> None:
    desk = Desk("ab", ha_mode="all", ha_promote_on_failure="always")
    desk.declare("q", "a")
    desk.synchronise("q")
    desk.lose("a", "b")
    desk.coordinator.tick(1_000)
    desk.start("b")
    desk.coordinator.tick(1_000 + PROMOTION_TIMEOUT_MS)
    desk.work()
    rescue = desk.queue("q").rescue
    assert rescue is not None and rescue.version == 0, "what a has and b lacks was acknowledged"


def test_always_ends_the_wait_for_former_members() -> None:
    desk = stopped_in_order("always")
    desk.coordinator.tick(1_000)
    desk.start("a", journal="new")
    desk.start("b")
    assert desk.queue("q").waits_for == ("c",)
    desk.coordinator.tick(1_000 + PROMOTION_TIMEOUT_MS)
    desk.work()
    assert desk.view("q").master == "b" and desk.queue("q").rescue is not None, "c may bring more later"


def test_a_node_that_peers_find_outdated_is_not_trusted_although_its_journal_seems_right() -> None:
    desk = stopped_in_order()
    desk.disks = {"a": 3, "b": 5, "c": 5}
    for name in "bc":
        desk.start(name)
    desk.write(c.ReportOutdated("a", start=7))
    desk.start("a")
    assert desk.view("q").master == "c" and desk.state.nodes["a"].journal_fault == OUTDATED


def test_former_members_hold_the_queue_of_a_node_that_is_forgotten() -> None:
    desk = stopped_in_order()
    desk.forget("a")
    assert desk.queue("q").waits_for == ("c",)
    desk.start("b")
    assert desk.queue("q").waits_for == ("c",)
    desk.start("c")
    assert desk.ring("q") == "Cb"


def test_a_node_that_was_forgotten_is_no_former_member() -> None:
    desk = stopped_in_order()
    desk.forget("c")
    desk.start("c")
    desk.start("a", journal="new")
    assert desk.queue("q").waits_for == ("b",), "c has an empty disk"


def test_a_former_member_that_is_not_wanted_any_more_gives_its_copy_up() -> None:
    desk = Desk("abc", ha_mode="exactly", ha_params=2)
    first = desk.declare("q", "a")
    mirror = first.members[1]
    desk.synchronise("q")
    desk.lose(mirror)
    assert [former.node for former in desk.queue("q").former] == [mirror]
    desk.start(mirror)
    assert desk.queue("q").former, "the mirror that replaces it is not synchronised yet"
    desk.synchronise("q")
    assert desk.queue("q").former == ()


def test_no_ring_changes_and_no_copy_is_released_while_a_master_is_only_said_to_run() -> None:
    desk = Desk("ab", ha_mode="all")
    desk.declare("q", "a")
    desk.stop("b")
    desk.clear_policy()
    node = desk.state.nodes["b"]
    desk.coordinator.reach(frozenset("ab"), {"b": 2})
    desk.write(c.PutNode(msgspec.structs.replace(node, incarnation=2, running=True)))
    desk.work()
    assert desk.queue("q").former, "a may come back with an older disk"
    desk.coordinator.reach(frozenset("ab"), {"a": 1, "b": 2})
    desk.work()
    assert desk.queue("q").former == (), "a serves, and no policy wants a mirror"


def test_of_two_queues_with_equal_rings_each_promotes_the_mirror_that_was_synchronised_last() -> None:
    desk = Desk("abc", ha_mode="all")
    for name, order in (("q", "bc"), ("p", "cb")):
        desk.declare(name, "a")
        for mirror in order:
            desk.fall_behind(name, mirror)
    assert desk.view("q")[2:] == desk.view("p")[2:]
    desk.lose("a")
    assert (desk.view("q").master, desk.view("p").master) == ("c", "b")
