"""Faults of the simulated disk, each with the report of the recovery that meets it."""

from __future__ import annotations

import pytest

from mirrormq.storage.journal import Journal
from mirrormq.storage.journal_errors import DamagedMessages
from mirrormq.storage.recovery_report import RecoveryReport
from mirrormq.storage.simulated_disk import SimulatedDisk
from tests.storage.support import DIRECTORY, disk, journal, messages, opened


def filled(seed: int = 1, count: int = 40) -> tuple[SimulatedDisk, Journal]:
    on = disk(seed)
    made = opened(on, 700)
    made.queue(1).append(messages(1, count), durable=True)
    made.flush(sync=True)
    return on, made


def reopened(on: SimulatedDisk) -> tuple[Journal, RecoveryReport]:
    made = journal(on, 700)
    return made, made.open()


@pytest.mark.parametrize("way", ["kill", "crash"])
def test_a_lost_directory_is_a_new_journal(way: str) -> None:
    on, before = filled()
    on.create("data/metadata").sync()
    getattr(on, way)()
    on.lose_directory(DIRECTORY)
    assert on.list(DIRECTORY) == [] and (way == "crash" or on.list("data") == ["metadata"])
    on.crash()
    made, report = reopened(on)
    assert report.created and not report.damaged and made.identity != before.identity
    assert not made.queues


@pytest.mark.parametrize("seed", range(20))
def test_a_garbled_record_is_damage_and_costs_one_message(seed: int) -> None:
    on, _ = filled(seed)
    on.kill()
    assert on.garble_record(DIRECTORY) is not None
    on.crash()
    made, report = reopened(on)
    assert report.damaged and not report.created
    [dropped] = report.dropped
    assert "damaged" in dropped.reason
    assert len(made.queue(1).recovered()) == 39


def test_a_garbled_record_behind_a_clean_shutdown_is_found_when_it_is_read() -> None:
    on, made = filled()
    made.close()
    assert on.garble_record(DIRECTORY) is not None
    made, report = reopened(on)
    assert report.from_index and not report.damaged
    with pytest.raises(DamagedMessages) as caught:
        made.queue(1).load(made.queue(1).recovered())
    assert len(caught.value.sequences) == 1


def test_there_is_nothing_to_garble_in_an_empty_journal() -> None:
    on = disk()
    opened(on)
    assert on.garble_record(DIRECTORY) is None


def test_an_older_copy_is_consistent_and_has_a_generation_that_was_used_before() -> None:
    on, made = filled()
    copy = on.snapshot(DIRECTORY)
    seen = [(made.identity, made.generation)]
    for first in (41, 81):
        on.crash()
        made, report = reopened(on)
        assert not report.damaged
        seen.append((made.identity, made.generation))
        made.queue(1).append(messages(first, 40), durable=True)
        made.flush(sync=True)
    on.kill()
    on.restore(DIRECTORY, copy)
    on.crash()
    made, report = reopened(on)
    assert not report.damaged and not report.created
    assert list(made.queue(1).recovered()) == list(range(1, 41))
    assert (made.identity, made.generation) in seen, "a peer that remembers the generation can tell"
