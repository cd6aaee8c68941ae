"""Entry log: keeps complete histories only."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from mirrormq.errors import DamageError
from mirrormq.storage.disk import LocalDisk
from mirrormq.storage.entry_log import EntryLog
from mirrormq.storage.journal_errors import JournalFailed
from mirrormq.storage.simulated_disk import SimulatedCrash, SimulatedDisk
from tests.storage.support import disk

DIRECTORY = "data/metadata"


def entry(number: int) -> bytes:
    return f"entry {number} ".encode() * (number % 7 + 1)


def opened(on: SimulatedDisk) -> tuple[EntryLog, list[bytes]]:
    log = EntryLog(on, DIRECTORY)
    return log, log.open()


def test_entries_come_back_in_order_after_those_that_replaced_others(tmp_path: Path) -> None:
    directory = str(tmp_path / "a" / "b")
    log = EntryLog(LocalDisk(), directory)
    assert log.open() == []
    for number in range(10):
        log.append(entry(number), sync=number % 2 == 0)
    log.replace([b"state so far"])
    log.append(b"", sync=True)
    log.append(b"later", sync=True)
    log.close()
    again = EntryLog(LocalDisk(), directory)
    assert again.open() == [b"state so far", b"", b"later"]
    assert again.entries == 3 and not again.dropped


def history(on: SimulatedDisk, synced: dict[str, list[bytes]]) -> None:
    """Append entries and snapshots. `synced` always is a history that must be found, as (base, certain,
    all)."""
    log, _ = opened(on)
    number = 0
    for turn in range(6):
        for _ in range(5):
            number += 1
            synced["possible"] = [*synced["possible"], entry(number)]
            log.append(entry(number), sync=number % 3 == 0)
            if number % 3 == 0:
                synced["certain"] = list(synced["possible"])
        replaced = [f"snapshot {turn}".encode(), b"and more"]
        synced["next"] = replaced
        log.replace(replaced)
        synced["certain"] = synced["possible"] = replaced


def test_a_crash_after_every_step_leaves_a_prefix_that_holds_all_that_was_synced() -> None:
    step, crashed = 0, True
    while crashed:
        step += 1
        on = disk(step)
        on.crash_at_step = step
        synced: dict[str, list[bytes]] = {"certain": [], "possible": [], "next": []}
        try:
            history(on, synced)
            crashed = False
        except SimulatedCrash:
            pass
        on.crash()
        log, found = opened(on)
        certain, possible = synced["certain"], synced["possible"]
        is_prefix = found[: len(certain)] == certain and all(item in possible for item in found)
        assert is_prefix or found == synced["next"], step
        log.append(b"life goes on", sync=True)
        on.crash()
        assert opened(on)[1] == [*found, b"life goes on"]
    assert step > 50


def test_a_flipped_bit_costs_one_entry_and_is_reported() -> None:
    def made() -> tuple[SimulatedDisk, int]:
        on = disk()
        log, _ = opened(on)
        for number in range(8):
            log.append(entry(number), sync=True)
        return on, on.open(f"{DIRECTORY}/metadata.log").size()

    _, size = made()
    everything = [entry(number) for number in range(8)]
    for offset in range(64, size):
        on, _ = made()
        on.flip(f"{DIRECTORY}/metadata.log", offset, offset % 8)
        log, found = opened(on)
        assert len(found) == 7 and all(item in everything for item in found), offset
        assert len(log.dropped) == 1


def test_without_its_header_nothing_is_believed() -> None:
    on = disk()
    log, _ = opened(on)
    log.append(b"something", sync=True)
    for offset in (0, 32):
        on.flip(f"{DIRECTORY}/metadata.log", offset, 0)
    with pytest.raises(DamageError, match="header"):
        opened(on)


@pytest.mark.parametrize("fault", ["write_error", "sync_error"])
def test_after_a_failure_every_call_fails(fault: str) -> None:
    on = disk()
    log, _ = opened(on)
    log.append(b"kept", sync=True)
    setattr(on, fault, errno.EIO)
    with pytest.raises(JournalFailed):
        log.append(b"refused", sync=True)
    setattr(on, fault, None)
    attempts: list[Callable[[], None]] = [
        lambda: log.append(b"x", sync=False),
        lambda: log.replace([]),
        log.close,
    ]
    for attempt in attempts:
        with pytest.raises(JournalFailed):
            attempt()
    on.crash()
    assert opened(on)[1][0] == b"kept"
