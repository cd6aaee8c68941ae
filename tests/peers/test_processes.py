"""Nodes that are killed, frozen or busy, as real processes."""

from __future__ import annotations

import signal
import time

import pytest

from tests.brokers.ports import free_port
from tests.peers.talkers import TalkerProcess, talking, wait

DETECTION_S = 5.0
"""Guaranteed detection time; test_detector.py proves it on simulated clocks."""
BUSY_S = 4.0
"""Seconds that a busy machine may add before a process reads its clock."""
FROZEN_S = 1.5
"""Short freeze: half of the time after which other nodes give a node up."""


@pytest.fixture
def trio() -> list[TalkerProcess]:
    addresses = {f"{name}@localhost": f"127.0.0.1:{free_port()}" for name in "abc"}
    return [TalkerProcess(name, addresses) for name in addresses]


def test_a_killed_node_is_down_at_once_and_up_again_when_it_returns(trio: list[TalkerProcess]) -> None:
    a, b, c = trio
    with talking(a, b, c):
        killed_s = b.kill()
        wait(lambda: a.of("down", b.name) and c.of("down", b.name))
        assert max(one.of("down", b.name)[0].time_s for one in (a, c)) - killed_s < DETECTION_S / 2
        b.start()
        wait(
            lambda: all(one.of("hundred", b.name, after_s=one.of("down", b.name)[0].time_s) for one in (a, c))
        )
        first, second = (event.value for event in a.of("up", b.name))
        assert second > first
        assert not a.of("down", c.name) and not c.of("down", a.name)


def test_a_frozen_node_is_down_in_time_and_finds_its_peers_again(trio: list[TalkerProcess]) -> None:
    a, b, c = trio
    with talking(a, b, c):
        frozen_s = a.signal(signal.SIGSTOP)
        wait(lambda: b.of("down", a.name) and c.of("down", a.name))
        downs_s = [one.of("down", a.name)[0].time_s - frozen_s for one in (b, c)]
        assert min(downs_s) > 1.5 and max(downs_s) < DETECTION_S + BUSY_S, downs_s
        assert "nothing heard" in b.of("down", a.name)[0].value
        woke_s = a.signal(signal.SIGCONT)
        wait(lambda: all(one.of("hundred", a.name, after_s=woke_s) for one in (b, c)))
        wait(lambda: a.of("slept"))
        wait(lambda: max(event.value for event in a.of("slept")) >= 2500)
        assert not [
            event for one in (b, c) for event in a.of("down", one.name) if "nothing heard" in event.value
        ]
        assert not b.of("down", c.name)


def test_a_node_that_is_frozen_for_a_moment_or_busy_is_never_down(trio: list[TalkerProcess]) -> None:
    a, b, c = trio
    with talking(a, b, c):
        for _ in range(3):
            stopped_s = a.signal(signal.SIGSTOP)
            b.block(1.5)
            time.sleep(FROZEN_S)
            a.signal(signal.SIGCONT)
            wait(lambda stopped_s=stopped_s: b.of("slept", after_s=stopped_s))  # type: ignore[misc]
        done_s = b.of("slept")[-1].time_s
        wait(lambda: all(one.of("hundred", b.name, after_s=done_s) for one in (a, c)))
        assert not [event for one in trio for event in one.events if event.kind == "down"]
