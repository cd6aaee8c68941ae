"""pika's blocking connection consumes: prefetch, acknowledgements, requeueing, cancels, many channels."""

from __future__ import annotations

from typing import Any

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ChannelClosedByBroker

from tests.clients.support import uri
from tests.waiting import until


class Received(list[tuple[Any, bytes]]):
    """Deliveries of a consumer; callable, so that it can be the callback."""

    def __call__(self, _channel: Any, method: Any, _properties: Any, body: bytes) -> None:
        self.append((method, body))

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, body in self]


def process_until(connection: pika.BlockingConnection, count: int, received: Received) -> None:
    def enough() -> bool:
        connection.process_data_events(0.02)
        return len(received) >= count

    until(enough, f"{count} deliveries")


def settle(channel: BlockingChannel) -> None:
    """Everything the broker had to say before this round trip has been received."""
    channel.basic_qos(prefetch_count=0)


def publish(channel: BlockingChannel, queue: str, count: int) -> None:
    for number in range(count):
        channel.basic_publish("", queue, b"%d" % number)


def test_prefetch_limits_what_is_unacknowledged(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    publish(channel, queue, 10)
    received = Received()
    channel.basic_qos(prefetch_count=3)
    channel.basic_consume(queue, received)
    process_until(connection, 3, received)
    assert channel.queue_declare(queue, passive=True).method.message_count == 7
    channel.basic_ack(received[1][0].delivery_tag, multiple=True)
    process_until(connection, 5, received)
    assert channel.queue_declare(queue, passive=True).method.message_count == 5
    assert received.bodies == [b"0", b"1", b"2", b"3", b"4"]


def test_rejected_messages_return_to_their_place_marked(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    publish(channel, queue, 4)
    tags = [channel.basic_get(queue)[0].delivery_tag for _ in range(3)]
    channel.basic_nack(tags[1], multiple=True, requeue=True)
    channel.basic_reject(tags[2], requeue=True)
    received = Received()
    channel.basic_consume(queue, received, auto_ack=True)
    process_until(connection, 4, received)
    assert received.bodies == [b"0", b"1", b"2", b"3"]
    assert [method.redelivered for method, _ in received] == [True, True, True, False]


def test_messages_refused_without_requeue_are_gone(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, 2)
    channel.basic_reject(channel.basic_get(queue)[0].delivery_tag, requeue=False)
    channel.basic_nack(channel.basic_get(queue)[0].delivery_tag, requeue=False)
    assert channel.basic_get(queue)[0] is None


def test_get_says_how_many_are_left(channel: BlockingChannel, queue: str) -> None:
    publish(channel, queue, 3)
    assert [channel.basic_get(queue, auto_ack=True)[0].message_count for _ in range(3)] == [2, 1, 0]


def test_recover_redelivers_what_is_unacknowledged(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    publish(channel, queue, 3)
    received = Received()
    channel.basic_consume(queue, received)
    process_until(connection, 3, received)
    channel.basic_recover(requeue=True)
    process_until(connection, 6, received)
    assert received.bodies[3:] == [b"0", b"1", b"2"]
    assert all(method.redelivered for method, _ in received[3:])


def test_a_closed_channel_gives_its_messages_back(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    publish(channel, queue, 2)
    other = connection.channel()
    assert other.basic_get(queue)[2] == b"0"
    other.close()
    method, _, body = channel.basic_get(queue)
    assert (method.redelivered, body) == (True, b"0")


def test_consumers_of_a_deleted_queue_get_basic_cancel(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    cancelled: list[str] = []
    channel.add_on_cancel_callback(lambda frame: cancelled.append(frame.method.consumer_tag))
    tag = channel.basic_consume(queue, Received())
    connection.channel().queue_delete(queue)

    def reported() -> list[str]:
        connection.process_data_events(0.02)
        return cancelled

    assert until(reported, "basic.cancel") == [tag]


def test_a_cancelled_consumer_gets_no_more(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    received = Received()
    tag = channel.basic_consume(queue, received, auto_ack=True)
    publish(channel, queue, 1)
    process_until(connection, 1, received)
    channel.basic_cancel(tag)
    publish(channel, queue, 1)
    assert channel.basic_get(queue, auto_ack=True)[2] == b"0"
    assert len(received) == 1


def test_consumers_take_turns(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    both = [Received(), Received()]
    for received in both:
        other = connection.channel()
        other.basic_qos(prefetch_count=1)
        other.basic_consume(queue, received)
        settle(other)
    publish(channel, queue, 2)
    for received in both:
        process_until(connection, 1, received)
    assert [len(received) for received in both] == [1, 1]


def test_a_single_active_consumer_is_followed_by_the_next(
    connection: pika.BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    channel.queue_declare(name, exclusive=True, arguments={"x-single-active-consumer": True})
    first, second = Received(), Received()
    tag = channel.basic_consume(name, first, auto_ack=True)
    channel.basic_consume(name, second, auto_ack=True)
    publish(channel, name, 3)
    process_until(connection, 3, first)
    channel.basic_cancel(tag)
    publish(channel, name, 2)
    process_until(connection, 2, second)
    assert (len(first), len(second)) == (3, 2)


def test_a_consumer_of_higher_priority_gets_everything(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    low, high = Received(), Received()
    channel.basic_consume(queue, low, auto_ack=True)
    channel.basic_consume(queue, high, auto_ack=True, arguments={"x-priority": 10})
    publish(channel, queue, 5)
    process_until(connection, 5, high)
    assert low == []


def test_an_exclusive_consumer_keeps_others_out(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    channel.basic_consume(queue, Received(), exclusive=True)
    with pytest.raises(ChannelClosedByBroker) as raised:
        connection.channel().basic_consume(queue, Received())
    assert raised.value.reply_code == 403
    assert raised.value.reply_text == f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"


def test_a_hundred_channels_in_one_connection(
    connection: pika.BlockingConnection, channel: BlockingChannel, name: str
) -> None:
    boxes = []
    for number in range(100):
        each = connection.channel()
        queue = each.queue_declare(f"{name}-{number}", exclusive=True).method.queue
        received = Received()
        each.basic_consume(queue, received, auto_ack=True)
        boxes.append((queue, received))
    for queue, _ in boxes:
        publish(channel, queue, 2)
    for queue, received in boxes:
        process_until(connection, 2, received)
        assert [(method.routing_key, body) for method, body in received] == [(queue, b"0"), (queue, b"1")]


def test_an_error_ends_its_channel_and_not_the_connection(
    connection: pika.BlockingConnection, channel: BlockingChannel, queue: str
) -> None:
    publish(channel, queue, 1)
    doomed = connection.channel()
    assert doomed.basic_get(queue)[2] == b"0"
    with pytest.raises(ChannelClosedByBroker) as raised:
        doomed.queue_declare(queue, exclusive=True, arguments={"x-max-length": 5})
    assert raised.value.reply_code == 406
    assert "inequivalent arg 'x-max-length'" in raised.value.reply_text
    assert channel.basic_get(queue, auto_ack=True)[0].redelivered


def test_an_unknown_delivery_tag_is_refused(channel: BlockingChannel, queue: str) -> None:
    channel.basic_ack(99)
    with pytest.raises(ChannelClosedByBroker) as raised:
        settle(channel)
    assert (raised.value.reply_code, raised.value.reply_text) == (
        406,
        "PRECONDITION_FAILED - unknown delivery tag 99",
    )


def test_an_exclusive_queue_belongs_to_its_connection(
    broker: Any, channel: BlockingChannel, queue: str
) -> None:
    with pika.BlockingConnection(pika.URLParameters(uri(broker))) as other:
        with pytest.raises(ChannelClosedByBroker) as raised:
            other.channel().queue_declare(queue, passive=True)
    assert raised.value.reply_code == 405


def test_passwords_and_vhosts_are_checked(broker: Any) -> None:
    wrong = pika.ConnectionParameters(
        "127.0.0.1", broker.amqp_port, credentials=pika.PlainCredentials("guest", "no")
    )
    with pytest.raises(pika.exceptions.ProbableAuthenticationError) as refused:
        pika.BlockingConnection(wrong)
    assert "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN" in str(refused.value)
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError) as unknown:
        pika.BlockingConnection(pika.URLParameters(uri(broker, "nowhere")))
    assert "(530) 'NOT_ALLOWED - vhost nowhere not found'" in str(unknown.value)
