"""File of the ledger: an acknowledgement leaves after its entry is on the disk, also when that is full."""

from __future__ import annotations

import asyncio
import os
import resource
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mirrormq.migration.move_ledger import Moved, MoveLedger
from mirrormq.migration_io.broker_api import MigrationError
from mirrormq.migration_io.ledger_file import LedgerFile

QUEUE = ("/", "work")


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let the kernel refuse to write beyond this size, as a full disk does: first a part, then nothing."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def on_disk(path: Path) -> Moved:
    return MoveLedger.read(path.read_bytes()).of("forward", QUEUE)


def test_a_full_disk_holds_the_acknowledgements_until_the_entries_are_written(tmp_path: Path) -> None:
    path = tmp_path / "moved.log"
    left: list[Moved] = []

    async def work() -> None:
        file = LedgerFile(path)
        file.ledger.enter("forward", QUEUE, 1, False)
        file.save()
        size = path.stat().st_size
        file.ledger.enter("forward", QUEUE, 2, False)
        file.hold(1, lambda: left.append(on_disk(path)))
        with files_of_at_most(size + 10):
            with pytest.raises(MigrationError, match=r"cannot be written .* free space on its disk"):
                file.save()
            assert path.stat().st_size == size + 10, "a part of the line is there"
            assert not left
            assert not file.ledger.is_saved
            assert file.problem
        with files_of_at_most(10), pytest.raises(MigrationError):
            file.save()  # Now as a new file.
        assert not left
        file.ledger.enter("forward", QUEUE, 4, False)
        file.save()
        assert (left, file.problem, file.ledger.is_saved) == ([Moved(3, 7, 0)], "", True)
        file.ledger.enter("forward", QUEUE, 8, False)
        file.close()

    asyncio.run(work())
    assert on_disk(path) == Moved(4, 15, 0), "no line is joined to the part of another one"


def test_the_write_is_tried_again_without_another_message(tmp_path: Path) -> None:
    path = tmp_path / "moved.log"

    async def work() -> None:
        file = LedgerFile(path, retry_s=0.01)
        released = asyncio.Event()
        file.ledger.enter("forward", QUEUE, 1, False)
        file.hold(1, released.set)
        with files_of_at_most(0), pytest.raises(MigrationError):
            file.save()
        await asyncio.wait_for(released.wait(), 10)
        assert on_disk(path) == Moved(1, 1, 0)
        file.close()

    asyncio.run(work())


def test_a_ledger_that_ends_with_unwritten_entries_says_so(tmp_path: Path) -> None:
    async def work() -> None:
        file = LedgerFile(tmp_path / "moved.log")
        file.ledger.enter("forward", QUEUE, 1, False)
        with files_of_at_most(0), pytest.raises(MigrationError):
            file.close()

    asyncio.run(work())
    assert on_disk(tmp_path / "moved.log") == Moved(0, 0, 0)


def test_the_directory_is_synced_after_the_file_was_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    sync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        steps.append("directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
        sync(descriptor)

    def replaced(self: Path, target: Path) -> Path:
        steps.append("rename")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)

    async def work() -> None:
        LedgerFile(tmp_path / "moved.log").close()

    asyncio.run(work())
    assert steps == ["file", "rename", "directory"]


def test_a_long_file_is_written_anew_with_a_line_per_queue(tmp_path: Path) -> None:
    path = tmp_path / "moved.log"
    longest = 0

    async def work() -> None:
        nonlocal longest
        file = LedgerFile(path, bytes_max=500)
        for _ in range(100):
            file.ledger.enter("forward", QUEUE, 1, False)
            file.save()
            longest = max(longest, path.stat().st_size)
        file.close()

    asyncio.run(work())
    assert on_disk(path) == Moved(100, 100, 0)
    assert longest < 700


def test_a_damaged_ledger_is_named(tmp_path: Path) -> None:
    path = tmp_path / "moved.log"
    path.write_text("[1, 2]\n")
    with pytest.raises(MigrationError, match=f"the ledger {path} cannot be read"):
        LedgerFile(path)
