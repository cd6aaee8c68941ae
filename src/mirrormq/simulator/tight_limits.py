"""Tight limits: events that otherwise need thousands of messages happen after a few.

A run lasts a few seconds and has some hundred messages. With normal limits it never pages a queue or needs
a second batch to synchronise a mirror. Nor does it compact the metadata log, free a segment, or find a
mirror late. In a third of all runs these limits are as low as possible. The run's number decides for each
limit, so that faults also hit these events.

Limits beyond which data may be dropped or forgotten by design are not included.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from types import ModuleType
from typing import Any

import msgspec

from mirrormq import limits
from mirrormq.cluster import coordinator, member, orphan_collector, orphan_store, state_transfer
from mirrormq.remote import remote_limits as remote_limits
from mirrormq.replication import lag, ring, synchronisation
from mirrormq.storage.journal_limits import JournalLimits

SHARE = 0.5
"""Probability that a limit is tight in a run with tight limits."""


SMALL_SEGMENTS = JournalLimits(segment_bytes=64 * 1024)
"""Small segments, so that a short run creates and deletes some."""


@dataclass(frozen=True)
class RunLimits:
    """Limits of all nodes of one run."""

    journal: JournalLimits = SMALL_SEGMENTS

    housekeeping_ms: int = 0
    """Interval of the journal's compaction; 0 disables it, because a run is short."""

    sync_batch_messages: int = 4096
    """Messages of one batch of a synchronisation."""


USUAL = RunLimits()
TIGHTEST = RunLimits(
    JournalLimits(
        segment_bytes=4096, buffer_bytes=256, ack_ranges_per_record=1, sparse_ratio=0.95, sequence_reserve=4
    ),
    housekeeping_ms=40,
    sync_batch_messages=2,
)


def limits_of(number: int) -> RunLimits:
    """Return the limits of a run: the tight ones that this number selects; 0 selects none."""
    selected: RunLimits = _selected(USUAL, TIGHTEST, number)
    return selected


def _selected(usual: Any, tight: Any, number: int) -> Any:
    """Return limits in which each field is tight or usual, as the number decides."""
    chosen: dict[str, Any] = {}
    for name in [each.name for each in fields(usual)]:
        before, after = getattr(usual, name), getattr(tight, name)
        if is_dataclass(before):
            chosen[name] = _selected(before, after, number)
        elif number and before != after and random.Random(f"{number} {name.upper()}").random() < SHARE:
            chosen[name] = after
    return replace(usual, **chosen)


TIGHT: dict[ModuleType, dict[str, object]] = {
    limits: {
        "HEAD_STORED_MESSAGES": 3,
        "HEAD_MESSAGES": 4,
        "LAZY_HEAD_MESSAGES": 2,
        "MIRROR_MEMORY_MESSAGES": 2,
        "PAGE_MESSAGES": 3,
        "UNACKED_HOT_MESSAGES": 2,
        "DELIVERIES_PER_PUMP": 3,
        "EXPIRED_PER_LOOK": 2,
    },
    remote_limits: {
        "PUBLISH_MESSAGES_MAX": 2,
        "CREDIT_MAX": 2,
        "DELIVERED_BYTES_MAX": 60,
        "STREAM_BYTES_MAX": 500,
        "PARCEL_BYTES": 100,
        "PARCELS_UNREPORTED_MAX": 2,
    },
    synchronisation: {"BATCHES_IN_FLIGHT": 1},
    ring: {"EARLY_BYTES_MAX": 300, "OPERATION_BATCH_BYTES_MAX": 200, "HISTORY_MAX": 2},
    lag: {
        "RING_BEHIND_OPERATIONS": 4,
        "MIRROR_LATE_MS": 600,
        "MIRROR_LATE_OPERATIONS": 30,
        "MIRROR_EXCUSED_OPERATIONS": 10,
        "MIRROR_RECOVERED_MS": 200,
    },
    member: {
        "LOG_BYTES_MAX": 0,
        "SETTINGS": msgspec.structs.replace(
            member.SETTINGS,
            append_bytes_max=300,
            inflight_max=2,
            chunk_bytes_max=200,
            trailing_bytes=400,
            committed_bytes_max=1,
        ),
    },
    coordinator: {"QUEUES_PER_TURN": 1, "CHANGES_PER_COMMAND": 1},
    state_transfer: {"PART_BYTES": 300},
    orphan_store: {"BATCH_MESSAGES": 2},
    orphan_collector: {"BATCH_MESSAGES": 2},
}
"""Tight value of each limit, by the module that reads the limit at run time."""


@contextmanager
def limits_tightened(number: int) -> Iterator[None]:
    """Apply the tight limits that this number selects; 0 selects none."""
    before: list[tuple[ModuleType, str, object]] = []
    try:
        for module, values in TIGHT.items():
            for name, value in values.items():
                if number and random.Random(f"{number} {name}").random() < SHARE:
                    before.append((module, name, getattr(module, name)))
                    setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
