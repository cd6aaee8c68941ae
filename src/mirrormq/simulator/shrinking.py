"""Which of a failing run's faults does it need? Leave one out after the other, as long as it still fails."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import NamedTuple

from mirrormq.simulator.world import SimulationFailed, SimulationOptions, World


class ShrinkOutcome(NamedTuple):
    """A run that is over."""

    world: World
    wrong: str
    """What was wrong, if anything."""
    kinds: frozenset[str] = frozenset()
    """Which checkers say so."""


def outcome(options: SimulationOptions) -> ShrinkOutcome:
    """Play a run."""
    world = World(options)
    try:
        world.run()
    except SimulationFailed as failure:
        return ShrinkOutcome(world, str(failure), failure.kinds)
    except Exception as error:  # a node that fails is a finding like any other
        text = "".join(traceback.format_exception(error, limit=-6))
        return ShrinkOutcome(world, f"a node failed: {text}", frozenset({type(error).__name__}))
    return ShrinkOutcome(world, "")


def shrink(
    options: SimulationOptions, tried: Callable[[int], None] = lambda count: None
) -> SimulationOptions:
    """The same run with as few faults as it needs to fail for the same reason; `tried` is told how many are
    left."""
    kinds = outcome(options).kinds
    for fault in World(options).schedule:
        fewer = options._replace(left_out=options.left_out | {fault.number})
        if outcome(fewer).kinds & kinds:
            options = fewer
            tried(len(World(options).schedule))
    return options
