"""What a node keeps across crashes, as an interface, and an implementation in memory.

The core reads `load()` once when it is made, and `snapshot()` when a follower needs it. Writing is the
runtime's part: it hands each Ready to `save` before it sends that Ready's messages. Duties of a Storage:

1.  `save` is in order: the snapshot, then the hard state, then the entries, one after the other. A crash
    in the middle leaves a prefix of that.
2.  After `save` of a Ready with `must_sync`, all of it survives any crash.
3.  An entry replaces everything from its index on. A snapshot replaces the entries up to its index;
    with `restore` it replaces the whole log.
4.  A snapshot is all there or not there at all, and the entries it replaces go after it is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from mirrormq.consensus.log_history import TermRun
from mirrormq.consensus.raft_messages import Entry, HardState, Members, Message, Snapshot
from mirrormq.consensus.ready import Ready


class StoredLog(msgspec.Struct):
    """What a starting node finds."""

    hard_state: HardState
    snapshot: Snapshot
    entries: list[Entry]


class RaftStorage(Protocol):
    """Duties: the module's text."""

    def load(self) -> StoredLog: ...
    def snapshot(self) -> Snapshot: ...
    def save(self, ready: Ready) -> None: ...


class MemoryLog:
    """A Storage that lasts as long as the object: for tests, and for nodes without a disk."""

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        self.hard_state = HardState()
        self.entries: list[Entry] = []
        self._snapshot = snapshot if snapshot is not None else Snapshot()

    def load(self) -> StoredLog:
        return StoredLog(self.hard_state, self._snapshot, list(self.entries))

    def snapshot(self) -> Snapshot:
        return self._snapshot

    def save(self, ready: Ready) -> None:
        if ready.snapshot is not None:
            self._snapshot = ready.snapshot
            kept = [entry for entry in self.entries if entry.index > ready.snapshot.index]
            self.entries = [] if ready.restore else kept
        if ready.hard_state is not None:
            self.hard_state = ready.hard_state
        for entry in ready.entries:
            while self.entries and self.entries[-1].index >= entry.index:
                self.entries.pop()
            self.entries.append(entry)


def founded(voters: Iterable[str], cluster: int = 0, state: bytes = b"") -> Snapshot:
    """What the first nodes of a cluster start from. A node that joins later starts from `Snapshot()`.

    All founders must be given the same. `cluster` is the first branch: with a number of its own, a
    cluster never takes another one's nodes for a part of itself.
    """
    members = Members(voters=tuple(sorted(voters)))
    return Snapshot(0, members, (TermRun(0, cluster, 0, True),), (), state, cluster)


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_snapshot_decoder = msgspec.msgpack.Decoder(Snapshot)


def encode_message(message: Message) -> bytes:
    return _encoder.encode(message)


def decode_message(data: bytes) -> Message:
    """Raises msgspec.DecodeError (or its ValidationError) for anything else than a message."""
    return _decoder.decode(data)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    return _encoder.encode(snapshot)


def decode_snapshot(data: bytes) -> Snapshot:
    return _snapshot_decoder.decode(data)
