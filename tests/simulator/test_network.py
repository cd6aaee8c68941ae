"""Simulated links keep the guarantees of real ones, and inject every fault that real ones may have."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from mirrormq.simulator.network import CHECK_MS, DIAL_MS, SILENCE_MS, Network
from mirrormq.simulator.virtual_time import VirtualTime


class Ear:
    """Node that records what it receives."""

    def __init__(self, timeline: VirtualTime) -> None:
        self._timeline = timeline
        self.heard: list[tuple[int, str, Any]] = []
        self.sessions: dict[str, int] = {}

    def statement(self) -> None:
        return None

    def up(self, peer: str, session: int, stated: Any) -> None:
        assert peer not in self.sessions, "up and down take turns"
        self.sessions[peer] = session
        self.heard.append((self._timeline.now_ms, peer, "up"))

    def down(self, peer: str, *, silent: bool) -> None:
        del self.sessions[peer]
        self.heard.append((self._timeline.now_ms, peer, "silent" if silent else "closed"))

    def receive(self, peer: str, message: Any) -> None:
        assert peer in self.sessions, "nothing comes without a link"
        self.heard.append((self._timeline.now_ms, peer, message))

    def numbers(self) -> list[int]:
        return [message for _, _, message in self.heard if isinstance(message, int)]


class Pair:
    def __init__(self, seed: int = 1) -> None:
        self.timeline = VirtualTime()
        choose = random.Random(seed).randrange
        encode: Callable[[int], bytes] = lambda number: b"%d" % number  # noqa: E731
        self.network = Network(self.timeline, choose, encode, int)
        self.ears = {name: Ear(self.timeline) for name in "ab"}
        for name, ear in self.ears.items():
            self.network.attach(name, ear)
        self.run(DIAL_MS + CHECK_MS)
        assert self.ears["a"].sessions == {"b": 1} and self.ears["b"].sessions == {"a": 1}

    def run(self, milliseconds: int) -> None:
        self.timeline.run_until(self.timeline.now_ms + milliseconds)

    def send(self, *numbers: int) -> None:
        for number in numbers:
            self.network.send("a", "b", number)


@pytest.mark.parametrize("seed", range(20))
def test_messages_come_in_order_and_once(seed: int) -> None:
    pair = Pair(seed)
    for number in range(50):
        pair.send(number)
        pair.run(pair.network._choose(3))
    pair.run(100)
    assert pair.ears["b"].numbers() == list(range(50))


def test_a_cut_delays_messages_and_the_silent_side_is_noticed() -> None:
    pair = Pair()
    pair.network.cut("a", "b")
    pair.send(1)
    pair.run(SILENCE_MS - CHECK_MS - 1)
    assert pair.ears["b"].numbers() == [] and pair.ears["b"].sessions
    pair.run(2 * CHECK_MS + 2)
    assert pair.ears["b"].heard[-1][2] == "silent"
    assert pair.ears["a"].heard[-1][2] == "closed", "its own direction still carries"
    pair.run(5000)
    assert not pair.ears["a"].sessions
    pair.network.mend("a", "b")
    pair.run(DIAL_MS + CHECK_MS)
    assert pair.ears["a"].sessions and pair.ears["a"].sessions == {"b": pair.ears["b"].sessions["a"]}


def test_a_short_cut_only_delays() -> None:
    pair = Pair()
    pair.network.cut("a", "b")
    pair.send(1, 2)
    pair.run(1000)
    pair.network.mend("a", "b")
    pair.run(10)
    assert pair.ears["b"].numbers() == [1, 2] and pair.ears["b"].sessions == {"a": 1}


def test_with_both_ways_cut_each_side_finds_out_by_itself() -> None:
    pair = Pair()
    pair.network.cut("a", "b")
    pair.network.cut("b", "a")
    pair.run(SILENCE_MS + 2 * CHECK_MS)
    assert [ear.heard[-1][2] for ear in pair.ears.values()] == ["silent", "silent"]


def test_a_clog_makes_everything_late_and_keeps_the_order() -> None:
    pair = Pair()
    pair.network.clogs["a", "b"] = 500
    pair.send(1)
    pair.network.clogs.clear()
    pair.send(2)
    pair.run(400)
    assert pair.ears["b"].numbers() == []
    pair.run(200)
    assert pair.ears["b"].numbers() == [1, 2]


@pytest.mark.parametrize("seed", range(20))
def test_a_reset_loses_some_of_what_is_under_way_and_then_there_is_a_new_session(seed: int) -> None:
    pair = Pair(seed)
    pair.send(*range(6))
    pair.network.reset("a", "b")
    pair.send(99)
    pair.run(DIAL_MS + CHECK_MS + 10)
    numbers = pair.ears["b"].numbers()
    assert numbers == list(range(len(numbers))), "a beginning of it, and nothing that was sent without a link"
    assert pair.ears["a"].sessions == {"b": 2} and pair.ears["b"].sessions == {"a": 2}


def test_resets_lose_something_sometimes_and_everything_never_always() -> None:
    counts = set()
    for seed in range(40):
        pair = Pair(seed)
        pair.send(*range(6))
        pair.network.reset("a", "b")
        pair.run(100)
        counts.add(len(pair.ears["b"].numbers()))
    assert min(counts) < 3 and max(counts) == 6


def test_a_process_that_dies_is_missed_at_once_and_a_machine_after_a_while() -> None:
    pair = Pair()
    pair.network.detach("a", silently=False)
    pair.run(10)
    assert pair.ears["b"].heard[-1][2] == "closed"
    pair = Pair()
    for number in range(6):
        pair.network.send("a", "b", number, urgent=bool(number % 2))
    pair.network.detach("a", silently=False)
    pair.run(10)
    assert pair.ears["b"].heard[-1][2] == "closed", "whatever is still on its way"
    pair = Pair()
    pair.network.detach("a", silently=True)
    pair.run(SILENCE_MS - CHECK_MS - 1)
    assert pair.ears["b"].sessions
    pair.run(2 * CHECK_MS + 2)
    assert not pair.ears["b"].sessions


def test_a_node_that_is_back_before_it_was_missed_replaces_its_link() -> None:
    pair = Pair()
    pair.network.detach("a", silently=True)
    pair.ears["a"] = Ear(pair.timeline)
    pair.network.attach("a", pair.ears["a"])
    pair.run(DIAL_MS + 2)
    assert [what for _, _, what in pair.ears["b"].heard] == ["up", "closed", "up"]
    assert pair.ears["a"].sessions == {"b": 2}


def test_a_frozen_node_receives_everything_later_unless_it_was_declared_down() -> None:
    pair = Pair()
    pair.network.freeze("b")
    pair.send(1)
    pair.run(1000)
    assert pair.ears["b"].numbers() == []
    pair.network.thaw("b")
    pair.run(10)
    assert pair.ears["b"].numbers() == [1] and pair.ears["b"].sessions == {"a": 1}
    pair.network.freeze("b")
    pair.run(SILENCE_MS + 2 * CHECK_MS)
    assert not pair.ears["a"].sessions and pair.ears["b"].sessions, "it does not know yet"
    pair.network.thaw("b")
    pair.run(DIAL_MS + CHECK_MS)
    assert pair.ears["a"].sessions == {"b": 2} and pair.ears["b"].sessions == {"a": 2}
