"""Disk that keeps synced writes and, in a crash, a random prefix of the others."""

from __future__ import annotations

from collections.abc import Callable

from mirrormq.consensus import MemoryLog, Ready, Snapshot, StoredLog


class ForgetfulDisk:
    """Storage whose writes wait in order. A sync makes all of them durable, a crash only the first few."""

    def __init__(self, snapshot: Snapshot | None) -> None:
        self._lasting = MemoryLog(snapshot)
        self._snapshot = self._lasting.snapshot()
        self._waiting: list[Ready] = []

    def load(self) -> StoredLog:
        return self._lasting.load()

    def snapshot(self) -> Snapshot:
        return self._snapshot

    def save(self, ready: Ready) -> None:
        self.write(ready)
        if ready.must_sync:
            self._make_last(len(self._waiting))

    def write(self, ready: Ready) -> None:
        """Write as `save` does, without the sync: the state in which a crash interrupts it."""
        if ready.snapshot is not None:
            self._snapshot = ready.snapshot
            self._waiting.append(Ready(snapshot=ready.snapshot, restore=ready.restore))
        if ready.hard_state is not None:
            self._waiting.append(Ready(hard_state=ready.hard_state))
        self._waiting += [Ready(entries=[entry]) for entry in ready.entries]

    def crash(self, choose: Callable[[int], int]) -> None:
        self._make_last(choose(len(self._waiting) + 1))
        self._waiting.clear()
        self._snapshot = self._lasting.snapshot()

    def _make_last(self, count: int) -> None:
        for write in self._waiting[:count]:
            self._lasting.save(write)
        del self._waiting[:count]
