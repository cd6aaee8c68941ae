"""Failure detector: decides from silence whether a peer is up, suspected or down.

A node cannot know whether a silent peer is dead, frozen, cut off or busy; it can only wait. The waiting
time is a compromise between two mistakes:

- Every node sends a heartbeat each `heartbeat_ms` and reads its clock each `tick_ms`. Any byte from a peer
  counts as a heartbeat.
- A peer silent for `suspect_ms` is suspected, for `down_ms` it is down. A peer that freezes was last heard
  before, so it is down at most `down_ms + tick_ms` after it froze: 3.75 s by default. Of the guaranteed
  five seconds this leaves more than one second for the promotion of another node.
- A healthy node whose loop is blocked for 1.5 s is silent for at most 1.5 s plus a heartbeat and a tick:
  2.25 s. This leaves another second of slack for the network and the scheduler.
- Both sides of a partition last heard each other at most `heartbeat_ms` before it, so they agree within
  `heartbeat_ms + tick_ms`: 0.75 s. The side that decides first also closes the connection, which informs
  the other side at once if only one direction is cut.

**The detector itself may have slept.** A process that was stopped for ten seconds finds that no peer was
heard for ten seconds; the bytes of its peers wait unread in its sockets. Silence is therefore measured on
a clock that runs only while this node is awake: of any gap between two clock readings, at most `gap_ms`
counts. After a gap of `down_ms` or more, earlier times are meaningless, and every peer gets a complete new
interval. Short gaps count in part: a node that is blocked repeatedly decides more slowly, but it still
decides. The detector also reports how long the node slept, because a master that slept must not continue
as before.

`net_ticktime` keeps RabbitMQ's meaning if an operator sets it: a heartbeat each quarter of it, down when
it has passed. With less than three seconds the detector no longer tolerates busy nodes.
"""

from __future__ import annotations

import enum
from typing import NamedTuple


class Liveness(enum.Enum):
    """State of a peer, as the detector assumes it."""

    UP = "up"
    SUSPECTED = "suspected"
    DOWN = "down"


class DetectorTiming(NamedTuple):
    """Timing of the detector; the module docstring explains the defaults."""

    heartbeat_ms: int = 500
    suspect_ms: int = 2000
    down_ms: int = 3500
    tick_ms: int = 250
    gap_ms: int = 1000

    @classmethod
    def of_net_ticktime(cls, net_ticktime_s: int) -> DetectorTiming:
        """Return the timing for an operator's `net_ticktime`."""
        down_ms = net_ticktime_s * 1000
        tick_ms = min(cls().tick_ms, max(down_ms // 16, 1))
        return cls(down_ms // 4, down_ms // 2, down_ms, tick_ms, max(down_ms // 4, tick_ms))


class LivenessChange(NamedTuple):
    """Change of a peer's assumed state."""

    peer: str
    liveness: Liveness
    silent_ms: int


class DetectorVerdict(NamedTuple):
    """Result of one tick."""

    changes: list[LivenessChange]
    slept_ms: int
    """Milliseconds that this node itself did not read its clock, if considerable; otherwise 0."""


class _Peer:
    __slots__ = ("heard_ms", "liveness")

    def __init__(self, heard_ms: int) -> None:
        self.heard_ms = heard_ms
        self.liveness = Liveness.UP


class FailureDetector:
    """Detector of all watched peers. Times are of any clock that does not go back."""

    def __init__(self, timing: DetectorTiming, now_ms: int) -> None:
        self.timing = timing
        self._last_read_ms = now_ms
        self._asleep_ms = 0
        """Time since the start that does not count as silence."""
        self._slept_ms = 0
        self._peers: dict[str, _Peer] = {}

    def watch(self, peer: str, now_ms: int) -> None:
        """Watch `peer`, whose link has come up. It counts as heard now."""
        self._peers[peer] = _Peer(self._awake_ms(now_ms))

    def forget(self, peer: str) -> None:
        """Stop watching `peer`, whose link was closed for another reason."""
        self._peers.pop(peer, None)

    def record_arrival(self, peer: str, now_ms: int) -> None:
        """Record that bytes arrived from `peer`."""
        awake_ms = self._awake_ms(now_ms)
        if (watched := self._peers.get(peer)) is not None:
            watched.heard_ms = awake_ms

    def liveness(self, peer: str) -> Liveness:
        """Return the assumed state of a peer; a peer that is not watched is down."""
        watched = self._peers.get(peer)
        return Liveness.DOWN if watched is None else watched.liveness

    def tick(self, now_ms: int) -> DetectorVerdict:
        """Update the state of every peer. The detector stops watching peers that are down."""
        awake_ms = self._awake_ms(now_ms)
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

    def _awake_ms(self, now_ms: int) -> int:
        """Return the time on the clock that runs while this node is awake."""
        gap_ms = now_ms - self._last_read_ms
        self._last_read_ms = now_ms
        if gap_ms > self.timing.gap_ms:
            self._asleep_ms += gap_ms - self.timing.gap_ms
            self._slept_ms = max(self._slept_ms, gap_ms)
            # Nothing heard before such a gap is meaningful: every peer starts a complete new interval.
            if gap_ms >= self.timing.down_ms:
                for peer in self._peers.values():
                    peer.heard_ms = now_ms - self._asleep_ms
        return now_ms - self._asleep_ms
