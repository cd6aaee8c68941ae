"""Longest turns of the event loop: by window, and as a metric of a node."""

from __future__ import annotations

from mirrormq.runtime.turn_loop import SECONDS_KEPT, TurnTimes
from tests.management.conftest import managed
from tests.management.http import Client


def test_the_longest_turn_of_a_window() -> None:
    turns = TurnTimes()
    for ended_s, took_s in [(100.1, 0.2), (100.9, 0.5), (103.0, 0.1), (103.2, 0.3), (110.5, 0.01)]:
        turns.add(ended_s, took_s)
    assert turns.longest_s(110.6, 60) == 0.5
    assert turns.longest_s(110.6, 8) == 0.3
    assert turns.longest_s(110.6, 5) == 0.01
    assert turns.longest_s(120.0, 5) == 0.0


def test_old_seconds_are_forgotten() -> None:
    turns = TurnTimes()
    for second in range(1000, 1000 + 2 * SECONDS_KEPT):
        turns.add(float(second), 1.0 if second == 1000 else 0.1)
    assert turns.longest_s(1000 + 2 * SECONDS_KEPT, 10_000) == 0.1


def test_a_node_tells_its_longest_turns() -> None:
    """Declare many queues: each declaration is a turn."""
    with managed() as node:
        client = Client(node.management_port)
        for number in range(20):
            client.put(f"queues/%2F/q{number}", {})

        def told(window_s: int) -> float:
            text = client.request("GET", "//metrics").body.decode()
            name = f'mirrormq_turn_longest_seconds{{window_seconds="{window_s}"}} '
            (line,) = [line for line in text.splitlines() if line.startswith(name)]
            return float(line.removeprefix(name))

        assert 0 < told(5) <= told(60) < 10
