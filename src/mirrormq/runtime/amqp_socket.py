"""AMQP client socket: moves bytes between a transport and a Connection, and decides nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

from mirrormq import limits
from mirrormq.auth.client_peer import Peer, is_loopback
from mirrormq.broker.broker import Broker
from mirrormq.config.settings import Settings
from mirrormq.connections.connection import Connection
from mirrormq.connections.proxy_protocol import Ends, Incomplete, ProxyHeaderInvalid, read_proxy_header
from mirrormq.connections.states import STARTING
from mirrormq.runtime.client_sockets import ClientSockets
from mirrormq.runtime.large_reads import READ_BYTES_PER_EFFORT, LargeReads
from mirrormq.runtime.tcp_tuning import unpace_local
from mirrormq.runtime.tls import certificate_user
from mirrormq.runtime.tls_facts import tls_facts
from mirrormq.runtime.turn_loop import TurnLoop
from mirrormq.wire.large_bodies import LARGE_BYTES


class ClientTransport(Protocol):
    """Transport of the event loop: those methods of asyncio.Transport that are used here."""

    def get_extra_info(self, name: str) -> Any: ...
    def set_protocol(self, protocol: object) -> None: ...
    def set_write_buffer_limits(self, high: int) -> None: ...
    def get_write_buffer_size(self) -> int: ...
    def write(self, data: bytes) -> None: ...
    def writelines(self, parts: list[bytes]) -> None: ...
    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...
    def is_closing(self) -> bool: ...
    def close(self) -> None: ...
    def abort(self) -> None: ...


class SocketHost(Protocol):
    """Application, as its sockets see it."""

    settings: Settings
    broker: Broker
    turns: TurnLoop
    sockets: ClientSockets

    def fault(self, connection: Connection | None, error: Exception) -> bool:
        """Contain an unexpected error; return whether the node continues."""

    def warn(self, line: str) -> None:
        """Write a warning to the log."""

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        """Call `action` once after `delay_s`."""


class AmqpSocket:
    """Protocol object of one accepted client socket. It has the methods of asyncio.Protocol and does not
    inherit from it: a compiled class cannot have an interpreted base."""

    def __init__(self, node: SocketHost, *, tls: bool, proxied: tuple[Ends | None] | None = None) -> None:
        self._node = node
        self._turns: TurnLoop = node.turns
        self._sockets: ClientSockets = node.sockets
        self._tls = tls
        self._proxied = proxied
        """Addresses from the PROXY header, if the TLS listener has read it already; None otherwise."""
        self._transport: ClientTransport | None = None
        self._connection: Connection | None = None
        self._before_proxy_header = b""
        self.reading = True
        """False while the transport must not read: the connection is held, or the publisher rests."""
        self._large_reads: LargeReads | None = None
        """Protocol that reads in place of this one while large bodies arrive."""

    def connection_made(self, transport: ClientTransport) -> None:
        """Admit the client, or close the socket if the node is at its connection limit."""
        self._transport = transport
        if transport.get_extra_info("peername") is None:
            transport.abort()  # the client closed before the socket was accepted
            return
        transport.set_write_buffer_limits(high=limits.SOCKET_OUTPUT_BYTES_MAX)
        unpace_local(cast(Any, transport))
        node = self._node
        self._turns.input_arrived()
        was_refusing = self._sockets.refusing
        if not self._sockets.admit(self):
            # Log once per period of refusal, not once per client: a connection storm must not fill the log.
            if not was_refusing:
                node.warn("refusing client connections: the limit of open sockets is reached")
            transport.abort()
        elif self._proxied is not None:
            self._begin(self._peer(self._proxied[0]))
        elif node.settings.proxy_protocol:
            clock = self._turns.clock
            clock.at(clock.now_ms + int(node.settings.handshake_timeout_s * 1000), self._expect_proxy_header)
        else:
            self._begin(self._peer())

    def _expect_proxy_header(self) -> None:
        if self._connection is None:
            self.abort()

    def _begin(self, peer: Peer) -> None:
        self._connection = Connection(self._node.broker, peer)
        self._sockets.by_connection[self._connection] = self

    def _peer(self, ends: Ends | None = None) -> Peer:
        assert self._transport is not None
        if ends is None:
            ends = Ends(
                *self._transport.get_extra_info("peername")[:2],
                *self._transport.get_extra_info("sockname")[:2],
            )
        local = is_loopback(ends.host)
        if not self._tls:
            return Peer(*ends, is_loopback=local)
        transport: Any = self._transport
        user = certificate_user(transport, self._node.settings)
        return Peer(*ends, local, tls=True, certificate_user=user, facts=tls_facts(transport))

    def data_received(self, data: bytes | memoryview) -> None:
        """Pass bytes of the client to its connection. A memoryview is valid during this call only."""
        self._turns.input_arrived()
        connection = self._connection
        if connection is None:
            rest = self._proxy_header(bytes(data))
            if rest is None:
                return
            data, connection = rest, self._connection
            assert connection is not None
        try:
            connection.receive(data)
        except Exception as error:
            self._node.fault(connection, error)
        if len(data) >= LARGE_BYTES or self._large_reads is not None:
            self._choose_reading(connection, len(data))
        if self.reading:
            if connection.held:
                self._pause(connection)
            elif connection.yields_to is not None:
                self._rest()

    def eof_received(self) -> None:
        """Let the transport close itself: the client sends nothing more."""

    def _choose_reading(self, connection: Connection, size_bytes: int) -> None:
        """Switch to large reads while large bodies arrive. TLS has its own buffers and keeps small reads."""
        assert self._transport is not None
        awaited_bytes = connection.awaited_bytes
        if self._large_reads is not None:
            connection.effort -= size_bytes // READ_BYTES_PER_EFFORT
            if not awaited_bytes and not connection.large_bytes:
                self._large_reads = None
                self._transport.set_protocol(self)
        elif awaited_bytes >= LARGE_BYTES and not self._tls:
            self._large_reads = LargeReads(self, connection, self._sockets.large_reads)
            self._transport.set_protocol(self._large_reads)

    def _proxy_header(self, data: bytes) -> bytes | None:
        """Read the PROXY header that a load balancer sends first. Return None until it is complete."""
        self._before_proxy_header += data
        assert self._transport is not None
        try:
            ends, rest = read_proxy_header(self._before_proxy_header)
        except Incomplete:
            return None
        except ProxyHeaderInvalid as invalid:
            self._node.warn(f"closing a client connection: its PROXY header is unusable: {invalid}")
            self._transport.abort()
            return None
        self._begin(self._peer(ends))
        return rest

    def _pause(self, connection: Connection) -> None:
        """Stop taking frames until the connection is no longer held.

        During a login the node keeps reading the socket, up to a limit. Only a read notices that the
        client has closed the socket, and the password of a client that is gone must not be hashed.
        """
        assert self._transport is not None
        self._sockets.pause(self)
        logging_in = connection.state is STARTING and not connection.finished
        if not logging_in or connection.buffered_bytes > limits.LOGIN_PIPELINED_BYTES_MAX:
            self.reading = False
            self._transport.pause_reading()

    def _rest(self) -> None:
        """Stop reading until consumers of the congested queue catch up."""
        assert self._transport is not None
        self.reading = False
        self._transport.pause_reading()
        self._sockets.rest(self)

    def has_rested(self) -> bool:
        """Return whether the queue that the publisher rests for is no longer congested."""
        connection = self._connection
        return connection is None or connection.yields_to is None or not connection.yields_to.congested

    def wake(self) -> None:
        """End the rest and read the socket again."""
        transport = self._transport
        if self._connection is not None:
            self._connection.yields_to = None
        if not self.reading and transport is not None and not transport.is_closing():
            self.reading = True
            transport.resume_reading()

    @property
    def held(self) -> bool:
        """Whether the connection accepts no frames at present."""
        return self._connection is not None and self._connection.held

    def resume(self) -> bool:
        """Let the connection process buffered frames, and read the socket again unless it is still held.
        Return whether the connection was not held."""
        connection, transport = self._connection, self._transport
        assert connection is not None and transport is not None
        try:
            resumed = connection.resume()
        except Exception as error:
            self._node.fault(connection, error)
            resumed = True
        if not connection.held and not self.reading and not transport.is_closing():
            self.reading = True
            transport.resume_reading()
        return resumed

    def write(self) -> None:
        """Write the connection's output to the socket, and close the socket if the connection is finished."""
        connection, transport = self._connection, self._transport
        assert connection is not None and transport is not None
        if not connection.writable:
            self._turns.end_soon()
        output = connection.take_output()
        if transport.is_closing():
            return
        # Joining large bodies would copy them once more.
        if output and len(output[-1]) >= limits.UNJOINED_BYTES_MIN:
            connection.traffic.sent_bytes += sum(map(len, output))
            connection.traffic.sent_count += 1
            transport.writelines(output)
        elif output:
            joined = b"".join(output)
            connection.traffic.sent_bytes += len(joined)
            connection.traffic.sent_count += 1
            transport.write(joined)
        if connection.finished:
            transport.close()
            self._node.later(limits.CLOSE_FLUSH_TIMEOUT_S, transport.abort)

    @property
    def pending_bytes(self) -> int:
        """Bytes of output that the client has not received yet."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def abort(self) -> None:
        """Close the socket at once and discard its output."""
        if self._transport is not None:
            self._transport.abort()

    def pause_writing(self) -> None:
        """Tell the connection that the client reads too slowly."""
        if self._connection is not None:
            self._connection.filled()

    def resume_writing(self) -> None:
        """Tell the connection that the client has read the buffered output."""
        if self._connection is not None:
            self._connection.drained()
            self._turns.end_soon()

    def connection_lost(self, error: Exception | None) -> None:
        """Release the connection of a closed socket."""
        self._sockets.dismiss(self)
        if self._connection is not None:
            self._turns.read_clock()
            self._sockets.by_connection.pop(self._connection, None)
            try:
                self._connection.lost()
            except Exception as fault:
                self._node.fault(self._connection, fault)
            self._turns.end_soon()
