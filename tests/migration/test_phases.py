"""Transition table of a migration: every phase with every step, and the order that the duties keep."""

from __future__ import annotations

from itertools import product

import pytest

from mirrormq.migration.phases import (
    AWAITED,
    COMMANDS,
    DUTIES,
    FINAL,
    TRANSITIONS,
    Direction,
    Phase,
    Place,
    Refusal,
    Step,
    goal,
    next_phase,
)


@pytest.mark.parametrize(("phase", "step"), list(product(Phase, Step)))
def test_every_step_leads_on_or_is_refused_with_advice(phase: Phase, step: Step) -> None:
    if (phase, step) in TRANSITIONS:
        assert next_phase(phase, step) is TRANSITIONS[phase, step]
        return
    with pytest.raises(Refusal, match=f"'{step}' is not possible in phase {phase}: .+"):
        next_phase(phase, step)


@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_has_duties_and_a_way_on(phase: Phase) -> None:
    assert phase in DUTIES
    steps = [step for (before, step) in TRANSITIONS if before is phase]
    assert bool(steps) is (phase not in FINAL)
    if phase in AWAITED:
        assert AWAITED[phase] in steps


@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_before_the_end_can_be_undone(phase: Phase) -> None:
    """From each phase a rollback leads to the old cluster, at last without the imported definitions."""
    if phase in (*FINAL, Phase.PLANNED):
        return
    seen: list[Phase] = []
    while phase is not Phase.UNDONE:
        assert phase not in seen, f"{seen} leads in a circle"
        seen.append(phase)
        step = Step.ROLLBACK if (phase, Step.ROLLBACK) in TRANSITIONS else AWAITED[phase]
        phase = next_phase(phase, step)


@pytest.mark.parametrize("commands", [(Step.SWITCH_CONSUMERS, Step.SWITCH_PRODUCERS), (Step.SWITCH_ALL,)])
def test_the_commands_lead_to_the_end(commands: tuple[Step, ...]) -> None:
    phase = next_phase(Phase.PLANNED, Step.RUN)
    for command in commands:
        phase = goal(next_phase(phase, command))
    assert next_phase(phase, Step.FINISH) is Phase.FINISHED


@pytest.mark.parametrize(("before", "after"), [(before, after) for (before, _), after in TRANSITIONS.items()])
def test_no_transition_lets_messages_overtake_each_other(before: Phase, after: Phase) -> None:
    first, second = DUTIES[before], DUTIES[after]
    step = next(step for (phase, step), then in TRANSITIONS.items() if (phase, then) == (before, after))
    if second.links is Direction.FORWARD and first.links is not Direction.FORWARD:
        assert step is Step.CONSUMERS_GONE, "links start when no consumer is left"
    if second.producers is Place.NEW and first.producers is not Place.NEW:
        assert step is Step.OLD_EMPTY, "producers reach the new cluster when the old one is empty"
    if first.links is Direction.BACK and second.links is not Direction.BACK:
        assert step is Step.NEW_EMPTY, "clients return when the new cluster is empty"
    if second.links is Direction.BACK:
        assert step is Step.OLD_EMPTY, "older messages return behind those that never moved"
    for place in (second.consumers, second.producers):
        if second.links is Direction.BACK:
            assert place is Place.NONE


def test_links_never_run_while_consumers_are_on_their_source() -> None:
    for duties in DUTIES.values():
        if duties.links is Direction.FORWARD:
            assert duties.consumers is not Place.OLD


def test_no_client_is_connected_before_and_while_messages_return() -> None:
    for (before, _), after in TRANSITIONS.items():
        if DUTIES[after].links is Direction.BACK:
            assert DUTIES[before].without_clients and DUTIES[after].without_clients
    for duties in DUTIES.values():
        if duties.without_clients:
            assert (duties.consumers, duties.producers) == (Place.NONE, Place.NONE)


def test_commands_are_no_conditions() -> None:
    assert not set(COMMANDS) & set(AWAITED.values())
