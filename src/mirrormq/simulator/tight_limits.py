"""Tight limits: events that otherwise need thousands of messages happen after a few.

A run lasts a few seconds and has some hundred messages. With normal limits it never pages a queue or needs
a second batch to synchronise a mirror. Nor does it compact the metadata log, free a segment, or find a
mirror late. In a third of all runs these limits are as low as possible. The run's number decides for each
limit, so that faults also hit these events.

Limits beyond which data may be dropped or forgotten by design are not included.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import msgspec

from mirrormq.broker.broker_limits import DEFAULT_LIMITS as DEFAULT_BROKER_LIMITS
from mirrormq.broker.broker_limits import BrokerLimits
from mirrormq.cluster.cluster_limits import DEFAULT_LIMITS as DEFAULT_CLUSTER_LIMITS
from mirrormq.cluster.cluster_limits import ClusterLimits
from mirrormq.cluster.orphan_store import BATCH_MESSAGES
from mirrormq.queues.queue_limits import QueueLimits
from mirrormq.remote.remote_limits import RemoteLimits
from mirrormq.replication.replication_limits import ReplicationLimits
from mirrormq.storage.journal_limits import JournalLimits

SHARE = 0.5
"""Probability that a limit is tight in a run with tight limits."""


SMALL_SEGMENTS = JournalLimits(segment_bytes=64 * 1024)
"""Small segments, so that a short run creates and deletes some."""


@dataclass(frozen=True)
class RunLimits:
    """Limits of all nodes of one run."""

    journal: JournalLimits = SMALL_SEGMENTS
    broker: BrokerLimits = DEFAULT_BROKER_LIMITS
    cluster: ClusterLimits = DEFAULT_CLUSTER_LIMITS

    orphan_batch_messages: int = BATCH_MESSAGES
    housekeeping_ms: int = 0
    """Interval of the journal's compaction; 0 disables it, because a run is short."""

    sync_batch_messages: int = 4096
    """Messages of one batch of a synchronisation."""


USUAL = RunLimits()
TIGHTEST = RunLimits(
    JournalLimits(
        segment_bytes=4096, buffer_bytes=256, ack_ranges_per_record=1, sparse_ratio=0.95, sequence_reserve=4
    ),
    BrokerLimits(
        ReplicationLimits(
            early_bytes_max=300,
            operation_batch_bytes_max=200,
            history_max=2,
            batches_in_flight=1,
            ring_behind_operations=4,
            mirror_late_ms=600,
            mirror_late_operations=30,
            mirror_excused_operations=10,
            mirror_recovered_ms=200,
        ),
        RemoteLimits(
            publish_messages_max=2,
            credit_max=2,
            delivered_bytes_max=60,
            stream_bytes_max=500,
            frame_bytes=100,
            frames_unreported_max=2,
        ),
        QueueLimits(
            head_stored_messages=3,
            head_messages=4,
            lazy_head_messages=2,
            mirror_memory_messages=2,
            page_messages=3,
            unacked_hot_messages=2,
            deliveries_per_pump=3,
            expired_batch_max=2,
        ),
    ),
    ClusterLimits(
        msgspec.structs.replace(
            DEFAULT_CLUSTER_LIMITS.raft,
            append_bytes_max=300,
            inflight_max=2,
            chunk_bytes_max=200,
            trailing_bytes=400,
            committed_bytes_max=1,
        ),
        log_bytes_max=0,
        changes_per_command=1,
        state_chunk_bytes=300,
    ),
    orphan_batch_messages=2,
    housekeeping_ms=40,
    sync_batch_messages=2,
)


DRAWN_AS = {
    "raft": "SETTINGS",
    "state_chunk_bytes": "PART_BYTES",
    "orphan_batch_messages": "BATCH_MESSAGES",
    "frame_bytes": "PARCEL_BYTES",
    "frames_unreported_max": "PARCELS_UNREPORTED_MAX",
}
"""Names in the draw that are not those of the fields: recorded seeds keep their limits."""


def limits_of(number: int) -> RunLimits:
    """Return the limits of a run: the tight ones that this number selects; 0 selects none."""
    selected: RunLimits = _selected(USUAL, TIGHTEST, number)
    return selected


def _is_tight(number: int, name: str) -> bool:
    return random.Random(f"{number} {name}").random() < SHARE


def _selected(usual: Any, tight: Any, number: int) -> Any:
    """Return limits in which each field is tight or usual, as the number decides."""
    chosen: dict[str, Any] = {}
    for name in [each.name for each in fields(usual)]:
        before, after = getattr(usual, name), getattr(tight, name)
        if is_dataclass(before):
            chosen[name] = _selected(before, after, number)
        elif number and before != after and _is_tight(number, DRAWN_AS.get(name, name.upper())):
            chosen[name] = after
    return replace(usual, **chosen)
