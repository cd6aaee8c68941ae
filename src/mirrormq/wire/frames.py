"""AMQP frame: kind, channel, size; payload; end octet."""

from __future__ import annotations

import struct
from typing import Final

PROTOCOL_HEADER: Final = b"AMQP\x00\x00\x09\x01"
"""First octets of an AMQP 0-9-1 connection."""

METHOD: Final = 1
HEADER: Final = 2
BODY: Final = 3
HEARTBEAT: Final = 8

HEAD_SIZE: Final = 7
"""Size of kind (1), channel (2), size of the payload (4)."""

FRAME_END: Final = 0xCE

FRAME_OVERHEAD: Final = 8
"""Size of head and end octet."""

HEARTBEAT_FRAME: Final = b"\x08\x00\x00\x00\x00\x00\x00\xce"

FRAME_MIN_BYTES = 4096
"""Smallest frame size limit that AMQP allows two peers to agree on."""

FRAME_MAX_BYTES = 131072
"""RabbitMQ's default frame size limit."""

HEAD: Final = struct.Struct(">BHI")


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Encode one whole frame."""
    return HEAD.pack(kind, channel, len(payload)) + payload + b"\xce"
