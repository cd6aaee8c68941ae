"""Simulated disk in memory: forgets unsynced bytes, tears writes, flips bits, loses files and fills up.

The disk implements the sentences of `disk.py` literally. Unsynced bytes survive a crash in whole, up to
some byte, or in some sectors only. Names created, renamed or removed since the directory's last sync
survive or not, each independently. Every choice comes from the given `choose` function, so that a seed
determines a run.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence

from mirrormq.storage import journal_records
from mirrormq.storage.disk import File
from mirrormq.storage.record_search import valid_body
from mirrormq.storage.segment_header import read_segment_header

SECTOR_BYTES = 64
"""Bytes per sector: smaller than a real sector, so that small test files tear in many places."""

Change = tuple[int, bytes | None]
"""(offset, bytes written), or (new size, None)."""
NameChange = tuple[str | None, str | None, "Content | None"]
"""(removed name, added name, its content)."""


class SimulatedCrash(BaseException):
    """Crash of the simulated machine: the caller must stop, call `SimulatedDisk.crash` and start again."""


class Content:
    """Content of a file: its present bytes, its durable bytes, and the changes between them."""

    def __init__(self) -> None:
        self.current = bytearray()
        self.durable = bytearray()
        self.pending: list[Change] = []
        self.pending_since_ms = 0
        """Time of the first pending change."""


def apply(data: bytearray, change: Change) -> None:
    """Apply one change to `data`."""
    offset, written = change
    end = offset if written is None else offset + len(written)
    if len(data) < end:
        data.extend(bytes(end - len(data)))
    if written is None:
        del data[offset:]
    else:
        data[offset:end] = written


class SimulatedFile:
    """File handle. A crash invalidates it."""

    def __init__(self, disk: SimulatedDisk, content: Content) -> None:
        self._disk = disk
        self._content = content
        self._boot = disk.boot

    def _change(self, change: Change) -> None:
        self._check()
        if not self._content.pending:
            self._content.pending_since_ms = self._disk.now_ms()
        self._content.pending.append(change)
        apply(self._content.current, change)
        self._disk.step()

    def _check(self) -> None:
        if self._boot != self._disk.boot:
            raise RuntimeError("a file handle from before the crash was used")

    def write(self, data: bytes, offset: int) -> None:
        if self._disk.write_error is not None:
            self._change((offset, bytes(data[: len(data) // 2])))
            raise OSError(self._disk.write_error, "simulated")
        self._disk.check_space(offset + len(data) - len(self._content.current))
        self._change((offset, bytes(data)))

    def write_parts(self, parts: Sequence[bytes], offset: int) -> None:
        self.write(b"".join(parts), offset)

    def read(self, size: int, offset: int) -> bytes:
        self._check()
        return bytes(self._content.current[offset : offset + size])

    def sync(self) -> None:
        self._check()
        if self._disk.sync_error is not None:
            raise OSError(self._disk.sync_error, "simulated")
        for change in self._content.pending:
            apply(self._content.durable, change)
        self._content.pending.clear()
        self._disk.step()

    def allocate(self, size: int) -> None:
        if size > len(self._content.current):
            self._disk.check_space(size - len(self._content.current))
            self._change((size, None))

    def truncate(self, size: int) -> None:
        self._change((size, None))

    def size(self) -> int:
        return len(self._content.current)

    def close(self) -> None:
        self._check()


class SimulatedDisk:
    """Disk with faults. Implements `Disk`; faults are attributes that can be set at any time."""

    def __init__(self, choose: Callable[[int], int]) -> None:
        self._choose = choose
        self.now_ms: Callable[[], int] = lambda: 0
        """Clock for the age of unsynced changes."""
        self._names: dict[str, Content] = {}
        self._durable_names: dict[str, Content] = {}
        self._pending_names: list[NameChange] = []
        self.boot = 0
        self.steps = 0
        """Number of changes and syncs so far."""
        self.crash_at_step: int | None = None
        self.write_error: int | None = None
        """errno that every write fails with, half done."""
        self.sync_error: int | None = None
        self.capacity_bytes: int | None = None

    def step(self) -> None:
        """Count a change, and crash if it is the configured one."""
        self.steps += 1
        if self.steps == self.crash_at_step:
            raise SimulatedCrash

    def check_space(self, more_bytes: int) -> None:
        """Raise ENOSPC if `more_bytes` do not fit."""
        used = sum(len(content.current) for content in self._names.values())
        if self.capacity_bytes is not None and more_bytes > 0 and used + more_bytes > self.capacity_bytes:
            raise OSError(errno.ENOSPC, "simulated")

    def make_directory(self, path: str) -> None:
        """Do nothing: directories exist implicitly."""

    def list(self, directory: str) -> list[str]:
        prefix = directory + "/"
        return sorted(name.removeprefix(prefix) for name in self._names if name.startswith(prefix))

    def create(self, path: str) -> File:
        if path in self._names:
            raise FileExistsError(path)
        self._change_name((None, path, Content()))
        return SimulatedFile(self, self._names[path])

    def open(self, path: str) -> File:
        if path not in self._names:
            raise FileNotFoundError(path)
        return SimulatedFile(self, self._names[path])

    def remove(self, path: str) -> None:
        if path not in self._names:
            raise FileNotFoundError(path)
        self._change_name((path, None, None))

    def rename(self, source: str, target: str) -> None:
        self._change_name((source, target, self._names[source]))

    def sync_directory(self, directory: str) -> None:
        if self.sync_error is not None:
            raise OSError(self.sync_error, "simulated")
        for change in self._pending_names:
            rename_in(self._durable_names, change)
        self._pending_names.clear()
        self.step()

    def unsynced_since_ms(self) -> int:
        """Return the time of the oldest change that a crash could undo; the present time if there is none."""
        pending = [content.pending_since_ms for content in self._names.values() if content.pending]
        return min(pending, default=self.now_ms())

    def salt(self) -> int:
        return self._choose(1 << 32)

    def _change_name(self, change: NameChange) -> None:
        rename_in(self._names, change)
        self._pending_names.append(change)
        self.step()

    def crash(self) -> None:
        """Lose unsynced changes, as `choose` decides. Afterwards the disk can be used again."""
        contents = {
            id(content): content for content in (*self._names.values(), *self._durable_names.values())
        }
        for content in contents.values():
            self._settle(content)
        for change in self._pending_names:
            if self._choose(2):
                rename_in(self._durable_names, change)
        self._names = dict(self._durable_names)
        self._pending_names.clear()
        self.boot += 1
        self.crash_at_step = None

    def _settle(self, content: Content) -> None:
        """Decide which of a file's unsynced changes survive."""
        way = self._choose(4) if content.pending else 0
        kept = len(content.pending) if way == 1 else self._choose(len(content.pending)) if way == 2 else 0
        for change in content.pending[:kept]:
            apply(content.durable, change)
        offset, data = content.pending[kept] if way == 2 else (0, None)
        if data is not None:
            apply(content.durable, (offset, data[: self._choose(len(data) + 1)]))
        if way == 3:
            for offset, data in content.pending:
                self._settle_sectors(content, offset, data)
        content.current = bytearray(content.durable)
        content.pending.clear()

    def _settle_sectors(self, content: Content, offset: int, data: bytes | None) -> None:
        if data is None:
            apply(content.durable, (offset, None))
            return
        for start in range(0, len(data), SECTOR_BYTES):
            if self._choose(2):
                apply(content.durable, (offset + start, data[start : start + SECTOR_BYTES]))

    def flip(self, path: str, offset: int, bit: int) -> None:
        """Invert one bit of a file, durably."""
        content = self._names[path]
        for data in (content.current, content.durable):
            if offset < len(data):
                data[offset] ^= 1 << bit

    # -- disk faults while the node is down ------------------------------------------------------

    def lose_directory(self, directory: str) -> None:
        """Lose every file below a directory permanently."""
        prefix = directory + "/"
        for names in (self._names, self._durable_names):
            for name in [name for name in names if name.startswith(prefix)]:
                del names[name]
        self._pending_names = [
            change
            for change in self._pending_names
            if not any(name is not None and name.startswith(prefix) for name in change[:2])
        ]

    def garble(self, path: str, offset: int, length: int) -> None:
        """Overwrite bytes of a file, durably, each with another value."""
        content = self._names[path]
        for data in (content.current, content.durable):
            for index in range(offset, min(offset + length, len(data))):
                data[index] ^= 1 + self._choose(255)

    def garble_record(self, directory: str) -> tuple[str, int] | None:
        """Garble a byte inside a synced message record of any segment below a directory. Return the path
        and the record's offset; None if there is no such record."""
        records = []
        for name in self.list(directory):
            content = self._names[f"{directory}/{name}"]
            durable = bytes(content.durable)
            header = read_segment_header(durable)
            checksum = journal_records.checksum_named(header.checksum_name) if header is not None else None
            if header is None or checksum is None or not name.endswith(".journal"):
                continue
            offset = header.data_at
            while (body := valid_body(checksum, header.salt, durable, offset)) is not None:
                if body[0] in journal_records.MESSAGES:
                    records.append((f"{directory}/{name}", offset, len(body)))
                offset += journal_records.PREFIX_BYTES + len(body)
        if not records:
            return None
        path, offset, size = records[self._choose(len(records))]
        self.garble(path, offset + journal_records.PREFIX_BYTES + self._choose(size), 1)
        return path, offset

    def snapshot(self, directory: str) -> dict[str, bytes]:
        """Copy the durable files below a directory, as an operator's backup does."""
        prefix = directory + "/"
        names = self._durable_names.items()
        return {name: bytes(content.durable) for name, content in names if name.startswith(prefix)}

    def restore(self, directory: str, snapshot: dict[str, bytes]) -> None:
        """Replace everything below a directory by an older copy, durably."""
        self.lose_directory(directory)
        for name, data in snapshot.items():
            content = Content()
            content.current, content.durable = bytearray(data), bytearray(data)
            self._names[name] = self._durable_names[name] = content

    def kill(self) -> None:
        """Simulate the end of the process only: everything written stays, synced or not, and may still be
        lost later."""
        self.boot += 1
        self.crash_at_step = None


def rename_in(names: dict[str, Content], change: NameChange) -> None:
    """Apply one change of names."""
    old, new, content = change
    if old is not None:
        names.pop(old, None)
    if new is not None and content is not None:
        names[new] = content
