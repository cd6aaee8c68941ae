"""Memory allocator of the C library: large blocks go back to the system when they are freed.

By default glibc serves a block size from its heap after one such block was freed, and keeps the heap. The
16 MiB of one password check would then stay with the node for ever, once for each thread that hashes.
"""

from __future__ import annotations

import ctypes

BLOCK_BYTES_MIN = 8 * 1024 * 1024
"""Size from which a block is a mapping of its own: above most bodies, because a mapping costs a page fault
per 4 KiB, and below the block of a password check (`auth/passwords.py`)."""

KEPT_BYTES_MAX = 8 * 1024 * 1024
"""Free bytes at the end of the heap that are kept for the next bodies."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Parameters of mallopt(3)."""


def return_large_blocks() -> None:
    """Fix the thresholds of glibc's allocator. Other C libraries have none."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, BLOCK_BYTES_MIN)
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES_MAX)
