"""Leases in the metadata: who may take, what settling leaves behind, and what goes with a queue."""

from __future__ import annotations

import msgspec
import pytest

from mirrormq.metadata import commands as c
from mirrormq.metadata import records, state_diff
from mirrormq.metadata.lease_commands import held_by
from mirrormq.metadata.ring_view import View
from mirrormq.metadata.state import MetadataState
from mirrormq.ranges import range_limits
from mirrormq.sequences.spans import Span, pack, unpack


@pytest.fixture
def state() -> MetadataState:
    state = MetadataState()
    state.apply(c.PutVhost(records.Vhost("/")))
    state.apply(c.PutNode(records.Node("a", incarnation=2, running=True)))
    state.apply(c.PutQueue(records.Queue("/", "q", node="a")))
    return state


def take(state: MetadataState, number: int, *spans: Span, lease: str = "job", **wrong: int) -> bool:
    found = records.LeaseTake(number, pack(spans), sum(count for _, count in spans), 10)
    facts = {"epoch": 1, "incarnation": 2, **wrong}
    command = c.TakeMessages(1, facts["epoch"], "a", facts["incarnation"], lease, found, "guest", 1000)
    return bool(state.apply(command))


def held(state: MetadataState, lease: str = "job") -> list[Span]:
    return held_by(state.leases[1, lease])


def test_takes_are_kept_once_by_number(state: MetadataState) -> None:
    assert take(state, 1, Span(1, 10))
    assert not take(state, 1, Span(11, 10))
    assert take(state, 5, Span(11, 10))
    assert not take(state, 4, Span(21, 10))
    assert held(state) == [(1, 20)]
    assert state.leases[1, "job"].number == 5


def test_only_the_present_incarnation_of_the_present_master_takes(state: MetadataState) -> None:
    assert not take(state, 1, Span(1, 10), epoch=2)
    assert not take(state, 1, Span(1, 10), incarnation=1)
    view = View(2, 1, ("b",), frozenset("b"))
    state.apply(c.ChangeViews([c.ViewChange(1, view)]))
    assert not take(state, 1, Span(1, 10), epoch=2)
    assert not state.leases


def test_settled_messages_stay_in_the_record_until_the_queue_has_removed_them(state: MetadataState) -> None:
    take(state, 1, Span(5, 5))
    take(state, 2, Span(1, 2), Span(10, 5))
    state.apply(c.SettleLease(1, "job", 1, 1 << 60))
    lease = state.leases[1, "job"]
    assert held(state) == [(1, 2), (10, 5)]
    assert unpack(lease.settled) == [(5, 5)]
    state.apply(c.SettleLease(1, "job", 9, 12))
    assert held(state) == [(12, 3)]
    state.apply(c.ForgetSettled(1, "job", pack([Span(1, 2), Span(5, 5)])))
    assert unpack(state.leases[1, "job"].settled) == [(10, 2)]


def test_an_ended_lease_is_kept_for_what_is_settled_and_begins_anew(state: MetadataState) -> None:
    take(state, 1, Span(1, 4))
    state.apply(c.SettleLease(1, "job", 1, 3))
    state.apply(c.EndLease(1, "job"))
    assert state.leases[1, "job"].ended and not held(state)
    assert take(state, 1, Span(3, 2)), "numbers begin anew"
    assert unpack(state.leases[1, "job"].settled) == [(1, 2)]
    state.apply(c.SettleLease(1, "job", 1, 9))
    state.apply(c.EndLease(1, "job"))
    state.apply(c.ForgetSettled(1, "job", pack([Span(1, 2), Span(3, 2)])))
    assert not state.leases


def test_an_ended_lease_is_kept_to_say_what_went_back(state: MetadataState) -> None:
    take(state, 1, Span(1, 4))
    take(state, 2, Span(5, 4))
    state.apply(c.SettleLease(1, "job", 1, 9))
    state.apply(c.EndLease(1, "job"))
    state.apply(c.ForgetSettled(1, "job", pack([Span(1, 4)])))
    lease = state.leases[1, "job"]
    assert lease.lost_from == 2
    assert not state.apply(c.EndLease(1, "job")), "it has ended before"
    takes = (records.LeaseTake(1, pack([Span(5, 1)]), 1, 1),)
    names = [f"other {number}" for number in range(range_limits.ENDED_LEASES_PER_QUEUE_MAX)]
    for name in names:
        assert (1, "job") in state.leases
        began = msgspec.structs.replace(lease, name=name, ended=False, lost_from=0, takes=takes)
        state.store(began)
        state.apply(c.EndLease(1, name))
    assert [lease.name for lease in state.leases.values()] == names, "the oldest one made room"


def test_a_lease_that_was_used_meanwhile_does_not_expire(state: MetadataState) -> None:
    take(state, 1, Span(1, 4))
    take(state, 2, Span(5, 4))
    assert not state.apply(c.EndLease(1, "job", 1))
    assert state.apply(c.EndLease(1, "job", 2))


@pytest.mark.parametrize("command", [c.DeleteQueue("/", "q"), c.DeleteVhost("/"), c.DeleteQueues([1])])
def test_leases_go_with_their_queue(state: MetadataState, command: c.Command) -> None:
    take(state, 1, Span(1, 4))
    state.apply(command)
    assert not state.leases


def test_leases_are_in_snapshots(state: MetadataState) -> None:
    take(state, 1, Span(1, 4))
    blob = state.snapshot()
    assert MetadataState.from_snapshot(blob).leases == state.leases
    other = MetadataState()
    list(state_diff.changes_to(other, blob))
    assert other.leases == state.leases
    list(state_diff.changes_to(other, b""))
    assert not other.leases
