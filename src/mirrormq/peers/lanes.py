"""Send lanes of one peer: heartbeat first, then the urgent lane, then the bulk lane.

A small message becomes a frame at once. A long message keeps its payload whole and is split when its turn
comes. An urgent message therefore never waits for more than the chunks already taken. Each lane keeps its
order. Urgent messages have absolute priority: the lane is for elections, acknowledgements and similar
messages. A caller that fills it with bulk data starves its own bulk lane.
"""

from __future__ import annotations

from collections import deque

from mirrormq.peers import peer_limits
from mirrormq.peers.framing import HEAD, HEARTBEAT_FRAME, MORE, kind_of

Piece = bytes | memoryview


class MessageTooLargeError(ValueError):
    """Error for a message over `MESSAGE_BYTES_MAX`: the caller has to split it."""


class _Long:
    """Message of several chunks, with the offset up to which it was taken."""

    __slots__ = ("kind", "offset", "payload")

    def __init__(self, payload: memoryview, kind: int) -> None:
        self.payload = payload
        self.kind = kind
        self.offset = 0


class Lanes:
    """Two lanes of frames and a heartbeat."""

    def __init__(self, message_bytes_max: int = peer_limits.MESSAGE_BYTES_MAX) -> None:
        self._message_bytes_max = message_bytes_max
        self.queued_bytes = 0
        """Bytes of all waiting messages, including frame heads."""
        self._urgent: deque[bytes | _Long] = deque()
        self._bulk: deque[bytes | _Long] = deque()
        self._heartbeat = False

    def __bool__(self) -> bool:
        return self._heartbeat or self.queued_bytes > 0

    def put(self, payload: bytes, *, urgent: bool, packed: bool) -> None:
        """Queue a message."""
        size = len(payload)
        kind = kind_of(urgent=urgent, packed=packed)
        lane = self._urgent if urgent else self._bulk
        if size <= peer_limits.CHUNK_BYTES:
            lane.append(HEAD.pack(size, kind) + payload)
            self.queued_bytes += size + HEAD.size
            return
        if size > self._message_bytes_max:
            raise MessageTooLargeError(f"{size} bytes; at most {self._message_bytes_max} can be sent")
        lane.append(_Long(memoryview(payload), kind))
        self.queued_bytes += size + HEAD.size * -(-size // peer_limits.CHUNK_BYTES)

    def put_heartbeat(self) -> None:
        """Queue a heartbeat, unless one waits already."""
        self._heartbeat = True

    def take(self, bytes_max: int) -> list[Piece]:
        """Return the next pieces of the stream: `bytes_max` bytes, and at most one chunk more."""
        pieces: list[Piece] = []
        if self._heartbeat:
            # The heartbeat goes first: full lanes must not make this node look dead to its peer.
            pieces.append(HEARTBEAT_FRAME)
            self._heartbeat = False
        taken = _take(self._urgent, bytes_max, pieces)
        if taken < bytes_max:
            taken += _take(self._bulk, bytes_max - taken, pieces)
        self.queued_bytes -= taken
        return pieces


def _take(lane: deque[bytes | _Long], bytes_max: int, pieces: list[Piece]) -> int:
    taken = 0
    while lane and taken < bytes_max:
        head_item = lane[0]
        if isinstance(head_item, bytes):
            lane.popleft()
            pieces.append(head_item)
            taken += len(head_item)
            continue
        chunk = head_item.payload[head_item.offset : head_item.offset + peer_limits.CHUNK_BYTES]
        head_item.offset += len(chunk)
        last = head_item.offset == len(head_item.payload)
        pieces.append(HEAD.pack(len(chunk), head_item.kind if last else head_item.kind | MORE))
        pieces.append(chunk)
        taken += HEAD.size + len(chunk)
        if last:
            lane.popleft()
    return taken


def joined(pieces: list[Piece]) -> list[Piece]:
    """Return the same bytes in few pieces: runs of small pieces are joined, large ones are not copied."""
    result: list[Piece] = []
    small: list[Piece] = []
    for piece in pieces:
        if len(piece) < peer_limits.UNJOINED_BYTES_MIN:
            small.append(piece)
            continue
        if small:
            result.append(b"".join(small))
            small = []
        result.append(piece)
    if small:
        result.append(b"".join(small))
    return result
