"""Producer commands: digests of the contents that each producer has published for its last batch.

A queue recognises a repeated message by its producer's name and number. That holds only if the repeated
batch has the same rows in the same order. A producer therefore announces the digest of its rows first. Rows
with another digest are published under another epoch of the name, so no queue treats them as duplicates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from mirrormq.metadata import commands as c
from mirrormq.ranges import range_limits

if TYPE_CHECKING:
    from mirrormq.metadata.state import MetadataState


def begin_batch(state: MetadataState, command: c.BeginBatch) -> None:
    """Record the digest of a batch. A batch older than the recorded one changes nothing."""
    begun = command.record
    if begun.vhost not in state.vhosts:
        return
    before = state.producers.get(begun.key)
    if before is None:
        _make_room(state, begun.vhost)
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
    # Beyond the limit the new generation applies: rows may be published twice, but none is dropped as a
    # duplicate of another.
    state.store(begun)


def _make_room(state: MetadataState, vhost: str) -> None:
    """Forget the least recently used producers of a vhost, a sixteenth at once, if there are too many."""
    if len(state.producers) < range_limits.PRODUCERS_PER_VHOST_MAX:
        return
    others = [other for other in state.producers.values() if other.vhost == vhost]
    if len(others) < range_limits.PRODUCERS_PER_VHOST_MAX:
        return
    others.sort(key=lambda other: (other.used_ms, other.name))
    for other in others[: range_limits.PRODUCERS_PER_VHOST_MAX // 16]:
        state.remove(other)
