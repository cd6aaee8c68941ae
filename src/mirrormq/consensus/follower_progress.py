"""Replication progress of one follower, as its leader tracks it."""

from __future__ import annotations

from collections import deque
from enum import Enum

import msgspec

from mirrormq.consensus.log_history import NOTHING


class Mode(Enum):
    """Replication mode of a follower (etcd: probe, replicate, snapshot)."""

    PROBE = "one message at a time, with the leader's history, until the logs agree"
    STREAM = "many messages in flight at once"
    SNAPSHOT = "too far behind for entries"


class Progress(msgspec.Struct):
    """Log position of one follower. Invariant: `match` < `next`."""

    next: int
    """Index of the next entry to send."""
    match: int = NOTHING
    """Last index that is known to be on the follower's disk and to agree with the leader's log."""
    mode: Mode = Mode.PROBE
    inflight: deque[int] = msgspec.field(default_factory=deque)
    """Last index of each Append message in flight."""
    commit_sent: int = NOTHING
    asked: bool = False
    """A probe or a snapshot chunk is in flight. Nothing else is sent until the next heartbeat."""
    moving: bool = False
    """The follower requested a snapshot chunk since the last heartbeat."""
    due: bool = False
    """A heartbeat is due."""
    active: bool = True
    """The follower replied since the last quorum check."""

    def probe(self, next_index: int) -> None:
        self.mode, self.next = Mode.PROBE, next_index
        self.inflight.clear()
        self.asked = False

    def accepted(self, index: int) -> None:
        """Record that the follower's log agrees up to `index`."""
        self.match = max(self.match, index)
        self.next = max(self.next, self.match + 1)
        while self.inflight and self.inflight[0] <= index:
            self.inflight.popleft()
        if self.mode is not Mode.STREAM:
            self.mode, self.next, self.asked = Mode.STREAM, self.match + 1, False

    def refused(self, common: int) -> None:
        """Return to probing after the last common index, which may be below `match` if an operator restored
        an older copy of the follower's data directory. The leader then sends the missing entries again."""
        if self.mode is Mode.PROBE:
            self.match = min(self.match, common)
        self.probe(max(common, self.match) + 1)

    def stale_refusal(self, index: int) -> bool:
        """Tell whether a refusal of the entries after `index` replies to an outdated message."""
        if self.mode is Mode.STREAM:
            return index <= self.match
        return self.mode is Mode.PROBE and index != self.next - 1
