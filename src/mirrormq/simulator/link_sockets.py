"""Client connections of links to simulated nodes: byte streams that are late, stall and break anywhere.

A connection to the link's own node has no socket and ends only with the node. One to another node suffers
what the network between the two nodes suffers, and breaks by itself now and then: some octets of the data in
flight arrive, then each end learns of the break at a time of its own.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from mirrormq.auth.client_peer import Peer
from mirrormq.auth.permissions import DIRECT_USER
from mirrormq.broker.broker import Broker
from mirrormq.client.client_connection import ClientConnection
from mirrormq.client.client_events import Closed, CloseReason, Event
from mirrormq.client.client_handshake import ClientOptions
from mirrormq.connections.connection import Connection
from mirrormq.simulator.network import LATENCY_MS, SILENCE_MS, Network
from mirrormq.simulator.virtual_time import VirtualTime

BEAT_MS = 100
"""Interval in which each end looks whether the other one still sends heartbeats."""

NOTICE_MS = 300
"""Longest time until an end learns of a broken connection."""


class SocketHosts(Protocol):
    """Nodes from the sockets' point of view."""

    timeline: VirtualTime
    network: Network

    def broker(self, node: str) -> Broker | None:
        """Return the broker of a node; None if it does not serve."""

    def nudge(self, node: str) -> None:
        """Schedule a turn of the node after client input."""


class LinkSockets:
    """All client connections of links in a world."""

    def __init__(self, hosts: SocketHosts, choice: random.Random) -> None:
        self.hosts = hosts
        self.choice = choice
        self.break_rate = 0.0
        """Probability that a connection breaks when data arrives."""
        self.open: list[LinkSocket] = []

    def turned(self, node: str) -> None:
        """Take what the connections of a node have to write, at the end of its turn."""
        for socket in list(self.open):
            if socket.far == node:
                socket.collect()


class FlyingData(NamedTuple):
    """Data in flight."""

    due_ms: int
    data: bytes


class LinkSocket:
    """One connection: the link's end on `near`, the broker's end on `far`."""

    def __init__(
        self,
        sockets: LinkSockets,
        near: tuple[str, Broker],
        far: str,
        options: ClientOptions,
        handle: Callable[[list[Event]], None],
    ) -> None:
        self._sockets, self._hosts = sockets, sockets.hosts
        self.near, self._near_broker = near
        self.far = far
        self.client = ClientConnection(options)
        self.server: Connection | None = None
        self._far_broker: Broker | None = None
        self._handle = handle
        self._near_open = True
        self._broken = False
        """Whether nothing arrives any more, although the ends may not have noticed: no stream has a hole."""
        self._up: deque[FlyingData] = deque()
        self._down: deque[FlyingData] = deque()
        self._near_heard_ms = self._far_heard_ms = self._hosts.timeline.now_ms
        sockets.open.append(self)
        self._hosts.timeline.after(self._latency_ms(), self._accept)
        self._beat()

    @property
    def _local(self) -> bool:
        return self.near == self.far

    @property
    def _far_open(self) -> bool:
        """Whether the broker's end exists: its process lives and has not given the connection up."""
        server = self.server
        return server is not None and not server.finished and self._far_lives

    @property
    def _near_lives(self) -> bool:
        return self._hosts.broker(self.near) is self._near_broker

    @property
    def _far_lives(self) -> bool:
        return self._far_broker is not None and self._hosts.broker(self.far) is self._far_broker

    def _latency_ms(self) -> int:
        if self._local:
            return 0
        clog_ms = self._hosts.network.clogs.get((self.near, self.far), 0)
        return 1 + self._sockets.choice.randrange(LATENCY_MS) + clog_ms

    def _carries(self, sender: str, receiver: str) -> bool:
        network = self._hosts.network
        return (sender, receiver) not in network.cuts and receiver not in network.frozen

    # -- link's end -------------------------------------------------------------------------------

    def flush(self) -> None:
        """Send the output of the client core, once the broker has accepted the connection."""
        if self._near_open and self.server is not None and (data := self.client.take_output()):
            self._send(self._up, data)

    def abort(self) -> None:
        """Give the connection up. Some of the data in flight still arrives."""
        if not self._near_open:
            return
        self._near_open = False
        while self._up and not self._local and self._sockets.choice.randrange(2):
            self._up.pop()
        self._hosts.timeline.after(self._latency_ms() + 1, self._close_far)

    def _accept(self) -> None:
        """Create the broker's end, or refuse the connection."""
        if not self._near_open or not self._near_lives:
            return
        broker = self._hosts.broker(self.far)
        if broker is None:
            self._lose("the connection was refused", CloseReason.CONNECT_FAILED)
            return
        self._far_broker = broker
        peer = Peer("", 0, direct_user=DIRECT_USER) if self._local else Peer("127.0.0.1", 1)
        self.server = Connection(broker, peer)
        self.flush()

    # -- data -------------------------------------------------------------------------------------

    def _send(self, lane: deque[FlyingData], data: bytes) -> None:
        if self._broken:
            return
        due_ms = self._hosts.timeline.now_ms + self._latency_ms()
        due_ms = max(due_ms, lane[-1].due_ms if lane else 0)
        lane.append(FlyingData(due_ms, data))
        self._hosts.timeline.at(due_ms, self._move)

    def collect(self) -> None:
        """Take the output of the broker's end."""
        server = self.server
        if server is None or server.finished or not self._far_lives:
            return
        server.resume()
        server.broker.writing.pop(server, None)
        if output := b"".join(server.take_output()):
            self._send(self._down, output)

    def _move(self) -> None:
        """Deliver the data that is due, as far as the network carries it."""
        now_ms = self._hosts.timeline.now_ms
        while self._up and self._up[0].due_ms <= now_ms and self._carries(self.near, self.far):
            data = self._up.popleft().data
            if not self._far_open or self.server is None:
                continue
            broken = self._breaks()
            self.server.receive(data[: self._sockets.choice.randrange(len(data))] if broken else data)
            self._hosts.nudge(self.far)
            if broken:
                self._break()
                return
        while self._down and self._down[0].due_ms <= now_ms and self._carries(self.far, self.near):
            data = self._down.popleft().data
            if not self._near_open or not self._near_lives:
                continue
            broken = self._breaks()
            events = self.client.receive(
                data[: self._sockets.choice.randrange(len(data))] if broken else data
            )
            self._handle(events)
            self.flush()
            if broken:
                self._break()
                return
            if self.client.finished:
                self._near_open = False

    # -- ends -------------------------------------------------------------------------------------

    def _breaks(self) -> bool:
        return not self._local and self._sockets.choice.random() < self._sockets.break_rate

    def _break(self) -> None:
        """Break the connection. Each end learns of it at a time of its own."""
        self._broken = True
        self._up.clear()
        self._down.clear()
        timeline, choice = self._hosts.timeline, self._sockets.choice
        timeline.after(choice.randrange(NOTICE_MS), lambda: self._lose("the connection broke"))
        timeline.after(choice.randrange(NOTICE_MS), self._close_far)

    def _lose(self, text: str, reason: CloseReason = CloseReason.LOST) -> None:
        """End the link's end."""
        if self._near_open:
            self._near_open = False
            events: list[Event] = self.client.lost(text, reason) or [Closed(reason, text)]
            if self._near_lives:
                self._handle(events)

    def _close_far(self) -> None:
        """End the broker's end after the data that still arrives."""
        if self._up and self._far_open and (self._up[0].due_ms > self._hosts.timeline.now_ms):
            self._hosts.timeline.at(self._up[-1].due_ms, self._close_far)
            return
        if self._far_open and self.server is not None and self._carries(self.near, self.far):
            self._end_far()

    def _end_far(self) -> None:
        assert self.server is not None
        self.server.lost()
        self._hosts.nudge(self.far)

    def _beat(self) -> None:
        """Detect the end of the other side, and silence."""
        timeline, network = self._hosts.timeline, self._hosts.network
        self._move()
        now_ms = timeline.now_ms
        ended = self.server is not None and not self._far_open
        if self._near_open and not self._near_lives:
            self._near_open = False
        if self._near_open and self.near not in network.frozen:
            if self._carries(self.far, self.near) and self.far not in network.frozen and self._far_open:
                self._near_heard_ms = now_ms
            elif ended and not self._down and (self._local or self._sockets.choice.randrange(8) == 0):
                self._lose("the broker closed the connection")
            elif now_ms - self._near_heard_ms > SILENCE_MS:
                self._lose("the broker sent nothing", CloseReason.HEARTBEAT_TIMEOUT)
        if self._far_open and self.far not in network.frozen:
            if self._carries(self.near, self.far) and self.near not in network.frozen and self._near_open:
                self._far_heard_ms = now_ms
            elif self._local or now_ms - self._far_heard_ms > SILENCE_MS or self._hears_end():
                self._end_far()
        if self._near_open or self._far_open:
            timeline.after(BEAT_MS, self._beat)
        else:
            self._sockets.open.remove(self)

    def _hears_end(self) -> bool:
        """Return whether the broker's end learns now that the link's process has died."""
        return (
            not self._near_open
            and not self._up
            and self._carries(self.near, self.far)
            and self._sockets.choice.randrange(8) == 0
        )
