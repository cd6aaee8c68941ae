"""Small random histories: plausible ones, disordered ones and noise, all of them full of trouble.

Few names and short times, so that messages meet in every combination of events, and times fall on the
same millisecond and on the edges of ticks.
"""

from __future__ import annotations

import random

from tests.spark.events import Event

START_NS = 1_700_000_000_000_000_000
QUEUES = ("orders", "parcels")
NODES = ("mirror1@localhost", "mirror2@localhost", "mirror3@localhost")
MESSAGE_KINDS = ("attempted", "confirmed", "nacked", "returned", "delivered", "acknowledged")


def random_history(run: int, seed: int) -> list[Event]:
    """The history number `run` of a series."""
    rng = random.Random(f"{seed}/{run}")
    style = rng.choice((_plausible, _disordered, _noise))
    return style(rng, run) + _cluster_rows(rng, run)


def _time(rng: random.Random) -> int:
    """A time in the first 64 ms, often on a whole millisecond or tick."""
    at = START_NS + rng.randrange(64) * 1_000_000
    return at if rng.random() < 0.5 else at + rng.randrange(1_000_000)


def _noise(rng: random.Random, run: int) -> list[Event]:
    rows = []
    for _ in range(rng.randrange(1, 16)):
        kind = rng.choice(MESSAGE_KINDS)
        unreadable = kind == "delivered" and rng.random() < 0.05
        rows.append(
            Event(
                run,
                _time(rng),
                kind,
                rng.choice(QUEUES),
                rng.choice((*NODES, None)) if rng.random() < 0.2 else rng.choice(NODES[:2]),
                None if unreadable else rng.randrange(2),
                None if unreadable else rng.randrange(3),
                rng.choice((1, 1, 1, 2, None)) if kind in ("attempted", "delivered") else None,
                rng.randrange(2) if kind in ("delivered", "acknowledged") else None,
                rng.choice((True, False, False, None)) if kind == "delivered" else None,
            )
        )
    return rows


def _disordered(rng: random.Random, run: int) -> list[Event]:
    """One publisher's messages, sent in order and delivered almost so, to one consumer or two."""
    rows, queue = [], rng.choice(QUEUES)
    count = rng.randrange(2, 7)
    if rng.random() < 0.3:
        kind = rng.choice(("disconnected", "cancelled"))
        rows.append(Event(run, START_NS + rng.randrange(count * 9_000_000), kind, consumer=0))
    for number in range(count):
        sent = START_NS + number * 9_000_000 + rng.randrange(1_000_000)
        rows.append(Event(run, sent, "attempted", queue, NODES[0], 0, number, 1))
    numbers = sorted(range(count), key=lambda number: number + rng.random() * 2.5)
    for place, number in enumerate(numbers):
        time = START_NS + place * 9_000_000 + rng.randrange(3_000_000)
        attempt, consumer = rng.choice((1, 1, 1, 2, None)), rng.choice((0, 0, 0, 1))
        redelivered = rng.random() < 0.2
        rows.append(Event(run, time, "delivered", queue, NODES[1], 0, number, attempt, consumer, redelivered))
    return rows


def _plausible(rng: random.Random, run: int) -> list[Event]:
    """Messages that are attempted, mostly confirmed, mostly delivered in order, sometimes again."""
    rows = []
    for publisher in range(rng.randrange(1, 3)):
        queue, node, consumer = rng.choice(QUEUES), rng.choice(NODES), rng.randrange(2)
        now = START_NS + rng.randrange(5_000_000)
        for number in range(rng.randrange(1, 5)):
            now += rng.randrange(1, 12_000_000)
            name = (queue, node, publisher, number)
            rows.append(Event(run, now, "attempted", *name, 1))
            if rng.random() < 0.9:
                rows.append(Event(run, now + rng.randrange(3_000_000), "confirmed", *name))
            if rng.random() < 0.9:
                late = rng.randrange(4_000_000) if rng.random() < 0.8 else rng.randrange(40_000_000)
                rows.append(Event(run, now + late, "delivered", *name, 1, consumer, rng.random() < 0.1))
                if rng.random() < 0.8:
                    rows.append(Event(run, now + late + 1000, "acknowledged", *name, None, consumer))
                if rng.random() < 0.15:
                    again = now + late + rng.randrange(9_000_000)
                    rows.append(Event(run, again, "delivered", *name, 1, consumer, rng.random() < 0.7))
    return rows


def _cluster_rows(rng: random.Random, run: int) -> list[Event]:
    rows = []
    for _ in range(rng.choice((0, 0, 1, 2))):
        if rng.random() < 0.5:
            rows.append(Event(run, _time(rng), "disconnected", publisher=rng.randrange(2)))
        else:
            kind = rng.choice(("disconnected", "cancelled"))
            rows.append(Event(run, _time(rng), kind, consumer=rng.randrange(2)))
    for fault in range(rng.choice((0, 0, 1, 2))):
        if rng.random() < 0.95:
            node = rng.choice(NODES)
            rows.append(Event(run, _time(rng), "fault_began", node=node, fault=fault, what="kill"))
        if rng.random() < 0.8:
            rows.append(Event(run, _time(rng), "fault_ended", fault=fault))
    for _ in range(rng.choice((0, 0, 1, 3))):
        kind = rng.choice(("master", "master_confirmed"))
        epoch = rng.randrange(1, 4) if rng.random() < 0.95 else None
        where = {"queue": rng.choice(QUEUES), "node": rng.choice(NODES), "epoch": epoch}
        rows.append(Event(run, _time(rng), kind, **where, count=1))  # type: ignore[arg-type]
    for _ in range(rng.choice((0, 0, 0, 2, 3))):
        place = {"queue": rng.choice(QUEUES), "epoch": 1, "sequence": rng.randrange(2)}
        checksum = rng.randrange(2) if rng.random() < 0.95 else None
        rows.append(
            Event(run, _time(rng), "replica", node=rng.choice(NODES), **place, checksum=checksum, count=1)  # type: ignore[arg-type]
        )
    return rows
