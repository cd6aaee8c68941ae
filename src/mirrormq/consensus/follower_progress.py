"""What a leader knows about one follower's log."""

from __future__ import annotations

from collections import deque
from enum import Enum

import msgspec

from mirrormq.consensus.log_history import NOTHING


class Mode(Enum):
    """How entries travel to a follower."""

    PROBE = "one message at a time, with our history, until the logs are known to agree"
    STREAM = "many messages on their way at once"
    SNAPSHOT = "too far behind for entries"


class Progress(msgspec.Struct):
    """One follower, as its leader sees it."""

    next: int
    """The entry to send next."""
    match: int = NOTHING
    """The last entry that is known to be on its disk and to agree."""
    mode: Mode = Mode.PROBE
    inflight: deque[int] = msgspec.field(default_factory=deque)
    """The last index of each message on its way."""
    commit_sent: int = NOTHING
    asked: bool = False
    """A probe, or a part of a snapshot, is on its way: silence until the next heartbeat."""
    moving: bool = False
    """A part of a snapshot was asked for since the last heartbeat."""
    due: bool = False
    """A heartbeat is due."""
    active: bool = True
    """It was heard from since the last check of the quorum."""

    def probe(self, next_index: int) -> None:
        self.mode, self.next = Mode.PROBE, next_index
        self.inflight.clear()
        self.asked = False

    def accepted(self, index: int) -> None:
        """Its log agrees up to an index."""
        self.match = max(self.match, index)
        self.next = max(self.next, self.match + 1)
        while self.inflight and self.inflight[0] <= index:
            self.inflight.popleft()
        if self.mode is not Mode.STREAM:
            self.mode, self.next, self.asked = Mode.STREAM, self.match + 1, False

    def refused(self, common: int) -> None:
        """Its log and ours share what is up to `common`, which may be less than it once had: someone may have
        put an older copy of its files in their place. It gets the rest again."""
        if self.mode is Mode.PROBE:
            self.match = min(self.match, common)
        self.probe(max(common, self.match) + 1)

    def stale_refusal(self, index: int) -> bool:
        """Whether a refusal of what followed `index` is about a message of long ago."""
        if self.mode is Mode.STREAM:
            return index <= self.match
        return self.mode is Mode.PROBE and index != self.next - 1
