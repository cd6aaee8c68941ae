"""Failure detector on simulated clocks: a frozen node is detected in time, a busy node stays up."""

from __future__ import annotations

import heapq
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from mirrormq.peers.backoff import Backoff
from mirrormq.peers.failure_detector import DetectorTiming, FailureDetector, Liveness

LATENCY_MS = 5
PROMISE_MS = 5000
BLOCKED_MS = 1500


class World:
    """Two nodes that tick and send heartbeats, pauses of either, and a network that can be cut."""

    def __init__(self, phase_ms: int, timing: DetectorTiming | None = None) -> None:
        self.timing = timing or DetectorTiming()
        self.now_ms = 0
        self.down_ms: dict[str, int] = {}
        self.slept: list[tuple[str, int]] = []
        self.cut_ms: dict[str, int] = {}
        """Time from which on nothing that this node sends arrives."""
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._awake_ms = {"a": 0, "b": 0}
        self._detectors = {name: FailureDetector(self.timing, 0) for name in "ab"}
        for name, start_ms in (("a", 0), ("b", phase_ms)):
            self._detectors[name].watch(_other(name), 0)
            self._at(start_ms, lambda name=name: self._tick(name))  # type: ignore[misc]
            self._at(start_ms + 1, lambda name=name: self._beat(name))  # type: ignore[misc]

    def pause(self, name: str, at_ms: int, for_ms: int) -> None:
        """Stop the node's loop; bytes that arrive meanwhile are read after the node has read its clock."""

        def begin() -> None:
            self._awake_ms[name] = max(self._awake_ms[name], at_ms + for_ms)

        self._at(at_ms, begin)

    def run(self, until_ms: int) -> None:
        while self._events and self._events[0][0] <= until_ms:
            self.now_ms, _, action = heapq.heappop(self._events)
            action()

    def _at(self, when_ms: int, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (when_ms, self._count, action))

    def _asleep(self, name: str, action: Callable[[], None], late_ms: int = 0) -> bool:
        if self.now_ms < self._awake_ms[name] + late_ms:
            self._at(self._awake_ms[name] + late_ms, action)
            return True
        return False

    def _tick(self, name: str) -> None:
        if self._asleep(name, lambda: self._tick(name)):
            return
        verdict = self._detectors[name].tick(self.now_ms)
        if verdict.slept_ms:
            self.slept.append((name, verdict.slept_ms))
        if any(change.liveness is Liveness.DOWN for change in verdict.changes):
            self.down_ms[name] = self.now_ms
        self._at(self.now_ms + self.timing.tick_ms, lambda: self._tick(name))

    def _beat(self, name: str) -> None:
        if self._asleep(name, lambda: self._beat(name)):
            return
        if self.now_ms < self.cut_ms.get(name, 1 << 60):
            self._at(self.now_ms + LATENCY_MS, lambda: self._arrive(_other(name)))
        self._at(self.now_ms + self.timing.heartbeat_ms, lambda: self._beat(name))

    def _arrive(self, name: str) -> None:
        if not self._asleep(name, lambda: self._arrive(name), late_ms=1):
            self._detectors[name].record_arrival(_other(name), self.now_ms)


def _other(name: str) -> str:
    return "b" if name == "a" else "a"


PHASES = st.integers(0, 499)
TIMES = st.integers(3000, 4000)


@given(PHASES, TIMES)
def test_a_frozen_node_is_down_within_the_promise_and_the_watcher_is_right_to_wait(
    phase: int, at_ms: int
) -> None:
    world = World(phase)
    world.pause("b", at_ms, 60_000)
    world.run(at_ms + PROMISE_MS)
    assert (
        at_ms + 2 * BLOCKED_MS
        < world.down_ms["a"]
        <= at_ms + DetectorTiming().down_ms + DetectorTiming().tick_ms + LATENCY_MS
    )


@given(PHASES, st.lists(st.tuples(st.integers(1, 900), st.integers(1, BLOCKED_MS)), max_size=12))
def test_a_node_whose_loop_is_blocked_again_and_again_is_never_down(
    phase: int, blocks: list[tuple[int, int]]
) -> None:
    world, at_ms = World(phase), 1000
    for pause_ms, blocked_ms in blocks:
        at_ms += max(pause_ms, 600)
        world.pause("b", at_ms, blocked_ms)
        at_ms += blocked_ms
    world.run(at_ms + 10_000)
    assert world.down_ms == {}


@given(
    PHASES, st.lists(st.integers(1, BLOCKED_MS), max_size=8), st.lists(st.integers(1, BLOCKED_MS), max_size=8)
)
def test_two_busy_nodes_never_declare_each_other_down(phase: int, ours: list[int], theirs: list[int]) -> None:
    world = World(phase)
    for name, blocks in (("a", ours), ("b", theirs)):
        at_ms = 1000
        for blocked_ms in blocks:
            world.pause(name, at_ms, blocked_ms)
            at_ms += blocked_ms + 600
    world.run(30_000)
    assert world.down_ms == {}


@given(PHASES, TIMES)
def test_both_sides_of_a_cut_agree_within_a_second(phase: int, at_ms: int) -> None:
    world = World(phase)
    world.cut_ms = {"a": at_ms, "b": at_ms}
    world.run(at_ms + PROMISE_MS)
    assert abs(world.down_ms["a"] - world.down_ms["b"]) < 1000


@given(PHASES, TIMES, st.one_of(st.integers(3200, 3499), st.integers(1500, 120_000)))
def test_a_node_that_was_frozen_itself_declares_no_node_down(phase: int, at_ms: int, frozen_ms: int) -> None:
    world = World(phase)
    world.pause("a", at_ms, frozen_ms)
    world.run(at_ms + frozen_ms + 20_000)
    assert "a" not in world.down_ms
    assert [name for name, slept_ms in world.slept if slept_ms >= frozen_ms] == ["a"]


@given(PHASES, TIMES, st.integers(4000, 60_000))
def test_after_its_own_freeze_a_node_still_finds_a_peer_that_is_gone(
    phase: int, at_ms: int, frozen_ms: int
) -> None:
    world = World(phase)
    world.pause("a", at_ms, frozen_ms)
    world.cut_ms = {"b": at_ms}
    woke_ms = at_ms + frozen_ms
    world.run(woke_ms + PROMISE_MS)
    assert woke_ms + 3000 <= world.down_ms["a"] <= woke_ms + 4000


@given(PHASES)
def test_a_node_that_is_blocked_all_the_time_does_not_go_blind(phase: int) -> None:
    world = World(phase)
    for at_ms in range(3000, 60_000, 1600):
        world.pause("a", at_ms, 1300)
    world.cut_ms = {"b": 4000}
    world.run(4000 + 3 * PROMISE_MS)
    assert "a" in world.down_ms


def test_suspicion_comes_first_and_ends_when_the_peer_answers() -> None:
    detector = FailureDetector(DetectorTiming(), 0)
    detector.watch("b", 0)
    seen = [change.liveness for now in range(0, 2500, 250) for change in detector.tick(now).changes]
    assert seen == [Liveness.SUSPECTED] and detector.liveness("b") is Liveness.SUSPECTED
    detector.record_arrival("b", 2500)
    assert [change.liveness for change in detector.tick(2500).changes] == [Liveness.UP]


def test_a_down_peer_is_not_watched_until_a_new_link() -> None:
    detector = FailureDetector(DetectorTiming(), 0)
    detector.watch("b", 0)
    changes = [change for now in range(0, 20_000, 250) for change in detector.tick(now).changes]
    assert [change.liveness for change in changes] == [Liveness.SUSPECTED, Liveness.DOWN]
    detector.record_arrival("b", 20_000)
    assert detector.liveness("b") is Liveness.DOWN
    detector.watch("b", 20_000)
    assert detector.liveness("b") is Liveness.UP


@given(PHASES, st.sampled_from([1, 2, 8, 60]))
def test_net_ticktime_is_honoured_as_rabbitmq_documents_it(phase: int, net_ticktime_s: int) -> None:
    """Check that a node is down after 0.75 to 1.25 times the net_ticktime."""
    world = World(phase, DetectorTiming.of_net_ticktime(net_ticktime_s))
    at_ms = 3 * net_ticktime_s * 1000
    world.pause("b", at_ms, 10 * at_ms)
    world.run(at_ms + 2 * net_ticktime_s * 1000)
    assert 0.75 * net_ticktime_s * 1000 <= world.down_ms["a"] - at_ms <= 1.25 * net_ticktime_s * 1000


@given(st.lists(st.floats(0, 1), min_size=10, max_size=10))
def test_pauses_between_dials_grow_to_a_limit_and_vary(chances: list[float]) -> None:
    backoff = Backoff()
    pauses = [backoff.next_s(chance) for chance in chances]
    assert all(0.05 <= pause <= 2.0 for pause in pauses) and min(pauses[5:]) >= 1.0
    backoff.reset()
    assert backoff.next_s(1.0) == 0.1
