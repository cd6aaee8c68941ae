"""The streams of this node's life with the lives of all others, as links come and go."""

from __future__ import annotations

from collections.abc import Callable

from mirrormq.remote.messages import Hello, Item, Parcel, RemoteMessage
from mirrormq.remote.stream import Stream


class Streams:
    """By node and life. A life is spoken with once a link has shown that it is the one at the other end."""

    def __init__(
        self,
        life: int,
        send: Callable[[str, RemoteMessage], None],
        ended: Callable[[Stream], None],
    ) -> None:
        self._life = life
        self._send = send
        self._ended = ended
        self._by_life: dict[tuple[str, int], Stream] = {}
        self._lost: dict[str, int] = {}
        """The last life of each node that is known to be over."""
        self.linked: dict[str, Stream] = {}
        """The stream that each link carries."""

    def to(self, peer: str, life: int) -> Stream:
        """The stream with a node's life, whether or not there is a link."""
        stream = self._by_life.get((peer, life))
        if stream is None:
            stream = Stream(peer, life, lambda parcel: self._send(peer, parcel))
            if life <= self._lost.get(peer, 0):
                stream.end()
            else:
                self._by_life[peer, life] = stream
        return stream

    def is_over(self, producer: str) -> bool:
        """Is this the name of a node's life that has ended?"""
        peer, _, life = producer.rpartition("#")
        return life.isdigit() and int(life) <= self._lost.get(peer, 0)

    def newest(self, peer: str) -> Stream | None:
        """The stream with the latest life of a node that is known here."""
        lives = [life for name, life in self._by_life if name == peer]
        return self._by_life[peer, max(lives)] if lives else None

    # -- links ----------------------------------------------------------------------------------

    def up(self, peer: str) -> None:
        """There is a link: say who is here and how far the last one came."""
        self.down(peer)
        self._greet(peer)

    def _greet(self, peer: str, *, answer: bool = False) -> None:
        newest = self.newest(peer)
        life, received = (0, 0) if newest is None else (newest.life, newest.received)
        self._send(peer, Hello(self._life, life, received, answer))

    def down(self, peer: str) -> None:
        """The link is gone."""
        stream = self.linked.pop(peer, None)
        if stream is not None:
            stream.cut()

    def hello(self, peer: str, hello: Hello) -> None:
        """The other end has said who it is: its earlier lives are over. It may have begun to listen only
        now, so it is answered before anything else is sent."""
        self.lost(peer, hello.life - 1)
        stream = self.to(peer, hello.life)
        if stream.over:
            return
        if not hello.answer:
            self._greet(peer, answer=True)
        arrived = hello.received if hello.your_life == self._life else 0
        if hello.answer and self.linked.get(peer) is stream:
            stream.arrived(arrived)
        else:
            self.linked[peer] = stream
            stream.begin(arrived)

    def receive(self, peer: str, parcel: Parcel) -> tuple[Stream, list[Item]] | None:
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

    def lost(self, peer: str, life: int) -> None:
        """A node's lives up to this one are over."""
        if life <= self._lost.get(peer, 0):
            return
        self._lost[peer] = life
        for key in [key for key in self._by_life if key[0] == peer and key[1] <= life]:
            stream = self._by_life.pop(key)
            if self.linked.get(peer) is stream:
                del self.linked[peer]
            stream.end()
            self._ended(stream)
