"""Client of the range protocol: requests to a well-known routing key, replies by direct reply-to.

Requests are idempotent (`mirrormq.ranges` explains why). A connection that breaks while a reply is awaited
costs only a reconnection, to another node if necessary. If a node is silent the client also sends the request
to the next one, and uses the first reply.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self

from mirrormq.client.amqp_uri import AmqpUri
from mirrormq.client.client_events import Delivery, Returned
from mirrormq.ranges.error_reasons import TRY_AGAIN
from mirrormq.ranges.range_protocol import OK, REPLY_QUEUE, ROUTING_KEY
from mirrormq.spark.client.client_errors import ConnectionLost, RequestRefused
from mirrormq.spark.client.node_selection import PAUSE_S, STAGGER_S, Nodes, suspect
from mirrormq.spark.client.spark_connection import CHANNEL, SparkConnection
from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.fields import Table, plain
from mirrormq.wire.properties import BasicProperties, decode_properties, encode_properties

PUBLISH = method_frame(CHANNEL, methods.encode_basic_publish("", ROUTING_KEY, True))
"""Mandatory publish: a broker that does not know the routing key returns the request instead of dropping it.
"""

NO_ROUTE, INTERNAL_ERROR = 312, 541

POLL_S = 0.02
"""Time to wait for each of two nodes in turn."""

REQUESTS_IN_FLIGHT_MAX = 256
"""Requests that `ask_all` sends before it waits for replies: some 50 KiB in each direction."""

NOT_NOW = frozenset({506, 541})
"""Reply codes that may change a moment later: overload, internal error."""


class RangeAnswer(NamedTuple):
    """Reply of the broker."""

    headers: dict[str, Any]
    body: bytes | bytearray


@dataclass(slots=True)
class OutstandingRequest:
    """Request that was sent and can be sent again."""

    headers: Table
    body: bytes
    number: int
    sent_over: SparkConnection | None = None
    """None if the request was not sent, or has to be sent again."""


class RangeClient:
    """Client with one connection, opened by the first request."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._connection: SparkConnection | None = None
        self._number = 0
        self._idle_before = False
        """Whether the connection was idle and has received nothing since: its node may be frozen."""
        self._open_numbers: set[int] = set()
        """Requests whose replies were not fetched."""
        self._arrived: dict[int, tuple[str | None, RangeAnswer]] = {}
        """Replies that arrived before they were fetched."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def has_outstanding(self) -> bool:
        """Whether replies were not fetched."""
        return bool(self._open_numbers)

    def resume(self) -> None:
        """Use an idle connection again. Another node is tried as early as during a handshake."""
        self._idle_before = True

    def close(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def ask(self, headers: Table, body: bytes = b"") -> RangeAnswer:
        """Send a request (`mirrormq.ranges.range_protocol` has the headers) and wait for the reply.

        Raises RequestRefused for an error reply, ConnectionLost if no node replies.
        """
        return self.finish(self.begin(headers, body))

    def ask_all(self, requests: Sequence[Table]) -> list[RangeAnswer | RequestRefused]:
        """Send many requests in one round trip; return a reply or a refusal for each.

        Raises ConnectionLost if no node replies.
        """
        found: list[RangeAnswer | RequestRefused] = []
        for start in range(0, len(requests), REQUESTS_IN_FLIGHT_MAX):
            begun = [self.begin(headers) for headers in requests[start : start + REQUESTS_IN_FLIGHT_MAX]]
            for request in begun:
                try:
                    found.append(self.finish(request))
                except RequestRefused as refused:
                    # Without a reason it is no reply: the broker has closed the channel.
                    if not refused.reason:
                        raise
                    found.append(refused)
        return found

    def begin(self, headers: Table, body: bytes = b"") -> OutstandingRequest:
        """Send a request; `finish` waits for the reply. Several requests may be in flight."""
        self._number += 1
        self._open_numbers.add(self._number)
        request = OutstandingRequest(headers, body, self._number)
        try:
            self._send(request, time.monotonic())
        except ConnectionLost:
            self._drop()
        return request

    def finish(self, request: OutstandingRequest) -> RangeAnswer:
        """Wait for the reply; resend, to another node, if the connection breaks or the node is silent."""
        deadline_s = time.monotonic() + self._nodes.patience_s
        while True:
            try:
                if request.sent_over is None or request.sent_over is not self._connection:
                    self._send(request, deadline_s)
                kind, answer = self._wait(request, deadline_s)
            except ConnectionLost:
                self._drop()
                if time.monotonic() >= deadline_s:
                    raise
                continue
            except RequestRefused:  # the broker has closed the channel or the connection
                self._drop()
                raise
            refused = None if kind == OK else _refusal(answer.headers)
            if refused is None or not _may_change(refused) or time.monotonic() >= deadline_s:
                self._open_numbers.discard(request.number)
                if refused is not None:
                    raise refused
                return answer
            time.sleep(PAUSE_S)
            request.sent_over = None

    def _drop(self) -> None:
        if self._connection is not None:
            suspect(self._connection.address)
            self._connection.drop()
            self._connection = None
        self._arrived.clear()

    def _send(self, request: OutstandingRequest, deadline_s: float) -> None:
        request.sent_over = None
        if self._connection is None:
            self._connection = self._open(deadline_s)
        self._publish(request, self._connection)
        request.sent_over = self._connection

    def _publish(self, request: OutstandingRequest, connection: SparkConnection) -> None:
        properties = encode_properties(
            BasicProperties(headers=request.headers, correlation_id=str(request.number), reply_to=REPLY_QUEUE)
        )
        connection.send(PUBLISH + build_frames(CHANNEL, properties, request.body, connection.frame_max))

    def _open(self, deadline_s: float, avoiding: AmqpUri | None = None) -> SparkConnection:
        connection = self._nodes.connect(deadline_s, avoiding)
        try:
            consume = methods.encode_basic_consume(REPLY_QUEUE, no_ack=True)
            connection.call(consume)
        except BaseException:
            connection.drop()
            raise
        return connection

    def _wait(self, request: OutstandingRequest, deadline_s: float) -> tuple[str | None, RangeAnswer]:
        """Return the reply to a request that was sent. Raises ConnectionLost after the time limit of a
        request.

        A silent node may be frozen, or wait for a promotion. The client therefore keeps its connection when
        it also sends the request to another node. The first node that replies is used from then on.
        """
        connection = self._connection
        assert connection is not None
        timeouts = self._nodes.timeouts
        give_up_s = time.monotonic() + timeouts.request_s
        other: SparkConnection | None = None
        try:
            while request.number not in self._arrived:
                hedge_s = min(STAGGER_S, timeouts.hedge_s) if self._idle_before else timeouts.hedge_s
                quiet_s = hedge_s if other is None else POLL_S
                if connection.receives_within(quiet_s):
                    self._receive(connection)
                    continue
                if time.monotonic() >= give_up_s:
                    raise ConnectionLost(f"{connection.address.where} did not answer in time")
                if other is None and len(self._nodes.addresses) > 1:
                    other = self._ask_another(request, connection)
                elif other is not None and other.receives_within(POLL_S):
                    self._receive(other)
                    if request.number in self._arrived:
                        suspect(connection.address)
                        # Keep the node that replied; `finally` drops the silent one, whose late reply is
                        # then ignored.
                        self._connection, connection, other = other, other, connection
            return self._arrived.pop(request.number)
        finally:
            if other is not None:
                other.drop()

    def _ask_another(self, request: OutstandingRequest, silent: SparkConnection) -> SparkConnection | None:
        """Send the request to another node as well, if one accepts a connection at once."""
        connection: SparkConnection | None = None
        try:
            connection = self._open(time.monotonic(), silent.address)
            self._publish(request, connection)
            return connection
        except ConnectionLost:
            if connection is not None:
                connection.drop()
            return None

    def _receive(self, connection: SparkConnection) -> None:
        """Process input of a node; keep the replies to open requests."""
        self._idle_before = False
        for event in connection.events():
            if isinstance(event, Returned):
                where = connection.address.where
                raise RequestRefused(
                    NO_ROUTE, f"{where} knows no range reads: is it a MirrorMQ of this version?"
                )
            if not isinstance(event, Delivery):
                continue
            properties = decode_properties(event.properties, 0)
            number = int(properties.correlation_id or 0)
            if number in self._open_numbers:
                answer = RangeAnswer(plain(properties.headers or {}), event.body)
                self._arrived[number] = (properties.type_, answer)


def _may_change(refused: RequestRefused) -> bool:
    """Whether the same request may get another reply a moment later."""
    return refused.code in NOT_NOW or refused.reason == TRY_AGAIN


def _refusal(headers: dict[str, Any]) -> RequestRefused:
    code = headers.get("code")
    return RequestRefused(
        code if isinstance(code, int) else INTERNAL_ERROR,
        str(headers.get("text", "")),
        str(headers.get("reason", "")),
    )
