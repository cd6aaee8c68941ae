"""Limits of a stream between two incarnations of nodes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """Limits that a stream receives at its construction."""

    stream_bytes_max: int = 16 * 1024 * 1024
    """Unacknowledged bytes from one node to another: the size at which a link reports itself as congested."""

    parcel_bytes: int = 512 * 1024
    """Size at which a stream frame leaves at once, so that the receiver can start to process it."""

    parcels_unreported_max: int = 64
    """Frames received before a separate acknowledgement is sent. As a rule the end of a turn comes first."""


DEFAULT_LIMITS = StreamLimits()

SMALL_BYTES = 64
"""Approximate size of an item without contents."""
