"""File of the ledger: entries are synced before the acknowledgements that rest on them leave."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from mirrormq.migration.move_ledger import MoveLedger

SAVE_INTERVAL_S = 0.02
"""Interval of two syncs: one for all queues, so hundreds of links cost no more than one."""

FILE_BYTES_MAX = 8 * 1024 * 1024
"""Size above which the file is written anew, with one line per queue."""


class LedgerFile:
    """Ledger with its file. Outputs that must follow a sync are held until then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.ledger = MoveLedger.read(path.read_bytes() if path.exists() else b"")
        self._held: dict[int, Callable[[], None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._descriptor = -1
        self._rewrite()

    def hold(self, key: int, flush: Callable[[], None]) -> None:
        """Call `flush` after the next sync; a key is held once."""
        self._held[key] = flush
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SAVE_INTERVAL_S, self.save)

    def save(self) -> None:
        """Write and sync all entries, then release what was held."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if lines := self.ledger.take_lines():
            os.write(self._descriptor, lines)
            os.fdatasync(self._descriptor)
            if os.fstat(self._descriptor).st_size > FILE_BYTES_MAX:
                self._rewrite()
        held, self._held = self._held, {}
        for flush in held.values():
            flush()

    def close(self) -> None:
        """Save, and close the file."""
        self.save()
        os.close(self._descriptor)

    def _rewrite(self) -> None:
        temporary = self._path.with_suffix(".new")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        os.write(descriptor, self.ledger.all_lines())
        os.fdatasync(descriptor)
        temporary.replace(self._path)
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = descriptor
