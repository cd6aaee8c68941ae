"""CPU time and memory of broker processes, read from /proc."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# Fields of /proc/PID/stat behind the command, which may contain spaces: state is 0.
_SESSION, _TIMES, _RESIDENT_PAGES = 3, slice(11, 15), 21
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(pids: Iterable[int]) -> float:
    """Return user and system time of these processes and of all processes in their sessions.

    The scheduler counts it in nanoseconds. The times in /proc/PID/stat have steps of 10 ms, and the shortest
    lines take 50 ms.
    """
    return sum(_scheduled_ns(pid) for pid, _ in _stats(pids)) / 1e9


def total_cpu_s(pids: Iterable[int]) -> float:
    """Return the same, in steps of 10 ms, with the time of threads and children that have ended."""
    return sum(sum(map(int, fields[_TIMES])) for _, fields in _stats(pids)) / TICKS_PER_S


def _scheduled_ns(pid: str) -> int:
    total_ns = 0
    for thread in Path("/proc", pid, "task").glob("*/schedstat"):
        with contextlib.suppress(OSError):  # ended since the directory was listed
            total_ns += int(thread.read_text().split()[0])
    return total_ns


def resident_bytes(pids: Iterable[int]) -> int:
    """Return the resident memory of these processes and of all processes in their sessions."""
    return sum(int(fields[_RESIDENT_PAGES]) for _, fields in _stats(pids)) * PAGE_BYTES


def _stats(pids: Iterable[int]) -> Iterator[tuple[str, list[str]]]:
    wanted = {str(pid) for pid in pids}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # ended since the directory was listed
        if entry in wanted or fields[_SESSION] in wanted:
            yield entry, fields
