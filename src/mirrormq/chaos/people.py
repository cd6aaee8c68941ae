"""Publishers and consumers, each in a thread, each with a history of its own.

They never give up: when their node dies they go to the next one, and come home when it is back. A message
whose confirm did not come is not sent again; whether it arrives is open, and either is right.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

from mirrormq.chaos.session import Cancelled, Confirm, Delivery, Lost, Session
from mirrormq.history import HistoryWriter, SteadyClock
from mirrormq.wire import methods

BODY_BYTES = 100
BATCH = 20
"""Messages per send: enough to fill laps with more than one, few enough to spread faults between them."""
PAUSE_S = 0.2
"""Before a client tries the next node."""
WAIT_S = 0.05
PREFETCH = 100


class Node:
    """Where a client may connect."""

    def __init__(self, name: str, uri: str) -> None:
        self.name = name
        self.uri = uri


class Person:
    """A thread that does its work on one node or, while that is gone, on another."""

    role = ""

    def __init__(
        self, number: int, queue: str, nodes: Sequence[Node], history: Path, clock: SteadyClock
    ) -> None:
        self.number = number
        self.queue = queue
        self._nodes = [*nodes[number % len(nodes) :], *nodes[: number % len(nodes)]]
        self.history = HistoryWriter(history, f"{self.role}-{number}", clock=clock)
        self.node = self._nodes[0]
        self.stopping = threading.Event()
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=f"{self.role} {number}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Finish what is open and close the history."""
        self.stopping.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            turn = 0
            while not self.stopping.is_set():
                self.node = self._nodes[turn % len(self._nodes)]
                turn = 0 if self._visit() else turn + 1
                self.stopping.wait(PAUSE_S)
        except BaseException as error:
            self.failure = error
        finally:
            self.history.close()

    def _visit(self) -> bool:
        """One connection's life; False if there was none."""
        try:
            session = Session(self.node.uri)
        except Lost:
            return False
        try:
            self._work(session)
        except Lost as lost:
            self._left(str(lost))
        finally:
            session.close()
        return True

    def _work(self, session: Session) -> None:
        raise NotImplementedError

    def _left(self, why: str) -> None:
        raise NotImplementedError


class Publisher(Person):
    """Publishes at a steady rate with a window of unconfirmed messages."""

    role = "publisher"

    def __init__(
        self, number: int, queue: str, nodes: Sequence[Node], history: Path, clock: SteadyClock, *,
        rate: float, window: int,
    ) -> None:  # fmt: skip
        super().__init__(number, queue, nodes, history, clock)
        self._rate, self._window = rate, window
        self._next = 0
        self._open: dict[int, int] = {}
        """Delivery tag → number, for messages that wait for their confirm."""
        self.confirmed = 0

    def _work(self, session: Session) -> None:
        session.call(methods.encode_confirm_select(), methods.CONFIRM_SELECT_OK)
        self._open.clear()
        tag, due_s = 0, time.monotonic()
        while not self.stopping.is_set() or (self._open and time.monotonic() < due_s + 10):
            now = time.monotonic()
            if not self.stopping.is_set() and now >= due_s and len(self._open) + BATCH <= self._window:
                tag = self._send(session, tag)
                due_s = max(due_s + BATCH / self._rate, now - 1)
            for event in session.events(max(0.001, min(WAIT_S, due_s - time.monotonic()))):
                if isinstance(event, Confirm):
                    self._settle(event)

    def _send(self, session: Session, tag: int) -> int:
        bodies = []
        for _ in range(BATCH):
            tag += 1
            self._open[tag] = self._next
            self.history.attempted(self.queue, self.number, self._next, self.node.name)
            bodies.append(f"{self.number} {self._next} ".encode().ljust(BODY_BYTES, b"."))
            self._next += 1
        session.publish(self.queue, bodies)
        return tag

    def _settle(self, event: Confirm) -> None:
        tags = [t for t in self._open if t <= event.tag] if event.multiple else [event.tag]
        numbers = [self._open.pop(tag) for tag in tags if tag in self._open]
        if event.accepted:
            self.confirmed += len(numbers)
            self.history.confirmed(self.queue, self.number, numbers, self.node.name)
        else:
            self.history.nacked(self.queue, self.number, numbers, self.node.name)

    def _left(self, why: str) -> None:
        self._open.clear()
        self.history.disconnected(self.node.name, publisher=self.number, detail=why)


class Consumer(Person):
    """Consumes one queue and acknowledges what it gets, a little later and several at a time."""

    role = "consumer"
    delivered = 0

    def _work(self, session: Session) -> None:
        session.call(methods.encode_basic_qos(prefetch_count=PREFETCH), methods.BASIC_QOS_OK)
        session.send(methods.encode_basic_consume(self.queue, "chaos"))
        unacknowledged: list[tuple[int, int]] = []
        while not self.stopping.is_set():
            last_tag = 0
            for event in session.events(WAIT_S):
                if isinstance(event, Delivery):
                    last_tag = event.tag
                    unacknowledged.append(self._take(event))
                elif isinstance(event, Cancelled):
                    self.history.cancelled(self.queue, self.node.name, self.number)
                    session.send(methods.encode_basic_consume(self.queue, "chaos"))
            if last_tag:
                session.send(methods.encode_basic_ack(last_tag, True))
                for publisher, number in unacknowledged:
                    self.history.acknowledged(self.queue, publisher, number, self.node.name, self.number)
                unacknowledged.clear()

    def _take(self, event: Delivery) -> tuple[int, int]:
        self.delivered += 1
        publisher, number = (int(word) for word in event.body.split(b" ", 2)[:2])
        self.history.delivered(
            self.queue, publisher, number, self.node.name, self.number, redelivered=event.redelivered
        )
        return publisher, number

    def _left(self, why: str) -> None:
        self.history.disconnected(self.node.name, consumer=self.number, detail=why)
