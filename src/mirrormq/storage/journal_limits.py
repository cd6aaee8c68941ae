"""Limits of the journal, each with the reason for its number.

`JournalLimits` is a value that a journal receives at its construction; the simulator passes tight ones.
Constants of the format, and sizes that need no other value, are names of this module.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JournalLimits:
    """Limits of one journal."""

    segment_bytes: int = 64 << 20
    """Preallocated size of a segment. Large enough that creating one (a few milliseconds) is rare at 150,000
    messages/s, small enough that reading one whole during recovery costs little memory."""

    buffer_bytes: int = 4 << 20
    """Buffered bytes beyond which records are written to the kernel (not synced), so that the buffer is
    bounded."""

    ack_ranges_per_record: int = 4096
    """Maximum spans per ACK record: a long list of acknowledgements is split into records of about 64 KiB."""

    sparse_ratio: float = 0.5
    """Live share below which a sealed segment is compacted. At worst one byte is copied for each byte freed,
    and sealed segments take at most about twice their live data."""

    sequence_reserve: int = 1 << 16
    """Sequences that one NEXT record reserves. Memory-only messages cost one small record in 65,536, and a
    crash skips at most that many sequences."""

    manifest_entries_max: int = 4096
    """Entries after which the manifest is replaced by its present state: about 100 KB."""

    shared_content_bytes_min: int = 4096
    """Size from which a content is written once when several queues append it before the next write. A
    reference costs a second read when the message is loaded, which is too much for a smaller content."""


DEFAULT_LIMITS = JournalLimits()

OPEN_SEGMENTS = 64
"""Sealed segments kept open for reading. Beyond this the least recently read one is closed."""

READ_WINDOW_BYTES = 1 << 20
"""Maximum bytes of one pread of `load` for neighbouring messages, plus the last record."""

READ_GAP_BYTES = 32 << 10
"""Gap beyond which two requested messages are read separately. Reading a gap of 32 KiB from the page cache
costs about as much as one more system call."""

READ_TAIL_BYTES = 1 << 10
"""Bytes read beyond the start of a window's last record, whose length is unknown before it is read."""

SHAPES_MAX = 1024
"""Record shapes in the cache of `storage.column_reader`. The cache is emptied when full."""

ENVELOPE_CACHE_ENTRIES = 256
"""Envelopes in the cache that loaded messages share. The cache is emptied when full."""

FREED_PER_STEP = 1
"""Segments removed in one housekeeping step. Removing 64 MiB and syncing the directory took 2 to 8 ms on
the development machine, and the node waits for it."""

RESYNC_CHECKSUM_BYTES = 1 << 30
"""Bytes that may be checksummed while searching for the next valid record after damage in one segment:
about a second of work."""

PRODUCERS_ID = 0xF000_0000 - 1
"""Reserved queue id for the publish ids of producers (`storage.producer_ids`)."""

RESERVED_IDS_FROM = 0xF000_0000
"""First reserved queue id. The metadata would have to declare four thousand million queues to reach it.
The node stores its own messages (orphans) under reserved ids."""

KNOWN_DAMAGE_MAX = 64
"""Damaged spans of one segment that the manifest records as reported."""

DAMAGE_REASONS_MAX = 16
"""Reasons that the manifest keeps while the journal counts as damaged."""

DAMAGED_MESSAGES_MAX = 100_000
"""Damaged messages that are recorded until they are repaired: 10 MB."""

SCRUB_READ_BYTES_MIN = 64 << 10
"""Minimum bytes per read of the scrubber."""
