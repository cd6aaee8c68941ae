"""The frame: kind, channel, size; payload; end octet."""

from __future__ import annotations

METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8

HEAD_SIZE = 7
"""Kind (1), channel (2), size of the payload (4)."""

FRAME_END = 0xCE

FRAME_OVERHEAD = 8
"""Head and end octet."""
