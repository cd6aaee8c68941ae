"""The streams of this node's life with the lives of all others, as links come and go."""

from __future__ import annotations

from collections.abc import Callable

from mirrormq.remote.remote_messages import Item, RemoteMessage, StreamFrame, StreamHello
from mirrormq.remote.stream import Stream


class Streams:
    """By node and life. A life is spoken with once a link has shown that it is the one at the other end."""

    def __init__(
        self,
        incarnation: int,
        send: Callable[[str, RemoteMessage], None],
        ended: Callable[[Stream], None],
        lives_over: Callable[[], None] = lambda: None,
    ) -> None:
        self._incarnation = incarnation
        self._send = send
        self._ended = ended
        self._lives_over = lives_over
        """Told after any life has ended, whether or not there was a stream."""
        self._by_incarnation: dict[tuple[str, int], Stream] = {}
        self._lost: dict[str, int] = {}
        """The last life of each node that is known to be over."""
        self.linked: dict[str, Stream] = {}
        """The stream that each link carries."""

    def to(self, peer: str, incarnation: int) -> Stream:
        """The stream with a node's life, whether or not there is a link."""
        stream = self._by_incarnation.get((peer, incarnation))
        if stream is None:
            stream = Stream(peer, incarnation, lambda parcel: self._send(peer, parcel))
            if incarnation <= self._lost.get(peer, 0):
                stream.end()
            else:
                self._by_incarnation[peer, incarnation] = stream
        return stream

    def is_over(self, producer: str) -> bool:
        """Is this the name of a node's life that has ended?"""
        peer, _, incarnation = producer.rpartition("#")
        return incarnation.isdigit() and int(incarnation) <= self._lost.get(peer, 0)

    def newest(self, peer: str) -> Stream | None:
        """The stream with the latest life of a node that is known here."""
        incarnations = [incarnation for name, incarnation in self._by_incarnation if name == peer]
        return self._by_incarnation[peer, max(incarnations)] if incarnations else None

    # -- links ----------------------------------------------------------------------------------

    def up(self, peer: str) -> None:
        """There is a link: say who is here and how far the last one came."""
        self.down(peer)
        self._greet(peer)

    def _greet(self, peer: str, *, answer: bool = False) -> None:
        newest = self.newest(peer)
        incarnation, received = (0, 0) if newest is None else (newest.incarnation, newest.received)
        self._send(peer, StreamHello(self._incarnation, incarnation, received, answer))

    def down(self, peer: str) -> None:
        """The link is gone."""
        stream = self.linked.pop(peer, None)
        if stream is not None:
            stream.cut()

    def hello(self, peer: str, hello: StreamHello) -> None:
        """The other end has said who it is: its earlier lives are over. It may have begun to listen only
        now, so it is answered before anything else is sent."""
        self.lost(peer, hello.incarnation - 1)
        stream = self.to(peer, hello.incarnation)
        if stream.over:
            return
        if not hello.answer:
            self._greet(peer, answer=True)
        arrived = hello.received if hello.your_life == self._incarnation else 0
        if hello.answer and self.linked.get(peer) is stream:
            stream.arrived(arrived)
        else:
            self.linked[peer] = stream
            stream.begin(arrived)

    def receive(self, peer: str, parcel: StreamFrame) -> tuple[Stream, list[Item]] | None:
        """What is new in a parcel, and from whom. Something missing is asked for."""
        stream = self.linked.get(peer)
        if stream is None:
            return None
        items = stream.receive(parcel)
        if items is None:
            self._greet(peer)
            return None
        return stream, items

    # -- lives ----------------------------------------------------------------------------------

    def lost(self, peer: str, incarnation: int) -> None:
        """A node's lives up to this one are over."""
        if incarnation <= self._lost.get(peer, 0):
            return
        self._lost[peer] = incarnation
        for key in [key for key in self._by_incarnation if key[0] == peer and key[1] <= incarnation]:
            stream = self._by_incarnation.pop(key)
            if self.linked.get(peer) is stream:
                del self.linked[peer]
            stream.end()
            self._ended(stream)
        self._lives_over()
