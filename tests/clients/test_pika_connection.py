"""pika's connections themselves: the event-driven adapter, heartbeats, and blocking by an alarm."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.adapters.select_connection import SelectConnection

from tests.clients.support import WAIT_S, uri
from tests.waiting import until

ROUND_TRIPS = 500
NORMAL_WATERMARK = "0.4"


class EventDriven:
    """Declares, binds, publishes with confirms and consumes with prefetch, all in callbacks, then closes."""

    def __init__(self, broker: Any, name: str) -> None:
        self.name = name
        self.confirmed = 0
        self.returned: list[tuple[int, bytes]] = []
        self.received: list[bytes] = []
        self.closed_because: Exception | None = None
        self.failed: Exception | None = None
        self.connection = SelectConnection(
            pika.URLParameters(uri(broker)),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._on_channel),
            on_open_error_callback=self._on_failure,
            on_close_callback=self._on_closed,
        )

    def run(self) -> None:
        self.connection.ioloop.call_later(WAIT_S, self.connection.ioloop.stop)
        self.connection.ioloop.start()

    def _on_failure(self, _connection: Any, error: Exception) -> None:
        self.failed = error
        self.connection.ioloop.stop()

    def _on_closed(self, _connection: Any, error: Exception) -> None:
        self.closed_because = error
        self.connection.ioloop.stop()

    def _on_channel(self, channel: Any) -> None:
        self.channel = channel
        channel.add_on_return_callback(self._on_return)
        channel.exchange_declare(self.name, "topic", auto_delete=True, callback=self._on_exchange)

    def _on_exchange(self, _frame: Any) -> None:
        self.channel.queue_declare(self.name, exclusive=True, callback=self._on_queue)

    def _on_queue(self, _frame: Any) -> None:
        self.channel.queue_bind(self.name, self.name, "key.#", callback=self._on_bound)

    def _on_bound(self, _frame: Any) -> None:
        self.channel.confirm_delivery(self._on_confirm, callback=self._on_confirming)

    def _on_confirming(self, _frame: Any) -> None:
        self.channel.basic_qos(prefetch_count=50, callback=self._on_qos)

    def _on_qos(self, _frame: Any) -> None:
        self.channel.basic_consume(self.name, self._on_message, callback=self._on_consuming)

    def _on_consuming(self, _frame: Any) -> None:
        self.channel.basic_publish("", f"{self.name}-nowhere", b"lost", mandatory=True)
        for number in range(ROUND_TRIPS):
            self.channel.basic_publish(self.name, f"key.{number}", b"%d" % number)

    def _on_return(self, _channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        self.returned.append((method.reply_code, body))

    def _on_confirm(self, frame: Any) -> None:
        tag = frame.method.delivery_tag
        self.confirmed = max(self.confirmed, tag) if frame.method.multiple else self.confirmed + 1
        self._finish_when_done()

    def _on_message(self, channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        self.received.append(body)
        channel.basic_ack(method.delivery_tag)
        self._finish_when_done()

    def _finish_when_done(self) -> None:
        if (
            len(self.received) == ROUND_TRIPS
            and self.confirmed >= ROUND_TRIPS + 1
            and self.connection.is_open
        ):
            self.connection.close()


def test_the_event_driven_adapter_does_a_round_of_work(broker: Any, name: str) -> None:
    client = EventDriven(broker, name)
    client.run()
    assert client.failed is None
    assert client.returned == [(312, b"lost")]
    assert client.received == [b"%d" % number for number in range(ROUND_TRIPS)]
    assert client.confirmed == ROUND_TRIPS + 1
    assert isinstance(client.closed_because, pika.exceptions.ConnectionClosedByClient)


@pytest.mark.parametrize(("publisher_frame", "consumer_frame"), [(4096, 131_072), (131_072, 4096)])
def test_connections_with_other_frame_sizes_exchange_large_messages(
    broker: Any, name: str, publisher_frame: int, consumer_frame: int
) -> None:
    body = os.urandom(500_000)
    with (
        pika.BlockingConnection(
            pika.URLParameters(uri(broker, query=f"?frame_max={publisher_frame}"))
        ) as sender,
        pika.BlockingConnection(
            pika.URLParameters(uri(broker, query=f"?frame_max={consumer_frame}"))
        ) as receiver,
    ):
        channel = receiver.channel()
        channel.queue_declare(name)
        publishing = sender.channel()
        publishing.confirm_delivery()
        publishing.basic_publish("", name, body)
        assert channel.basic_get(name, auto_ack=True)[2] == body
        publishing.basic_publish("", name, body)
        assert next(channel.consume(name, auto_ack=True, inactivity_timeout=WAIT_S))[2] == body
        channel.queue_delete(name)


def test_a_secret_can_be_renewed(broker: Any) -> None:
    with pika.BlockingConnection(pika.URLParameters(uri(broker))) as connection:
        connection.update_secret("guest", "a new token")
        assert connection.channel().is_open


def test_heartbeats_keep_an_idle_connection(broker: Any) -> None:
    """pika gives up when it hears nothing for two intervals, and so does the broker."""
    parameters = pika.URLParameters(uri(broker, query="?heartbeat=2"))
    with pika.BlockingConnection(parameters) as connection:
        connection.process_data_events(7)
        assert connection.is_open
        assert connection.channel().is_open


def test_a_client_that_is_silent_is_dropped(broker: Any) -> None:
    parameters = pika.URLParameters(uri(broker, query="?heartbeat=1"))
    connection = pika.BlockingConnection(parameters)
    queue = connection.channel().queue_declare("", exclusive=True).method.queue
    started = time.monotonic()
    with pika.BlockingConnection(pika.URLParameters(uri(broker))) as other:

        def gone() -> bool:
            try:
                other.channel().queue_declare(queue, passive=True)
            except pika.exceptions.ChannelClosedByBroker as error:
                return bool(error.reply_code == 404)
            raise AssertionError("another connection could use an exclusive queue")

        until(gone, "the exclusive queue of the silent client is deleted")
        assert time.monotonic() - started > 1
    with pytest.raises(pika.exceptions.AMQPConnectionError):
        connection.process_data_events(1)


@contextmanager
def memory_alarm(broker: Any) -> Iterator[None]:
    """The broker believes that it has no memory left."""
    broker.control("set_vm_memory_high_watermark", "0.0000001")
    try:
        yield
    finally:
        broker.control("set_vm_memory_high_watermark", NORMAL_WATERMARK)


def _deliver_events(connection: pika.BlockingConnection, events: list[Any]) -> Any:
    def arrived() -> list[Any]:
        connection.process_data_events(0.02)
        return events

    return until(arrived, "connection.blocked or unblocked")[0]


def test_publishers_are_blocked_by_an_alarm_and_others_go_on(
    broker: Any, connection: pika.BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    """A publisher is told when it next publishes, and that message waits for the end of the alarm."""
    channel.queue_declare(name, auto_delete=True)
    channel.basic_publish("", name, b"before")
    blocked: list[Any] = []
    unblocked: list[Any] = []
    connection.add_on_connection_blocked_callback(lambda _, frame: blocked.append(frame.method.reason))
    connection.add_on_connection_unblocked_callback(lambda _, frame: unblocked.append(frame))
    with memory_alarm(broker):
        assert channel.queue_declare(name, passive=True).method.message_count == 1
        assert blocked == []
        channel.basic_publish("", name, b"during")
        assert _deliver_events(connection, blocked) == "low on memory"
        with pika.BlockingConnection(pika.URLParameters(uri(broker))) as consuming:
            consumer = consuming.channel()
            assert consumer.basic_get(name, auto_ack=True)[2] == b"before"
            assert consumer.basic_get(name, auto_ack=True)[0] is None
        assert unblocked == []
    _deliver_events(connection, unblocked)
    assert until(lambda: channel.basic_get(name, auto_ack=True)[2], "the message that waited") == b"during"
    channel.queue_delete(name)


def test_a_connection_used_by_many_threads_through_callbacks(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    """pika's own rule: other threads hand work to the connection's thread."""

    def publish_from_peer(number: int) -> None:
        connection.add_callback_threadsafe(lambda: channel.basic_publish("", queue, b"%d" % number))

    threads = [threading.Thread(target=publish_from_peer, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    received = set()
    for _, _, body in channel.consume(queue, auto_ack=True, inactivity_timeout=WAIT_S):
        received.add(body)
        if len(received) == 20 or body is None:
            break
    assert received == {b"%d" % number for number in range(20)}
