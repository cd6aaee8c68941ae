"""Watches memory and disk, and raises the alarms that block publishers."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
from pathlib import Path

from mirrormq.broker.alarms import DISK, MEMORY, Alarms

FILE_HANDLES_MAX = 1_000_000
"""More than a million sockets have no place in the kernel's tables either."""

DISK_LOOK_MIN_S = 0.02
DISK_FILL_BYTES_PER_S = 1_000_000_000
"""How often at most the free space is looked at, and how fast a disk is thought to fill: the nearer its limit
is, the sooner is the next look. A node writes some hundred megabytes a second."""

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def total_memory_bytes() -> int:
    """This machine's memory, or the limit of the control group that we run in, if that is less."""
    total = os.sysconf("SC_PHYS_PAGES") * PAGE_BYTES
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return total
    return min(total, int(limit)) if limit.isdigit() else total


def resident_bytes() -> int:
    """The memory that this process has in use."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def raise_file_handle_limit() -> int:
    """Take as many file handles as we are allowed to; says how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return FILE_HANDLES_MAX if soft == resource.RLIM_INFINITY else min(soft, FILE_HANDLES_MAX)


def free_disk_bytes(directory: Path) -> int:
    """What we may still write on the file system of a directory."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize


def return_free_memory() -> None:
    """Let the C library give back what has been freed: it keeps pages between blocks in use, and an
    alarm looks at pages. Does nothing where the library is not glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


class ResourceWatch:
    """The node's watermarks."""

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
        """How long it may be until the next look, so that the disk's limit is not passed by far."""
        room = max(0, self._free_bytes - self.disk_limit_bytes)
        return min(most_s, max(DISK_LOOK_MIN_S, room / DISK_FILL_BYTES_PER_S))

    def look(self) -> list[str]:
        """Compare with the limits; returns what to log."""
        used = resident_bytes()
        if used > self.memory_limit_bytes:
            return_free_memory()
            used = resident_bytes()
        free = self._free_bytes = free_disk_bytes(self._directory)
        news: list[str] = []
        if self._alarms.set(MEMORY, used > self.memory_limit_bytes):
            news.append(
                self._sentence("memory", MEMORY, f"{used} bytes used, limit {self.memory_limit_bytes}")
            )
        if self._alarms.set(DISK, free < self.disk_limit_bytes):
            news.append(self._sentence("disk", DISK, f"{free} bytes free, limit {self.disk_limit_bytes}"))
        return news

    def _sentence(self, name: str, alarm: str, numbers: str) -> str:
        if alarm in self._alarms.raised:
            text = f"{name} resource limit alarm set on node {self._node} ({numbers})."
            return f"{text}\n*** Publishers will be blocked until this alarm clears ***"
        return f"{name} resource limit alarm cleared on node {self._node} ({numbers})"
