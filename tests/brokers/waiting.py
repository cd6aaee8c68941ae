"""Waiting time that a node causes a client, on a machine that may be busy with other programs.

A round trip takes longer where either process stands in line for a processor; that says nothing of the node.
Linux tells of each thread how long it ran and how long it stood in line, so both can be left out.
"""

from __future__ import annotations

import time
from pathlib import Path

NANOSECONDS = 1e9


class Waiting:
    """Begins when it is made, by the thread that waits."""

    def __init__(self, process_id: int) -> None:
        self._node = Path(f"/proc/{process_id}/schedstat")
        self._began = time.monotonic()
        self._ran_s, self._stood_in_line_s = self._told()

    def caused_s(self) -> float:
        """The part of the time until now in which the node was at work and nobody stood in line."""
        passed_s = time.monotonic() - self._began
        ran_s, stood_in_line_s = self._told()
        return max(0.0, min(passed_s - (stood_in_line_s - self._stood_in_line_s), ran_s - self._ran_s))

    def _told(self) -> tuple[float, float]:
        ran, node_stood = map(int, self._node.read_text().split()[:2])
        client_stood = int(Path("/proc/thread-self/schedstat").read_text().split()[1])
        return ran / NANOSECONDS, (node_stood + client_stood) / NANOSECONDS
