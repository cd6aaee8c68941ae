"""Disk statistics: number, bytes and time of reads, writes and syncs."""

from __future__ import annotations

from typing import ClassVar, Final

SYNC_BOUNDS_S: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""Upper bounds of the sync time histogram: from a good flash disk to a failing one, by a factor of about
two."""


class DiskStats:
    """Counters that only grow."""

    __slots__ = (
        "read_bytes", "read_s", "reads", "sync_s", "sync_times", "syncs", "write_s", "writes",
        "written_bytes",
    )  # fmt: skip

    sync_bounds_s: ClassVar[tuple[float, ...]] = SYNC_BOUNDS_S

    def __init__(self) -> None:
        self.reads = 0
        self.read_bytes = 0
        self.read_s = 0.0
        self.writes = 0
        self.written_bytes = 0
        self.write_s = 0.0
        self.syncs = 0
        self.sync_s = 0.0
        self.sync_times = [0] * (len(SYNC_BOUNDS_S) + 1)
        """Syncs that took up to each of the bounds, and last those that took longer."""

    def synced(self, taken_s: float) -> None:
        """Count a sync that took `taken_s` seconds."""
        self.syncs += 1
        self.sync_s += taken_s
        bucket = 0
        for bound_s in SYNC_BOUNDS_S:
            if taken_s <= bound_s:
                break
            bucket += 1
        self.sync_times[bucket] += 1
