"""Broker CPU per message under a steady load, on one node or on all nodes of a cluster.

The clients run in this process, on links of `benchmarks/raw_links.py`. A measurement samples CPU time and
finished messages twice while the load goes on, so that connecting and declaring are not counted.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import uvloop

from benchmarks.kept_rounds import KeptRounds
from benchmarks.process_stats import cpu_s
from benchmarks.raw_links import ANSWER_TIMEOUT_S, BrokerRefused, PacedPublisher, RawLink
from mirrormq.client_io.blocking_client import connect
from mirrormq.client_io.client_socket import ClientError
from mirrormq.wire import methods
from mirrormq.wire.content import method_frame
from mirrormq.wire.fields import table_of

WARM_UP_S = 0.4
WARM_UP_SHARE = 0.15
"""Part of a limited number of messages that is not measured."""
STALL_S = 60.0
POLL_S = 0.01
RATE_TOLERANCE = 0.97
"""A rate within 3 % counts as equal: a paced load gives both brokers the same rate."""

FAILURES = (RuntimeError, OSError, ClientError, subprocess.SubprocessError)
"""Errors that end the measurement of one line and not that of the others."""

ERROR_CHARACTERS_MAX = 120

RABBITMQ, MIRRORMQ, LAVINMQ, FLOOR = "RabbitMQ", "MirrorMQ", "LavinMQ", "floor"


class Target(Protocol):
    """Broker or cluster whose CPU time is measured."""

    name: str

    @property
    def uris(self) -> list[str]:
        """URIs of its nodes."""

    @property
    def pids(self) -> list[int]:
        """Process ids of its nodes."""

    def longest_turn_ms(self) -> float | None:
        """Return the longest turn of its event loops in the last five seconds; None if it tells none."""


class Cost(NamedTuple):
    """One measurement."""

    messages: int
    cpu_s: float
    wall_s: float
    longest_turn_ms: float | None = None

    @property
    def cpu_us(self) -> float:
        """CPU microseconds per message, user and system, of all nodes."""
        return self.cpu_s / self.messages * 1e6

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.messages / self.wall_s


Measure = Callable[[Target, float], Cost]
"""Function that loads an otherwise idle broker for the given seconds."""


@dataclass(frozen=True, slots=True)
class CostLine:
    """Line of the table of CPU per message."""

    key: str
    work: str
    goal: float | None
    """Least ratio of RabbitMQ's CPU time to MirrorMQ's."""
    measure: Measure
    at_most_us: float | None = None
    """Bound of MirrorMQ's CPU time, whatever RabbitMQ's is."""
    floor: bool = False
    """Whether the server of canned frames can do this work."""
    ours_only: bool = False


@dataclass(slots=True)
class CostResult:
    """Rounds of one line, by broker."""

    line: CostLine
    rounds: dict[str, list[Cost]] = field(default_factory=dict)
    error: str = ""
    """Why the line could not be measured."""

    def median_us(self, name: str) -> float | None:
        found = self.rounds.get(name)
        return statistics.median(cost.cpu_us for cost in found) if found else None

    def median_rate(self, name: str) -> float | None:
        found = self.rounds.get(name)
        return statistics.median(cost.rate for cost in found) if found else None

    def cells(self) -> list[str]:
        """Return one row of the table."""
        theirs, ours, line = self.median_us(RABBITMQ), self.median_us(MIRRORMQ), self.line
        goals = [f"≥ {line.goal:g} ×"] if line.goal is not None else []
        goals += [f"≤ {line.at_most_us:g} µs"] if line.at_most_us is not None else []
        return [
            work_cell(line.work, self.error),
            *(self._microseconds(name) for name in (RABBITMQ, MIRRORMQ, LAVINMQ, FLOOR)),
            f"{theirs / ours:.1f} ×" if theirs and ours else "–",
            ", ".join(goals) or "–",
            *(self._per_second(name) for name in (RABBITMQ, MIRRORMQ)),
            self._longest_turn(),
            self._verdict(theirs, ours),
        ]

    def _microseconds(self, name: str) -> str:
        middle = self.median_us(name)
        if middle is None:
            return "–"
        values = [cost.cpu_us for cost in self.rounds[name]]
        text = _digits(middle)
        return text + (f" ({_digits(min(values))}–{_digits(max(values))})" if len(values) > 1 else "")

    def _per_second(self, name: str) -> str:
        middle = self.median_rate(name)
        return "–" if middle is None else f"{middle:,.0f}"

    def _longest_turn(self) -> str:
        turns_ms = [cost.longest_turn_ms for cost in self.rounds.get(MIRRORMQ, ())]
        told = [turn_ms for turn_ms in turns_ms if turn_ms is not None]
        return _digits(max(told)) if told else "–"

    def _verdict(self, theirs: float | None, ours: float | None) -> str:
        if self.error:
            return "no"
        if ours is None or (theirs is None and self.line.at_most_us is None):
            return "–"
        checks = [self.line.at_most_us is None or ours <= self.line.at_most_us]
        if theirs is not None:
            checks.append(self.line.goal is None or theirs / ours >= self.line.goal)
            slower, faster = self.median_rate(MIRRORMQ) or 0.0, self.median_rate(RABBITMQ) or 0.0
            checks.append(slower >= RATE_TOLERANCE * faster)
        return "yes" if all(checks) else "no"


def work_cell(work: str, error: str) -> str:
    """Return the first cell of a row: the work, and why it could not be measured."""
    reason = " ".join(error.split()).replace("|", "/")
    return f"{work} (failed: {reason[:ERROR_CHARACTERS_MAX]})" if error else work


COST_HEADINGS = ["work", "RabbitMQ µs", "MirrorMQ µs", "LavinMQ µs", "floor µs", "ratio", "goal",
                 "RabbitMQ msg/s", "MirrorMQ msg/s", "longest turn ms", "ok"]  # fmt: skip

COST_TEXT = [
    "## Broker CPU per message",
    "",
    "User and system time of all processes of a broker, divided by the messages of the same seconds. The",
    "clients run on the same two cores. ratio: RabbitMQ's CPU time divided by MirrorMQ's. floor: a server",
    "that answers canned frames and is no broker. longest turn: of MirrorMQ's event loops in the seconds of",
    "the measurement, from the first read to the output, without fsync. ok: goal met, and MirrorMQ's rate at",
    "least RabbitMQ's.",
]


def _digits(value: float) -> str:
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


class Setup:
    """Connection that declares what a load needs, without waiting for each reply, and deletes it again."""

    def __init__(self, uri: str) -> None:
        self._client = connect(uri, ANSWER_TIMEOUT_S)
        self._deletes: list[bytes] = []

    def queue(self, name: str, durable: bool = False, exclusive: bool = False, **arguments: object) -> None:
        """Declare a queue; underscores in argument names stand for hyphens, `x-` goes before them."""
        table = table_of({"x-" + key.replace("_", "-"): value for key, value in arguments.items()})
        self._send(
            methods.encode_queue_declare(name, False, durable, exclusive, nowait=True, arguments=table)
        )
        self._deletes.append(methods.encode_queue_delete(name, nowait=True))

    def exchange(self, name: str, kind: str, durable: bool = False) -> None:
        self._send(methods.encode_exchange_declare(name, kind, False, durable, nowait=True))
        self._deletes.append(methods.encode_exchange_delete(name, nowait=True))

    def bind(self, queue: str, exchange: str, key: str, **arguments: object) -> None:
        """Bind; arguments are taken as they are, except that `x_match` means `x-match`."""
        table = table_of({name.replace("x_", "x-"): value for name, value in arguments.items()})
        self._send(methods.encode_queue_bind(queue, exchange, key, nowait=True, arguments=table))

    def _send(self, payload: bytes) -> None:
        self._client.send(method_frame(1, payload))

    def done(self) -> None:
        """Wait until the broker has handled everything sent before."""
        self._client.call(methods.encode_exchange_declare("amq.direct", "direct", True))

    def undo(self) -> None:
        """Delete what was declared."""
        for payload in reversed(self._deletes):
            self._send(payload)
        self.done()
        self._client.close()


@contextmanager
def declared(target: Target, fill: Callable[[Setup], None], node: int = 0) -> Iterator[None]:
    """Declare for the length of a block."""
    setup = Setup(target.uris[node])
    try:
        fill(setup)
        setup.done()
        yield
    finally:
        setup.undo()


def spend(
    target: Target,
    links: Sequence[RawLink],
    counted: Sequence[RawLink] | Callable[[], int],
    seconds: float,
    limit: int = 0,
    pace: int = 0,
) -> Cost:
    """Load with these links; stop after `seconds`, or when `limit` messages are finished.

    `counted` are the links whose messages count. With `pace`, this number of messages per second is published
    by the paced publishers among the links in turn.
    """
    count = counted if callable(counted) else lambda: sum(link.count for link in counted)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            return runner.run(_spend(target, links, count, seconds, limit, pace))
        finally:
            for link in links:
                link.stop()
            runner.run(asyncio.sleep(0))


async def _spend(
    target: Target, links: Sequence[RawLink], count: Callable[[], int], seconds: float, limit: int, pace: int
) -> Cost:
    for link in links:
        await link.join()
    for link in links:
        link.begin()
    pacing = asyncio.ensure_future(_pace(links, pace)) if pace else None
    try:
        if limit:
            await _until(links, count, lambda done, _: done >= limit * WARM_UP_SHARE)
        else:
            await _until(links, count, lambda done, elapsed_s: done > 0 and elapsed_s >= WARM_UP_S)
        before = count(), cpu_s(target.pids), time.monotonic()
        await _until(
            links, count, lambda done, elapsed_s: elapsed_s >= seconds or 0 < limit <= done, before[0]
        )
        messages = count() - before[0]
        spent_s, wall_s = cpu_s(target.pids) - before[1], time.monotonic() - before[2]
        return Cost(messages, spent_s, wall_s, target.longest_turn_ms())
    finally:
        if pacing is not None:
            pacing.cancel()


async def _until(
    links: Sequence[RawLink],
    count: Callable[[], int],
    condition: Callable[[int, float], bool],
    progressed: int = 0,
) -> None:
    """Wait for a condition of finished messages and seconds; fail if nothing is finished for long."""
    began_s = moved_s = time.monotonic()
    while not condition(done := count(), (now_s := time.monotonic()) - began_s):
        failure = next((link.failure for link in links if link.failure), None)
        if failure:
            raise BrokerRefused(failure)
        if done > progressed:
            progressed, moved_s = done, now_s
        elif now_s - moved_s > STALL_S:
            raise BrokerRefused(f"no message was finished for {STALL_S:g} s")
        await asyncio.sleep(POLL_S)


async def _pace(links: Sequence[RawLink], rate: int) -> None:
    publishers = [link for link in links if isinstance(link, PacedPublisher)]
    began_s, sent = time.monotonic(), 0
    while True:
        while sent < (time.monotonic() - began_s) * rate:
            publishers[sent % len(publishers)].push()
            sent += 1
        await asyncio.sleep(0.001)


def cost_rounds(line: CostLine, targets: Sequence[Target], rounds: int, seconds: float) -> CostResult:
    """Measure one line on all targets that take part, in alternating rounds; a failure ends its rounds."""
    result = CostResult(line)
    try:
        for _ in range(rounds):
            for target in targets:
                if (target.name == FLOOR and not line.floor) or (line.ours_only and target.name != MIRRORMQ):
                    continue
                result.rounds.setdefault(target.name, []).append(line.measure(target, seconds))
    except FAILURES as error:
        result.error = f"{target.name}: {error}"
    return result


def kept_costs(lines: Iterable[CostLine], kept: KeptRounds) -> list[CostResult]:
    """Return measured lines."""
    return [
        CostResult(
            line,
            {name: [Cost(*values) for values in rounds] for name, rounds in kept.rounds(line.key).items()},
            kept.error(line.key),
        )
        for line in lines
    ]
