"""A client that behaves: it publishes, waits for its confirm and its delivery, and times each round."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mirrormq.wire import methods
from tests.brokers.mirrormq import MirrorMQ
from tests.brokers.waiting import Waiting
from tests.hostile.raw import RawClient, publish_bytes

QUEUE = "bystander"
GAP_S_MAX = 2.0
"""The longest the node may be at work while a round of the bystander waits, beside an attack. A round alone
takes under a millisecond; the bound is wide of what it shows: a node that is stuck for as long as the attack
lasts. What the machine gives to other programs meanwhile is not the node's doing and does not count."""


class Bystander:
    """Runs in a thread until told to stop."""

    def __init__(self, node: MirrorMQ) -> None:
        self.rounds = 0
        self.longest_gap_s = 0.0
        self._node_id = node.process_id
        self.failure: BaseException | None = None
        self._stop = threading.Event()
        self._client = RawClient(node.amqp_port).log_in().open_channel().declare(QUEUE, exclusive=True)
        self._client.method(1, methods.encode_confirm_select())
        self._client.expect("ConfirmSelectOk")
        self._client.method(1, methods.encode_basic_consume(QUEUE, "c", no_ack=True))
        self._client.expect("BasicConsumeOk")
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._round()
        except BaseException as error:
            self.failure = error

    def _round(self) -> None:
        waiting = Waiting(self._node_id)
        self._client.send(publish_bytes(QUEUE, b"round %d" % self.rounds))
        seen: set[str] = set()
        while seen != {"BasicAck", "BasicDeliver"}:
            seen.add(type(self._client.answer()).__name__)
        self.longest_gap_s = max(self.longest_gap_s, waiting.caused_s())
        self.rounds += 1
        self._stop.wait(0.002)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(30)
        self._client.close()

    def wait_for_rounds(self, count: int) -> None:
        """Until it has done this many more."""
        goal = self.rounds + count
        deadline = time.monotonic() + 60
        while self.rounds < goal:
            assert self.failure is None, self.failure
            assert time.monotonic() < deadline, "the bystander does not get on"
            time.sleep(0.005)


@contextmanager
def beside(node: MirrorMQ) -> Iterator[Bystander]:
    """A bystander that must come through unharmed."""
    bystander = Bystander(node)
    bystander.start()
    try:
        bystander.wait_for_rounds(5)
        yield bystander
        bystander.wait_for_rounds(5)
    finally:
        bystander.stop()
    assert bystander.failure is None, bystander.failure
    assert bystander.longest_gap_s < GAP_S_MAX, f"a round took {bystander.longest_gap_s:.2f} s"


def resident_bytes(process_id: int) -> int:
    """Return the resident memory of the process."""
    for line in Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")
