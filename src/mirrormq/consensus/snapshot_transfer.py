"""Snapshot transfer to a follower that is too far behind, one bounded chunk at a time.

The leader keeps no position; the follower requests the next offset. Either side may therefore forget: a
repeated or reordered chunk changes nothing, and a newer snapshot restarts the transfer.
"""

from __future__ import annotations

import msgspec

from mirrormq.consensus.log_history import LogComparison, LogRelation
from mirrormq.consensus.raft_messages import AppendReply, Chunk, ChunkReply, Snapshot
from mirrormq.consensus.raft_state import RaftState
from mirrormq.consensus.raft_storage import decode_snapshot, encode_snapshot


class SnapshotTransfer:
    """Sender and receiver of snapshots in chunks."""

    def __init__(self, state: RaftState) -> None:
        self._state = state
        self._encoded: tuple[int, bytes] | None = None
        self._incoming: tuple[str, int, int] | None = None
        self._parts = bytearray()

    def forget(self) -> None:
        """Free the buffers of transfers in progress."""
        self._encoded = None
        self._incoming, self._parts = None, bytearray()

    def send(self, peer: str, offset: int) -> None:
        """Send the chunk at an offset."""
        state = self._state
        index, data = self._outgoing()
        part = data[offset : offset + state.settings.chunk_bytes_max]
        state.send(peer, Chunk(state.term, index, offset, len(data), part, state.log.history()))

    def wanted(self, sender: str, reply: ChunkReply) -> None:
        """Send the chunk that a follower requests. Restart at offset 0 if its request is for an older
        snapshot."""
        index, data = self._outgoing()
        self.send(sender, reply.offset if reply.index == index and reply.offset < len(data) else 0)

    def _outgoing(self) -> tuple[int, bytes]:
        index = self._state.log.snapshot_index
        if self._encoded is None or self._encoded[0] != index:
            # A snapshot that is about to be persisted is newer than the one in storage.
            snapshot = self._state.snapshot or self._state.storage.snapshot()
            self._encoded = (snapshot.index, encode_snapshot(snapshot))
        return self._encoded

    def receive(self, sender: str, chunk: Chunk, judged: LogComparison) -> None:
        """Append a chunk; install the snapshot after the last one."""
        state = self._state
        # This log agrees up to the snapshot already, so the leader can continue with entries.
        if chunk.index <= judged.common:
            return state.send(sender, AppendReply(state.term, True, chunk.index, None))
        key = (sender, chunk.index, chunk.total)
        if self._incoming != key:
            self._incoming, self._parts = key, bytearray()
        if chunk.offset == len(self._parts):
            self._parts += chunk.data
        if len(self._parts) < chunk.total:
            return state.send(sender, ChunkReply(state.term, chunk.index, len(self._parts)))
        data, self._incoming, self._parts = bytes(self._parts), None, bytearray()
        try:
            snapshot = decode_snapshot(data)
        except msgspec.DecodeError:
            return None  # chunks of two snapshots of equal size: the next heartbeat restarts the transfer
        if judged.verdict is LogRelation.FOLLOW:
            self.install(snapshot)
            state.send(sender, AppendReply(state.term, True, snapshot.index, None))
        return None

    def install(self, snapshot: Snapshot) -> None:
        """Replace log and state machine by a snapshot."""
        state = self._state
        state.log.restore(snapshot)
        state.snapshot, state.restoring = snapshot, True
        state.proposals.restore(snapshot)
        state.membership.restored()
