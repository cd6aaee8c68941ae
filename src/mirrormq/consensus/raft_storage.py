"""Durable storage of a Raft node, as an interface, and an implementation in memory.

The core reads `load()` once when it is created, and `snapshot()` when a follower needs it. The runtime
writes: it passes each Ready to `save` before it sends that Ready's messages. Duties of a RaftStorage:

1.  `save` writes in order: the snapshot, then the hard state, then the entries one by one. A crash in the
    middle leaves a prefix of that order.
2.  After `save` of a Ready with `must_sync`, all of it survives any crash.
3.  An entry replaces everything from its index on. A snapshot replaces the entries up to its index;
    with `restore` it replaces the whole log.
4.  A snapshot is stored atomically, and the entries it replaces are deleted after it is complete.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from mirrormq.consensus.log_history import TermRun
from mirrormq.consensus.raft_messages import Entry, HardState, Members, Message, Snapshot
from mirrormq.consensus.ready import Ready


class StoredLog(msgspec.Struct):
    """Durable state that a starting node loads."""

    hard_state: HardState
    snapshot: Snapshot
    entries: list[Entry]


class RaftStorage(Protocol):
    """Durable storage of a Raft node. The module docstring lists its duties."""

    def load(self) -> StoredLog: ...
    def snapshot(self) -> Snapshot: ...
    def save(self, ready: Ready) -> None: ...


class MemoryLog:
    """Storage that lasts as long as the object: for tests, and for nodes without a disk."""

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
    """Return the initial snapshot of a cluster's first nodes. A node that joins later starts from
    `Snapshot()`.

    All founding nodes must receive the same arguments. `cluster` is the first branch: a distinct number keeps
    a cluster from accepting the nodes of another one.
    """
    members = Members(voters=tuple(sorted(voters)))
    return Snapshot(0, members, (TermRun(0, cluster, 0, True),), (), state, cluster)


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)
_snapshot_decoder = msgspec.msgpack.Decoder(Snapshot)


def encode_message(message: Message) -> bytes:
    return _encoder.encode(message)


def decode_message(data: bytes) -> Message:
    """Decode a message. Raises msgspec.DecodeError (or its ValidationError) for any other data."""
    return _decoder.decode(data)


def encode_snapshot(snapshot: Snapshot) -> bytes:
    return _encoder.encode(snapshot)


def decode_snapshot(data: bytes) -> Snapshot:
    return _snapshot_decoder.decode(data)
