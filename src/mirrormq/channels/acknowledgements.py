"""Acknowledgement, rejection and recovery of deliveries."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from mirrormq.channels.unacked import Delivery
from mirrormq.errors import NotImplementedByBroker, PreconditionFailed
from mirrormq.queues.message import Message
from mirrormq.queues.queue import AnyQueue
from mirrormq.wire import methods

if TYPE_CHECKING:
    from mirrormq.channels.channel import Channel
    from mirrormq.channels.consumer import Consumer


def acknowledge(channel: Channel, tag: int, multiple: bool) -> None:
    """Handle basic.ack: the client has processed the deliveries."""
    settle(channel, "ack", _take(channel, tag, multiple))


def acknowledge_each(channel: Channel, tags: list[int]) -> None:
    """Handle several consecutive basic.ack, each of one delivery."""
    pop = channel.unacked.by_tag.pop
    if len(tags) == 1 and channel.publishing.transaction is None:
        delivery = pop(tags[0], None)
        if delivery is not None:
            _acknowledge_one(channel, delivery)
            return
    deliveries: list[Delivery] = []
    for tag in tags:
        delivery = pop(tag, None)
        if delivery is None:
            # An unknown tag closes the channel: the tags before it must be settled first.
            settle(channel, "ack", deliveries)
            acknowledge(channel, tag, False)
            deliveries = []
        else:
            deliveries.append(delivery)
    settle(channel, "ack", deliveries)


def _acknowledge_one(channel: Channel, delivery: Delivery) -> None:
    """Settle one delivery outside of a transaction."""
    message, queue, consumer, _, _ = delivery
    channel.counters.acknowledged += 1
    channel.divided.queue(queue.name).acknowledged += 1
    queue.acknowledge((message,))
    if consumer is not None:
        consumer.unacked -= 1
        channel.limited_unacked -= 1
    if channel.prefetch:
        make_room(channel)
    elif consumer is not None and consumer.waiting and channel.consumers.get(consumer.tag) is consumer:
        # Not for a cancelled consumer, even if another one has its tag now: it has no turn to return to.
        _make_room_for((consumer,))


def nack(channel: Channel, method: methods.BasicNack) -> None:
    """Handle basic.nack: requeue the deliveries, or dead-letter or drop them."""
    action = "requeue" if method.requeue else "reject"
    settle(channel, action, _take(channel, method.delivery_tag, method.multiple))


def reject(channel: Channel, method: methods.BasicReject) -> None:
    """Handle basic.reject: requeue one delivery, or dead-letter or drop it."""
    settle(channel, "requeue" if method.requeue else "reject", _take(channel, method.delivery_tag, False))


def recover(channel: Channel, method: methods.BasicRecover) -> None:
    """Handle basic.recover: requeue all unacknowledged deliveries."""
    _recover(channel, method.requeue)
    channel.send(methods.encode_basic_recover_ok())


def recover_async(channel: Channel, method: methods.BasicRecoverAsync) -> None:
    """Handle basic.recover-async: requeue all unacknowledged deliveries without a reply."""
    _recover(channel, method.requeue)


def _recover(channel: Channel, requeue: bool) -> None:
    if not requeue:
        raise NotImplementedByBroker("requeue=false")
    channel.give_back(channel.unacked.take_all())


def _take(channel: Channel, tag: int, multiple: bool) -> list[Delivery]:
    deliveries = channel.unacked.take(tag, multiple)
    if deliveries is None:
        raise PreconditionFailed(f"unknown delivery tag {tag}")
    return deliveries


def settle(channel: Channel, action: str, deliveries: list[Delivery]) -> None:
    """Apply the client's decision to deliveries, now or when its transaction commits."""
    if channel.publishing.transaction is not None:
        channel.publishing.settlements.append((action, deliveries))
        return
    if action == "ack":
        channel.counters.acknowledged += len(deliveries)
    groups, settled = _grouped(deliveries)
    for queue, messages in groups.items():
        if action == "ack":
            channel.divided.queue(queue.name).acknowledged += len(messages)
            queue.acknowledge(messages)
        elif action == "requeue":
            queue.requeue(messages)
        else:
            queue.reject(messages)
    _free(channel, settled)


def give_back(channel: Channel, deliveries: list[Delivery]) -> None:
    """Requeue deliveries, queue by queue."""
    groups, settled = _grouped(deliveries)
    for queue, messages in groups.items():
        queue.requeue(messages)
    _free(channel, settled)


def _grouped(deliveries: list[Delivery]) -> tuple[dict[AnyQueue, list[Message]], dict[Consumer, int]]:
    """Return the messages of each queue, and the number of deliveries of each consumer."""
    groups: dict[AnyQueue, list[Message]] = {}
    settled: dict[Consumer, int] = {}
    for message, queue, consumer, _, _ in deliveries:
        group = groups.get(queue)
        if group is None:
            groups[queue] = [message]
        else:
            group.append(message)
        if consumer is not None:
            settled[consumer] = settled.get(consumer, 0) + 1
    return groups, settled


def _free(channel: Channel, settled: dict[Consumer, int]) -> None:
    """Return credit for settled deliveries to their consumers. Their queues must have the messages back
    already: a requeued message is delivered before the messages behind it."""
    for consumer, count in settled.items():
        consumer.unacked -= count
        channel.limited_unacked -= count
    if channel.prefetch:
        make_room(channel)
    else:
        _make_room_for(consumer for consumer in settled if channel.consumers.get(consumer.tag) is consumer)


def make_room(channel: Channel) -> None:
    """Put consumers that have prefetch credit again back into their queues' turn order."""
    if channel.prefetch:
        _share_out(channel)
    else:
        _make_room_for(channel.consumers.values())


def _share_out(channel: Channel) -> None:
    """Divide the credit of a channel with a global prefetch limit between its consumers, starting after
    the one served last. Pump each queue here: at the end of the turn the first queue would use all the
    credit."""
    consumers = list(channel.consumers.values())
    if channel.last_served in consumers:
        first = consumers.index(channel.last_served) + 1
        consumers = consumers[first:] + consumers[:first]
    progress = True
    while progress:
        progress = False
        left = channel.prefetch - channel.limited_unacked
        for consumer in consumers:
            if channel.limited_unacked >= channel.prefetch:
                break
            if consumer.waiting:
                channel.share, before = max(1, left // len(consumers)), channel.last_tag
                consumer.queue.ready_again(consumer)
                if consumer.queue.pump():
                    channel.broker.wake(consumer.queue)
                progress = progress or channel.last_tag > before
    channel.share = None


def _make_room_for(consumers: Iterable[Consumer]) -> None:
    for consumer in consumers:
        if consumer.waiting and consumer.room() > 0:
            consumer.queue.ready_again(consumer)


METHODS: dict[int, Callable[[Channel, Any], None]] = {
    methods.BASIC_ACK: lambda channel, method: acknowledge(channel, method.delivery_tag, method.multiple),
    methods.BASIC_NACK: nack,
    methods.BASIC_REJECT: reject,
    methods.BASIC_RECOVER: recover,
    methods.BASIC_RECOVER_ASYNC: recover_async,
}
