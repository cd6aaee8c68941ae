"""Turn loop: what it does once for all the input of a turn."""

from __future__ import annotations

from collections.abc import Callable

from mirrormq import limits
from mirrormq.broker.broker import Broker
from mirrormq.connections.connection import Connection
from mirrormq.runtime.client_sockets import ClientSockets
from mirrormq.runtime.turn_loop import TurnLoop
from mirrormq.storage.disk_stats import DiskStats
from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.properties import BasicProperties, encode_properties
from tests.hostile.in_process import Wire, make_broker

QUEUE = "q"
PUBLISH = method_frame(1, methods.encode_basic_publish("", QUEUE)) + build_frames(
    1, encode_properties(BasicProperties(delivery_mode=2)), b"body", 0
)


class Loop:
    """Event loop that runs callbacks on demand."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []

    def call_soon(self, callback: Callable[[], None]) -> None:
        self.soon.append(callback)

    def call_later(self, delay: float, callback: Callable[[], None]) -> Loop:
        return self

    def cancel(self) -> None:
        """Timers of this loop never fire."""

    def run(self) -> int:
        """Run what is scheduled, and return its number."""
        soon, self.soon = self.soon, []
        for callback in soon:
            callback()
        return len(soon)


class Host:
    """Application without links and log."""

    def __init__(self) -> None:
        self.faults: list[Exception] = []

    def fault(self, connection: Connection | None, error: Exception) -> bool:
        self.faults.append(error)
        return True

    def flush_links(self) -> None:
        raise AssertionError("there are no links")

    def write_log_entries(self) -> None:
        """Discard the entries."""


class World:
    """Turn loop over a broker in memory, with a clock that the test moves."""

    def __init__(self) -> None:
        self.loop, self.host, self.reads = Loop(), Host(), 0
        self.now_s = 1_700_000_000.0
        self.broker: Broker = make_broker()
        self.client = Wire(self.broker).log_in()
        for payload in (methods.encode_queue_declare(QUEUE, durable=True), methods.encode_confirm_select()):
            self.client.feed(method_frame(1, payload))
            self.client.turn()
        sockets = ClientSockets(10, lambda delay, action: None)
        self.turns = TurnLoop(
            self.loop, self._read, self.broker, self.broker.journal, DiskStats(), sockets, self.host
        )

    def _read(self) -> float:
        self.reads += 1
        return self.now_s

    def input(self, data: bytes) -> None:
        """Pass bytes of the client, as its socket does."""
        self.turns.input_arrived()
        self.client.connection.receive(data)


def test_a_turn_reads_the_clock_once_for_all_its_input() -> None:
    world = World()
    for _ in range(3):
        world.input(PUBLISH)
        world.now_s += 1
    assert world.reads == 1
    assert world.broker.clock.now_ms == 1_700_000_000_000
    assert world.loop.run() == 1, "one end for the whole turn"
    world.input(PUBLISH)
    assert world.broker.clock.now_ms == 1_700_000_003_000, "the next turn sees the time that has passed"


def test_the_clock_goes_on_while_turns_follow_each_other_without_a_pause() -> None:
    world = World()
    seen_ms = []
    for _ in range(limits.COMMIT_POSTPONEMENTS + 2):
        world.input(PUBLISH)
        seen_ms.append(world.broker.clock.now_ms)
        world.now_s += 1
        world.loop.run()
    assert seen_ms == [1_700_000_000_000 + 1000 * number for number in range(len(seen_ms))]


def test_one_sync_serves_the_input_of_several_turns() -> None:
    world = World()
    journal = world.broker.journal
    for _ in range(limits.COMMIT_POSTPONEMENTS):
        world.input(PUBLISH)
        world.loop.run()
        assert journal.needs_sync, "more input may come"
    world.input(PUBLISH)
    world.loop.run()
    assert not journal.needs_sync
    assert not world.host.faults


def test_without_more_input_the_sync_does_not_wait() -> None:
    world = World()
    world.input(PUBLISH)
    turns = 0
    while world.broker.journal.needs_sync:
        assert world.loop.run() == 1
        turns += 1
    assert turns == 2, "one poll of the sockets, then the sync"


def test_an_error_at_the_end_of_a_turn_reaches_the_host_and_ends_no_later_turn() -> None:
    world = World()

    def fail() -> None:
        world.turns.at_end.clear()
        raise ValueError("once")

    world.turns.at_end.append(fail)
    world.input(PUBLISH)
    world.loop.run()
    assert [str(fault) for fault in world.host.faults] == ["once"]
    while world.loop.run():
        pass
    assert not world.broker.journal.needs_sync
