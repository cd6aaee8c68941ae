"""Trace queue: a queue of the job that receives the broker's traces, with ticks between them.

`amq.rabbitmq.trace` has a copy of every publish and delivery while tracing is on (`mirrormqctl trace_on`),
`amq.rabbitmq.event` the events of connections, queues and users. A job binds a queue to them and reads it.

Traces carry no time. A running job therefore publishes *ticks* to the same queue, messages with the current
time: traces between two ticks were made between their times. The tick's own publish is traced too, which
shows whether tracing is on. A tick may carry further data that must be ordered with the traces.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from mirrormq.client.amqp_uri import AmqpUri
from mirrormq.spark.client.client_errors import BrokerError
from mirrormq.spark.client.node_selection import Nodes, suspect
from mirrormq.spark.client.range_client import RangeClient
from mirrormq.spark.client.spark_connection import CHANNEL, SparkConnection
from mirrormq.spark.pipeline_errors import PipelineError
from mirrormq.wire import methods
from mirrormq.wire.content import build_frames, method_frame
from mirrormq.wire.fields import table_of
from mirrormq.wire.properties import BasicProperties, encode_properties

TRACE, EVENTS = "amq.rabbitmq.trace", "amq.rabbitmq.event"

QUEUE_MESSAGES_MAX = 1_000_000
"""Traces kept while no job runs; older ones are dropped."""

TICK = "mirrormq.tick"
"""Message type of a tick."""

PAUSE_S = 1.0
"""Pause after a lost connection before the next attempt."""

Note = Callable[[RangeClient], dict[str, Any]]
"""Function that returns further data of a tick."""


def prepare(addresses: Sequence[AmqpUri], queue: str, exchanges: Sequence[str]) -> None:
    """Declare the queue and bind it."""
    arguments = table_of({"x-max-length": QUEUE_MESSAGES_MAX, "x-overflow": "drop-head"})
    try:
        with Nodes(addresses).connect() as connection:
            declare = methods.encode_queue_declare(queue, durable=True, arguments=arguments)
            connection.call(declare)
            for exchange in exchanges:
                connection.call(methods.encode_queue_bind(queue, exchange, "#"))
    except BrokerError as error:
        raise PipelineError(f"the queue {queue} cannot be prepared: {error}") from None


def delete(addresses: Sequence[AmqpUri], queue: str) -> None:
    """Delete the queue; if no node replies it stays."""
    try:
        with Nodes(addresses, 0.0).connect() as connection:
            connection.call(methods.encode_queue_delete(queue))
    except BrokerError:
        pass


class Ticker:
    """Publisher of ticks from a separate thread, for the duration of the `with` block."""

    def __init__(
        self, addresses: Sequence[AmqpUri], queue: str, interval_s: float, note: Note | None = None
    ) -> None:
        self._nodes = Nodes(addresses, 0.0)
        self._range_client = RangeClient(Nodes(addresses, 0.0))
        self._queue = queue
        self._interval_s = interval_s
        self._note = note
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tick_until_over, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _tick_until_over(self) -> None:
        connection: SparkConnection | None = None
        due_s = time.monotonic()
        while not self._over.wait(max(0.0, due_s - time.monotonic())):
            due_s = max(due_s + self._interval_s, time.monotonic())
            try:
                if connection is None:
                    connection = self._nodes.connect()
                connection.send(self._message(connection.frame_max))
            except BrokerError:
                if connection is not None:
                    suspect(connection.address)
                    connection.drop()
                    connection = None
                due_s = time.monotonic() + PAUSE_S
        if connection is not None:
            connection.close()
        self._range_client.close()

    def _message(self, frame_max: int) -> bytes:
        asked_ms = int(time.time() * 1000)
        note = self._note(self._range_client) if self._note is not None else {}
        body = json.dumps({**note, "asked_ms": asked_ms, "time_ms": int(time.time() * 1000)}).encode()
        publish = method_frame(CHANNEL, methods.encode_basic_publish("", self._queue))
        return publish + build_frames(
            CHANNEL, encode_properties(BasicProperties(type_=TICK)), body, frame_max
        )
