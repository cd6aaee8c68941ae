"""File of the ledger: entries are synced before the acknowledgements that rest on them leave."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from mirrormq.migration.move_ledger import MoveLedger
from mirrormq.migration_io.broker_api import MigrationError
from mirrormq.migration_io.migration_directory import sync_directory

SAVE_INTERVAL_S = 0.02
"""Interval of two syncs: one for all queues, so hundreds of links cost no more than one."""

RETRY_S = 1.0
"""Pause after a write that failed."""

FILE_BYTES_MAX = 8 * 1024 * 1024
"""Size above which the file is written anew, with one line per queue."""


class LedgerFile:
    """Ledger with its file. Outputs that must follow a sync are held until then.

    After a write that fails, the end of the file is unknown: part of a line may be there, and the kernel may
    have dropped pages that it could not write. So the next write replaces the file by one with all totals.
    """

    def __init__(self, path: Path, bytes_max: int = FILE_BYTES_MAX, retry_s: float = RETRY_S) -> None:
        self._path, self._bytes_max, self._retry_s = path, bytes_max, retry_s
        try:
            self.ledger = MoveLedger.read(path.read_bytes() if path.exists() else b"")
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            raise MigrationError(f"the ledger {path} cannot be read: {error}") from None
        self._held: dict[int, Callable[[], None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._descriptor = -1
        self._bytes = 0
        """Size of the file."""
        self._end_is_known = False
        self.problem = ""
        """Failure of the last write, as a sentence; empty: none."""
        self._write()

    def hold(self, key: int, flush: Callable[[], None]) -> None:
        """Call `flush` after the next sync; a key is held once."""
        self._held[key] = flush
        if self._timer is None:
            self._save_in(SAVE_INTERVAL_S)

    def save(self) -> None:
        """Write and sync all entries, then release what was held.

        Raise MigrationError if that fails. What is held stays so, and the write is tried again.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.ledger.is_saved:
            try:
                self._write()
            except MigrationError:
                self._save_in(self._retry_s)
                raise
        held, self._held = self._held, {}
        for flush in held.values():
            flush()

    def close(self) -> None:
        """Save, and close the file."""
        try:
            self.save()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            os.close(self._descriptor)

    def _save_in(self, wait_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(wait_s, self._save_again)

    def _save_again(self) -> None:
        with suppress(MigrationError):  # `problem` has the reason, for the status.
            self.save()

    def _write(self) -> None:
        try:
            if self._end_is_known and self._bytes <= self._bytes_max:
                self._append()
            else:
                self._replace()
        except OSError as error:
            self.problem = (
                f"the ledger {self._path} cannot be written ({error.strerror}): no message is acknowledged "
                "until it can; free space on its disk"
            )
            raise MigrationError(self.problem) from None
        self._end_is_known = True
        self.problem = ""
        self.ledger.mark_saved()

    def _append(self) -> None:
        lines = self.ledger.changed_lines()
        self._end_is_known = False
        _write_all(self._descriptor, lines)
        os.fdatasync(self._descriptor)
        self._bytes += len(lines)

    def _replace(self) -> None:
        self._end_is_known = False
        lines = self.ledger.all_lines()
        temporary = self._path.with_suffix(".new")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            _write_all(descriptor, lines)
            os.fsync(descriptor)
            temporary.replace(self._path)
            # Without this sync a power cut may bring the old file back, which no longer grows.
            sync_directory(self._path.parent)
        except OSError:
            os.close(descriptor)
            raise
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._bytes = descriptor, len(lines)


def _write_all(descriptor: int, content: bytes) -> None:
    """Write everything; a nearly full disk takes a part first, and refuses the rest."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
