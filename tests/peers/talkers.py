"""Talker processes, as a test controls them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Event(NamedTuple):
    time_s: float
    kind: str
    peer: str
    value: Any


class TalkerProcess:
    """One talker process; `prefix` is the command that it runs under, such as `ip netns exec …`."""

    def __init__(self, name: str, addresses: Mapping[str, str], prefix: Sequence[str] = ()) -> None:
        self.name = name
        self._peers = [f"{peer}={where}" for peer, where in addresses.items() if peer != name]
        self._command = [
            *prefix,
            sys.executable,
            "-m",
            "tests.peers.talker",
            name,
            addresses[name],
            *self._peers,
        ]
        self.events: list[Event] = []
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True)
        threading.Thread(target=self._read, args=(self._process,), daemon=True).start()

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self.events.append(Event(*json.loads(line)))

    def signal(self, number: signal.Signals) -> float:
        """Send a signal. Return the time of sending."""
        assert self._process is not None
        self._process.send_signal(number)
        return time.monotonic()

    def block(self, seconds: float) -> None:
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()

    def kill(self) -> float:
        assert self._process is not None
        self._process.kill()
        killed_s = time.monotonic()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
        return killed_s

    def of(self, kind: str, peer: str = "", after_s: float = 0.0) -> list[Event]:
        return [
            event
            for event in self.events
            if (event.kind, event.peer) == (kind, peer) and event.time_s > after_s
        ]


@contextmanager
def talking(*talkers: TalkerProcess) -> Iterator[None]:
    """Run talkers until all pairs have exchanged messages. No talker may report disorder."""
    try:
        for talker in talkers:
            talker.start()
        wait(lambda: all(one.of("hundred", two.name) for one in talkers for two in talkers if one is not two))
        yield
        assert not [event for talker in talkers for event in talker.events if event.kind == "disorder"]
    finally:
        for talker in talkers:
            talker.kill()


def wait(condition: Callable[[], object], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)
