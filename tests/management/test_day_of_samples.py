"""Samples of queues and exchanges reach back a day, so that the page can draw one."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from mirrormq.management import counter_kinds, statistics, stats_json
from mirrormq.management.sample_history import SampleRange
from mirrormq.management.sample_ranges import SampleRanges
from tests.hostile.in_process import make_broker

MINUTE_S = 60
STEP_S = 1800
DAY_S = 86400
START_S = 1_700_000_000 // STEP_S * STEP_S


def test_an_exchange_remembers_the_traffic_of_a_day(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = make_broker()
    now_s = float(START_S)
    for module in (statistics, stats_json):
        monkeypatch.setattr(module.time, "time", lambda: now_s)
    machine = (0,) * len(counter_kinds.MACHINE)
    kept = statistics.Statistics(broker, 5.0, lambda: machine, "basic")
    exchange = broker.vhosts["/"].router.exchanges["amq.topic"]

    async def busy_day() -> None:
        nonlocal now_s
        for _ in range(DAY_S // MINUTE_S):
            exchange.published_in += 1
            now_s += MINUTE_S
            await kept.sample()

    asyncio.run(busy_day())
    day = SampleRange(DAY_S, STEP_S)
    shown = kept.exchange("/", "amq.topic", SampleRanges(msg_rates=day))
    samples = [sample["sample"] for sample in shown["message_stats"]["publish_in_details"]["samples"]]
    # A level keeps the last number of each step: the newest step has just begun, and the oldest may be gone.
    growth = [newer - older for newer, older in pairwise(samples)][1:-1]
    assert set(growth) == {STEP_S // MINUTE_S}, samples
