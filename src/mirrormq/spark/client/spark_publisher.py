"""Publisher with confirms and many messages in flight.

The publisher takes messages as encoded frames and keeps them until they are confirmed. If the connection
breaks before, it resends them over another one. A MirrorMQ that already has them recognises them by producer
and number and only confirms them. Any other broker receives some of them twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self

from mirrormq.client.client_events import Confirm, Event, Returned
from mirrormq.spark.client.client_errors import BrokerError, ConnectionLost, RequestRefused
from mirrormq.spark.client.connection_pool import IdlePool, PoolKey
from mirrormq.spark.client.node_selection import Nodes, suspect
from mirrormq.spark.client.spark_connection import SparkConnection
from mirrormq.wire import methods

RUN_BYTES = 256 * 1024
"""Bytes to collect before a send."""

WINDOW_MESSAGES = 10_000
"""Unconfirmed messages: a mirrored durable queue confirms some ms later, and the broker should not be idle
meanwhile."""

WINDOW_BYTES = 32 * 1024 * 1024
"""Unconfirmed bytes; at least one message may always be in flight."""


OnReturn = Callable[[Returned], bytes | None]
"""Callback with an unroutable message. Returns a message to publish in its place, or None to fail the
write."""


class NotRouted(BrokerError):
    """Mandatory message that reached no queue."""


class IdlePublisher(NamedTuple):
    """Connection in confirm mode between two publishers. All its messages are confirmed."""

    connection: SparkConnection
    tag: int
    """Delivery tag of its last message."""

    def close(self) -> None:
        self.connection.close()

    def is_alive(self) -> bool:
        """Whether the node has not closed the connection meanwhile."""
        try:
            if self.connection.receives_within(0.0):
                self.connection.events()
        except BrokerError:
            self.connection.drop()
            return False
        return True


idle_publishers: IdlePool[IdlePublisher] = IdlePool()


class SparkPublisher:
    """Publisher over one connection at a time; `flush` or leaving the `with` block waits for all confirms."""

    def __init__(
        self,
        nodes: Nodes,
        window_messages: int = WINDOW_MESSAGES,
        window_bytes: int = WINDOW_BYTES,
        on_return: OnReturn | None = None,
        keeps_connection: bool = False,
    ) -> None:
        self.confirmed = 0
        self._keeps_connection = keeps_connection
        self._on_return = on_return
        self._nodes = nodes
        self._window_messages = window_messages
        self._window_bytes = window_bytes
        self._connection: SparkConnection | None = None
        self._run: list[bytes] = []
        """Messages collected and not yet sent."""
        self._run_bytes = 0
        self._waiting: dict[int, bytes] = {}
        """Messages sent and not confirmed, by delivery tag, in order."""
        self._waiting_bytes = 0
        self._tag = 0
        self._returned: str | None = None
        """Target of the first unroutable message."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.flush()
        if self._connection is None:
            return
        if error is not None:
            self._connection.drop()
        elif self._keeps_connection:
            idle_publishers.give(self._key, IdlePublisher(self._connection, self._tag))
        else:
            self._connection.close()

    @property
    def frame_max(self) -> int:
        """Largest frame that the node takes; connects if there is no connection."""
        self._resume()
        if self._connection is None:
            self._connection = self._open(None)
        return self._connection.frame_max

    def publish(self, message: bytes) -> None:
        """Add a message (method, header and body frames); blocks while too many are unconfirmed."""
        self._run.append(message)
        self._run_bytes += len(message)
        if self._run_bytes >= RUN_BYTES:
            self._send_run()
            self._settle(self._window_messages, self._window_bytes)

    def push(self) -> None:
        """Send collected messages now, because no more come for a while."""
        if self._run:
            self._send_run()
            self._settle(self._window_messages, self._window_bytes)

    def flush(self) -> None:
        """Send collected messages and wait until all are confirmed; returned messages may add more."""
        while True:
            if self._run:
                self._send_run()
            self._settle(0, 0)
            if not self._run:
                return

    # --- sending ---------------------------------------------------------------------------------

    @property
    def _key(self) -> PoolKey:
        return tuple(self._nodes.addresses), self._nodes.timeouts

    def _resume(self) -> None:
        """Continue on an idle connection of this process, if it has one and the publisher has none."""
        if self._connection is not None or not self._keeps_connection or self._waiting:
            return
        idle = idle_publishers.take(self._key)
        if idle is not None and idle.is_alive():
            self._connection, self._tag = idle

    def _send_run(self) -> None:
        self._resume()
        run = self._run
        self._run, self._run_bytes = [], 0
        self._waiting.update(enumerate(run, self._tag + 1))
        self._tag += len(run)
        self._waiting_bytes += sum(map(len, run))
        try:
            if self._connection is None:
                self._connection = self._open(None)
            self._connection.send(b"".join(run))
        except ConnectionLost:
            self._resend(time.monotonic() + self._nodes.patience_s)

    def _open(self, deadline_s: float | None) -> SparkConnection:
        connection = self._nodes.connect(deadline_s)
        try:
            connection.call(methods.encode_confirm_select())
        except BaseException:
            connection.drop()
            raise
        return connection

    def _resend(self, deadline_s: float) -> None:
        """Resend all unconfirmed messages over a new connection, in the same order."""
        while True:
            if self._connection is not None:
                suspect(self._connection.address)
                self._connection.drop()
                self._connection = None
            messages = list(self._waiting.values())
            try:
                self._connection = self._open(deadline_s)
                self._waiting = dict(enumerate(messages, 1))
                self._tag = len(messages)
                self._connection.send(b"".join(messages))
                return
            except ConnectionLost:
                if time.monotonic() >= deadline_s:
                    raise

    # --- confirms --------------------------------------------------------------------------------

    def _settle(self, messages_max: int, bytes_max: int) -> None:
        """Handle the confirms that have arrived; wait for more while more than this is unconfirmed."""
        deadline_s = time.monotonic() + self._nodes.patience_s
        while self._waiting:
            try:
                connection = self._connection
                assert connection is not None
                full = len(self._waiting) > messages_max or self._waiting_bytes > bytes_max > 0
                before = self.confirmed
                if not connection.receives_within(self._nodes.timeouts.hedge_s if full else 0.0):
                    if not full:
                        break
                    self._check_alive(connection, deadline_s)
                    continue
                for event in connection.events():
                    self._on_event(event)
                # Progress resets the deadline: only a node that confirms nothing for the whole patience is
                # given up.
                if self.confirmed > before:
                    deadline_s = time.monotonic() + self._nodes.patience_s
            except ConnectionLost:
                if time.monotonic() >= deadline_s:
                    raise
                self._resend(deadline_s)
        if self._returned is not None:
            raise NotRouted(self._returned)

    def _check_alive(self, connection: SparkConnection, deadline_s: float) -> None:
        """Check a node that sends no confirms. A queue without a reachable master, or a broker that blocks
        publishers, is rightly silent; a frozen node also fails a handshake."""
        if time.monotonic() >= deadline_s or not self._nodes.answers(connection.address):
            raise ConnectionLost(f"{connection.address.where} did not answer in time")

    def _on_event(self, event: Event) -> None:
        if isinstance(event, Confirm):
            if not event.accepted:
                raise RequestRefused(0, "a queue did not take a message (basic.nack)")
            self._confirm(event.delivery_tag, event.multiple)
        elif isinstance(event, Returned) and self._returned is None:
            instead = None if self._on_return is None else self._on_return(event)
            if instead is not None:
                # Added to the next run: the confirm of the returned message is still outstanding.
                self._run.append(instead)
                self._run_bytes += len(instead)
                return
            self._returned = (
                f"a mandatory message reached no queue: nothing at exchange {event.exchange!r} is bound"
                f" for routing key {event.routing_key!r} ({event.text})"
            )

    def _confirm(self, tag: int, multiple: bool) -> None:
        waiting = self._waiting
        if not multiple:
            tags = [tag] if tag in waiting else []
        else:
            tags = []
            for each in waiting:
                if each > tag:
                    break
                tags.append(each)
        for each in tags:
            self._waiting_bytes -= len(waiting.pop(each))
        self.confirmed += len(tags)
