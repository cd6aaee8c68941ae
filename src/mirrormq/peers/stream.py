"""Stream of items between two incarnations of nodes: each arrives once, in order, over any number of links.

A link may break at any moment, and what was in flight on it is lost; the queue's master and the client's
node survive. Neither may be uncertain about what the other has received: an acknowledgement, a delivery, or
a confirm. Frames are therefore numbered and kept until the other side acknowledges them. On a new link each
side first reports the last frame that it received, and the other sends the rest again. The same happens
when a side starts to use an existing link, or detects a gap.

When an incarnation ends, so do its streams, and frames in flight are obsolete. The queues of a failed
master get another one, which receives the unsettled publishes. The consumers of a failed node are gone.

The amount in flight is bounded. A sender of contents checks `writable` first, and registers a callback for
when it becomes true again. Everything else is small, and bounded by what it replies to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic

from mirrormq.peers.peer_limits import DEFAULT_STREAM_LIMITS, SMALL_BYTES, StreamLimits
from mirrormq.peers.stream_frames import Item, StreamFrame


class Stream(Generic[Item]):
    """Stream between this node and one incarnation of another, in both directions."""

    def __init__(
        self,
        peer: str,
        incarnation: int,
        send: Callable[[StreamFrame[Item]], None],
        limits: StreamLimits = DEFAULT_STREAM_LIMITS,
    ) -> None:
        self.peer = peer
        self._limits = limits
        self.incarnation = incarnation
        self.open = False
        """Whether a link is up and both sides know the last frame that arrived."""
        self.over = False
        """Whether the peer's incarnation has ended."""
        self.received = 0
        """Number of frames received."""
        self._send = send
        self._waiting: dict[Callable[[], None], None] = {}
        self._number = 0
        self._kept: deque[tuple[StreamFrame[Item], int]] = deque()
        """Frames sent and not acknowledged, with their sizes."""
        self._kept_bytes = 0
        self._items: list[Item] = []
        self._late_items: list[Item] = []
        self._waiting_bytes = 0
        self._unreported = 0

    @property
    def writable(self) -> bool:
        """Whether contents may be sent."""
        return self.open and self._kept_bytes + self._waiting_bytes < self._limits.stream_bytes_max

    def when_writable(self, resume: Callable[[], None]) -> None:
        """Call `resume` once when contents may be sent again, however often it is registered."""
        self._waiting[resume] = None

    def _relieve(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for resume in waiting:
            resume()

    # -- sending --------------------------------------------------------------------------------

    def put(self, item: Item, size_bytes: int = SMALL_BYTES) -> None:
        """Send an item with the next frame."""
        if self.over:
            return
        self._items.append(item)
        self._waiting_bytes += size_bytes
        if self._waiting_bytes > self._limits.frame_bytes and not self._late_items:
            self.flush()

    def put_late(self, item: Item, size_bytes: int = SMALL_BYTES) -> None:
        """Send an item with the frame at the turn's end, once the disk has what the item promises or
        reports."""
        if not self.over:
            self._late_items.append(item)
            self._waiting_bytes += size_bytes

    @property
    def has_items(self) -> bool:
        """Whether items or an acknowledgement wait to be sent."""
        return bool(self._items or self._late_items or self._unreported)

    def flush(self, *, late: bool = False) -> None:
        """Send waiting items. At the turn's end (`late`), include those that waited for the disk."""
        if late and self._late_items:
            self._items += self._late_items
            self._late_items = []
        if not self.open:
            return
        if self._items:
            self._number += 1
            frame = StreamFrame(self._number, self.received, self._items)
            self._items = []
            # One sum holds the sizes of items and late items: account for it once no late item is left.
            size_bytes = 0 if self._late_items else self._waiting_bytes
            self._waiting_bytes -= size_bytes
            self._kept.append((frame, size_bytes))
            self._kept_bytes += size_bytes
            self._unreported = 0
            self._send(frame)
        elif late and self._unreported:
            self.notify()

    def notify(self) -> None:
        """Acknowledge received frames with an empty frame."""
        self._unreported = 0
        self._send(StreamFrame(0, self.received, []))

    # -- receiving ------------------------------------------------------------------------------

    def receive(self, frame: StreamFrame[Item]) -> list[Item] | None:
        """Return the new items of a frame; None if an earlier frame is missing."""
        self.arrived(frame.received)
        if frame.number <= self.received:
            return []
        if frame.number > self.received + 1:
            return None
        self.received += 1
        self._unreported += 1
        if self._unreported > self._limits.frames_unreported_max:
            self.notify()
        return frame.items

    def arrived(self, number: int) -> None:
        """Drop frames up to this number, which the other side has received."""
        kept = self._kept
        while kept and kept[0][0].number <= number:
            self._kept_bytes -= kept.popleft()[1]
        if self._waiting and self.writable:
            self._relieve()

    # -- links and incarnations -----------------------------------------------------------------

    def begin(self, arrived: int) -> None:
        """Open the stream on a new link. Send the frames after `arrived` again."""
        while self._kept and self._kept[0][0].number <= arrived:
            self._kept_bytes -= self._kept.popleft()[1]
        self.open = True
        self._unreported = 0
        for frame, _ in self._kept:
            self._send(StreamFrame(frame.number, self.received, frame.items))
        if self.writable:
            self._relieve()

    def cut(self) -> None:
        """Close the stream, because the link went down."""
        self.open = False

    def end(self) -> None:
        """Discard the stream, because the peer's incarnation has ended."""
        self.open = False
        self.over = True
        self._kept.clear()
        self._items, self._late_items, self._waiting = [], [], {}
        self._kept_bytes = self._waiting_bytes = 0
