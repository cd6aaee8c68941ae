"""Shrinking of a failing run: leave out one fault after another, as long as the run still fails."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import NamedTuple

from mirrormq.simulator.world import SimulationFailed, SimulationOptions, World


class ShrinkOutcome(NamedTuple):
    """Result of a run."""

    world: World
    wrong: str
    """Description of the failure; empty if the run passed."""
    kinds: frozenset[str] = frozenset()
    """Checkers that failed."""


def outcome(options: SimulationOptions) -> ShrinkOutcome:
    """Execute a run and return its result."""
    world = World(options)
    try:
        world.run()
    except SimulationFailed as failure:
        return ShrinkOutcome(world, str(failure), failure.kinds)
    except Exception as error:  # an exception in a node is a failure of the run, too
        text = "".join(traceback.format_exception(error, limit=-6))
        return ShrinkOutcome(world, f"a node failed: {text}", frozenset({type(error).__name__}))
    return ShrinkOutcome(world, "")


def shrink(
    options: SimulationOptions, tried: Callable[[int], None] = lambda count: None
) -> SimulationOptions:
    """Return the run with as few faults as it needs to fail for the same reason.

    The function calls `tried` with the number of faults that are left.
    """
    kinds = outcome(options).kinds
    for fault in World(options).schedule:
        fewer = options._replace(left_out=options.left_out | {fault.number})
        if outcome(fewer).kinds & kinds:
            options = fewer
            tried(len(World(options).schedule))
    return options
