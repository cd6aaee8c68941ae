"""Who is alive: up, suspected or down, from the time since each peer was last heard.

A node cannot know whether a silent peer is dead, frozen, cut off or busy; it can only wait. How long is
a bargain between two mistakes, and these are its terms:

- Every node sends a heartbeat each `heartbeat_ms` and looks at its clock each `tick_ms`; any byte from a
  peer counts as much as a heartbeat.
- A peer silent for `suspect_ms` is suspected, for `down_ms` it is down. A peer that freezes was last heard
  before, so it is down at most `down_ms + tick_ms` after it froze: 3.75 s by default, which leaves more than
  a second of the five that are promised for putting another node in its place.
- A healthy node whose loop is blocked for 1.5 s is silent for at most 1.5 s and a heartbeat and a tick:
  2.25 s, and there is another second of slack for the network and the scheduler.
- Both sides of a cut last heard each other at most `heartbeat_ms` before it, so they agree within
  `heartbeat_ms + tick_ms`: 0.75 s. The side that decides first also closes the connection, which tells the
  other one at once where the cut is only one way.

**The judge may be the one who slept.** A process that was stopped for ten seconds wakes to find that
nobody was heard for ten seconds; the bytes of its peers are waiting in its sockets, unread. So silence is
measured on a clock that runs only while this node is awake: of any gap between two looks at the clock, at
most `gap_ms` counts. After a gap of `down_ms` or more, when nothing before it means anything, everybody
gets a whole fresh interval. Short gaps do count in part: a node that is blocked again and again judges more
slowly, but it does not go blind. How long the node slept is told to the caller too, because a master that
slept must not go on as if nothing had happened.

`net_ticktime` keeps RabbitMQ's meaning where an operator sets it: a quarter of it between heartbeats, down
when it has passed. An operator who sets it below three seconds gives up the patience with busy nodes.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class Liveness(enum.Enum):
    """What is believed of a peer."""

    UP = "up"
    SUSPECTED = "suspected"
    DOWN = "down"


class DetectorTiming(NamedTuple):
    """The detector's terms; the defaults are explained above."""

    heartbeat_ms: int = 500
    suspect_ms: int = 2000
    down_ms: int = 3500
    tick_ms: int = 250
    gap_ms: int = 1000

    @classmethod
    def of_net_ticktime(cls, net_ticktime_s: int) -> DetectorTiming:
        """The terms of an operator who set `net_ticktime`."""
        down_ms = net_ticktime_s * 1000
        tick_ms = min(cls().tick_ms, max(down_ms // 16, 1))
        return cls(down_ms // 4, down_ms // 2, down_ms, tick_ms, max(down_ms // 4, tick_ms))


class LivenessChange(NamedTuple):
    """A peer is believed to be something else than before."""

    peer: str
    liveness: Liveness
    silent_ms: int


class DetectorVerdict(NamedTuple):
    """What a look at the clock showed."""

    changes: list[LivenessChange]
    slept_ms: int
    """How long this node itself did not look at its clock, if that is worth mentioning; else 0."""


class _Peer:
    __slots__ = ("heard_ms", "liveness")

    def __init__(self, heard_ms: int) -> None:
        self.heard_ms = heard_ms
        self.liveness = Liveness.UP


class FailureDetector:
    """Watches peers. Times are of any clock that does not go back."""

    def __init__(self, timing: DetectorTiming, now_ms: int) -> None:
        self.timing = timing
        self._last_look_ms = now_ms
        self._asleep_ms = 0
        """Time that does not count, since the start."""
        self._slept_ms = 0
        self._peers: dict[str, _Peer] = {}

    def watch(self, peer: str, now_ms: int) -> None:
        """A link to `peer` has come up: it is heard now."""
        self._peers[peer] = _Peer(self._look(now_ms))

    def forget(self, peer: str) -> None:
        """The link is gone for another reason."""
        self._peers.pop(peer, None)

    def heard(self, peer: str, now_ms: int) -> None:
        """Something came from `peer`."""
        awake_ms = self._look(now_ms)
        if (watched := self._peers.get(peer)) is not None:
            watched.heard_ms = awake_ms

    def liveness(self, peer: str) -> Liveness:
        """What is believed of a peer; one that is not watched is down."""
        watched = self._peers.get(peer)
        return Liveness.DOWN if watched is None else watched.liveness

    def tick(self, now_ms: int) -> DetectorVerdict:
        """Judge everybody. Those who are down are not watched any more."""
        awake_ms = self._look(now_ms)
        slept_ms, self._slept_ms = self._slept_ms, 0
        changes = []
        for name, peer in list(self._peers.items()):
            silent_ms = awake_ms - peer.heard_ms
            liveness = self._judge(silent_ms)
            if liveness is not peer.liveness:
                peer.liveness = liveness
                changes.append(LivenessChange(name, liveness, silent_ms))
            if liveness is Liveness.DOWN:
                del self._peers[name]
        return DetectorVerdict(changes, slept_ms)

    def _judge(self, silent_ms: int) -> Liveness:
        if silent_ms >= self.timing.down_ms:
            return Liveness.DOWN
        return Liveness.SUSPECTED if silent_ms >= self.timing.suspect_ms else Liveness.UP

    def _look(self, now_ms: int) -> int:
        """The time on the clock that runs while this node is awake."""
        gap_ms = now_ms - self._last_look_ms
        self._last_look_ms = now_ms
        if gap_ms > self.timing.gap_ms:
            self._asleep_ms += gap_ms - self.timing.gap_ms
            self._slept_ms = max(self._slept_ms, gap_ms)
            if gap_ms >= self.timing.down_ms:
                for peer in self._peers.values():
                    peer.heard_ms = now_ms - self._asleep_ms
        return now_ms - self._asleep_ms
