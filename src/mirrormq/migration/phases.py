"""Phases of a migration, as a transition table.

    planned → following → consumers-leaving → moving → producers-leaving → drained → finished
                       ↘ all-leaving → all-draining ↗

A phase states what must hold while it lasts (`DUTIES`): which links run, which cluster each group of clients
may reach, whether changes of the old cluster's definitions are followed. `mirrormq migrate run` makes these
true, again and again, so a process that is killed between two steps continues with the same duties.

Order of messages. Links start after the last consumer has left the old cluster: a message that moves earlier
would be overtaken. Producers reach the new cluster after the old one is empty. A rollback first moves what is
left on the old cluster, then everything back, for the same reason.

No phase before `finished` is final. `undone` is the end of a rollback that also removed the definitions.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Phase(StrEnum):
    """Phase of a migration."""

    PLANNED = "planned"
    FOLLOWING = "following"
    CONSUMERS_LEAVING = "consumers-leaving"
    MOVING = "moving"
    PRODUCERS_LEAVING = "producers-leaving"
    ALL_LEAVING = "all-leaving"
    ALL_DRAINING = "all-draining"
    DRAINED = "drained"
    ROLLBACK_DRAINING = "rollback-draining"
    RETURNING = "returning"
    UNDOING = "undoing"
    FINISHED = "finished"
    UNDONE = "undone"


class Step(StrEnum):
    """Cause of a transition: a command of the operator, or a condition that has become true."""

    RUN = "run"
    SWITCH_CONSUMERS = "switch consumers"
    SWITCH_PRODUCERS = "switch producers"
    SWITCH_ALL = "switch all"
    ROLLBACK = "rollback"
    FINISH = "finish"
    CONSUMERS_GONE = "no consumer is left on the old cluster"
    OLD_EMPTY = "the old cluster is empty"
    NEW_EMPTY = "the new cluster is empty"
    REMOVED = "the imported definitions are removed"


COMMANDS = (
    Step.RUN,
    Step.SWITCH_CONSUMERS,
    Step.SWITCH_PRODUCERS,
    Step.SWITCH_ALL,
    Step.ROLLBACK,
    Step.FINISH,
)

TRANSITIONS: dict[tuple[Phase, Step], Phase] = {
    (Phase.PLANNED, Step.RUN): Phase.FOLLOWING,
    (Phase.FOLLOWING, Step.SWITCH_CONSUMERS): Phase.CONSUMERS_LEAVING,
    (Phase.FOLLOWING, Step.SWITCH_ALL): Phase.ALL_LEAVING,
    (Phase.FOLLOWING, Step.ROLLBACK): Phase.UNDOING,
    (Phase.CONSUMERS_LEAVING, Step.CONSUMERS_GONE): Phase.MOVING,
    (Phase.CONSUMERS_LEAVING, Step.ROLLBACK): Phase.FOLLOWING,
    (Phase.MOVING, Step.SWITCH_PRODUCERS): Phase.PRODUCERS_LEAVING,
    (Phase.MOVING, Step.ROLLBACK): Phase.ROLLBACK_DRAINING,
    (Phase.PRODUCERS_LEAVING, Step.OLD_EMPTY): Phase.DRAINED,
    (Phase.PRODUCERS_LEAVING, Step.ROLLBACK): Phase.ROLLBACK_DRAINING,
    (Phase.ALL_LEAVING, Step.CONSUMERS_GONE): Phase.ALL_DRAINING,
    (Phase.ALL_LEAVING, Step.ROLLBACK): Phase.FOLLOWING,
    (Phase.ALL_DRAINING, Step.OLD_EMPTY): Phase.DRAINED,
    (Phase.ALL_DRAINING, Step.ROLLBACK): Phase.ROLLBACK_DRAINING,
    (Phase.DRAINED, Step.ROLLBACK): Phase.ROLLBACK_DRAINING,
    (Phase.DRAINED, Step.FINISH): Phase.FINISHED,
    (Phase.ROLLBACK_DRAINING, Step.OLD_EMPTY): Phase.RETURNING,
    (Phase.RETURNING, Step.NEW_EMPTY): Phase.FOLLOWING,
    (Phase.UNDOING, Step.REMOVED): Phase.UNDONE,
}


class Place(StrEnum):
    """Cluster that a group of clients may reach."""

    OLD = "old"
    NEW = "new"
    NONE = "none"
    """Neither: the clients wait."""


class Direction(StrEnum):
    """Direction in which links move messages."""

    FORWARD = "forward"
    BACK = "back"
    NONE = "none"


class Duties(NamedTuple):
    """Conditions that hold during a phase."""

    consumers: Place
    producers: Place
    links: Direction = Direction.NONE
    follows: bool = False
    """Changes of the old cluster's definitions are imported into the new one."""
    takes_back: bool = False
    """What the old cluster lacks is created there: each queue needs one to which its messages return."""
    without_clients: bool = False
    """No client may be connected to either cluster. A proxy sees to that; without one the phase lasts until
    they have left. Consumers of the new cluster would take messages that return, and publishers of the old
    one would overtake them."""


DUTIES: dict[Phase, Duties] = {
    Phase.PLANNED: Duties(Place.OLD, Place.OLD),
    Phase.FOLLOWING: Duties(Place.OLD, Place.OLD, follows=True),
    Phase.CONSUMERS_LEAVING: Duties(Place.NONE, Place.OLD, follows=True),
    Phase.MOVING: Duties(Place.NEW, Place.OLD, Direction.FORWARD, follows=True),
    Phase.PRODUCERS_LEAVING: Duties(Place.NEW, Place.NONE, Direction.FORWARD, follows=True),
    Phase.ALL_LEAVING: Duties(Place.NONE, Place.NONE, follows=True),
    Phase.ALL_DRAINING: Duties(Place.NONE, Place.NONE, Direction.FORWARD),
    # The links stay: a producer that was overlooked may still publish to the old cluster.
    Phase.DRAINED: Duties(Place.NEW, Place.NEW, Direction.FORWARD),
    Phase.ROLLBACK_DRAINING: Duties(Place.NONE, Place.NONE, Direction.FORWARD, without_clients=True),
    Phase.RETURNING: Duties(Place.NONE, Place.NONE, Direction.BACK, takes_back=True, without_clients=True),
    Phase.UNDOING: Duties(Place.OLD, Place.OLD),
    Phase.FINISHED: Duties(Place.NEW, Place.NEW),
    Phase.UNDONE: Duties(Place.OLD, Place.OLD),
}

AWAITED: dict[Phase, Step] = {
    Phase.CONSUMERS_LEAVING: Step.CONSUMERS_GONE,
    Phase.ALL_LEAVING: Step.CONSUMERS_GONE,
    Phase.PRODUCERS_LEAVING: Step.OLD_EMPTY,
    Phase.ALL_DRAINING: Step.OLD_EMPTY,
    Phase.ROLLBACK_DRAINING: Step.OLD_EMPTY,
    Phase.RETURNING: Step.NEW_EMPTY,
    Phase.UNDOING: Step.REMOVED,
}
"""Condition that ends a phase without a command."""

FINAL = (Phase.FINISHED, Phase.UNDONE)

_ADVICE = {
    Phase.PLANNED: "run 'mirrormq migrate run' first",
    Phase.FOLLOWING: "continue with 'mirrormq migrate switch consumers', or with 'switch all' if consumers "
    "and producers share an address",
    Phase.MOVING: "continue with 'mirrormq migrate switch producers'",
    Phase.DRAINED: "continue with 'mirrormq migrate verify' and 'mirrormq migrate finish'",
    Phase.FINISHED: "the migration has ended",
    Phase.UNDONE: "the migration has ended; begin again with 'mirrormq migrate plan'",
}


class Refusal(Exception):
    """Step that the present phase does not allow; the text says what to do instead."""


def next_phase(phase: Phase, step: Step) -> Phase:
    """Return the phase that follows; raise Refusal if the step is not possible now."""
    following = TRANSITIONS.get((phase, step))
    if following is None:
        advice = (
            _ADVICE.get(phase) or f"wait until {AWAITED[phase]}, or undo it with 'mirrormq migrate rollback'"
        )
        if phase in (Phase.ROLLBACK_DRAINING, Phase.RETURNING, Phase.UNDOING):
            advice = f"wait until {AWAITED[phase]}"
        raise Refusal(f"'{step}' is not possible in phase {phase}: {advice}")
    return following


def goal(phase: Phase) -> Phase:
    """Return the phase that is reached without another command."""
    while (awaited := AWAITED.get(phase)) is not None:
        phase = TRANSITIONS[phase, awaited]
    return phase
