"""Whoever changes the metadata is answered when every node that is there knows of the change.

Agreement needs a majority only, and the others hear of it a moment later. In that moment a client could be
told that its queue is there, tell a friend, and the friend's node would know of no such queue. So the node
that the change was written on asks the others whether they have come as far as itself, and answers its
client when they have. It waits for those it has a link to and shares one story with; a node that says
nothing for `PATIENCE_TICKS` is not waited for, the failure detector will see to it.

One question at a time is under way to each node, and it is about the latest change that somebody waits for:
a thousand declarations in a row take few questions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from mirrormq.cluster.cluster_messages import Reach
from mirrormq.cluster.membership_changes import Send

PATIENCE_TICKS = 40
"""A second: a node that is merely busy answers within some milliseconds."""


class _Waiting(NamedTuple):
    mark: int
    since: int
    callback: Callable[[], None]


class ApplyBarrier:
    """What others have applied, and who waits for it."""

    def __init__(self, send: Send, peers: Callable[[], Iterable[str]]) -> None:
        self._send = send
        self._peers = peers
        self._waiting: deque[_Waiting] = deque()
        self._asked: dict[str, int] = {}
        self._reached: dict[str, int] = {}
        self._questions: dict[str, int] = {}
        """Nodes that wait for an answer of ours, and how far we must have come."""
        self._ticks = 0

    def wait(self, index: int, callback: Callable[[], None]) -> None:
        """Call back when all nodes have come as far as this."""
        self._waiting.append(_Waiting(index, self._ticks, callback))

    def tick(self) -> None:
        """Time has passed."""
        self._ticks += 1

    def down(self, peer: str) -> None:
        """The link to a node is gone, and what was said over it."""
        for table in (self._asked, self._reached, self._questions):
            table.pop(peer, None)

    def receive(self, peer: str, message: Reach) -> None:
        """A node wants to know when this one has come that far, or has come that far itself."""
        if message.is_request:
            self._questions[peer] = message.index
        else:
            self._reached[peer] = max(self._reached.get(peer, 0), message.index)

    def work(self, applied: int) -> list[Callable[[], None]]:
        """Ask and answer what is to be; gives those who need not wait any longer."""
        for peer in [peer for peer, index in self._questions.items() if index <= applied]:
            del self._questions[peer]
            self._send(peer, Reach(applied, is_request=False), urgent=True)
        if not self._waiting:
            return []
        peers = sorted(self._peers())
        latest = self._waiting[-1].mark
        for peer in peers:
            reached = self._reached.get(peer, 0)
            if reached < latest and self._asked.get(peer, 0) <= reached:
                self._asked[peer] = latest
                self._send(peer, Reach(latest, is_request=True), urgent=True)
        return list(self._arrived(min([self._reached.get(peer, 0) for peer in peers], default=latest)))

    def _arrived(self, applied_on_all: int) -> Iterable[Callable[[], None]]:
        while self._waiting:
            first = self._waiting[0]
            if first.mark > applied_on_all and self._ticks - first.since < PATIENCE_TICKS:
                return
            yield self._waiting.popleft().callback
