"""Memory and disk monitor: raises the alarms that block publishers."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
from pathlib import Path

from mirrormq.broker.alarms import DISK, MEMORY, Alarms

FILE_HANDLES_MAX = 1_000_000
"""Upper bound of file handles: the kernel's tables hold no more than about a million sockets."""

DISK_CHECK_MIN_S = 0.02
DISK_FILL_BYTES_PER_S = 1_000_000_000
"""Shortest interval between two checks of the free space, and the assumed fill rate of a disk. The nearer
the limit, the sooner the next check. A node writes some hundred megabytes per second."""

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def total_memory_bytes() -> int:
    """Return this machine's memory, or the limit of the process's control group if that is less."""
    total = os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdigit() else total


def resident_bytes() -> int:
    """Return the memory that this process uses (resident set)."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def raise_file_handle_limit() -> int:
    """Raise the limit of file handles to the permitted maximum, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return FILE_HANDLES_MAX if soft == resource.RLIM_INFINITY else min(soft, FILE_HANDLES_MAX)


def free_disk_bytes(directory: Path) -> int:
    """Return the bytes that this process may still write to the file system of a directory."""
    stats = os.statvfs(directory)
    return stats.f_bavail * stats.f_frsize


def return_free_memory() -> None:
    """Return freed memory to the system. The C library keeps free pages between blocks in use, and an
    alarm counts pages. Do nothing if the library is not glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class ResourceWatch:
    """Watermarks of a node and their present state."""

    def __init__(
        self, node: str, alarms: Alarms, directory: Path, memory_limit_bytes: int, disk_limit_bytes: int
    ) -> None:
        self._node = node
        self._alarms = alarms
        self._directory = directory
        self.memory_limit_bytes = memory_limit_bytes
        self.disk_limit_bytes = disk_limit_bytes
        self._free_bytes = 0

    def pause_s(self, most_s: float) -> float:
        """Return the seconds until the next check, short enough that the disk limit is not exceeded by
        far."""
        room = max(0, self._free_bytes - self.disk_limit_bytes)
        return min(most_s, max(DISK_CHECK_MIN_S, room / DISK_FILL_BYTES_PER_S))

    def check(self) -> list[str]:
        """Compare memory and disk with their limits. Return lines to log."""
        used = resident_bytes()
        # Freed memory may still count as resident. Return it first, so that only live memory raises the
        # alarm.
        if used > self.memory_limit_bytes:
            return_free_memory()
            used = resident_bytes()
        free = self._free_bytes = free_disk_bytes(self._directory)
        log_lines: list[str] = []
        if self._alarms.set(MEMORY, used > self.memory_limit_bytes):
            log_lines.append(
                self._sentence("memory", MEMORY, f"{used} bytes used, limit {self.memory_limit_bytes}")
            )
        if self._alarms.set(DISK, free < self.disk_limit_bytes):
            log_lines.append(
                self._sentence("disk", DISK, f"{free} bytes free, limit {self.disk_limit_bytes}")
            )
        return log_lines

    def _sentence(self, name: str, alarm: str, numbers: str) -> str:
        if alarm in self._alarms.raised:
            text = f"{name} resource limit alarm set on node {self._node} ({numbers})."
            return f"{text}\n*** Publishers will be blocked until this alarm clears ***"
        return f"{name} resource limit alarm cleared on node {self._node} ({numbers})"
