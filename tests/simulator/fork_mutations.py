"""Mutations of the fork index (`cluster.fork_index`) and of its log indexes, for test_mutations."""

from __future__ import annotations

import msgspec
import pytest

from mirrormq.cluster.fork_index import NOT_FORKED, ForkIndex, ForkIndexes
from mirrormq.cluster.metadata_repair import MetadataRepair
from mirrormq.cluster.orphan_collector import OrphanCollector


def count_everything_as_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a loser set nothing aside."""
    monkeypatch.setattr(OrphanCollector, "_first", lambda self, queue, fork: NOT_FORKED)


def measure_fork_indexes_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count what a side has since it parted as shared, as if the fork index were measured at the end."""
    find = ForkIndexes.find

    def late(self: ForkIndexes, queue_id: int) -> ForkIndex | None:
        found = find(self, queue_id)
        return None if found is None else msgspec.structs.replace(found, sequence=NOT_FORKED - 1)

    monkeypatch.setattr(ForkIndexes, "find", late)


def leave_metadata_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not complete the metadata that an older program has left."""
    monkeypatch.setattr(MetadataRepair, "look", lambda self, incarnation: None)


FORK_MUTATIONS = (
    (count_everything_as_shared, "ConfirmedIsKept"),
    (measure_fork_indexes_too_late, "ConfirmedIsKept"),
)
"""Mutation → checker that finds it."""
