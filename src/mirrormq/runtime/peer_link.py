"""Peer link: one connection to another node. First a handshake, then frames, on one asyncio transport.

All messages of one turn of the loop leave in one write. The transport receives at most
`WRITE_BYTES_PER_TURN`, which it can send soon. The rest waits in the lanes, where urgent messages
overtake.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from typing import TYPE_CHECKING, Any, cast

import msgspec

from mirrormq.peers import peer_limits
from mirrormq.peers.framing import FrameReader
from mirrormq.peers.lanes import Lanes, joined
from mirrormq.peers.link_loss import LinkLoss
from mirrormq.peers.peer_handshake import PeerHandshake, PeerRole

if TYPE_CHECKING:
    from mirrormq.runtime.peer_links import PeerLinks

_encode = msgspec.msgpack.Encoder().encode


def monotonic_ms() -> int:
    """Return the time of the clock that links and failure detectors use."""
    return time.monotonic_ns() // 1_000_000


def _bound_kernel_buffers(connection: socket.socket) -> None:
    """Limit the kernel's buffers, so that urgent messages can overtake."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, peer_limits.KERNEL_READ_BYTES_MAX)
    if (lowat := getattr(socket, "TCP_NOTSENT_LOWAT", None)) is not None:
        connection.setsockopt(socket.IPPROTO_TCP, lowat, peer_limits.UNSENT_BYTES_MAX)


def _reset(transport: asyncio.Transport) -> None:
    """Close with a RST. A FIN waits behind bytes that the peer has not acknowledged, for ever if only one
    direction of the network is cut. A RST leaves at once and informs both sides.

    A socket that is closed already, because it opened just as its dial was given up, is left alone.
    (uvloop raises ValueError for it.)
    """
    connection = transport.get_extra_info("socket")
    with contextlib.suppress(OSError, ValueError):
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


class PeerLink(asyncio.BufferedProtocol):
    """Dialled or accepted connection. `peer` and `session` are set when the handshake completes."""

    def __init__(self, peer_links: PeerLinks, expected: str = "") -> None:
        self.peer = expected
        self.dialled = bool(expected)
        self.session = 0
        """Session number; above 0 while the link is open for messages."""
        self.began_ms = monotonic_ms()
        self.greeted_after = 0
        """Number of links that this node had opened when it read the peer's hello."""
        self.congested = False
        self.cluster_id = ""
        """Cluster id that the peer announced in the handshake; empty if it belongs to no cluster."""
        self.statement = b""
        self.version = 0
        """Protocol version of the peer."""
        """Statement about itself that the peer sent in the handshake."""
        self.session_id = b""
        self.address = "?"
        self._peer_links = peer_links
        self._loop = asyncio.get_running_loop()
        self.settled: asyncio.Future[LinkLoss | None] = self._loop.create_future()
        """Result of the handshake: None if the link opened, otherwise the reason of the failure."""
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._handshake: PeerHandshake | None = None
        self._timeout: asyncio.TimerHandle | None = None
        self._handshake_buffer = memoryview(bytearray(peer_limits.HANDSHAKE_MESSAGE_BYTES_MAX))
        self._reader: FrameReader | None = None
        self._lanes = Lanes()
        self._flush_scheduled = False
        self._writable = True
        self._ended = False
        self._finish_reason = ""

    # -- asyncio protocol -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send or await the first handshake message; the socket is open and TLS is established."""
        # uvloop's transports do not inherit from asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=peer_limits.WRITE_BYTES_PER_TURN)
        _bound_kernel_buffers(transport.get_extra_info("socket"))
        self.address = "{}:{}".format(*(transport.get_extra_info("peername") or ("?", "?"))[:2])
        objection = self._peer_links.admit_socket(self)
        if self._ended or objection is not None:
            self.end(objection or LinkLoss(""))
            self._transport.abort()
            return
        role = PeerRole.DIALLER if self.dialled else PeerRole.ACCEPTOR
        self._handshake = self._peer_links.handshake(self, role)
        too_long = LinkLoss("the handshake timed out")
        self._timeout = self._loop.call_later(
            self._peer_links.options.handshake_timeout_s, self.end, too_long
        )
        if hello := self._handshake.start():
            self._transport.write(hello)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the read buffer: a small one until the peer has authenticated."""
        return self._handshake_buffer if self._reader is None else self._reader.space()

    def buffer_updated(self, count: int) -> None:
        """Process bytes from the peer."""
        if self._ended:
            return
        if self._reader is not None:
            self._deliver(self._reader, self._reader.filled(count))
        elif self._handshake is not None:
            self._advance_handshake(self._handshake, bytes(self._handshake_buffer[:count]))

    def pause_writing(self) -> None:
        """Stop writing: the transport's buffer is full."""
        self._writable = False

    def resume_writing(self) -> None:
        """Continue writing: the transport's buffer has drained."""
        self._writable = True
        self.flush()

    def connection_lost(self, error: Exception | None) -> None:
        """Report that the socket is closed."""
        broke = "the peer closed the connection" if error is None else f"the connection broke: {error}"
        self.end(LinkLoss(self._finish_reason or broke))
        if not self.lost.done():
            self.lost.set_result(None)

    # -- used by PeerLinks ----------------------------------------------------------------------

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
            if self._lanes.queued_bytes > self._peer_links.options.queued_bytes_max:
                self._loop.call_soon(self.end, LinkLoss("overloaded: callers did not slow down"))

    @property
    def queued_bytes(self) -> int:
        """Bytes that wait in the lanes, without the transport's buffer."""
        return self._lanes.queued_bytes

    def heartbeat(self) -> None:
        """Send a heartbeat to show that this node is alive."""
        self._lanes.put_heartbeat()
        self.flush()

    def end(self, loss: LinkLoss) -> None:
        """Close at once, and report the end to PeerLinks exactly once."""
        if self._ended:
            return
        self._ended = True
        self._cancel_timeout()
        if self._transport is not None:
            _reset(self._transport)
        self._lanes = Lanes()
        self._peer_links.ended(self, loss)
        if not self.settled.done():
            self.settled.set_result(loss)

    async def finish(self, reason: str) -> None:
        """Close when all sent messages have left, at the latest after `CLOSE_FLUSH_TIMEOUT_S`."""
        if self._transport is not None and self.session and not self._ended:
            self._finish_reason = reason
            self._transport.writelines(joined(self._lanes.take(self._lanes.queued_bytes)))
            self._transport.close()
            await asyncio.wait([self.lost], timeout=peer_limits.CLOSE_FLUSH_TIMEOUT_S)
        self.end(LinkLoss(reason))

    # -- handshake and messages -----------------------------------------------------------------

    def _advance_handshake(self, handshake: PeerHandshake, data: bytes) -> None:
        assert self._transport is not None
        reply = handshake.receive(data)
        if handshake.refusal is not None:
            if reply:
                self._transport.write(reply)
            self._refuse(handshake)
            return
        if handshake.peer is not None:
            self.peer, self.cluster_id, self.statement, _, self.version = handshake.peer
            self.greeted_after = self.greeted_after or self._peer_links.links_opened
        if not handshake.established:
            self._transport.write(reply)
            return
        self._cancel_timeout()
        self._handshake = None
        self._reader = FrameReader()
        self.session_id = handshake.session_id
        self._transport.write(reply)
        self._peer_links.opened(self)
        if not self._ended:
            self.settled.set_result(None)
            if handshake.rest:
                self._deliver(self._reader, self._reader.receive(handshake.rest))

    def _refuse(self, handshake: PeerHandshake) -> None:
        """Close after the refusal that the handshake has written has left."""
        assert self._transport is not None and handshake.refusal is not None
        self._ended = True
        self._cancel_timeout()
        self._transport.close()
        self._loop.call_later(peer_limits.CLOSE_FLUSH_TIMEOUT_S, self._transport.abort)
        text, reason = handshake.refusal, handshake.refusal_reason
        refused = f"the peer refuses: {text}" if handshake.refused_by_peer else f"refused: {text}"
        self._peer_links.ended(self, LinkLoss(refused, reason))
        self.settled.set_result(LinkLoss(text, reason))

    def _cancel_timeout(self) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
            self._timeout = None

    def _deliver(self, reader: FrameReader, messages: list[tuple[bool, bytes]]) -> None:
        peer_links = self._peer_links
        peer_links.detector.record_arrival(self.peer, monotonic_ms())
        for packed, payload in messages:
            try:
                peer_links.deliver(self, packed, payload)
            except msgspec.MsgspecError as error:
                self.end(LinkLoss(f"received an unreadable message: {error}"))
            except Exception as error:
                peer_links.log.error("handling a message failed", peer=self.peer, error=repr(error))
                self.end(LinkLoss(f"handling a message failed: {error!r}"))
            if self._ended:
                return
        if reader.failure is not None:
            self.end(LinkLoss(f"protocol error: {reader.failure}"))

    # -- writing --------------------------------------------------------------------------------

    def _flush_soon(self) -> None:
        self._flush_scheduled = True
        self._loop.call_soon(self._flush_scheduled_now)

    def _flush_scheduled_now(self) -> None:
        self._flush_scheduled = False
        self.flush()

    def flush(self) -> None:
        """Write queued messages to the transport."""
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
