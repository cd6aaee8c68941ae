"""Streams between this node's incarnation and those of all other nodes, while links come and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic

from mirrormq.peers.peer_limits import DEFAULT_STREAM_LIMITS, StreamLimits
from mirrormq.peers.stream import Stream
from mirrormq.peers.stream_frames import Item, StreamFrame, StreamHello


class Streams(Generic[Item]):
    """Streams by node and incarnation. A stream starts once a link has shown that its incarnation is at the
    other end."""

    def __init__(
        self,
        incarnation: int,
        send: Callable[[str, StreamHello | StreamFrame[Item]], None],
        ended: Callable[[Stream[Item]], None],
        incarnation_over: Callable[[], None] = lambda: None,
        limits: StreamLimits = DEFAULT_STREAM_LIMITS,
    ) -> None:
        self._limits = limits
        self._incarnation = incarnation
        self._send = send
        self._ended = ended
        self._incarnation_over = incarnation_over
        """Callback after any incarnation has ended, with or without a stream."""
        self._by_incarnation: dict[tuple[str, int], Stream[Item]] = {}
        self._lost: dict[str, int] = {}
        """Latest incarnation of each node that is known to have ended."""
        self.linked: dict[str, Stream[Item]] = {}
        """Stream that each link carries."""

    def to(self, peer: str, incarnation: int) -> Stream[Item]:
        """Return the stream to a node's incarnation, with or without a link."""
        stream = self._by_incarnation.get((peer, incarnation))
        if stream is None:
            stream = Stream(peer, incarnation, lambda frame: self._send(peer, frame), self._limits)
            if incarnation <= self._lost.get(peer, 0):
                stream.end()
            else:
                self._by_incarnation[peer, incarnation] = stream
        return stream

    def is_over(self, producer: str) -> bool:
        """Return whether this producer's incarnation has ended."""
        peer, _, incarnation = producer.rpartition("#")
        return incarnation.isdigit() and int(incarnation) <= self._lost.get(peer, 0)

    def newest(self, peer: str) -> Stream[Item] | None:
        """Return the stream to the latest known incarnation of a node."""
        incarnations = [incarnation for name, incarnation in self._by_incarnation if name == peer]
        return self._by_incarnation[peer, max(incarnations)] if incarnations else None

    # -- links ----------------------------------------------------------------------------------

    def up(self, peer: str) -> None:
        """Send StreamHello over a new link: incarnation, and frames received so far."""
        self.down(peer)
        self._greet(peer)

    def _greet(self, peer: str, *, answer: bool = False) -> None:
        newest = self.newest(peer)
        incarnation, received = (0, 0) if newest is None else (newest.incarnation, newest.received)
        self._send(peer, StreamHello(self._incarnation, incarnation, received, answer))

    def down(self, peer: str) -> None:
        """Suspend the stream after its link went down."""
        stream = self.linked.pop(peer, None)
        if stream is not None:
            stream.cut()

    def hello(self, peer: str, hello: StreamHello) -> None:
        """Process StreamHello of the other end: its earlier incarnations have ended. The other end may
        process messages only from now on, so the reply is sent before any frame."""
        self.lost(peer, hello.incarnation - 1)
        stream = self.to(peer, hello.incarnation)
        if stream.over:
            return
        if not hello.answer:
            self._greet(peer, answer=True)
        arrived = hello.received if hello.your_incarnation == self._incarnation else 0
        if hello.answer and self.linked.get(peer) is stream:
            stream.arrived(arrived)
        else:
            self.linked[peer] = stream
            stream.begin(arrived)

    def receive(self, peer: str, frame: StreamFrame[Item]) -> tuple[Stream[Item], list[Item]] | None:
        """Return the stream and the new items of a frame; on a gap, request the missing frames."""
        stream = self.linked.get(peer)
        if stream is None:
            return None
        items = stream.receive(frame)
        if items is None:
            self._greet(peer)
            return None
        return stream, items

    # -- incarnations ---------------------------------------------------------------------------

    def lost(self, peer: str, incarnation: int) -> None:
        """End the streams to incarnations of a node up to this one."""
        if incarnation <= self._lost.get(peer, 0):
            return
        self._lost[peer] = incarnation
        for key in [key for key in self._by_incarnation if key[0] == peer and key[1] <= incarnation]:
            stream = self._by_incarnation.pop(key)
            if self.linked.get(peer) is stream:
                del self.linked[peer]
            stream.end()
            self._ended(stream)
        self._incarnation_over()
