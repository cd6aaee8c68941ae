"""A lease as lists show it."""

from __future__ import annotations

from mirrormq.metadata.lease_commands import held_by
from mirrormq.metadata.records import Lease, LeaseTake
from mirrormq.ranges import questions
from mirrormq.ranges.stretches import count_of, unpack


def lease_entry(lease: Lease, used_ms: int | None) -> questions.LeaseEntry:
    """What `leases`, `list_leases` and the HTTP API tell of it."""
    held = held_by(lease)
    first, end = (held[0][0], sum(held[-1])) if held else (0, 0)
    return questions.LeaseEntry(
        lease.vhost, lease.queue, lease.name, lease.number, first, end, count_of(held),
        sum([take.size_bytes for take in lease.takes]), lease.idle_ms, used_ms, lease.user,
        [_take_entry(take) for take in lease.takes],
    )  # fmt: skip


def _take_entry(take: LeaseTake) -> questions.LeaseTake:
    stretches = unpack(take.stretches)
    first, end = (stretches[0][0], sum(stretches[-1])) if stretches else (0, 0)
    return questions.LeaseTake(take.number, first, end, count_of(stretches), take.size_bytes)
