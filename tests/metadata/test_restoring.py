"""A snapshot brings listeners in step: what they make of the changes alone is the state restored."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mirrormq.metadata import commands as c
from mirrormq.metadata import records as r
from mirrormq.metadata.changes import Deleted, Put
from mirrormq.metadata.index_tables import TABLE_OF, TABLES
from mirrormq.metadata.state import MetadataState
from mirrormq.metadata.state_diff import changes_to
from tests.metadata.test_state import COMMANDS


def tables(state: MetadataState) -> dict[str, dict[Any, Any]]:
    return {name: dict(getattr(state, name)) for name in TABLES}


def state_of(*commands: c.Command) -> MetadataState:
    state = MetadataState()
    for command in commands:
        state.apply(command)
    return state


class Follower:
    """Keeps its own tables from changes, and insists that nothing dangles while they come."""

    def __init__(self, state: MetadataState) -> None:
        self.tables = tables(state)

    def follow(self, change: Put | Deleted) -> None:
        record: Any = change.record
        table = self.tables[TABLE_OF[type(record)]]
        if isinstance(change, Put):
            assert table.get(record.key) == change.before
            if isinstance(record, r.Queue) and change.before is not None:
                assert isinstance(change.before, r.Queue)
                assert change.before.queue_id == record.queue_id, "another queue is no change of this one"
            table[record.key] = record
        else:
            assert table.pop(record.key) == record
        for binding in self.tables["bindings"].values():
            ends = self.tables["queues" if binding.destination_kind == "queue" else "exchanges"]
            assert (binding.vhost, binding.source) in self.tables["exchanges"]
            assert (binding.vhost, binding.destination) in ends
        for name in ("queues", "exchanges", "policies"):
            assert {key[0] for key in self.tables[name]} <= self.tables["vhosts"].keys()


@settings(max_examples=200, deadline=None)
@given(st.lists(COMMANDS, max_size=30), st.lists(COMMANDS, max_size=30), st.lists(COMMANDS, max_size=30))
def test_any_state_is_led_to_any_other(
    shared: list[c.Command], mine: list[c.Command], theirs: list[c.Command]
) -> None:
    state, wanted = state_of(*shared, *mine), state_of(*shared, *theirs)
    follower = Follower(state)
    before = (state.access_version, state.policy_version)
    for change in changes_to(state, wanted.snapshot()):
        follower.follow(change)
        assert follower.tables == tables(state), "listeners see the state as they are told"
    assert tables(state) == tables(wanted)
    assert state.next_queue_id == wanted.next_queue_id
    assert (state.access_version, state.policy_version) >= before, "caches notice"
    assert tables(MetadataState.from_snapshot(state.snapshot())) == tables(wanted)


def test_a_queue_that_was_declared_anew_is_another_one() -> None:
    vhost = c.PutVhost(r.Vhost("/"))
    declare, bind = (
        c.PutQueue(r.Queue("/", "q")),
        c.PutBinding(r.Binding("/", "amq.topic", "queue", "q", "k")),
    )
    state = state_of(vhost, declare, bind)
    wanted = state_of(vhost, declare, bind, c.DeleteQueue("/", "q"), declare, bind)
    reported = [(type(change), type(change.record)) for change in changes_to(state, wanted.snapshot())]
    assert reported == [(Deleted, r.Binding), (Deleted, r.Queue), (Put, r.Queue), (Put, r.Binding)]


def test_an_exchange_of_another_kind_goes_and_comes_with_its_bindings() -> None:
    vhost = c.PutVhost(r.Vhost("/"))
    queue = c.PutQueue(r.Queue("/", "q"))
    bind = c.PutBinding(r.Binding("/", "x", "queue", "q", "k"))
    state = state_of(vhost, queue, c.PutExchange(r.Exchange("/", "x", "topic")), bind)
    wanted = state_of(vhost, queue, c.PutExchange(r.Exchange("/", "x", "fanout")), bind)
    reported = [(type(change), type(change.record)) for change in changes_to(state, wanted.snapshot())]
    assert reported == [(Deleted, r.Binding), (Deleted, r.Exchange), (Put, r.Exchange), (Put, r.Binding)]


def test_nothing_at_all_is_a_state_too() -> None:
    state = state_of(c.PutVhost(r.Vhost("/")), c.PutQueue(r.Queue("/", "q")))
    list(changes_to(state, b""))
    assert tables(state) == tables(MetadataState())
