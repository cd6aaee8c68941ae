"""Which of a failing run's faults does it need? Leave one out after the other, as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable

from mirrormq.simulator.world import Failed, Options, World


def outcome(options: Options) -> tuple[World, str]:
    """Play a run; what was wrong, if anything."""
    world = World(options)
    try:
        world.run()
    except Failed as failure:
        return world, str(failure)
    return world, ""


def shrink(options: Options, tried: Callable[[int], None] = lambda count: None) -> Options:
    """The same run with as few faults as it needs to fail; `tried` is told how many are left."""
    needed = World(options).schedule
    for fault in list(needed):
        fewer = options._replace(left_out=options.left_out | {fault.number})
        if outcome(fewer)[1]:
            options = fewer
            tried(len(World(options).schedule))
    return options
