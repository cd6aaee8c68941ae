"""One connection to another node: a handshake, then frames, on one asyncio transport.

What is sent in one turn of the loop leaves in one write. The transport is never given more than it can
take soon (`WRITE_BYTES_PER_TURN`); the rest waits in the lanes, where urgent messages overtake.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from typing import TYPE_CHECKING, Any

import msgspec

from mirrormq.peers import peer_limits
from mirrormq.peers.framing import FrameReader
from mirrormq.peers.lanes import Lanes, joined
from mirrormq.peers.peer_handshake import PeerHandshake, PeerRole

if TYPE_CHECKING:
    from mirrormq.runtime.peer_links import PeerLinks

_encode = msgspec.msgpack.Encoder().encode


def monotonic_ms() -> int:
    """The clock of links and detectors."""
    return time.monotonic_ns() // 1_000_000


def _bound_kernel_buffers(connection: socket.socket) -> None:
    """Keep the kernel from holding so much that urgent messages cannot overtake."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, peer_limits.KERNEL_READ_BYTES_MAX)
    if (lowat := getattr(socket, "TCP_NOTSENT_LOWAT", None)) is not None:
        connection.setsockopt(socket.IPPROTO_TCP, lowat, peer_limits.UNSENT_BYTES_MAX)


def _reset(transport: asyncio.Transport) -> None:
    """Close with a RST. A FIN would wait behind what the peer has not acknowledged, and where only one way
    of the network is cut, that is for ever; a RST goes at once, and both sides know. A socket that is closed
    already, because it opened just when its dial was given up, is left alone (uvloop says ValueError)."""
    connection = transport.get_extra_info("socket")
    with contextlib.suppress(OSError, ValueError):
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


class PeerLink(asyncio.BufferedProtocol):
    """One connection, dialled or accepted. `peer` and `session` are set when the handshake is done."""

    def __init__(self, peer_links: PeerLinks, expected: str = "") -> None:
        self.peer = expected
        self.dialled = bool(expected)
        self.session = 0
        """Above 0 while the link is open for messages."""
        self.began_ms = monotonic_ms()
        self.greeted_after = 0
        """How many links this node had opened when the peer's hello was read."""
        self.congested = False
        self.cluster_id = ""
        """The cluster that the peer said it belongs to when the link came up; empty: to none."""
        self.statement = b""
        """What the peer stated of itself in the handshake."""
        self.session_id = b""
        self.address = "?"
        self._peer_links = peer_links
        self._loop = asyncio.get_running_loop()
        self.settled: asyncio.Future[str | None] = self._loop.create_future()
        """Done when the handshake is: None if the link opened, else why not."""
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._handshake: PeerHandshake | None = None
        self._timeout: asyncio.TimerHandle | None = None
        self._hall = memoryview(bytearray(peer_limits.HANDSHAKE_MESSAGE_BYTES_MAX))
        self._reader: FrameReader | None = None
        self._lanes = Lanes()
        self._flush_scheduled = False
        self._writable = True
        self._ended = False
        self._finish_reason = ""

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open (and TLS agreed upon): say hello or wait for one."""
        self._transport = transport  # type: ignore[assignment]
        assert self._transport is not None
        self._transport.set_write_buffer_limits(high=peer_limits.WRITE_BYTES_PER_TURN)
        _bound_kernel_buffers(transport.get_extra_info("socket"))
        self.address = "{}:{}".format(*(transport.get_extra_info("peername") or ("?", "?"))[:2])
        objection = self._peer_links.admit_socket(self)
        if self._ended or objection is not None:
            self.end(objection or "")
            self._transport.abort()
            return
        role = PeerRole.DIALLER if self.dialled else PeerRole.ACCEPTOR
        self._handshake = self._peer_links.handshake(self, role)
        too_long = "the handshake took too long"
        self._timeout = self._loop.call_later(peer_limits.HANDSHAKE_TIMEOUT_S, self.end, too_long)
        if hello := self._handshake.start():
            self._transport.write(hello)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where the socket may write; little while the peer is a stranger."""
        return self._hall if self._reader is None else self._reader.space()

    def buffer_updated(self, count: int) -> None:
        """Bytes from the peer."""
        if self._ended:
            return
        if self._reader is not None:
            self._deliver(self._reader, self._reader.filled(count))
        elif self._handshake is not None:
            self._shake_hands(self._handshake, bytes(self._hall[:count]))

    def pause_writing(self) -> None:
        """The transport has enough."""
        self._writable = False

    def resume_writing(self) -> None:
        """The transport can take more."""
        self._writable = True
        self.flush()

    def connection_lost(self, error: Exception | None) -> None:
        """The socket is gone."""
        broke = "the peer closed the connection" if error is None else f"the connection broke: {error}"
        self.end(self._finish_reason or broke)
        if not self.lost.done():
            self.lost.set_result(None)

    # What the interlink calls

    def send(self, payload: Any, urgent: bool) -> None:
        """Queue a message for this turn's write."""
        if isinstance(payload, bytes):
            self._lanes.put(payload, urgent=urgent, packed=False)
        elif isinstance(payload, bytearray | memoryview):
            self._lanes.put(bytes(payload), urgent=urgent, packed=False)
        else:
            self._lanes.put(_encode(payload), urgent=urgent, packed=True)
        if not self._flush_scheduled:
            self._flush_soon()
        if self._lanes.queued_bytes > peer_limits.CONGESTED_BYTES:
            self.congested = True
            if self._lanes.queued_bytes > peer_limits.QUEUED_BYTES_MAX:
                self._loop.call_soon(self.end, "overloaded: callers did not slow down")

    @property
    def queued_bytes(self) -> int:
        """What waits here, not counting the transport's buffer."""
        return self._lanes.queued_bytes

    def heartbeat(self) -> None:
        """Show that this node lives."""
        self._lanes.put_heartbeat()
        self.flush()

    def end(self, reason: str) -> None:
        """Close at once; the interlink hears of it once."""
        if self._ended:
            return
        self._ended = True
        self._cancel_timeout()
        if self._transport is not None:
            _reset(self._transport)
        self._lanes = Lanes()
        self._peer_links.ended(self, reason)
        if not self.settled.done():
            self.settled.set_result(reason)

    async def finish(self, reason: str) -> None:
        """Close when all that was sent has left, or soon in any case."""
        if self._transport is not None and self.session and not self._ended:
            self._finish_reason = reason
            self._transport.writelines(joined(self._lanes.take(peer_limits.QUEUED_BYTES_MAX)))
            self._transport.close()
            await asyncio.wait([self.lost], timeout=peer_limits.CLOSE_FLUSH_TIMEOUT_S)
        self.end(reason)

    # The two phases

    def _shake_hands(self, handshake: PeerHandshake, data: bytes) -> None:
        assert self._transport is not None
        answer = handshake.receive(data)
        if handshake.refusal is not None:
            if answer:
                self._transport.write(answer)
            self._refuse(handshake)
            return
        if handshake.peer is not None:
            self.peer, self.cluster_id, self.statement = handshake.peer
            self.greeted_after = self.greeted_after or self._peer_links.links_opened
        if not handshake.established:
            self._transport.write(answer)
            return
        self._cancel_timeout()
        self._handshake = None
        self._reader = FrameReader()
        self.session_id = handshake.session_id
        self._transport.write(answer)
        self._peer_links.opened(self)
        if not self._ended:
            self.settled.set_result(None)
            if handshake.rest:
                self._deliver(self._reader, self._reader.receive(handshake.rest))

    def _refuse(self, handshake: PeerHandshake) -> None:
        """Say no more than the refusal that was written, and let it leave."""
        assert self._transport is not None
        self._ended = True
        self._cancel_timeout()
        self._transport.close()
        self._loop.call_later(peer_limits.CLOSE_FLUSH_TIMEOUT_S, self._transport.abort)
        who = "the peer refuses" if handshake.refused_by_peer else "refused"
        self._peer_links.ended(self, f"{who}: {handshake.refusal}")
        self.settled.set_result(handshake.refusal)

    def _cancel_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def _deliver(self, reader: FrameReader, messages: list[tuple[bool, bytes]]) -> None:
        peer_links = self._peer_links
        peer_links.detector.heard(self.peer, monotonic_ms())
        for packed, payload in messages:
            try:
                peer_links.deliver(self, packed, payload)
            except msgspec.MsgspecError as error:
                self.end(f"a message that cannot be read: {error}")
            except Exception as error:
                peer_links.log.error("a message could not be handled", peer=self.peer, error=repr(error))
                self.end(f"a message could not be handled: {error!r}")
            if self._ended:
                return
        if reader.failure is not None:
            self.end(f"protocol error: {reader.failure}")

    # Writing

    def _flush_soon(self) -> None:
        self._flush_scheduled = True
        self._loop.call_soon(self._flush_scheduled_now)

    def _flush_scheduled_now(self) -> None:
        self._flush_scheduled = False
        self.flush()

    def flush(self) -> None:
        """Give the transport what waits."""
        if self._ended or not self._writable or not self._lanes:
            return
        assert self._transport is not None
        pieces = joined(self._lanes.take(peer_limits.WRITE_BYTES_PER_TURN))
        if len(pieces) == 1:
            self._transport.write(pieces[0])
        else:
            self._transport.writelines(pieces)
        if self._lanes and not self._flush_scheduled and self._writable:
            self._flush_soon()
        if self.congested and self._lanes.queued_bytes <= peer_limits.RELIEVED_BYTES:
            self.congested = False
            self._peer_links.relieved(self)
