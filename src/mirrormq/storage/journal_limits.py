"""Named limits of the journal, each with the reason for its number."""

from __future__ import annotations

SEGMENT_BYTES = 64 << 20
"""A segment is preallocated to this size. Large enough that creating one (a few milliseconds) is
rare at 150,000 messages/s, small enough that reading one whole during recovery costs little memory."""

BUFFER_BYTES = 4 << 20
"""Buffered records are handed to the kernel (not synced) beyond this, so that the buffer is bounded."""

OPEN_SEGMENTS = 64
"""Sealed segments kept open for reading; the least recently read is closed beyond this."""

READ_WINDOW_BYTES = 1 << 20
"""`load` reads neighbouring messages with one pread of at most this, plus the last record."""

READ_GAP_BYTES = 32 << 10
"""Two wanted messages further apart than this are read separately: reading a gap of 32 KiB from the
page cache costs about as much as one more system call."""

READ_TAIL_BYTES = 1 << 10
"""Read beyond the start of a window's last record, whose length is not known before it is read."""

SHAPES_MAX = 1024
"""Shapes of records that are remembered (`storage.gathering`); all are forgotten when there are more."""

ENVELOPE_CACHE_ENTRIES = 256
"""Envelopes kept for sharing between loaded messages; the cache is emptied when full."""

ACK_RANGES_PER_RECORD = 4096
"""A long list of acknowledgements is split into records of about 64 KiB."""

SPARSE_RATIO = 0.5
"""A sealed segment whose live share is below this is compacted: at worst one byte is copied for each
byte freed, and sealed segments take at most about twice their live data."""

FREED_PER_STEP = 1
"""Segments removed in one housekeeping step: removing 64 MiB and syncing the directory took 2 to 8 ms
on the machine this was written on, and the node waits for it."""

SEQUENCE_RESERVE = 1 << 16
"""`reserve` writes a NEXT record this far ahead, so that memory-only messages cost one small record
in 65,536 and a crash skips at most that many numbers."""

RESYNC_CHECKSUM_BYTES = 1 << 30
"""Bytes that may be checksummed while searching for the next valid record behind damage in one
segment; about a second of work."""

PRODUCERS_ID = 0xF000_0000 - 1
"""Under this id the node keeps what its queues remember of publishers (`storage.producer_ids`)."""

RESERVED_IDS_FROM = 0xF000_0000
"""Queue ids from here on are not queues of the metadata, which would have to declare four thousand million
to get here: the node keeps messages of its own under them (orphans)."""

MANIFEST_ENTRIES_MAX = 4096
"""Entries after which the manifest is replaced by its present state: about 100 KB."""

KNOWN_DAMAGE_MAX = 64
"""Damaged stretches of one segment that the manifest remembers as reported."""

DAMAGE_REASONS_MAX = 16
"""Reasons that the manifest keeps while the journal counts as damaged."""

SHARED_CONTENT_BYTES_MIN = 4096
"""Contents from this size on are written once when several queues append them before the next write. A
reference costs a second read when the message is loaded, which a smaller content is not worth."""

DAMAGED_MESSAGES_MAX = 100_000
"""Damaged messages that are remembered until they are repaired: 10 MB."""

SCRUB_READ_BYTES_MIN = 64 << 10
"""Bytes that one read of the scrubber asks for at least."""
