"""How storage fails.

JournalFailed       a write or fsync failed; nothing after it can be trusted, so nothing is tried
DamagedMessages     some of the messages asked for do not match their checksums
"""

from __future__ import annotations

from collections.abc import Sequence

from mirrormq.errors import DamageError


class JournalFailed(Exception):
    """The disk refused a write or a sync. The journal stays failed; the node must stop."""


class DamagedMessages(DamageError):
    """`load` met records that cannot be trusted; `sequences` names them, the others are fine."""

    def __init__(self, queue_id: int, sequences: Sequence[int]) -> None:
        some = ", ".join(map(str, sequences[:8]))
        super().__init__(f"{len(sequences)} message(s) of queue {queue_id} are damaged on disk: {some}")
        self.queue_id = queue_id
        self.sequences = list(sequences)
