"""Apply barrier: a client is answered when every connected node has applied its metadata change.

Commit needs a majority only, and the other nodes apply the change a moment later. In that moment a client
could be answered that its queue exists, while another client's node does not know the queue yet. The node
that wrote the change therefore requests the applied index of the others, and answers its client when all
have reached its own. It waits for nodes that it has a link to and no fork with. It stops waiting for a node
that does not reply for `REPLY_TIMEOUT_TICKS`; the failure detector handles that node.

One request at a time is in flight to each node, for the latest change that a client waits for. A thousand
declarations in a row therefore need few requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from mirrormq.cluster.cluster_messages import Reach
from mirrormq.cluster.membership_changes import Send

REPLY_TIMEOUT_TICKS = 40
"""Ticks to wait for a reply: one second. A node that is merely busy replies within milliseconds."""


class _Waiting(NamedTuple):
    mark: int
    since: int
    callback: Callable[[], None]


class ApplyBarrier:
    """Applied indexes of the other nodes, and the callbacks that wait for them."""

    def __init__(self, send: Send, peers: Callable[[], Iterable[str]]) -> None:
        self._send = send
        self._peers = peers
        self._waiting: deque[_Waiting] = deque()
        self._requested: dict[str, int] = {}
        self._reached: dict[str, int] = {}
        self._requests: dict[str, int] = {}
        """Index that this node must reach before it replies, by requesting node."""
        self._ticks = 0

    def wait(self, index: int, callback: Callable[[], None]) -> None:
        """Call `callback` when all connected nodes have applied `index`."""
        self._waiting.append(_Waiting(index, self._ticks, callback))

    def tick(self) -> None:
        """Advance the time by one tick."""
        self._ticks += 1

    def down(self, peer: str) -> None:
        """Forget the requests and replies of a peer whose link went down."""
        for table in (self._requested, self._reached, self._requests):
            table.pop(peer, None)

    def receive(self, peer: str, message: Reach) -> None:
        """Store a peer's request for this node's applied index, or the peer's own applied index."""
        if message.is_request:
            self._requests[peer] = message.index
        else:
            self._reached[peer] = max(self._reached.get(peer, 0), message.index)

    def work(self, applied: int) -> list[Callable[[], None]]:
        """Send the requests and replies that are due, and return the callbacks that need not wait any
        longer."""
        for peer in [peer for peer, index in self._requests.items() if index <= applied]:
            del self._requests[peer]
            self._send(peer, Reach(applied, is_request=False), urgent=True)
        if not self._waiting:
            return []
        peers = sorted(self._peers())
        latest = self._waiting[-1].mark
        for peer in peers:
            # One request per peer at a time, always for the highest index: its reply answers all lower ones.
            reached = self._reached.get(peer, 0)
            if reached < latest and self._requested.get(peer, 0) <= reached:
                self._requested[peer] = latest
                self._send(peer, Reach(latest, is_request=True), urgent=True)
        return list(self._arrived(min([self._reached.get(peer, 0) for peer in peers], default=latest)))

    def _arrived(self, applied_on_all: int) -> Iterable[Callable[[], None]]:
        while self._waiting:
            first = self._waiting[0]
            if first.mark > applied_on_all and self._ticks - first.since < REPLY_TIMEOUT_TICKS:
                return
            yield self._waiting.popleft().callback
