"""Questions to the broker: published to a well-known name, answered by direct reply-to.

A question can be asked again without harm (`mirrormq.ranges` says why), so a connection that breaks while
an answer is awaited costs a reconnection, to another node if need be, and nothing else. If a node is silent
the next one is asked too, and the first answer counts.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self

from mirrormq.ranges.error_reasons import TRY_AGAIN
from mirrormq.ranges.range_protocol import OK, REPLY_QUEUE, ROUTING_KEY
from mirrormq.spark.client.client_errors import ConnectionLost, RequestRefused
from mirrormq.spark.client.node_address import NodeAddress
from mirrormq.spark.client.node_selection import PAUSE_S, Nodes, suspect
from mirrormq.spark.client.spark_connection import CHANNEL, SparkConnection
from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.fields import Table, plain
from mirrormq.wire.properties import BasicProperties, decode_properties, encode_properties

PUBLISH = method_frame(CHANNEL, methods.encode_basic_publish("", ROUTING_KEY, True))
"""Mandatory: a broker that does not know the name returns the question instead of dropping it."""

NO_ROUTE, INTERNAL_ERROR = 312, 541

POLL_S = 0.02
"""How long each of two nodes is listened to in turn."""

NOT_NOW = frozenset({506, 541})
"""Codes of answers that may be others a moment later: too much to do, something broke."""


class RangeAnswer(NamedTuple):
    """What the broker answered."""

    headers: dict[str, Any]
    body: bytes | bytearray


@dataclass(slots=True)
class OutstandingRequest:
    """One that has been sent, and can be sent again."""

    headers: Table
    body: bytes
    number: int
    sent_over: SparkConnection | None = None
    """None when it did not get out, or is to be sent again."""


class RangeClient:
    """Asks over one connection, made when the first question is asked."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._connection: SparkConnection | None = None
        self._number = 0
        self._open_numbers: set[int] = set()
        """Questions that were asked and whose answers were not fetched."""
        self._arrived: dict[int, tuple[str | None, RangeAnswer]] = {}
        """Answers that came before it was their turn."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up; asking again connects again."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def ask(self, headers: Table, body: bytes = b"") -> RangeAnswer:
        """Ask (`mirrormq.ranges.range_protocol` has the headers) and wait for the answer.

        Refused if it is an error, Lost if no node gives one.
        """
        return self.finish(self.begin(headers, body))

    def begin(self, headers: Table, body: bytes = b"") -> OutstandingRequest:
        """Ask; `finish` waits for the answer. Several questions may be under way."""
        self._number += 1
        self._open_numbers.add(self._number)
        question = OutstandingRequest(headers, body, self._number)
        try:
            self._send(question, time.monotonic())
        except ConnectionLost:
            self._drop()
        return question

    def finish(self, question: OutstandingRequest) -> RangeAnswer:
        """Wait for the answer; ask again, elsewhere, if the connection breaks or the node is silent."""
        deadline_s = time.monotonic() + self._nodes.patience_s
        while True:
            try:
                if question.sent_over is None or question.sent_over is not self._connection:
                    self._send(question, deadline_s)
                kind, answer = self._wait(question, deadline_s)
            except ConnectionLost:
                self._drop()
                if time.monotonic() >= deadline_s:
                    raise
                continue
            except RequestRefused:  # the channel or the connection was closed with it
                self._drop()
                raise
            if kind == OK:
                self._open_numbers.discard(question.number)
                return answer
            refused = _refusal(answer.headers)
            if not _may_change(refused) or time.monotonic() >= deadline_s:
                raise refused
            time.sleep(PAUSE_S)
            question.sent_over = None

    def _drop(self) -> None:
        if self._connection is not None:
            suspect(self._connection.address)
            self._connection.drop()
            self._connection = None
        self._arrived.clear()

    def _send(self, question: OutstandingRequest, deadline_s: float) -> None:
        question.sent_over = None
        if self._connection is None:
            self._connection = self._open(deadline_s)
        self._publish(question, self._connection)
        question.sent_over = self._connection

    def _publish(self, question: OutstandingRequest, connection: SparkConnection) -> None:
        properties = encode_properties(
            BasicProperties(
                headers=question.headers, correlation_id=str(question.number), reply_to=REPLY_QUEUE
            )
        )
        connection.send(PUBLISH + build_frames(CHANNEL, properties, question.body, connection.frame_max))

    def _open(self, deadline_s: float, avoiding: NodeAddress | None = None) -> SparkConnection:
        connection = self._nodes.connect(deadline_s, avoiding)
        try:
            consume = methods.encode_basic_consume(REPLY_QUEUE, no_ack=True)
            connection.call(consume, methods.BASIC_CONSUME_OK)
        except BaseException:
            connection.drop()
            raise
        return connection

    def _wait(self, question: OutstandingRequest, deadline_s: float) -> tuple[str | None, RangeAnswer]:
        """The answer to a question that was sent. Lost if the node gives none within the request's limit.

        A node that is silent may be frozen, or wait for a promotion. So it is not given up when another node
        is asked too: whichever answers first is the one to go on with.
        """
        connection = self._connection
        assert connection is not None
        timeouts = self._nodes.timeouts
        give_up_s = time.monotonic() + timeouts.request_s
        other: SparkConnection | None = None
        try:
            while question.number not in self._arrived:
                quiet_s = timeouts.hedge_s if other is None else POLL_S
                if connection.comes_within(quiet_s):
                    self._receive(connection)
                    continue
                if time.monotonic() >= give_up_s:
                    raise ConnectionLost(f"{connection.address.where} did not answer in time")
                if other is None and len(self._nodes.addresses) > 1:
                    other = self._ask_another(question, connection)
                elif other is not None and other.comes_within(POLL_S):
                    self._receive(other)
                    if question.number in self._arrived:
                        suspect(connection.address)
                        self._connection, connection, other = other, other, connection
            return self._arrived.pop(question.number)
        finally:
            if other is not None:
                other.drop()

    def _ask_another(self, question: OutstandingRequest, silent: SparkConnection) -> SparkConnection | None:
        """Ask another node as well, if one answers at once."""
        connection: SparkConnection | None = None
        try:
            connection = self._open(time.monotonic(), silent.address)
            self._publish(question, connection)
            return connection
        except ConnectionLost:
            if connection is not None:
                connection.drop()
            return None

    def _receive(self, connection: SparkConnection) -> None:
        """Take one method from a node; keep it if it is an answer that was asked for."""
        received = connection.receive()
        if received.method == methods.BASIC_RETURN:
            where = connection.address.where
            raise RequestRefused(NO_ROUTE, f"{where} knows no range reads: is it a MirrorMQ of this version?")
        if received.method != methods.BASIC_DELIVER:
            return
        properties = decode_properties(received.properties, 0)
        number = int(properties.correlation_id or 0)
        if number in self._open_numbers:
            answer = RangeAnswer(plain(properties.headers or {}), received.body)
            self._arrived[number] = (properties.type_, answer)


def _may_change(refused: RequestRefused) -> bool:
    """Whether the same question may get another answer in a moment."""
    return refused.code in NOT_NOW or refused.reason == TRY_AGAIN


def _refusal(headers: dict[str, Any]) -> RequestRefused:
    code = headers.get("code")
    return RequestRefused(
        code if isinstance(code, int) else INTERNAL_ERROR,
        str(headers.get("text", "")),
        str(headers.get("reason", "")),
    )
