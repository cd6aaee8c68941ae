"""Metadata of a node of the oldest protocol version: its snapshots lack the fields of later versions.

Raft replicates commands as bytes, so only snapshots lose what an older program cannot decode.
"""

from __future__ import annotations

from msgspec.structs import replace

from mirrormq.metadata import snapshots
from mirrormq.metadata.log_indexes import LogIndexes
from mirrormq.metadata.state import MetadataState
from mirrormq.protocol_version import PROTOCOL_VERSION_OLDEST


def make_older(state: MetadataState) -> None:
    """Let a state make the snapshots of an older node."""
    complete = state.snapshot
    state.snapshot = lambda: _older(complete())  # type: ignore[method-assign]


def _older(blob: bytes) -> bytes:
    """Return a snapshot without the fields of later versions."""
    snapshot = snapshots.decode(blob)
    nodes = [replace(node, version=PROTOCOL_VERSION_OLDEST, static_shovels=()) for node in snapshot.nodes]
    queues = [replace(queue, indexes=LogIndexes()) for queue in snapshot.queues]
    return snapshots.encode(replace(snapshot, nodes=nodes, queues=queues, links=[]))
