"""CPU time and memory of broker processes, read from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

# Fields of /proc/PID/stat behind the command, which may contain spaces: state is 0.
_SESSION, _USER_TICKS, _SYSTEM_TICKS, _RESIDENT_PAGES = 3, 11, 12, 21


def cpu_s(pids: Iterable[int]) -> float:
    """Return user and system time of these processes and of all processes in their sessions."""
    return sum(int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS]) for fields in _stats(pids)) / TICKS_PER_S


def resident_bytes(pids: Iterable[int]) -> int:
    """Return the resident memory of these processes and of all processes in their sessions."""
    return sum(int(fields[_RESIDENT_PAGES]) for fields in _stats(pids)) * PAGE_BYTES


def _stats(pids: Iterable[int]) -> Iterator[list[str]]:
    wanted = {str(pid) for pid in pids}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            fields = Path("/proc", entry, "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # ended since the directory was listed
        if entry in wanted or fields[_SESSION] in wanted:
            yield fields
