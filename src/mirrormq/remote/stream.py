"""Items from one life of a node to one life of another: each arrives once, in order, over however many links.

A link is cut at any moment, and what was on it is lost; the queue's master and the client's node live on.
They must not have to wonder what the other has heard: whether an acknowledgement was lost, or a delivery, or
the news that a publish is safe. So parcels are numbered and kept until the other side says that it has them.
A new link begins with each side telling how far the last one came; the rest is sent again. The same happens
when a side begins to listen on a link that is there already, or notices that something is missing.

A life that ends takes its streams with it. What was under way is then no longer of interest to anybody: the
queues of a dead master get another (and unsettled publishes are sent to that one), the consumers of a dead
node are gone.

How much may be under way is bounded. Who sends contents looks at `writable` first, and asks to be told when
that has become true again; everything else is small, and bounded by what it answers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from mirrormq.remote import remote_limits
from mirrormq.remote.remote_messages import Item, StreamFrame


class Stream:
    """Both directions between this node and one life of another."""

    def __init__(self, peer: str, incarnation: int, send: Callable[[StreamFrame], None]) -> None:
        self.peer = peer
        self.incarnation = incarnation
        self.open = False
        """There is a link, and both sides know how far the last one came."""
        self.over = False
        """The other life has ended."""
        self.received = 0
        """Parcels that have come."""
        self._send = send
        self._waiting: dict[Callable[[], None], None] = {}
        self._number = 0
        self._kept: deque[tuple[StreamFrame, int]] = deque()
        """Sent and not known to have arrived, with sizes."""
        self._kept_bytes = 0
        self._items: list[Item] = []
        self._late_items: list[Item] = []
        self._waiting_bytes = 0
        self._untold = 0

    @property
    def writable(self) -> bool:
        """May contents be sent?"""
        return self.open and self._kept_bytes + self._waiting_bytes < remote_limits.STREAM_BYTES_MAX

    def when_writable(self, go_on: Callable[[], None]) -> None:
        """Call this once contents may be sent again; once, however often it is asked for."""
        self._waiting[go_on] = None

    def _relieve(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for go_on in waiting:
            go_on()

    # -- sending --------------------------------------------------------------------------------

    def put(self, item: Item, size_bytes: int = remote_limits.SMALL_BYTES) -> None:
        """Send this with the next parcel."""
        if self.over:
            return
        self._items.append(item)
        self._waiting_bytes += size_bytes
        if self._waiting_bytes > remote_limits.PARCEL_BYTES and not self._late_items:
            self.flush()

    def put_late(self, item: Item, size_bytes: int = remote_limits.SMALL_BYTES) -> None:
        """Send this once the disk has what it promises or tells of: with the parcel at the turn's end."""
        if not self.over:
            self._late_items.append(item)
            self._waiting_bytes += size_bytes

    def flush(self, *, late: bool = False) -> None:
        """Send what waits; also what had to wait for the disk, if this is the turn's end."""
        if late and self._late_items:
            self._items += self._late_items
            self._late_items = []
        if not self.open:
            return
        if self._items:
            self._number += 1
            parcel = StreamFrame(self._number, self.received, self._items)
            self._items = []
            size_bytes = 0 if self._late_items else self._waiting_bytes
            self._waiting_bytes -= size_bytes
            self._kept.append((parcel, size_bytes))
            self._kept_bytes += size_bytes
            self._untold = 0
            self._send(parcel)
        elif late and self._untold:
            self.tell()

    def tell(self) -> None:
        """Say what has arrived, with nothing else to say."""
        self._untold = 0
        self._send(StreamFrame(0, self.received, []))

    # -- receiving ------------------------------------------------------------------------------

    def receive(self, parcel: StreamFrame) -> list[Item] | None:
        """What is new in a parcel; None if something is missing before it."""
        self.arrived(parcel.received)
        if parcel.number <= self.received:
            return []
        if parcel.number > self.received + 1:
            return None
        self.received += 1
        self._untold += 1
        if self._untold > remote_limits.PARCELS_UNTOLD_MAX:
            self.tell()
        return parcel.items

    def arrived(self, number: int) -> None:
        """The other side has every parcel up to this one."""
        kept = self._kept
        while kept and kept[0][0].number <= number:
            self._kept_bytes -= kept.popleft()[1]
        if self._waiting and self.writable:
            self._relieve()

    # -- links and lives ------------------------------------------------------------------------

    def begin(self, arrived: int) -> None:
        """There is a new link; up to here the other side has heard everything."""
        while self._kept and self._kept[0][0].number <= arrived:
            self._kept_bytes -= self._kept.popleft()[1]
        self.open = True
        self._untold = 0
        for parcel, _ in self._kept:
            self._send(StreamFrame(parcel.number, self.received, parcel.items))
        if self.writable:
            self._relieve()

    def cut(self) -> None:
        """The link is gone."""
        self.open = False

    def end(self) -> None:
        """The other life is over: nothing of all this matters any more."""
        self.open = False
        self.over = True
        self._kept.clear()
        self._items, self._late_items, self._waiting = [], [], {}
        self._kept_bytes = self._waiting_bytes = 0
