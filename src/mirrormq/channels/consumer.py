"""Consumer of a channel: encodes messages as deliveries on its channel.

A delivery is `basic.deliver` followed by the content frames as the publisher sent them. Method frames of
one consumer differ in the delivery tag and in the fields of the envelope. The front part is therefore
encoded once per length, and the suffix once per envelope. Content frames are sent unchanged unless the
publisher's channel number or frame size does not suit this consumer.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from mirrormq import limits
from mirrormq.queues.consumer_turns import ConsumerDescription
from mirrormq.queues.message import Message
from mirrormq.queues.queue import AnyQueue
from mirrormq.wire.content import rechannel, reframe
from mirrormq.wire.fields import Table, encode_short_string, encode_table
from mirrormq.wire.frames import METHOD
from mirrormq.wire.methods import encode_basic_cancel

if TYPE_CHECKING:
    from mirrormq.channels.channel import Channel

_TAG: Final = Struct(">Q").pack
_HEAD = Struct(">BHI").pack
_BASIC_DELIVER = b"\x00\x3c\x00\x3c"
_TAG_SIZE = 8


class Consumer:
    """One subscription of one channel to one queue."""

    def __init__(
        self,
        channel: Channel,
        queue: AnyQueue,
        tag: str,
        *,
        no_ack: bool,
        exclusive: bool,
        priority: int,
        prefetch: int,
        arguments: Table,
    ) -> None:
        self.channel = channel
        self.queue: AnyQueue = queue
        self.tag = tag
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.priority = priority
        self.prefetch = prefetch
        """Maximum unacknowledged messages; 0 for no limit."""
        self.arguments = arguments
        self.unacked = 0
        self.waiting = False
        self._tag_bytes = _BASIC_DELIVER + encode_short_string(tag)
        self._fronts: dict[int, bytes] = {}
        self._content_head = b"\x02" + channel.number.to_bytes(2, "big")

    def room(self) -> int:
        """Return the number of messages that the consumer can accept now."""
        channel = self.channel
        if not channel.connection.writable or not channel.flowing:
            return 0
        room = limits.DELIVERY_BATCH
        if channel.prefetch:
            left = channel.prefetch - channel.limited_unacked
            if self.no_ack:  # its deliveries do not count against the limit, but it waits like the others
                return room if left > 0 else 0
            room = min(room, left)
            if channel.share is not None:
                room = min(room, channel.share)
        elif self.no_ack:
            return room
        if self.prefetch:
            room = min(room, self.prefetch - self.unacked)
        return room

    def deliver(self, messages: list[Message]) -> None:
        """Write messages to the channel and keep them until they are acknowledged."""
        channel = self.channel
        connection = channel.connection
        write = connection.output().append
        frame_max = connection.frame_max
        content_head = self._content_head
        queue = self.queue
        now = channel.broker.clock.now_ms
        pending = None if self.no_ack else channel.unacked.by_tag
        tag = channel.last_tag
        size = redelivered = 0
        for message in messages:
            tag += 1
            frames = message.frames
            size += len(frames)
            if not frames.startswith(content_head):
                frames = rechannel(frames, channel.number)
            if frame_max and len(frames) > frame_max:
                frames = reframe(frames, channel.number, frame_max)
            suffix = message.envelope.deliver_suffix
            if message.redelivered:
                suffix = b"\x01" + suffix[1:]
                redelivered += 1
            write((self._fronts.get(len(suffix)) or self._front(len(suffix))) + _TAG(tag) + suffix)
            write(frames)
            if pending is not None:
                pending[tag] = (message, queue, self, now, tag)
        channel.last_tag = tag
        channel.last_served = self
        connection.delivered(size)
        counts = channel.divided.queue(queue.name)
        if pending is not None:
            self.unacked += len(messages)
            channel.limited_unacked += len(messages)
            if channel.share is not None:
                channel.share -= len(messages)
            channel.counters.delivered += len(messages)
            counts.delivered += len(messages)
        else:
            channel.counters.delivered_no_ack += len(messages)
            counts.delivered_no_ack += len(messages)
        if redelivered:
            channel.counters.redelivered += redelivered
            counts.redelivered += redelivered
        if channel.traced:
            channel.trace_deliveries(queue, messages)

    def _front(self, suffix_size: int) -> bytes:
        """Return the method frame up to the delivery tag. `suffix` ends with the frame end octet."""
        size = len(self._tag_bytes) + _TAG_SIZE + suffix_size - 1
        front = _HEAD(METHOD, self.channel.number, size) + self._tag_bytes
        self._fronts[suffix_size] = front
        return front

    def settled(self, count: int) -> None:
        """Return the credit for `count` settled messages."""
        self.unacked -= count

    @property
    def cancel_on_failover(self) -> bool:
        """Whether the client requested `x-cancel-on-ha-failover`."""
        field = self.arguments.get("x-cancel-on-ha-failover")
        return field is not None and field.value is True

    def describe(self) -> ConsumerDescription:
        """Return the description of the consumer for listings."""
        channel = self.channel
        connection = channel.connection
        return ConsumerDescription(
            self.tag, channel.broker.settings.name, channel.broker.pids.of_channel(channel), connection.name,
            channel.number, connection.peer.host, connection.peer.port, channel.user.name, self.prefetch,
            not self.no_ack, self.exclusive, encode_table(self.arguments),
        )  # fmt: skip

    def cancelled(self) -> None:
        """Remove the consumer of a deleted queue, and notify the client if it supports that."""
        self.channel.consumers.pop(self.tag, None)
        self.channel.broker.events.consumer_cancelled(self)
        if self.channel.connection.client_can("consumer_cancel_notify"):
            self.channel.waiting.add_notification(encode_basic_cancel(self.tag, True))

    def activated(self, active: bool) -> None:
        """Ignore the change of the single active consumer: the client is not notified, and listings ask
        the queue."""
