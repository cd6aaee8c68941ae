"""Links between simulated nodes: ordered, but delayed, stalled, silent and broken by faults.

Nodes may rely on the guarantees of real links (`runtime/peer_links.py`): `up` and `down` alternate, session
numbers grow, and within a session and a lane messages arrive in order and at most once. Messages in flight
when a link goes down are lost or not. Beyond that, the network injects faults:

    cut     one direction carries nothing; the other may. A node that hears nothing for long enough hangs up
    clog    one direction delays everything
    break   the connection is reset, with some of the messages in flight

Messages are encoded to bytes, so that no two nodes ever share an object.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

from mirrormq.simulator.virtual_time import VirtualTime

CHECK_MS = 250
SILENCE_MS = 3500
"""Timeout of the failure detector (`peers/failure_detector.py`)."""

DIAL_MS = 60
"""Longest time to connect. A lost connection is dialled again at once."""

LATENCY_MS = 3
"""Longest latency without faults."""

ROUND_MS = 10 * LATENCY_MS
"""Maximum time of an operation round a ring."""

END = b""
"""Marker after the last message: the connection was closed. No message is empty."""


class NetworkListener(Protocol):
    """Node, as its links see it."""

    def statement(self) -> Any:
        """Return the durable state that the node states in the handshake."""

    def up(self, peer: str, session: int, stated: Any) -> None: ...
    def down(self, peer: str, *, silent: bool) -> None: ...
    def receive(self, peer: str, message: Any) -> None: ...


class NetworkPacket(NamedTuple):
    """Message in flight."""

    due_ms: int
    data: bytes


class _End:
    """Node's end of a session: outgoing messages, and whether it still listens."""

    def __init__(self, now_ms: int) -> None:
        self.open = True
        self.heard_ms = now_ms
        """Time of the last message from the peer."""
        self.lanes: tuple[deque[NetworkPacket], deque[NetworkPacket]] = (deque(), deque())
        """Messages in flight to the peer: urgent ones, and the rest."""


class _Session:
    def __init__(self, number: int, one: str, other: str, now_ms: int) -> None:
        self.number = number
        self.ends = {one: _End(now_ms), other: _End(now_ms)}


class Network:
    """Links of all nodes of a simulated world."""

    def __init__(
        self,
        timeline: VirtualTime,
        choose: Callable[[int], int],
        encode: Callable[[Any], bytes],
        decode: Callable[[bytes], Any],
        latency_ms: int = LATENCY_MS,
    ) -> None:
        self._timeline = timeline
        self._latency_ms = latency_ms
        self._choose = choose
        self._encode = encode
        self._decode = decode
        self._users: dict[str, NetworkListener] = {}
        self._sessions: dict[frozenset[str], _Session] = {}
        self._count = 0
        self.cuts: set[tuple[str, str]] = set()
        """Directions, sender first, that carry nothing."""
        self.clogs: dict[tuple[str, str], int] = {}
        """Extra delay of a direction, in milliseconds."""
        self.frozen: set[str] = set()
        """Nodes that are stopped completely (SIGSTOP)."""
        timeline.every(CHECK_MS, self._check_links)

    # -- nodes ----------------------------------------------------------------------------------

    def attach(self, name: str, user: NetworkListener) -> None:
        """Connect a starting node."""
        self._users[name] = user
        self._dial_all()

    def detach(self, name: str, *, silently: bool) -> None:
        """Disconnect a failed node. Its machine closes its connections, unless the machine failed, too
        (`silently`)."""
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
        """Send a message, if there is a link."""
        session = self._sessions.get(frozenset((sender, receiver)))
        if session is not None and session.ends[sender].open:
            lane = session.ends[sender].lanes[0 if urgent else 1]
            due = self._timeline.now_ms + self._choose(self._latency_ms + 1)
            due += self.clogs.get((sender, receiver), 0)
            due = max(due, lane[-1].due_ms if lane else 0)
            lane.append(NetworkPacket(due, self._encode(message)))
            self._timeline.at(due, lambda: self._deliver(session, sender, receiver))

    # -- faults ---------------------------------------------------------------------------------

    def cut(self, sender: str, receiver: str) -> None:
        """Stop one direction."""
        self.cuts.add((sender, receiver))

    def mend(self, sender: str, receiver: str) -> None:
        """Restore one direction, with the messages that it held back."""
        self.cuts.discard((sender, receiver))
        self._resume(sender, receiver)

    def freeze(self, name: str) -> None:
        """Stop a node at any point."""
        self.frozen.add(name)

    def thaw(self, name: str) -> None:
        """Resume a frozen node, and restart its failure detection timeouts."""
        self.frozen.discard(name)
        for pair, session in list(self._sessions.items()):
            if name in pair:
                session.ends[name].heard_ms = self._timeline.now_ms
                (peer,) = pair - {name}
                self._resume(peer, name)

    def reset(self, one: str, other: str) -> None:
        """Reset a connection."""
        pair = frozenset((one, other))
        session = self._sessions.get(pair)
        if session is not None:
            self._hang_up(one, pair, session)

    def linked(self, one: str, other: str) -> bool:
        """Return whether two nodes run and no cut separates them."""
        directions = ((one, other), (other, one))
        return {one, other} <= self._users.keys() and not any(each in self.cuts for each in directions)

    # -- internals ------------------------------------------------------------------------------

    def _carries(self, sender: str, receiver: str) -> bool:
        return (sender, receiver) not in self.cuts and receiver not in self.frozen

    def _resume(self, sender: str, receiver: str) -> None:
        session = self._sessions.get(frozenset((sender, receiver)))
        if session is not None:
            for lane in session.ends[sender].lanes:
                for _ in lane:
                    self._timeline.after(0, lambda: self._deliver(session, sender, receiver))

    def _deliver(self, session: _Session, sender: str, receiver: str) -> None:
        """Deliver the next message that is due. Held-back messages stay in their lanes."""
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
                    self._end_one(receiver, frozenset((sender, receiver)), session)
                return

    def _check_links(self) -> None:
        """Close links that have been silent for too long, and dial missing ones."""
        now = self._timeline.now_ms
        for pair, session in list(self._sessions.items()):
            for name in sorted(pair):
                (peer,) = pair - {name}
                end = session.ends[name]
                if not end.open or name in self.frozen or name not in self._users:
                    continue
                peer_sends = peer in self._users and peer not in self.frozen and session.ends[peer].open
                if peer_sends and (peer, name) not in self.cuts:
                    end.heard_ms = now
                elif now - end.heard_ms >= SILENCE_MS:
                    self._hang_up(name, pair, session, silent=True)
        self._dial_all()

    def _hang_up(self, name: str, pair: frozenset[str], session: _Session, *, silent: bool = False) -> None:
        if session.ends[name].open and name in self._users:
            self._end_one(name, pair, session, silent=silent)
            self._close(name, pair, session)

    def _close(self, name: str, pair: frozenset[str], session: _Session) -> None:
        """Close a connection. Some messages in flight still arrive; the end follows in the lane that is read
        last."""
        (peer,) = pair - {name}
        lanes = session.ends[name].lanes
        for lane in lanes:
            while lane and self._choose(2):
                lane.pop()
        due = max([self._timeline.now_ms + 1, *(lane[-1].due_ms for lane in lanes if lane)])
        lanes[1].append(NetworkPacket(due, END))
        self._timeline.at(due, lambda: self._finish(session, name, peer))

    def _finish(self, session: _Session, sender: str, receiver: str) -> None:
        """Deliver the remaining messages of a closed connection, as far as the direction carries."""
        end = session.ends[receiver]
        while end.open and receiver in self._users and self._carries(sender, receiver):
            before = sum(map(len, session.ends[sender].lanes))
            self._deliver(session, sender, receiver)
            if sum(map(len, session.ends[sender].lanes)) == before:
                return

    def _end_one(self, name: str, pair: frozenset[str], session: _Session, *, silent: bool = False) -> None:
        session.ends[name].open = False
        (peer,) = pair - {name}
        if not session.ends[peer].open:
            self._sessions.pop(pair, None)
        self._users[name].down(peer, silent=silent)
        self._dial(name, peer)

    def _dial(self, one: str, other: str) -> None:
        self._timeline.after(1 + self._choose(DIAL_MS), partial(self._open, one, other))

    def _dial_all(self) -> None:
        names = sorted(self._users)
        for position, one in enumerate(names):
            for other in names[position + 1 :]:
                if self._wants_link(one, other):
                    self._dial(one, other)

    def _wants_link(self, one: str, other: str) -> bool:
        """Return whether two nodes have no complete link and can connect."""
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
                    self._end_one(name, pair, old)
        self._count += 1
        session = self._sessions[pair] = _Session(self._count, one, other, self._timeline.now_ms)
        for name, peer in ((one, other), (other, one)):
            stated = self._users[peer].statement()
            self._timeline.after(0, partial(self._begin_one, name, peer, session, stated))

    def _begin_one(self, name: str, peer: str, session: _Session, stated: Any) -> None:
        if session.ends[name].open and name in self._users:
            self._users[name].up(peer, session.number, stated)
