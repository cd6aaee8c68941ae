"""Real process on a real disk, killed with SIGKILL during its work."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mirrormq.storage.disk import LocalDisk
from mirrormq.storage.journal import Journal
from tests.storage.support import make_envelope, message

WRITER = """
import sys
from mirrormq.storage.disk import LocalDisk
from mirrormq.storage.journal import Journal
from tests.storage.support import make_envelope, messages
journal = Journal(LocalDisk(), sys.argv[1], make_envelope, segment_bytes=50_000)
journal.open()
store = journal.queue(1)
first = store.next_sequence
while True:
    store.append(messages(first, 50), durable=True)
    if first > 100:
        store.forget([number for number in range(first - 100, first - 50) if number % 50])
    journal.flush(sync=True)
    print(first + 49, flush=True)
    first += 50
    journal.housekeeping(20_000)
"""


@pytest.mark.parametrize("lines", [1, 7, 60])
def test_synced_messages_are_found_after_a_kill(tmp_path: Path, lines: int) -> None:
    directory = str(tmp_path / "journal")
    for _ in range(2):
        command = [sys.executable, "-c", WRITER, directory]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(lines):
                synced = int(process.stdout.readline())
            process.kill()
            rest = process.stdout.read().split()
        synced = int(rest[-1]) if rest else synced
    journal = Journal(LocalDisk(), directory, make_envelope)
    report = journal.open()
    store = journal.queue(1)
    found = set(store.recovered())
    assert store.next_sequence > synced
    assert set(range(max(1, synced - 49), synced + 1)) <= found
    assert not [number for number in found if number <= synced - 150 and number % 50]
    assert [loaded.frames for loaded in store.load(sorted(found))] == [
        message(n).frames for n in sorted(found)
    ]
    assert all(dropped.reason == "torn by a crash" for dropped in report.dropped)
