"""HTTP/1.1 connection: h11 parses requests, an ASGI application replies to them.

The client has `HEAD_TIMEOUT_S` for a request's head, and must send its body at `BODY_BYTES_MIN` per
`BODY_TIMEOUT_S`. A late client receives 408, as from RabbitMQ. The node keeps reading while it processes a
request, up to `AHEAD_BYTES_MAX`, because only a read notices a closed socket.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

import h11

from mirrormq.auth.client_peer import address_block
from mirrormq.runtime.http_admission import HEAD_TIMEOUT_S
from mirrormq.runtime.http_exchange import HttpExchange

if TYPE_CHECKING:
    from mirrormq.runtime.http_server import HttpServer

IDLE_TIMEOUT_S = 60.0
"""RabbitMQ's limit for the time between two requests of a connection."""

BODY_TIMEOUT_S = 5.0
BODY_BYTES_MIN = 4096
"""Minimum bytes per `BODY_TIMEOUT_S`. The node gives up an incomplete body that arrives more slowly."""

HEAD_BYTES_MAX = 64 * 1024
"""Maximum size of request line and headers: a queue name of 255 bytes takes 765 in a path."""

AHEAD_BYTES_MAX = 64 * 1024
"""Maximum bytes of later requests that are read while one is processed."""

BODY_AHEAD_BYTES_MAX = 1024 * 1024
"""Maximum bytes of a body that wait for the application."""

UNREAD_BODY_BYTES_MAX = 64 * 1024 * 1024
"""Maximum bytes of a body that are read and discarded after a refusal. A client that is still sending does
not see the response if its socket is reset."""

WRITE_TIMEOUT_S = 30.0
"""Seconds after which a client is dropped that receives nothing of a response."""

OUTPUT_BYTES_MAX = 256 * 1024
"""Output bytes that wait for a client before the application waits too."""

REASONS = {int(status): status.phrase.encode("ascii") for status in HTTPStatus}
BAD_REQUEST = 400
REQUEST_TIMEOUT = 408


class HttpConnection(asyncio.Protocol):
    """Server side of one HTTP connection."""

    def __init__(self, server: HttpServer, *, is_tls: bool, role: str) -> None:
        self._server = server
        self._scheme = "https" if is_tls else "http"
        self._role = role
        self.address = ""
        self.refusal = 0
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._h11 = h11.Connection(h11.SERVER, HEAD_BYTES_MAX)
        self._exchange: HttpExchange | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._write_timer: asyncio.TimerHandle | None = None
        self._window_bytes = 0
        """Bytes of the body received in the current `BODY_TIMEOUT_S`."""
        self._ahead_bytes = 0
        self._unread_bytes = 0
        self._idle = False
        """No byte of the next request has arrived."""
        self._reading = True
        self._closing = False
        self.writable = asyncio.Event()
        self.writable.set()

    # -- socket ---------------------------------------------------------------------------------

    def connection_made(self, accepted: asyncio.BaseTransport) -> None:
        # uvloop's transports do not inherit from asyncio's.
        self._transport = transport = cast("asyncio.Transport", accepted)
        peer = transport.get_extra_info("peername")
        if peer is None:
            transport.abort()  # the client closed before the socket was accepted
            return
        self.address = address_block(peer[0])
        transport.set_write_buffer_limits(high=OUTPUT_BYTES_MAX)
        if not self._server.admission.admit(self):
            transport.abort()
            return
        self._expect_head()

    def data_received(self, data: bytes) -> None:
        if self._closing:
            return
        self._h11.receive_data(data)
        if self._idle:
            self._expect_head()
        if self._exchange is not None and self._exchange.body_complete:
            self._ahead_bytes += len(data)
            if self._ahead_bytes > AHEAD_BYTES_MAX:
                self._pause_reading()
            return
        self._read_events()

    def eof_received(self) -> None:
        """Let the transport close: a client that has shut down its side does not wait for responses."""

    def connection_lost(self, error: Exception | None) -> None:
        self._closing = True
        self._disarm()
        self.resume_writing()
        self._server.admission.dismiss(self)
        if self._exchange is not None:
            self._exchange.lost()

    def pause_writing(self) -> None:
        self.writable.clear()
        self._write_timer = self._loop.call_later(WRITE_TIMEOUT_S, self._abort)

    def resume_writing(self) -> None:
        self.writable.set()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _pause_reading(self) -> None:
        if self._reading and self._transport is not None:
            self._reading = False
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        if not self._reading and self._transport is not None and not self._transport.is_closing():
            self._reading = True
            self._transport.resume_reading()

    def _abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # -- requests -------------------------------------------------------------------------------

    def _read_events(self) -> None:
        """Process the events that h11 finds in the input."""
        while not self._closing:
            try:
                event = self._h11.next_event()
            except h11.RemoteProtocolError as error:
                self._fail(error.error_status_hint)
                return
            if event is h11.NEED_DATA or event is h11.PAUSED:
                return
            if isinstance(event, h11.Request):
                self._begin(event)
            elif isinstance(event, h11.Data):
                self._body(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                self._body_ended()
            else:
                self.close()
                return

    def _begin(self, request: h11.Request) -> None:
        names = {name for name, _ in request.headers}
        if b"content-length" in names and b"transfer-encoding" in names:
            # RFC 9112, 6.3: a proxy in front may use the other header and see another request here
            # (smuggling).
            self._fail(BAD_REQUEST)
            return
        scope = self._scope(request)
        self._exchange = HttpExchange(self, scope, head_only=request.method == b"HEAD")
        self._window_bytes = self._unread_bytes = 0
        self._arm(BODY_TIMEOUT_S, self._body_is_late)
        self._server.run(self._exchange, self.refusal)

    def _scope(self, request: h11.Request) -> dict[str, Any]:
        assert self._transport is not None
        raw_path, _, query = request.target.partition(b"?")
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": request.http_version.decode("ascii"),
            "scheme": self._scheme,
            "method": request.method.decode("ascii"),
            "root_path": "",
            "path": unquote(raw_path.decode("ascii")),
            "raw_path": raw_path,
            "query_string": query,
            "headers": list(request.headers),
            "client": tuple(self._transport.get_extra_info("peername")[:2]),
            "server": tuple(self._transport.get_extra_info("sockname")[:2]),
            "mirrormq.role": self._role,
        }

    def _body(self, data: bytes) -> None:
        assert self._exchange is not None
        self._window_bytes += len(data)
        if self._exchange.answered:
            self._unread_bytes += len(data)
            if self._unread_bytes > UNREAD_BODY_BYTES_MAX:
                self.close()
        elif self._exchange.add_body(data) > BODY_AHEAD_BYTES_MAX:
            self._pause_reading()

    def body_taken(self) -> None:
        """Read on after the application has consumed the buffered body."""
        if self._exchange is not None and not self._exchange.body_complete:
            self._resume_reading()

    def _body_ended(self) -> None:
        assert self._exchange is not None
        self._disarm()
        self._server.admission.waits(self, False)
        self._exchange.end_body()
        if self._exchange.answered:
            self._next_request()

    def continue_body(self) -> None:
        """Send 100 Continue to a client that waits for it (`Expect: 100-continue`)."""
        if self._h11.they_are_waiting_for_100_continue and not self._closing:
            self.send(h11.InformationalResponse(status_code=100, headers=[], reason=b"Continue"))

    # -- responses ------------------------------------------------------------------------------

    def start_answer(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """Send the head of a response."""
        if self._server.stopping and (b"connection", b"close") not in headers:
            headers = [*headers, (b"connection", b"close")]
        headers = [(b"date", _date(int(time.time()))), *headers]
        self.send(h11.Response(status_code=status, headers=headers, reason=REASONS.get(status, b"")))

    def send(self, event: h11.InformationalResponse | h11.Response | h11.Data | h11.EndOfMessage) -> None:
        data = self._h11.send(event)
        if data and self._transport is not None:
            self._transport.write(data)

    def answer_complete(self) -> None:
        """Accept the next request once the response is sent and the body of this request has arrived."""
        if self._h11.our_state is not h11.DONE or self._server.stopping:
            if self._exchange is not None and not self._exchange.body_complete:
                self._resume_reading()  # discard the rest of the body, so that the client reads the response
                return
            self.close()
        elif self._exchange is not None and self._exchange.body_complete:
            self._next_request()
        else:
            self._resume_reading()

    def _next_request(self) -> None:
        if self._h11.our_state is not h11.DONE or self._h11.their_state is not h11.DONE or self._closing:
            self.close()
            return
        self._exchange = None
        self._ahead_bytes = 0
        self._h11.start_next_cycle()
        self._server.admission.waits(self, True)
        self._resume_reading()
        self._idle = not self._h11.trailing_data[0]
        if self._idle:
            self._arm(IDLE_TIMEOUT_S, self.close)
        else:
            self._expect_head()
            self._read_events()

    def _expect_head(self) -> None:
        self._idle = False
        self._arm(HEAD_TIMEOUT_S, self._late)

    def _fail(self, status: int) -> None:
        """Refuse an unusable request and close the connection."""
        if self._h11.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.start_answer(status, [(b"content-length", b"0"), (b"connection", b"close")])
            self.send(h11.EndOfMessage())
        self.close()

    def close(self) -> None:
        """Close the socket when its output is sent, or after `WRITE_TIMEOUT_S`."""
        self._closing = True
        self._disarm()
        if self._transport is not None:
            self._transport.close()
            self._timer = self._loop.call_later(WRITE_TIMEOUT_S, self._abort)
        if self._exchange is not None:
            self._exchange.lost()

    def stop(self) -> None:
        """Close now unless a request is being processed."""
        if self._exchange is None or self._exchange.answered:
            self.close()

    # -- timeouts -------------------------------------------------------------------------------

    def give_way(self) -> None:
        """Close in favour of a new client."""
        self._late()

    def _body_is_late(self) -> None:
        # A paused read is this node's own doing: the client must not be blamed for it.
        if self._window_bytes >= BODY_BYTES_MIN or not self._reading:
            self._window_bytes = 0
            self._arm(BODY_TIMEOUT_S, self._body_is_late)
        else:
            self._late()

    def _late(self) -> None:
        """Send 408 to a client that has begun a request. Close the connection of a silent client without a
        response."""
        if self._exchange is not None or self._h11.trailing_data[0]:
            self._fail(REQUEST_TIMEOUT)
        else:
            self.close()

    def _arm(self, delay_s: float, due: Callable[[], None]) -> None:
        self._disarm()
        self._timer = self._loop.call_later(delay_s, due)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


@lru_cache(maxsize=1)
def _date(second: int) -> bytes:
    return formatdate(second, usegmt=True).encode("ascii")
