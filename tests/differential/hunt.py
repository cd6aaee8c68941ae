"""Looks for conversations in which MirrorMQ and a real RabbitMQ differ, and makes them short.

    python -m tests.differential.hunt FIRST COUNT

A conversation counts if RabbitMQ says the same each time and MirrorMQ never does. Then steps are left out
as long as the two still differ; what remains is printed with the difference, ready to become a script.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor

from tests.brokers.admin import RabbitAdmin
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.rabbitmq import RabbitMQ
from tests.differential.context import Context
from tests.differential.conversations.making import Step, pending_reply
from tests.differential.conversations.playing import Player
from tests.differential.runner import Script, run_one
from tests.differential.test_differential import difference

PAUSE_S = 0.005
TRIES = 3
WORKERS = 4

Found = tuple[str, str]


class Hunt:
    """Two brokers that are told the same; both have the management API, so one administrator serves both."""

    def __init__(self, rabbitmq: RabbitMQ, mirrormq: MirrorMQ) -> None:
        self._sides = [(broker, RabbitAdmin(broker)) for broker in (rabbitmq, mirrormq)]

    def both(self, name: str, steps: list[Step]) -> Found:
        """Return the transcripts of RabbitMQ and MirrorMQ."""

        def flush_operations(context: Context) -> None:
            Player(context, steps, PAUSE_S).play()

        one = Script(name, "hunt", flush_operations, alone=False)
        first, second = (run_one(one, broker, admin) for broker, admin in self._sides)
        return first, second

    def differ(self, name: str, steps: list[Step]) -> Found | None:
        """Return both transcripts if they differ each time and RabbitMQ's own runs agree."""
        reported = [self.both(name, steps)]
        while len(reported) < TRIES and reported[-1][0] == reported[0][0] != reported[-1][1]:
            reported.append(self.both(name, steps))
        certain = len({rabbitmq for rabbitmq, _ in reported}) == 1
        return reported[0] if certain and all(one != other for one, other in reported) else None

    def shorten(self, name: str, steps: list[Step], found: Found) -> tuple[list[Step], Found]:
        """Leave out what is not needed: halves first, single steps last."""
        size = len(steps) // 2
        while size:
            end = len(steps)
            while end > 0:
                fewer = steps[: max(0, end - size)] + steps[end:]
                still = self.differ(name, fewer) if fewer else None
                if still is not None:
                    steps, found = fewer, still
                end -= size
            size //= 2
        return steps, found

    def seed(self, seed: int) -> str:
        """Return the report about a seed, empty if both brokers agree."""
        name, steps = f"conversation {seed}", pending_reply(seed)
        found = self.differ(name, steps)
        if found is None:
            return ""
        steps, (expected, heard) = self.shorten(name, steps, found)
        lines = [f"--- seed {seed}", *map(str, steps), difference(expected, heard, "RabbitMQ", "MirrorMQ")]
        return "\n".join(lines)


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m tests.differential.hunt")
    options.add_argument("first", type=int)
    options.add_argument("count", type=int)
    chosen = options.parse_args()
    seeds = range(chosen.first, chosen.first + chosen.count)
    differing = 0
    with RabbitMQ() as rabbitmq, MirrorMQ() as mirrormq, ThreadPoolExecutor(WORKERS) as pool:
        for report in pool.map(Hunt(rabbitmq, mirrormq).seed, seeds):
            if report:
                differing += 1
                print(report, flush=True)
    print(f"{len(seeds)} conversations, {differing} differ")
    return int(differing > 0)


if __name__ == "__main__":
    raise SystemExit(main())
