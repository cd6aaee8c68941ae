"""A queue: takes messages in, hands them out in turn, drops or dead-letters what must go.

It decides and leaves the keeping to its BackingQueue. Work is done in batches: publishers add,
channels acknowledge, and once per turn of the loop `pump` deals out what is ready. Confirms for
messages that must be on disk first wait in `_unflushed` until the node's group commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mirrormq import limits
from mirrormq.queues.answers import LocalAnswers
from mirrormq.queues.backing import BackingQueue
from mirrormq.queues.consumers import ConsumerTurns, QueueConsumer
from mirrormq.queues.face import Publisher
from mirrormq.queues.message import NEVER, Message
from mirrormq.queues.producers import Origin, Producers
from mirrormq.queues.settings import QueueSettings
from mirrormq.queues.surroundings import QueueCounters, Surroundings


class Queue(LocalAnswers):
    """One live queue of this node. Has the face that channels see (`queues.face`)."""

    def __init__(
        self,
        vhost: str,
        name: str,
        settings: QueueSettings,
        backing: BackingQueue,
        surroundings: Surroundings,
    ) -> None:
        self.vhost = vhost
        self.name = name
        self.settings = settings
        self.backing = backing
        self.consumers = ConsumerTurns(settings.single_active_consumer)
        self.counters = QueueCounters()
        self.deleted = False
        self.awake = False
        """Already on the list of queues to pump."""
        self.owner: object | None = None
        """The connection that an exclusive queue belongs to."""
        self.exclusive_consumer: QueueConsumer | None = None
        self.producers = Producers()
        self._surroundings = surroundings
        self._clock = surroundings.clock
        self._unflushed: list[tuple[Publisher, int, int]] = []
        self._expiring = settings.message_ttl_ms is not None or backing.ready_count > 0
        self._expiry_due = NEVER
        self._idle_due = NEVER
        self._delivered_up_to = 0
        self.last_used_ms = self._clock.now_ms
        self._watch_idleness()

    # -- publishing -------------------------------------------------------------------------------

    def publish(
        self, messages: list[Message], publisher: Publisher | None = None, first: int = 0,
        origin: Origin | None = None,
    ) -> None:  # fmt: skip
        """Append messages numbered `first`, `first + 1` … by their publisher, if it wants confirms. Those
        from another node say so with `origin`, and are kept once however often they come."""
        if self.deleted:
            if publisher is not None:
                publisher.confirmed(first, first + len(messages) - 1)
            return
        if origin is not None:
            seen = self.producers.seen(origin, len(messages))
            if seen:
                self._settle_again(publisher, first, first + seen - 1, messages[0].envelope.persistent)
                messages, first = messages[seen:], first + seen
                origin = Origin(origin.producer, origin.first_number + seen)
                if not messages:
                    return
        if self.settings.rejects_publishes and self.settings.limited:
            self._publish_each_if_room(messages, publisher, first, origin)
            return
        self._append(messages, publisher, first, origin)
        if self.settings.limited:
            while self._is_over() and self.pump():
                pass
            self._drop_surplus()

    def _settle_again(self, publisher: Publisher | None, first: int, last: int, persistent: bool) -> None:
        """The last master had these. It may have refused them, if that is what full queues do here, and
        that is not known any more: a publisher is told so that it had better ask again."""
        if publisher is not None and self.settings.rejects_publishes and self.settings.limited:
            for number in range(first, last + 1):
                publisher.refused(number)
        else:
            self._confirm_later(publisher, first, last, persistent)

    def forget_producers(self, gone: Callable[[str], bool]) -> None:
        """Nodes' lives are over: nothing more comes from them."""
        self.producers.forget(gone)

    def _publish_each_if_room(
        self, messages: list[Message], publisher: Publisher | None, first: int, origin: Origin | None
    ) -> None:
        for offset, message in enumerate(messages):
            its_origin = origin and Origin(origin.producer, origin.first_number + offset)
            self._publish_if_room(message, publisher, first + offset, its_origin)

    def _publish_if_room(
        self, message: Message, publisher: Publisher | None, number: int, origin: Origin | None
    ) -> None:
        while self._is_full_for(message) and self.pump():
            pass
        if not self._is_full_for(message):
            self._append([message], publisher, number, origin)
            return
        if self.settings.overflow == "reject-publish-dlx":
            self._surroundings.dead_letter(self, [message], "maxlen")
        if publisher is not None:
            publisher.refused(number)

    def _is_full_for(self, message: Message) -> bool:
        settings, backing = self.settings, self.backing
        if settings.max_length is not None and backing.ready_count >= settings.max_length:
            return True
        limit = settings.max_length_bytes
        return limit is not None and backing.ready_bytes + message.body_size > limit

    def _append(
        self, messages: list[Message], publisher: Publisher | None, first: int, origin: Origin | None
    ) -> None:
        envelope = messages[0].envelope
        ttl = self.settings.message_ttl_ms
        if ttl is not None or envelope.expiration_ms is not None:
            self._set_expiry(messages, ttl)
        self.backing.publish(messages)
        if NEVER < messages[0].expires_at <= self._clock.now_ms:
            self._deal(checking=False)
        self.counters.published += len(messages)
        if publisher is not None:
            self._confirm_later(publisher, first, first + len(messages) - 1, envelope.persistent)
        if not self.awake:
            self._surroundings.wake(self)

    def _confirm_later(self, publisher: Publisher | None, first: int, last: int, persistent: bool) -> None:
        """Confirm when everything appended up to now is as safe as such messages are to be."""
        if publisher is None:
            return
        if self.settings.durable and persistent:
            if not self._unflushed:
                self._surroundings.awaits_flush(self)
            self._unflushed.append((publisher, first, last))
        else:
            publisher.confirmed(first, last)

    def _set_expiry(self, messages: list[Message], ttl: int | None) -> None:
        own = messages[0].envelope.expiration_ms
        lifetime = min(value for value in (ttl, own) if value is not None)
        for message in messages:
            message.expires_at = self._clock.now_ms + lifetime
        if not lifetime:
            self.expire()
        self._expiring = True

    @property
    def congested(self) -> bool:
        """Consumers are at work and have more waiting for them than they need: publishers may rest."""
        backing = self.backing
        plenty = (
            backing.ready_count > limits.CONGESTED_MESSAGES or backing.ready_bytes > limits.CONGESTED_BYTES
        )
        return plenty and bool(self.consumers.all)

    def flushed(self) -> None:
        """Everything appended so far is on disk: confirm it."""
        waiting, self._unflushed = self._unflushed, []
        for publisher, first, last in waiting:
            publisher.confirmed(first, last)

    def _is_over(self) -> bool:
        settings, backing = self.settings, self.backing
        return (settings.max_length is not None and backing.ready_count > settings.max_length) or (
            settings.max_length_bytes is not None and backing.ready_bytes > settings.max_length_bytes
        )

    def _drop_surplus(self) -> None:
        dropped: list[Message] = []
        while self.backing.ready_count and self._is_over():
            dropped += self.backing.fetch(1)
        if dropped:
            self.discard(dropped, "maxlen")

    # -- handing out ------------------------------------------------------------------------------

    def pump(self) -> bool:
        """Deal out ready messages while consumers have room; True if there was more than one turn's work."""
        if not self._expiring:
            return self._deal(checking=False)
        self.expire()
        more = self._deal(checking=True)
        self.expire()
        return more

    def _deal(self, *, checking: bool) -> bool:
        """Deal out; not `checking` for expired ones, because a lifetime of 0 means "now or never"."""
        backing = self.backing
        budget, budget_bytes = limits.DELIVERIES_PER_PUMP, limits.DELIVERY_BATCH_BYTES
        while budget > 0 and budget_bytes > 0 and backing.ready_count:
            turn = self.consumers.next()
            if turn is None:
                return False
            consumer, room = turn
            held_bytes = backing.unacked_bytes
            messages = backing.fetch(min(room, budget), budget_bytes)
            budget_bytes -= backing.unacked_bytes - held_bytes
            if checking:
                messages = self._without_expired(messages)
            if not messages:
                continue
            budget -= len(messages)
            self._count_delivery(messages)
            consumer.deliver(messages)
            if consumer.no_ack:
                backing.acknowledge(messages)
            elif backing.unacked_count > limits.UNACKED_HOT_MESSAGES:
                backing.sent(messages)
        return backing.ready_count > 0

    def _without_expired(self, messages: list[Message]) -> list[Message]:
        """What expired behind a head that had not: it would have been dropped when it came to the head."""
        now = self._clock.now_ms
        expired = [message for message in messages if NEVER < message.expires_at <= now]
        if not expired:
            return messages
        self.discard(expired, "expired")
        return [message for message in messages if not NEVER < message.expires_at <= now]

    def take(self, no_ack: bool) -> Message | None:
        """One message for basic.get."""
        self.touch()
        if self._expiring:
            self.expire()
        messages = self.backing.fetch(1)
        if not messages:
            return None
        self._count_delivery(messages)
        if no_ack:
            self.backing.acknowledge(messages)
        if self._expiring:
            self.expire()
        return messages[0]

    def _count_delivery(self, messages: list[Message]) -> None:
        self.counters.delivered += len(messages)
        last = messages[-1].sequence
        if last > self._delivered_up_to:
            self._delivered_up_to = last
            self.backing.delivered(last)

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Consumers are done with these."""
        if not self.deleted:
            self.counters.acknowledged += len(messages)
            self.backing.acknowledge(messages)

    def requeue(self, messages: Sequence[Message]) -> None:
        """Consumers gave these back."""
        if self.deleted:
            return
        self.counters.redelivered += len(messages)
        self.backing.requeue(messages)
        if self.settings.limited and not self.settings.rejects_publishes:
            self._drop_surplus()
        self._surroundings.wake(self)

    def reject(self, messages: Sequence[Message]) -> None:
        """Consumers do not want these, and they are not to come back."""
        if not self.deleted:
            self.discard(messages, "rejected")

    def discard(self, messages: Sequence[Message], reason: str) -> None:
        """Fetched messages leave the queue, to the dead-letter exchange if there is one."""
        if self.settings.dead_letter_exchange is not None:
            self._surroundings.dead_letter(self, self.backing.recall(messages), reason)
        self.backing.acknowledge(messages)

    # -- time -------------------------------------------------------------------------------------

    def expire(self) -> None:
        """Drop what has expired at the head, and look again when the next one will have."""
        expired = self.backing.take_expired(self._clock.now_ms)
        if expired:
            self.discard(expired, "expired")
        due = self.backing.next_expiry()
        if due != NEVER and (self._expiry_due == NEVER or due < self._expiry_due):
            self._expiry_due = due
            self._clock.at(due, self._expiry_reached)

    def _expiry_reached(self) -> None:
        self._expiry_due = NEVER
        if not self.deleted:
            self.expire()

    def _watch_idleness(self) -> None:
        """`expires`: delete the queue when nobody has used it for that long."""
        expires = self.settings.expires_ms
        if expires is None or self.deleted:
            return
        if self.consumers.all:
            self.last_used_ms = self._clock.now_ms
        idle_until = self.last_used_ms + expires
        if idle_until <= self._clock.now_ms:
            self._surroundings.unused(self)
        elif self._idle_due == NEVER or idle_until < self._idle_due:
            self._idle_due = idle_until
            self._clock.at(idle_until, self._idleness_reached)

    def _idleness_reached(self) -> None:
        if self._clock.now_ms >= self._idle_due:
            self._idle_due = NEVER
            self._watch_idleness()

    # -- consumers and settings -------------------------------------------------------------------

    def touch(self) -> None:
        """The queue is in use."""
        self.last_used_ms = self._clock.now_ms

    def join(self, consumer: QueueConsumer) -> None:
        """A consumer that was allowed to consume joins."""
        self.consumers.add(consumer)
        if consumer.exclusive:
            self.exclusive_consumer = consumer
        self.touch()
        self._surroundings.wake(self)

    def unsubscribe(self, consumer: QueueConsumer) -> None:
        """A consumer leaves; what it holds is its channel's business."""
        if self.deleted:
            return
        self.consumers.remove(consumer)
        self.last_used_ms = self._clock.now_ms
        if self.exclusive_consumer is consumer:
            self.exclusive_consumer = None
        if self.settings.auto_delete and not self.consumers.all:
            self._surroundings.unused(self)
        else:
            self._surroundings.wake(self)

    def ready_again(self, consumer: QueueConsumer) -> None:
        """A consumer that was out of room has some."""
        if not self.deleted:
            self.consumers.ready_again(consumer)
            if self.backing.ready_count:
                self._surroundings.wake(self)

    def apply(self, settings: QueueSettings) -> None:
        """Policies have changed."""
        self.settings = settings
        self.backing.lazy = settings.lazy
        self.last_used_ms = self._clock.now_ms
        self._watch_idleness()
        if settings.message_ttl_ms is not None:
            self._expiring = True
        self._surroundings.wake(self)
        if settings.limited and not settings.rejects_publishes:
            self._drop_surplus()

    def erase(self, notify: Callable[[QueueConsumer], None]) -> None:
        """The queue is deleted: tell its consumers, forget its messages, confirm what waits."""
        self.deleted = True
        self.flushed()
        for consumer in list(self.consumers.all):
            notify(consumer)
        self.consumers = ConsumerTurns(single_active=False)
        self.backing.erase()
