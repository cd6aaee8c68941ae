"""Run seeds: `python -m mirrormq.simulator --seeds 100 --first 1`.

Exit code 0 if all went well. The first seed that does not is played again with fewer and fewer faults, and
what is left is printed: what was wrong, the faults it took, and the last things that happened.
"""

from __future__ import annotations

import argparse
import sys
import time

from mirrormq.cluster.partitions import AUTO, AUTOHEAL, IGNORE, PAUSE_MINORITY
from mirrormq.simulator.shrinking import outcome, shrink
from mirrormq.simulator.world import Options, World

CYCLE = [(3, AUTO), (3, AUTO), (2, AUTO), (3, AUTOHEAL), (5, PAUSE_MINORITY), (1, AUTO), (2, IGNORE)]
"""Without --nodes and --mode, seeds take turns with these: mostly what is mostly used."""


def options_of(arguments: argparse.Namespace, seed: int) -> Options:
    """What a seed stands for."""
    nodes, mode = CYCLE[seed % len(CYCLE)]
    return Options(
        seed, arguments.nodes or nodes, arguments.mode or mode, arguments.seconds * 1000, arguments.faults
    )


def report(options: Options, wrong: str) -> None:
    """Everything that helps to understand a failure."""
    print(f"\nseed {options.seed} fails ({options.nodes} nodes, {options.mode}):\n{wrong}")
    least = shrink(options, lambda count: print(f"\rstill fails with {count} faults", end="", flush=True))
    world, wrong = outcome(least)
    print(f"\nwith {len(world.schedule)} of its faults:\n{wrong}\n")
    print("\n".join(world.trace))
    again = f"--first {options.seed} --seeds 1 --nodes {options.nodes} --mode {options.mode}"
    print(f"\nagain: python -m mirrormq.simulator {again}")


def main() -> int:
    """Play seeds until one fails."""
    parser = argparse.ArgumentParser(prog="python -m mirrormq.simulator", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many (20)")
    parser.add_argument("--first", type=int, default=1, help="the first of them (1)")
    parser.add_argument("--nodes", type=int, default=0, help="in the cluster (by turns)")
    parser.add_argument("--mode", default="", help="cluster_partition_handling (by turns)")
    parser.add_argument("--faults", type=int, default=6, help="in each run (6)")
    parser.add_argument("--seconds", type=int, default=30, help="of simulated load (30)")
    arguments = parser.parse_args()
    began, confirmed, failovers = time.monotonic(), 0, 0
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        options = options_of(arguments, seed)
        world, wrong = outcome(options)
        if wrong:
            report(options, wrong)
            return 1
        confirmed += len(world.history.confirmed)
        failovers += _epochs(world)
        done = seed - arguments.first + 1
        rate = done / (time.monotonic() - began)
        print(f"\r{done} of {arguments.seeds} seeds, {rate:.1f}/s, {confirmed} confirmed", end="", flush=True)
    print(f"\nall is well: {arguments.seeds} seeds, {confirmed} confirmed, {failovers} changes of master")
    return 0


def _epochs(world: World) -> int:
    nodes = [node for node in world.nodes.values() if node.running]
    queues = nodes[0].member.metadata.state.queues.values() if nodes else ()
    return sum(queue.ring.epoch - 1 for queue in queues)


if __name__ == "__main__":
    sys.exit(main())
