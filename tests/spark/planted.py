"""A sound history, and ways to spoil it: one for each thing the audit must find."""

from __future__ import annotations

from pathlib import Path

from mirrormq.history import HistoryWriter

START_NS = 1_760_000_000_000_000_000
MILLISECOND = 1_000_000
SECOND = 1_000_000_000
NODES = ("mirror1@localhost", "mirror2@localhost", "mirror3@localhost")
QUEUE = "orders"
MESSAGES = 200
KILL_FROM_NS, KILL_TO_NS = START_NS + SECOND, START_NS + 2 * SECOND


def at(milliseconds: float) -> int:
    """A time of the history."""
    return START_NS + round(milliseconds * MILLISECOND)


class Planted:
    """Writes a history in which nothing is wrong; the methods after `sound` add what is."""

    def __init__(self, directory: Path) -> None:
        self.writer = HistoryWriter(directory)

    def __enter__(self) -> Planted:
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.close()

    def sound(self) -> Planted:
        """One publisher, one consumer, a kill, a failover; some messages come twice, flagged."""
        to = self.writer
        to.master(QUEUE, NODES[0], 1, time_ns=START_NS)
        to.master_confirmed(QUEUE, NODES[0], 1, count=100, time_ns=at(900))
        for number in range(MESSAGES):
            self.message(number, number * 10)
            if number % 50 == 7:
                self.deliver(number, number * 10 + 4, redelivered=True)
        fault = to.fault_began("kill", NODES[0], time_ns=KILL_FROM_NS)
        to.master(QUEUE, NODES[1], 2, time_ns=at(1200))
        to.master_confirmed(QUEUE, NODES[1], 2, count=100, time_ns=at(1300))
        to.fault_ended(fault, time_ns=KILL_TO_NS)
        for node in NODES:
            to.replica(QUEUE, node, 2, 400, 0xFEED_BEEF_FEED_BEEF, 0, time_ns=at(2100))
        to.drained(QUEUE, time_ns=at(2100))
        return self

    def message(self, number: int, milliseconds: float, publisher: int = 1) -> None:
        """Attempted, confirmed, delivered, acknowledged."""
        self.publish(number, milliseconds, publisher)
        self.deliver(number, milliseconds + 2, publisher)
        self.writer.acknowledged(QUEUE, publisher, number, NODES[1], 5, time_ns=at(milliseconds + 5))

    def publish(self, number: int, milliseconds: float, publisher: int = 1) -> None:
        """Attempted and confirmed."""
        self.writer.attempted(QUEUE, publisher, number, NODES[1], time_ns=at(milliseconds))
        self.writer.confirmed(QUEUE, publisher, [number], NODES[1], time_ns=at(milliseconds + 1))

    def deliver(
        self, number: int, milliseconds: float, publisher: int = 1, *, redelivered: bool = False
    ) -> None:
        """Delivered. The writer keeps deliveries in the order of time, so each test adds them in order."""
        self.writer.delivered(
            QUEUE, publisher, number, NODES[1], 5, redelivered=redelivered, time_ns=at(milliseconds)
        )

    def lost(self) -> None:
        self.publish(1, 1500, publisher=2)

    def unexpected(self) -> None:
        self.deliver(1, 2050, publisher=3)

    def unflagged(self) -> None:
        self.deliver(MESSAGES - 1, 2050)

    def split(self) -> None:
        self.writer.master_confirmed(QUEUE, NODES[2], 2, time_ns=at(1400))

    def claimed(self) -> None:
        self.writer.master(QUEUE, NODES[2], 2, time_ns=at(1400))

    def inversions(self) -> None:
        for number in (1, 2):
            self.publish(number, 2000, publisher=4)
        self.deliver(2, 2050, publisher=4)
        self.deliver(1, 2051, publisher=4)

    def divergences(self) -> None:
        self.writer.replica(QUEUE, NODES[2], 2, 400, 0xFEED_BEEF_FEED_BEEE, 1, time_ns=at(2100))


FAULTS = ("lost", "unexpected", "unflagged", "split", "claimed", "inversions", "divergences")
