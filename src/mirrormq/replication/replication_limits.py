"""Limits of the replication of one queue, each with the reason for its number."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ReplicationLimits:
    """Limits that a replica receives at its construction."""

    early_bytes_max: int = 16 * 1024 * 1024
    """Limit of kept operation batches whose view this node does not know yet. A view arrives within
    milliseconds. A member that drops batches here requests everything from its neighbour once it knows the
    view."""

    operation_batch_bytes_max: int = 4 * 1024 * 1024
    """Size limit of an operation batch, unless a single operation is larger. After a long partition a whole
    log is sent, and the link must carry other traffic as well."""

    history_max: int = 64
    """Epochs in a history. A member that knows none of them begins again."""

    batches_in_flight: int = 2
    """Batches of a synchronisation in flight: one is transferred while the mirror works on the other."""

    ring_behind_operations: int = 16_384
    ring_behind_bytes: int = 16 * 1024 * 1024
    """Limits of operations that a member which confirms wait for has not received; publishers wait beyond
    them. They are many times what is in flight in a ring that keeps pace, and small enough to be sent again
    after a lost link."""

    mirror_late_ms: int = 5_000
    """Time that an operation may take to reach a mirror's disk. The failure detector finds a failed or frozen
    node within 3.75 s; this limit is for nodes that are slow."""

    mirror_late_operations: int = 262_144
    mirror_late_bytes: int = 256 * 1024 * 1024
    """Limits of operations behind a synchronised mirror's mark, which its master keeps in the log. Publishers
    are blocked long before (a single message may have 128 MiB); this is the bound if they cannot be."""

    mirror_excused_operations: int = 65_536
    mirror_excused_bytes: int = 32 * 1024 * 1024
    """Limits of operations kept for an unsynchronised mirror. Beginning again costs it little: it reports
    what it has."""

    mirror_recovered_ms: int = 1_000
    """Lag below which a mirror that catches up may be synchronised again."""


DEFAULT_LIMITS = ReplicationLimits()
