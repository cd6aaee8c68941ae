"""Links between simulated nodes: they carry in order, and they delay, stall, fall silent and break.

What nodes may rely on is what the real links promise (`runtime/peer_links.py`): `up` and `down`
alternate, session numbers grow, within a session and a lane messages come in order and at most once, and
what was on its way when a link went down is lost or not. What may happen beyond that happens here:

    cut     one direction carries nothing; the other may. Whoever hears nothing for long enough hangs up
    clog    one direction carries everything very late
    break   the connection is reset, with some of what was on its way

Messages cross as bytes, so that no two nodes ever share an object.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

from mirrormq.simulator.virtual_time import VirtualTime

LOOK_MS = 250
SILENCE_MS = 3500
"""The failure detector's own terms (`peers/failure_detector.py`)."""

SILENT_PEER = "nothing heard for 3.5 s"
"""In the words of the real links."""

DIAL_MS = 60
"""What it takes to connect, at most: a lost connection is dialled anew at once."""

LATENCY_MS = 3
"""On a good day, at most."""

END = b""
"""Behind the last message: the connection was closed. No message is empty."""


class NetworkListener(Protocol):
    """A node, as links see it."""

    def statement(self) -> Any:
        """What it states of itself in the handshake."""

    def up(self, peer: str, session: int, stated: Any) -> None: ...
    def down(self, peer: str, reason: str) -> None: ...
    def receive(self, peer: str, message: Any) -> None: ...


class NetworkPacket(NamedTuple):
    """On its way."""

    due_ms: int
    data: bytes


class _End:
    """One node's end of a session: what it sends, and whether it still listens."""

    def __init__(self, now_ms: int) -> None:
        self.open = True
        self.heard_ms = now_ms
        """When the peer was last heard."""
        self.lanes: tuple[deque[NetworkPacket], deque[NetworkPacket]] = (deque(), deque())
        """What it has sent and the peer has not received: urgent, and the rest."""


class _Session:
    def __init__(self, number: int, one: str, other: str, now_ms: int) -> None:
        self.number = number
        self.ends = {one: _End(now_ms), other: _End(now_ms)}


class Network:
    """All links of a world."""

    def __init__(
        self,
        timeline: VirtualTime,
        choose: Callable[[int], int],
        encode: Callable[[Any], bytes],
        decode: Callable[[bytes], Any],
    ) -> None:
        self._timeline = timeline
        self._choose = choose
        self._encode = encode
        self._decode = decode
        self._users: dict[str, NetworkListener] = {}
        self._sessions: dict[frozenset[str], _Session] = {}
        self._count = 0
        self.cuts: set[tuple[str, str]] = set()
        """Directions, sender first, that carry nothing."""
        self.clogs: dict[tuple[str, str], int] = {}
        """Directions that carry so many milliseconds late."""
        self.frozen: set[str] = set()
        """Nodes that do nothing at all."""
        timeline.every(LOOK_MS, self._look)

    # -- nodes ----------------------------------------------------------------------------------

    def attach(self, name: str, user: NetworkListener) -> None:
        """A node starts."""
        self._users[name] = user
        self._dial_all()

    def detach(self, name: str, *, silently: bool) -> None:
        """A node is dead. Its machine closes its connections, unless it is dead too."""
        del self._users[name]
        for pair, session in list(self._sessions.items()):
            if name in pair:
                end = session.ends[name]
                end.open = False
                if silently:
                    end.lanes[0].clear()
                    end.lanes[1].clear()
                else:
                    self._close(name, pair, session)

    def send(self, sender: str, receiver: str, message: Any, urgent: bool = True) -> None:
        """Nothing happens if there is no link."""
        session = self._sessions.get(frozenset((sender, receiver)))
        if session is not None and session.ends[sender].open:
            lane = session.ends[sender].lanes[0 if urgent else 1]
            due = self._timeline.now_ms + self._choose(LATENCY_MS + 1)
            due += self.clogs.get((sender, receiver), 0)
            due = max(due, lane[-1].due_ms if lane else 0)
            lane.append(NetworkPacket(due, self._encode(message)))
            self._timeline.at(due, lambda: self._deliver(session, sender, receiver))

    # -- faults ---------------------------------------------------------------------------------

    def cut(self, sender: str, receiver: str) -> None:
        """One direction goes dead."""
        self.cuts.add((sender, receiver))

    def mend(self, sender: str, receiver: str) -> None:
        """It carries again, also what was held up."""
        self.cuts.discard((sender, receiver))
        self._resume(sender, receiver)

    def freeze(self, name: str) -> None:
        """A node stops in the middle of things."""
        self.frozen.add(name)

    def thaw(self, name: str) -> None:
        """It goes on, and gives everybody time to be heard again."""
        self.frozen.discard(name)
        for pair, session in list(self._sessions.items()):
            if name in pair:
                session.ends[name].heard_ms = self._timeline.now_ms
                (peer,) = pair - {name}
                self._resume(peer, name)

    def reset(self, one: str, other: str) -> None:
        """A connection breaks."""
        pair = frozenset((one, other))
        session = self._sessions.get(pair)
        if session is not None:
            self._hang_up(one, pair, session, "connection reset")

    def linked(self, one: str, other: str) -> bool:
        """Can these two talk to each other, faults permitting?"""
        ways = ((one, other), (other, one))
        return {one, other} <= self._users.keys() and not any(way in self.cuts for way in ways)

    # -- inside ---------------------------------------------------------------------------------

    def _carries(self, sender: str, receiver: str) -> bool:
        return (sender, receiver) not in self.cuts and receiver not in self.frozen

    def _resume(self, sender: str, receiver: str) -> None:
        session = self._sessions.get(frozenset((sender, receiver)))
        if session is not None:
            for lane in session.ends[sender].lanes:
                for _ in lane:
                    self._timeline.after(0, lambda: self._deliver(session, sender, receiver))

    def _deliver(self, session: _Session, sender: str, receiver: str) -> None:
        """The next message that is due; what is held up stays where it is."""
        if not self._carries(sender, receiver) or not session.ends[receiver].open:
            return
        if receiver not in self._users:
            return
        for lane in session.ends[sender].lanes:
            if lane and lane[0].due_ms <= self._timeline.now_ms:
                data = lane.popleft().data
                session.ends[receiver].heard_ms = self._timeline.now_ms
                if data != END:
                    self._users[receiver].receive(sender, self._decode(data))
                else:
                    self._end_one(receiver, frozenset((sender, receiver)), session, "closed by the peer")
                return

    def _look(self) -> None:
        """Who has been silent for too long, and who could be dialled?"""
        now = self._timeline.now_ms
        for pair, session in list(self._sessions.items()):
            for name in sorted(pair):
                (peer,) = pair - {name}
                end = session.ends[name]
                if not end.open or name in self.frozen or name not in self._users:
                    continue
                speaks = peer in self._users and peer not in self.frozen and session.ends[peer].open
                if speaks and (peer, name) not in self.cuts:
                    end.heard_ms = now
                elif now - end.heard_ms >= SILENCE_MS:
                    self._hang_up(name, pair, session, SILENT_PEER)
        self._dial_all()

    def _hang_up(self, name: str, pair: frozenset[str], session: _Session, reason: str) -> None:
        if session.ends[name].open and name in self._users:
            self._end_one(name, pair, session, reason)
            self._close(name, pair, session)

    def _close(self, name: str, pair: frozenset[str], session: _Session) -> None:
        """Some of what is on its way still arrives, and then the end: last in the lane that goes last."""
        (peer,) = pair - {name}
        lanes = session.ends[name].lanes
        for lane in lanes:
            while lane and self._choose(2):
                lane.pop()
        due = max([self._timeline.now_ms + 1, *(lane[-1].due_ms for lane in lanes if lane)])
        lanes[1].append(NetworkPacket(due, END))
        self._timeline.at(due, lambda: self._finish(session, name, peer))

    def _finish(self, session: _Session, sender: str, receiver: str) -> None:
        """Deliver what is left of a closed connection, as far as it carries."""
        end = session.ends[receiver]
        while end.open and receiver in self._users and self._carries(sender, receiver):
            before = sum(map(len, session.ends[sender].lanes))
            self._deliver(session, sender, receiver)
            if sum(map(len, session.ends[sender].lanes)) == before:
                return

    def _end_one(self, name: str, pair: frozenset[str], session: _Session, reason: str) -> None:
        session.ends[name].open = False
        (peer,) = pair - {name}
        if not session.ends[peer].open:
            self._sessions.pop(pair, None)
        self._users[name].down(peer, reason)
        self._dial(name, peer)

    def _dial(self, one: str, other: str) -> None:
        self._timeline.after(1 + self._choose(DIAL_MS), partial(self._open, one, other))

    def _dial_all(self) -> None:
        names = sorted(self._users)
        for at, one in enumerate(names):
            for other in names[at + 1 :]:
                if self._wants_link(one, other):
                    self._dial(one, other)

    def _wants_link(self, one: str, other: str) -> bool:
        """Has either lost its link, or never had one, and can they connect?"""
        session = self._sessions.get(frozenset((one, other)))
        lost = session is None or not all(end.open for end in session.ends.values())
        return lost and self.linked(one, other) and not {one, other} & self.frozen

    def _open(self, one: str, other: str) -> None:
        if not {one, other} <= self._users.keys() or not self._wants_link(one, other):
            return
        one, other = sorted((one, other))
        pair = frozenset((one, other))
        old = self._sessions.pop(pair, None)
        if old is not None:
            for name in (one, other):
                if old.ends[name].open:
                    self._end_one(name, pair, old, "replaced")
        self._count += 1
        session = self._sessions[pair] = _Session(self._count, one, other, self._timeline.now_ms)
        for name, peer in ((one, other), (other, one)):
            stated = self._users[peer].statement()
            self._timeline.after(0, partial(self._begin_one, name, peer, session, stated))

    def _begin_one(self, name: str, peer: str, session: _Session, stated: Any) -> None:
        if session.ends[name].open and name in self._users:
            self._users[name].up(peer, session.number, stated)
