"""Errors of storage.

JournalFailed       a write or fsync failed; later operations could not be trusted and are refused
DamagedMessages     some of the requested messages do not match their checksums
"""

from __future__ import annotations

from collections.abc import Sequence

from mirrormq.errors import DamageError


class JournalFailed(Exception):
    """Failed write or sync of the disk. The journal stays failed; the node must stop."""


class DamagedMessages(DamageError):
    """Damaged records found by `load`. `sequences` lists them; the other messages are intact."""

    def __init__(self, queue_id: int, sequences: Sequence[int]) -> None:
        first_sequences = ", ".join(map(str, sequences[:8]))
        super().__init__(
            f"{len(sequences)} message(s) of queue {queue_id} are damaged on disk: {first_sequences}"
        )
        self.queue_id = queue_id
        self.sequences = list(sequences)
