"""Producer commands: digests of the contents that each producer has published for its last batch.

A queue recognises a repeated message by its producer's name and number. That holds only if the repeated
batch has the same rows in the same order. A producer therefore announces the digest of its rows first. Rows
with another digest are published under another epoch of the name, so no queue treats them as duplicates.

A record is the only proof that a batch is repeated, so no announcement may push out a record that can still
be needed. A batch beyond a limit changes nothing, and its producer is refused (`leases.sink_batches`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mirrormq import limits
from mirrormq.metadata import commands as c
from mirrormq.metadata.command_versions import keeps_producers
from mirrormq.ranges import range_limits

if TYPE_CHECKING:
    from mirrormq.metadata.state import MetadataState


def begin_batch(state: MetadataState, command: c.BeginBatch) -> None:
    """Record the digest of a batch. A batch older than the last one, or beyond a limit, changes nothing."""
    begun = command.record
    if begun.vhost not in state.vhosts:
        return
    before = state.producers.get(begun.key)
    if before is None:
        if not _has_room(state, begun.vhost, begun.used_ms):
            return
    elif before.user != begun.user or begun.batch < before.batch:
        return
    elif begun.batch > before.batch:
        begun = msgspec.structs.replace(begun, generation=before.generation)
    elif begun.digests[0] in before.digests:
        begun = msgspec.structs.replace(before, used_ms=begun.used_ms)
    elif len(before.digests) < range_limits.PRODUCER_EPOCHS_MAX:
        begun = msgspec.structs.replace(
            begun, generation=before.generation, digests=(*before.digests, *begun.digests)
        )
    elif keeps_producers(state):
        return
    state.store(begun)


def end_write(state: MetadataState, command: c.EndWrite) -> None:
    """Let the producers of a complete write be the first to make room. They stay until then: a task that
    Spark runs twice may announce its rows when the other one has completed the write."""
    for producer in list(state.producers.values()):
        of_write = producer.vhost == command.vhost and producer.name.startswith(f"{command.write}/")
        if of_write and producer.user == command.user:
            ended_ms = producer.used_ms - limits.PRODUCER_IDLE_MS
            state.store(msgspec.structs.replace(producer, used_ms=ended_ms))


def _has_room(state: MetadataState, vhost: str, now_ms: int) -> bool:
    """Whether a vhost has room for a producer, after forgetting those that were idle for so long that queues
    forget them too: a sixteenth of the limit at once, the least recently used first."""
    if len(state.producers) < range_limits.PRODUCERS_PER_VHOST_MAX:
        return True
    others = [other for other in state.producers.values() if other.vhost == vhost]
    if len(others) < range_limits.PRODUCERS_PER_VHOST_MAX:
        return True
    others.sort(key=lambda other: (other.used_ms, other.name))
    forgotten = others[: range_limits.PRODUCERS_PER_VHOST_MAX // 16]
    if keeps_producers(state):
        forgotten = [other for other in forgotten if now_ms - other.used_ms >= limits.PRODUCER_IDLE_MS]
    for other in forgotten:
        state.remove(other)
    return bool(forgotten)
