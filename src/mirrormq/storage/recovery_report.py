"""Recovery report of a journal: totals, identity, and every span of bytes that was not used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirrormq.storage.queue_store import JournalQueue
    from mirrormq.storage.segments import Segments


@dataclass(frozen=True, slots=True)
class Dropped:
    """Span of bytes that recovery did not use."""

    path: str
    offset: int
    length: int
    reason: str
    damage: bool = True
    """False for a torn tail, and for damage that an earlier start has reported."""
    proven: bool = True
    """False if a power failure may have hit bytes that were never synced, between others that reached the
    disk. Recovery cannot distinguish that from damage, so it counts as damage."""


@dataclass(slots=True)
class RecoveryReport:
    """Result of `Journal.open`."""

    segments: int = 0
    records: int = 0
    """Records read; 0 if the index of a clean shutdown made reading unnecessary."""
    queues: int = 0
    messages: int = 0
    from_index: bool = False
    index_ignored: str | None = None
    """Reason why an existing index could not be used."""
    dropped: list[Dropped] = field(default_factory=list)
    identity: str = ""
    """Identity of the journal, 32 hexadecimal digits."""
    generation: int = 0
    """Number of this opening; grows by one each time, durable before the first append."""
    created: bool = False
    """No journal existed: the identity is new."""
    upgraded: bool = False
    """The journal was of format 1, without an identity: the identity is new."""
    damaged: bool = False
    """Something that was synced is lost: a record, a segment, or the manifest. `dropped` lists it. Every
    opening reports it again until `Journal.clear_damage` is called. Not set by a torn tail: bytes after
    the last valid record of the newest segment."""
    damage_proven: bool = False
    """Some of the damage is known to have hit bytes that were synced."""

    damaged_messages: list[tuple[int, int]] = field(default_factory=list)
    """(queue, sequence) of known messages whose content is damaged. Loading them raises DamagedMessages
    until they are rewritten or removed."""

    def count(self, segments: Segments, queues: Mapping[int, JournalQueue]) -> None:
        """Set the totals."""
        self.segments = len(segments.by_number)
        self.queues = len(queues)
        self.messages = sum(store.live_count for store in queues.values())
