"""Leases in listings."""

from __future__ import annotations

from typing import Any

from mirrormq.metadata.lease_commands import held_by
from mirrormq.metadata.records import Lease, LeaseTake
from mirrormq.ranges import range_protocol
from mirrormq.sequences.spans import count_of, unpack


def lease_entry(lease: Lease, used_ms: int | None) -> range_protocol.LeaseEntry:
    """Return a lease as `leases`, `list_leases` and the HTTP API show it."""
    held = held_by(lease)
    first, end = (held[0][0], sum(held[-1])) if held else (0, 0)
    return range_protocol.LeaseEntry(
        lease.vhost, lease.queue, lease.name, lease.number, first, end, count_of(held),
        sum([take.size_bytes for take in lease.takes]), lease.idle_ms, used_ms, lease.user,
        [_take_entry(take) for take in lease.takes],
    )  # fmt: skip


def lease_row(lease: Lease, used_ms: int | None) -> dict[str, Any]:
    """Return a lease as operators see it."""
    entry = lease_entry(lease, used_ms)
    return {
        "vhost": entry.vhost,
        "queue": entry.queue,
        "name": entry.name,
        "user": entry.user,
        "number": entry.number,
        "from": entry.from_,
        "to": entry.to,
        "messages": entry.count,
        "message_bytes": entry.bytes,
        "idle_limit": entry.idle_ms,
        "idle_since": entry.idle_since,
        "takes": [
            {"number": take.number, "from": take.from_, "to": take.to, "messages": take.count}
            for take in entry.takes
        ],
    }


def _take_entry(take: LeaseTake) -> range_protocol.LeaseTakeEntry:
    spans = unpack(take.spans)
    first, end = (spans[0][0], sum(spans[-1])) if spans else (0, 0)
    return range_protocol.LeaseTakeEntry(take.number, first, end, count_of(spans), take.size_bytes)
