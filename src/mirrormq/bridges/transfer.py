"""Messages under way on one link: from the delivery to the acknowledgement.

    pending        delivered, not published yet
    unconfirmed    published, the destination has not answered
    refused        rejected or returned; published again later, before everything that is pending

Order: messages are published in the order of their deliveries. A refused message is published again before
any later one that is still here. After a refusal the transfer waits until all answers have arrived, then
tries with a window of one message, which doubles with each accepted message up to the prefetch count. So a
full destination sees one message per pause, and not a thousand per second.

Bound: the source sends no more than its prefetch count without acknowledgements, and `crowded` tells when the
link must stop reading.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from mirrormq.bridges.link_plan import HELD_BYTES_MAX, AckMode, Outgoing
from mirrormq.client.ack_batch import AckBatch
from mirrormq.client.client_channel import ClientChannel
from mirrormq.client.client_events import Confirm, Delivery, Event, Returned
from mirrormq.client.publisher_confirms import UnconfirmedMessages

HELD_MESSAGES_MAX = 20_000
"""Messages that one link holds before it stops reading: `no-ack` and a prefetch count of 0 have no other
limit."""

REFUSAL_PAUSE_MS = 100
REFUSAL_PAUSE_MS_MAX = 5_000
"""Pause after the first refusal, and the longest one; it doubles in between."""

REJECTED = "rejected"
UNROUTABLE = "unroutable"


class Sent:
    """Published message."""

    __slots__ = ("delivery", "number", "outgoing", "returned")

    def __init__(self, number: int, delivery: Delivery, outgoing: Outgoing) -> None:
        self.number = number
        """Position in the order of the deliveries."""
        self.delivery = delivery
        self.outgoing = outgoing
        self.returned = ""
        """Text of basic.return, if the message was unroutable."""


class Transfer:
    """Messages of one attempt: both channels exist, and end together with it."""

    def __init__(
        self,
        source: ClientChannel,
        destination: ClientChannel,
        transform: Callable[[Delivery], Outgoing | None],
        mode: AckMode,
        prefetch: int,
        limit: int | None,
        mandatory: bool,
        moved: Callable[[Delivery], None] | None = None,
        held_bytes_max: int = HELD_BYTES_MAX,
    ) -> None:
        self._source, self._destination = source, destination
        self._held_bytes_max = held_bytes_max
        self._transform = transform
        self._mode = mode
        self._window_max = prefetch or HELD_MESSAGES_MAX
        self._window = self._window_max
        self._returns = mandatory and mode is AckMode.ON_CONFIRM
        """Flag: the destination returns messages that it cannot route."""
        self._moved = moved
        self.limit = limit
        self.forwarded = 0
        """Messages that the link has finished with: confirmed, published or dropped, by the mode."""
        self.refused_count = 0
        self.block_reason = ""
        """Reason why the destination takes no messages now."""
        self.retry_ms: int | None = None
        """Time of the next attempt to publish after a refusal."""
        self._pause_ms = REFUSAL_PAUSE_MS
        self._pending: deque[Delivery] = deque()
        self._again: deque[Sent] = deque()
        """Refused messages that are published before all pending ones."""
        self._refused: list[Sent] = []
        self._unconfirmed: UnconfirmedMessages[Sent] = UnconfirmedMessages()
        self._acks = AckBatch()
        self._next_number = 0
        self._held_bytes = 0

    # -- queries ----------------------------------------------------------------------------------

    @property
    def pending_count(self) -> int:
        """Messages that wait to be published."""
        return len(self._pending) + len(self._again) + len(self._refused)

    @property
    def unconfirmed_count(self) -> int:
        """Published messages that the destination has not confirmed."""
        return len(self._unconfirmed)

    @property
    def crowded(self) -> bool:
        """Whether the link must stop reading the source."""
        held = self.pending_count + len(self._unconfirmed)
        return held > HELD_MESSAGES_MAX or self._held_bytes > self._held_bytes_max

    @property
    def complete(self) -> bool:
        """Whether the limit is reached."""
        return self.limit is not None and self.forwarded >= self.limit

    @property
    def settled(self) -> bool:
        """Whether no published message waits for its confirm."""
        return not len(self._unconfirmed)

    # -- input ------------------------------------------------------------------------------------

    def take_first(self, events: list[Event], channel: int) -> int:
        """Take the deliveries with which a batch of events begins; return their number."""
        deliveries: list[Delivery] = []
        for event in events:
            if type(event) is not Delivery or event.channel != channel:
                break
            deliveries.append(event)
        if deliveries:
            self.delivered(deliveries)
        return len(deliveries)

    def delivered(self, deliveries: list[Delivery]) -> None:
        """Take messages from the source."""
        self._pending.extend(deliveries)
        self._held_bytes += sum([len(delivery.body) for delivery in deliveries])
        if self._mode is not AckMode.NO_ACK:
            self._acks.delivered([delivery.delivery_tag for delivery in deliveries])

    def returned(self, event: Returned) -> None:
        """Mark the message that the destination could not route; its confirm follows.

        basic.return names no delivery tag. The oldest unmarked message with equal contents stands for it:
        equal messages may stand in for each other.
        """
        wanted = (event.exchange, event.routing_key, event.properties, event.body)
        for sent in self._unconfirmed.items():
            if not sent.returned and sent.outgoing == wanted:
                sent.returned = event.text
                return

    def confirmed(self, event: Confirm, now_ms: int) -> None:
        """Settle published messages by a confirm of the destination."""
        accepted, paused = event.accepted, self._pause_ms > REFUSAL_PAUSE_MS
        for sent in self._unconfirmed.settle(event.delivery_tag, event.multiple):
            if accepted and not sent.returned:
                self._done(sent.delivery)
                # Confirms of messages published before the refusal say nothing about room for more.
                if not self._refused and (self._window < self._window_max or paused):
                    self._window = min(self._window * 2, self._window_max)
                    self._pause_ms = REFUSAL_PAUSE_MS
            else:
                self._refuse(sent, now_ms)
        if not self._refused and not self._again:
            self.block_reason = ""

    def _refuse(self, sent: Sent, now_ms: int) -> None:
        self.block_reason = (
            f"{UNROUTABLE}: the destination has no queue for exchange '{sent.outgoing.exchange}' and routing "
            f"key '{sent.outgoing.routing_key}'"
            if sent.returned
            else f"{REJECTED}: the destination refuses messages, is a queue there full?"
        )
        sent.returned = ""
        self.refused_count += 1
        self._refused.append(sent)
        if self.retry_ms is None:
            self.retry_ms = now_ms + self._pause_ms
            self._pause_ms = min(self._pause_ms * 2, REFUSAL_PAUSE_MS_MAX)
        self._window = 1

    def _done(self, delivery: Delivery) -> None:
        self.forwarded += 1
        self._held_bytes -= len(delivery.body)
        if self._moved is not None:
            self._moved(delivery)
        if self._mode is not AckMode.NO_ACK:
            self._acks.ack(delivery.delivery_tag)

    # -- output -----------------------------------------------------------------------------------

    def publish(self, now_ms: int) -> None:
        """Publish as many messages as the window and the limit allow."""
        if self.retry_ms is not None:
            # Later answers may bring more refusals, and these come first in the order.
            if len(self._unconfirmed) or now_ms < self.retry_ms:
                return
            self._refused.sort(key=lambda sent: sent.number)
            self._again.extendleft(reversed(self._refused))
            self._refused.clear()
            self.retry_ms = None
        confirming = self._mode is AckMode.ON_CONFIRM
        while self._again and len(self._unconfirmed) < self._window:
            self._unconfirmed.add(self._again[0])
            self._write(self._again.popleft().outgoing)
        if self._again:
            return
        # Without acknowledgements the source has forgotten what it sent: all of it is forwarded.
        room = len(self._pending)
        if confirming:
            room = min(room, self._window - len(self._unconfirmed))
        if self._mode is not AckMode.NO_ACK and self.limit is not None:
            room = min(room, self.limit - self.forwarded - len(self._unconfirmed))
        for _ in range(room):
            delivery = self._pending.popleft()
            outgoing = self._transform(delivery)
            if outgoing is None:
                self._done(delivery)
                continue
            self._write(outgoing)
            if confirming:
                self._next_number += 1
                self._unconfirmed.add(Sent(self._next_number, delivery, outgoing))
            else:
                self._done(delivery)

    def _write(self, outgoing: Outgoing) -> None:
        self._destination.publish(*outgoing, mandatory=self._returns)

    def take_acks(self) -> bytes:
        """Return the frames that acknowledge finished messages to the source."""
        return self._acks.take_frames(self._source.number)
