"""Limits of a node's part in its cluster, each with the reason for its number."""

from __future__ import annotations

from dataclasses import dataclass, field

from mirrormq.consensus import RaftSettings


@dataclass(frozen=True, slots=True)
class ClusterLimits:
    """Limits that the member of a cluster receives at its construction."""

    raft: RaftSettings = field(default=RaftSettings(election_ticks=120, heartbeat_ticks=8, stagger_ticks=3))
    """Raft timing: a heartbeat each 200 ms; an election after 3 s of silence, the same time as the failure
    detector's. When a link goes down the election starts at once, with candidates staggered by 75 ms."""

    log_bytes_max: int = 4 * 1024 * 1024
    """Log size limit: a snapshot replaces the log when its entries outweigh both this and the last snapshot.
    About 40,000 declarations, which replay in well under a second."""

    changes_per_command: int = 50
    """Views, or deleted queues, in one command. A node applies at least one whole command between two turns,
    and a promotion costs it about 0.1 ms: clients of other queues wait five milliseconds."""

    state_chunk_bytes: int = 256 * 1024
    """Size of a chunk of a state transfer: the limit of one consensus message."""

    orphan_batch_messages: int = 256
    """Messages read at once when orphans are restored, listed or exported."""


DEFAULT_LIMITS = ClusterLimits()
