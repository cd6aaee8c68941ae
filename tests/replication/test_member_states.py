"""States of a ring member: each event in each state leads to a state of the table of transitions, and each
transition of the table happens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mirrormq.metadata.ring_view import View
from mirrormq.replication.common_history import History
from mirrormq.replication.member_states import TRANSITIONS, MemberState
from mirrormq.replication.ring import Ring
from mirrormq.replication.ring_messages import OperationBatch, ProgressReport
from mirrormq.replication.ring_operations import DeliveredOperation, encode

ARCHITECTURE = Path(__file__).resolve().parents[2] / "ARCHITECTURE.md"
ME = "a"
MEMBERS = ("m", "a", "b")
RECEIVED = 3
Event = Callable[[Ring], None]


def batch(
    *, first: int, stable: int = 0, history: History | None = None, later: int = 0, count: int = RECEIVED,
    sender: str | None = None,
) -> Event:  # fmt: skip
    """Return the arrival of a batch of the left neighbour, or of another node; `later`: of a later epoch."""

    def arrive(ring: Ring) -> None:
        epoch = ring.view.epoch + later
        operations = [encode(DeliveredOperation(first + offset)) for offset in range(count)]
        followed = history or ([(1, 0)] if epoch == 1 else [(1, 0), (epoch, ring.received)])
        ring.receive(
            sender or ring.left or "m",
            OperationBatch(1, epoch, ring.view.version, followed, first, operations, stable),
        )

    return arrive


def view(*members: str, later: int = 0) -> Event:
    """Return the arrival of the next view with these members; `later`: of a later epoch."""
    return lambda ring: ring.change(ring.view.with_members(members, epoch=ring.view.epoch + later))


WHOLE_LOG = batch(first=1)
WITHOUT_HISTORY = batch(first=1, history=[(0, 0)])
DIVERGING = batch(first=2, stable=1, history=[(1, 0), (2, 1)])
GAP = batch(first=RECEIVED + 5, stable=RECEIVED + 4)

STEPS: dict[MemberState, list[Event]] = {
    MemberState.FRESH: [],
    MemberState.FOLLOWING: [WHOLE_LOG],
    MemberState.BEHIND: [WHOLE_LOG, view("b", "a", later=1)],
    MemberState.DIVERGED: [WHOLE_LOG, GAP],
    MemberState.MASTER: [WHOLE_LOG, view("a", "b", later=1)],
}
"""Events that lead from a new ring into each state."""

EVENTS: dict[str, Event] = {
    "the whole log of the left neighbour": WHOLE_LOG,
    "the whole log, without the history of the epoch": WITHOUT_HISTORY,
    "the next operations": batch(first=RECEIVED + 1),
    "a batch without operations": batch(first=RECEIVED + 1, count=0),
    "operations with a gap before them": batch(first=RECEIVED + 5),
    "a log that begins behind a gap": GAP,
    "a history that ends before own operations": DIVERGING,
    "a batch of an earlier epoch": batch(first=1, later=-1),
    "a batch of a later epoch": batch(first=1, later=1),
    "a batch of another node": batch(first=1, sender="stranger"),
    "the same view": lambda ring: ring.change(ring.view),
    "a view with a new member": lambda ring: view(*ring.view.members, "n")(ring),
    "a view without this member": lambda ring: view(
        *(name for name in ring.view.members if name != ME or name == ring.view.master)
    )(ring),
    "a later epoch of another master": view("b", "a", later=1),
    "a later epoch of another master, without this member": view("b", later=1),
    "a later epoch with this member as master": view("a", "b", later=1),
    "a report": lambda ring: (
        ring.report("b", ProgressReport(1, ring.view.epoch, ring.view.version, 0, 0, 2, 2)),
        None,
    )[1],
    "a completed write": lambda ring: ring.persisted(RECEIVED),
    "a new link": lambda ring: ring.send_again("b"),
    "a turn": lambda ring: (ring.take(), None)[1],
}


def in_state(state: MemberState) -> Ring:
    """Return a ring whose member has come to this state, and has operations unless it is fresh."""
    ring = Ring(1, ME, View(1, 1, MEMBERS, frozenset(MEMBERS)))
    for step in STEPS[state]:
        step(ring)
    assert ring.state is state
    assert ring.received == (0 if state is MemberState.FRESH else RECEIVED)
    return ring


@pytest.mark.parametrize("state", MemberState)
def test_events_lead_to_the_states_of_the_table_and_to_all_of_them(state: MemberState) -> None:
    reached: dict[MemberState, str] = {}
    for name, event in EVENTS.items():
        ring = in_state(state)
        event(ring)
        reached.setdefault(ring.state, name)
        assert ring.is_master is (ring.view.master == ME), name
    reached.pop(state, None)
    assert reached.keys() == TRANSITIONS[state], reached


@pytest.mark.parametrize("state", MemberState)
def test_only_a_member_that_follows_or_leads_sends_operations_and_reports(state: MemberState) -> None:
    ring = in_state(state)
    ring.persisted(RECEIVED)
    work = ring.take()
    sends = state in {MemberState.FOLLOWING, MemberState.MASTER}
    assert bool(work.operation_batches) is sends
    assert (work.report is not None) is (state is MemberState.FOLLOWING)
    assert work.diverged is (state is MemberState.DIVERGED)


def test_the_diagram_shows_the_table() -> None:
    lines = ["```mermaid", "stateDiagram-v2", "    [*] --> fresh", "    [*] --> master"]
    lines += [
        f"    {state.value} --> {following.value}"
        for state in MemberState
        for following in MemberState
        if following in TRANSITIONS[state]
    ]
    assert "\n".join([*lines, "    diverged --> [*]", "```"]) in ARCHITECTURE.read_text()
