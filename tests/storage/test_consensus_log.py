"""Consensus log on a disk that forgets, tears and flips: fulfils the duties of a Raft storage."""

from __future__ import annotations

import errno
import random

import pytest

from mirrormq.consensus import Entry, HardState, Members, MemoryLog, Ready, Snapshot, StoredLog, founded
from mirrormq.consensus.raft_messages import ChangeMembers, Command, Nothing
from mirrormq.errors import DamageError
from mirrormq.storage.consensus_log import ConsensusLog
from mirrormq.storage.journal_errors import JournalFailed
from mirrormq.storage.simulated_disk import SimulatedCrash, SimulatedDisk
from tests.storage.support import disk

DIRECTORY = "data/metadata"
PATH = f"{DIRECTORY}/metadata.log"
THREE = founded("ABC", cluster=7)
ALONE = founded("A", cluster=7)


def command(index: int, term: int = 1) -> Entry:
    data = f"command {index} of {term} ".encode() * (index % 5 + 1)
    return Entry(index, term, 7, Command("A", (3 << 32) + index, 3 << 32, data))


def opened(on: SimulatedDisk, snapshot: Snapshot = THREE) -> ConsensusLog:
    log = ConsensusLog(on, DIRECTORY)
    log.open(lambda: snapshot)
    return log


def entries(*indexes: int, term: int = 1) -> Ready:
    return Ready(entries=[command(index, term) for index in indexes], must_sync=True)


def history(seed: int) -> list[Ready]:
    """Return batches of entries, votes, replaced tails, own snapshots and snapshots of a leader."""
    chance = random.Random(seed)
    made = [Ready(hard_state=HardState(1, "B", 1, 0), must_sync=True)]
    last, base, term = 0, 0, 1
    for _ in range(40):
        way = chance.randrange(10)
        if way == 0 and last > base:
            base = chance.randrange(base + 1, last + 1)
            state = bytes(chance.randrange(300))
            made.append(Ready(snapshot=Snapshot(base, THREE.members, THREE.runs, (), state, 7)))
        elif way == 1:
            base = last = last + chance.randrange(5, 10)
            snapshot = Snapshot(base, THREE.members, THREE.runs, (), b"restored", 7)
            made.append(Ready(snapshot=snapshot, restore=True, must_sync=True))
        elif way == 2:
            term += 1
            made.append(Ready(hard_state=HardState(term, "B", 1, base), must_sync=True))
        elif way == 3:
            made.append(Ready(hard_state=HardState(term, "B", 1, last)))
        else:
            first = chance.randrange(base + 1, last + 2)
            last = first + chance.randrange(4)
            made.append(entries(*range(first, last + 1), term=term))
    return made


def steps_of(ready: Ready) -> list[Ready]:
    """Return the three writes of a save in order: a crash leaves a prefix of them."""
    return [
        Ready(snapshot=ready.snapshot, restore=ready.restore),
        Ready(hard_state=ready.hard_state, entries=ready.entries),
    ]


def same(found: StoredLog, wanted: StoredLog) -> bool:
    """Return whether both are equal, except for the commit index, which may be older."""
    mine, theirs = found.hard_state, wanted.hard_state
    promise = (mine.term, mine.vote, mine.boots) == (theirs.term, theirs.vote, theirs.boots)
    return promise and (found.snapshot, found.entries) == (wanted.snapshot, wanted.entries)


@pytest.mark.parametrize("seed", range(20))
def test_saved_state_equals_that_of_a_log_in_memory(seed: int) -> None:
    on, model = disk(seed), MemoryLog(THREE)
    log = opened(on)
    for ready in history(seed):
        log.save(ready)
        model.save(ready)
        assert log.load() == model.load()
        assert log.snapshot() == model.snapshot()
    log.close()
    again = opened(on)
    assert again.load() == model.load()
    assert not again.dropped


@pytest.mark.parametrize("seed", range(6))
def test_a_crash_after_every_step_leaves_all_that_was_synced_and_nothing_else(seed: int) -> None:
    step, crashed = 0, True
    while crashed:
        step += 1
        on, model = disk(step), MemoryLog(THREE)
        on.crash_at_step = step
        possible = [model.load()]
        try:
            log = opened(on)
            for ready in history(seed):
                possible = [model.load()]
                for part in steps_of(ready):
                    model.save(part)
                    possible.append(model.load())
                log.save(ready)
                possible = possible[-1:] if ready.must_sync or ready.snapshot is not None else possible
            crashed = False
        except SimulatedCrash:
            pass
        on.crash()
        log = opened(on)
        assert any(same(log.load(), state) for state in possible), (step, possible)
        found = log.load()
        log.save(Ready(hard_state=HardState(99, None, 5, 0), must_sync=True))
        on.crash()
        log = opened(on)
        assert log.load().entries == found.entries
        assert log.load().hard_state == HardState(99, None, 5, 0)
    assert step > 80


def test_a_change_that_need_not_last_is_not_synced() -> None:
    on = disk()
    log = opened(on, ALONE)
    before = on.steps
    log.save(Ready(entries=[command(1)], hard_state=HardState(1, "A", 1, 0)))
    assert on.steps == before + 1, "one write, no sync"
    log.save(entries(2))
    assert on.steps == before + 3


def test_the_commit_index_costs_no_write_of_its_own() -> None:
    on = disk()
    log = opened(on)
    log.save(Ready(hard_state=HardState(1, "A", 1, 0), must_sync=True))
    before = on.steps
    log.save(Ready(hard_state=HardState(1, "A", 1, 12)))
    assert on.steps == before
    log.save(entries(1))
    on.crash()
    assert opened(on).load().hard_state.commit == 12


def test_a_torn_last_batch_is_cut_off_and_reported() -> None:
    on = disk()
    log = opened(on)
    log.save(entries(1, 2))
    whole = log.load()
    log.save(entries(3, 4))
    size = on.open(PATH).size()
    on.open(PATH).truncate(size - 3)
    log = opened(on)
    assert log.load() == whole
    assert [dropped.reason for dropped in log.dropped] == ["torn by a crash"]


def damaged(snapshot: Snapshot, index: int) -> SimulatedDisk:
    """Return a disk with a log of eight entries and a flipped bit in one."""
    on = disk()
    log = opened(on, snapshot)
    for number in range(1, 9):
        log.save(Ready(entries=[command(number)], hard_state=HardState(4, "A", 3, number), must_sync=True))
    file = on.open(PATH)
    on.flip(PATH, file.read(file.size(), 0).find(f"command {index} of".encode()), 2)
    return on


@pytest.mark.parametrize("index", [1, 4, 7])
def test_a_node_on_its_own_loses_the_damaged_entry_only(index: int) -> None:
    on = damaged(ALONE, index)
    for _ in range(2):
        log = opened(on, ALONE)
        found = log.load()
        assert [entry.index for entry in found.entries] == list(range(1, 9))
        assert [entry for entry in found.entries if isinstance(entry.payload, Nothing)] == [
            Entry(index, 1, 7, Nothing())
        ]
        assert found.hard_state.boots == 3
        assert found.hard_state.term == 4
        log.close()
    assert not log.dropped, "it was mended the first time"


def test_a_member_of_a_cluster_does_not_go_on_with_a_damaged_log() -> None:
    with pytest.raises(DamageError, match="forget_cluster_node"):
        opened(damaged(THREE, 4))
    grown = disk()
    log = opened(grown, ALONE)
    members = Members(("A", "B"))
    log.save(Ready(entries=[Entry(1, 1, 7, ChangeMembers(members)), command(2)], must_sync=True))
    log.save(entries(3))
    log.save(entries(4))
    file = grown.open(PATH)
    grown.flip(PATH, file.read(file.size(), 0).find(b"command 3"), 0)
    with pytest.raises(DamageError, match="forget_cluster_node"):
        opened(grown, ALONE)


def test_without_its_snapshot_nothing_is_believed() -> None:
    on = disk()
    log = opened(on)
    log.save(entries(1))
    on.flip(PATH, 64 + 12, 0)
    with pytest.raises(DamageError, match="the snapshot in"):
        opened(on)


def test_a_file_that_is_something_else_is_refused() -> None:
    on = disk()
    log = opened(on)
    log._log.replace([b"Snot msgpack"])
    with pytest.raises(DamageError, match="not written by this version"):
        opened(on)


def test_a_file_that_may_be_an_older_copy_counts_incarnations_above_all_earlier_ones() -> None:
    on = disk()
    opened(on).save(Ready(hard_state=HardState(1, "B", 5, 0), must_sync=True))
    for given, found in ((0, 5), (4, 5), (9, 9)):
        log = ConsensusLog(on, DIRECTORY)
        log.open(lambda: THREE, given)
        assert log.load().hard_state == HardState(1, "B", found, 0)


@pytest.mark.parametrize("fault", ["write_error", "sync_error"])
def test_after_a_failure_every_call_fails_and_the_node_is_notified(fault: str) -> None:
    on = disk()
    failures: list[JournalFailed] = []
    log = ConsensusLog(on, DIRECTORY, failures.append)
    log.open(lambda: THREE)
    log.save(entries(1))
    setattr(on, fault, errno.EIO)
    with pytest.raises(JournalFailed):
        log.save(entries(2))
    assert len(failures) == 1
    setattr(on, fault, None)
    for ready in (entries(3), Ready(snapshot=Snapshot(1, THREE.members, THREE.runs))):
        with pytest.raises(JournalFailed):
            log.save(ready)
    on.crash()
    assert opened(on).load().entries[0] == command(1)
