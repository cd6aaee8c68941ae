"""Queue on its master: appends publishes, delivers to consumers in turn, expires and dead-letters messages.

The queue decides and its BackingQueue stores. Work is done in batches: publishers append, channels
acknowledge, and `pump` delivers ready messages once per turn of the loop. Confirms wait until messages are
safe (`queues.confirm_tracker`). The backing queue of a mirrored queue replicates to the mirrors (`mirror`).
Publishes of this node's clients are then numbered like those of other nodes. They can be published to
another master again without duplicates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mirrormq import limits
from mirrormq.errors import NotFound
from mirrormq.queues.backing import BackingQueue, MirroredBacking
from mirrormq.queues.claims import Claim, Settlement
from mirrormq.queues.confirm_tracker import NOBODY, ConfirmTracker, WaitingConfirms
from mirrormq.queues.consumer_turns import ConsumerTurns, QueueConsumer
from mirrormq.queues.dead_lettering import DeadLettering
from mirrormq.queues.deduplication import Deduplication
from mirrormq.queues.expiry import ExpiryTimer
from mirrormq.queues.kept_deliveries import KeptDeliveries
from mirrormq.queues.lease_operations import LeaseOperations
from mirrormq.queues.local_requests import LocalRequests
from mirrormq.queues.memory_use import ConsumerUse
from mirrormq.queues.message import NEVER, Message
from mirrormq.queues.publish_ids import PublishOrigin, SeenPublishIds
from mirrormq.queues.publish_order_guard import PublishOrderGuard
from mirrormq.queues.queue_host import QueueCounters, QueueHost
from mirrormq.queues.queue_interface import Publisher, QueueInterface
from mirrormq.queues.queue_settings import QueueSettings
from mirrormq.ranges.spans import Span


class Queue(LocalRequests, LeaseOperations, Deduplication, DeadLettering):
    """Queue whose master is this node. Implements `queues.queue_interface`."""

    def __init__(
        self,
        vhost: str,
        name: str,
        settings: QueueSettings,
        backing: BackingQueue,
        host: QueueHost,
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
        """Connection that an exclusive queue belongs to."""
        self.exclusive_consumer: QueueConsumer | None = None
        self.producers = SeenPublishIds()
        self._gate = PublishOrderGuard()
        self.mirrored: MirroredBacking | None = None
        """Backing queue, if it replicates to mirrors."""
        self.successor: QueueInterface | None = None
        """Queue object that took over, if this one is detached."""
        self._producer = ""
        self._number: Callable[[int], int] = lambda count: 0
        """Reserves publish numbers of `_producer`, this node; set while the queue is mirrored."""
        self._host = host
        self.clock = self._clock = host.clock
        self.use = ConsumerUse(self._clock.now_ms)
        self._confirm_tracker = ConfirmTracker(lambda: host.awaits_flush(self))
        self.dying = 0
        """Number of dead letters that are published and not yet confirmed; the queue still holds them."""
        self.delivered_up_to = 0
        """Highest sequence that consumers have had since this node has a copy."""
        self._plain = self._find_plain()
        """Queue without mirrors, length limit and message TTL."""
        self.kept = KeptDeliveries(self)
        """Deliveries that survive a failover (`ha-redeliver: lost`)."""
        self._lifetimes = ExpiryTimer(self, host)
        self._lifetimes.watch_idleness()

    # -- publishing -------------------------------------------------------------------------------

    def publish(
        self, messages: list[Message], publisher: Publisher | None = None, first: int = 0,
        origin: PublishOrigin | None = None,
    ) -> None:  # fmt: skip
        """Append messages numbered `first`, `first + 1` … by their publisher, if it wants confirms. `origin`
        identifies messages of another node; the queue keeps them once. All or none of them are deduplicated
        by publish id."""
        if self.deleted:
            self._publish_too_late(messages, publisher, first, origin)
            return
        if origin is not None:
            seen = self.producers.seen(origin, len(messages))
            if seen:
                self._settle_again(publisher, first, messages[:seen], origin)
                messages, first = messages[seen:], first + seen
                origin = PublishOrigin(origin.producer, origin.first_number + seen)
                if not messages:
                    return
        envelope = messages[0].envelope
        if envelope.producer_ids is not None:
            self._publish_deduplicated(messages, publisher, first, origin)
        elif self._plain and envelope.expiration_ms is None and messages[0].expires_at == NEVER:
            self._publish_plain(messages, publisher, first, envelope.persistent)
        else:
            self._publish_new(messages, publisher, first, origin)

    def _publish_plain(
        self, messages: list[Message], publisher: Publisher | None, first: int, persistent: bool
    ) -> None:
        """Append messages to a queue without mirrors, length limit and TTL."""
        self.backing.publish(messages)
        self.counters.published += len(messages)
        if publisher is not None:
            last = first + len(messages) - 1
            if persistent and self.settings.durable:
                self._confirm_tracker.after_flush(publisher, first, last)
            else:
                publisher.confirmed(first, last)
        if not self.awake:
            self._host.wake(self)

    def _find_plain(self) -> bool:
        return self.mirrored is None and not self.settings.limited and self.settings.message_ttl_ms is None

    def _publish_new(
        self, messages: list[Message], publisher: Publisher | None, first: int, origin: PublishOrigin | None
    ) -> None:
        if self.settings.rejects_publishes and self.settings.limited:
            self._publish_each_if_room(messages, publisher, first, origin)
            return
        self._append(messages, publisher, first, origin)
        if self.settings.limited:
            while self._is_over() and self.pump():
                pass
            self._drop_surplus()

    def _publish_too_late(
        self, messages: list[Message], publisher: Publisher | None, first: int, origin: PublishOrigin | None
    ) -> None:
        """Pass messages to the successor, or confirm them if the queue is deleted."""
        if self.successor is not None:
            self.successor.publish(messages, publisher, first, origin)
        elif publisher is not None:
            publisher.confirmed(first, first + len(messages) - 1)

    def _settle_again(
        self, publisher: Publisher | None, first: int, messages: list[Message], origin: PublishOrigin
    ) -> None:
        """Confirm messages that the last master already had. If full queues reject publishes, it may have
        refused them. This master cannot know, and refuses them, so that the publisher tries again."""
        last = first + len(messages) - 1
        if publisher is not None and self.settings.rejects_publishes and self.settings.limited:
            for number in range(first, last + 1):
                publisher.refused(number)
            return
        kept = messages if origin.producer == self._producer else []
        persistent = messages[0].envelope.persistent
        self._confirm_later(publisher or (NOBODY if kept else None), first, last, persistent, origin, kept)

    def forget_producers(self, gone: Callable[[str], bool]) -> None:
        """Forget producers whose incarnation has ended: they publish nothing more."""
        names = self.producers.forget(gone)
        if names:
            self.backing.forget_producers(names)

    def _append(
        self, messages: list[Message], publisher: Publisher | None, first: int, origin: PublishOrigin | None
    ) -> None:
        envelope = messages[0].envelope
        ttl = self.settings.message_ttl_ms
        if ttl is not None or envelope.expiration_ms is not None:
            self._lifetimes.begin(messages, ttl)
        if envelope.producer_ids is not None:
            self._remember(messages)
        if self.mirrored is None:
            self.backing.publish(messages)
        else:
            origin = self._publish_mirrored(self.mirrored, messages, origin)
        if NEVER < messages[0].expires_at <= self._clock.now_ms:
            self._deal_now_or_never(messages)
        self.counters.published += len(messages)
        if publisher is not None:
            self._confirm_later(publisher, first, first + len(messages) - 1, envelope.persistent, origin)
        if not self.awake:
            self._host.wake(self)

    def _publish_mirrored(
        self, mirrored: MirroredBacking, messages: list[Message], origin: PublishOrigin | None
    ) -> PublishOrigin:
        if origin is None:
            origin = PublishOrigin(self._producer, self._number(len(messages)))
            self.producers.seen(origin, len(messages))
        mirrored.publish_from(messages, origin.producer, origin.first_number)
        if self.kept.gated:
            self.kept.published(messages[-1].sequence)
        return origin

    def _confirm_later(
        self,
        publisher: Publisher | None,
        first: int,
        last: int,
        persistent: bool,
        origin: PublishOrigin | None,
        messages: Sequence[Message] = (),
    ) -> None:
        """Confirm when everything appended so far is as safe as messages of this kind must be."""
        if publisher is None:
            return
        durable = self.settings.durable and persistent
        if self.mirrored is not None:
            assert origin is not None
            waiting = WaitingConfirms(self.mirrored.last_number, publisher, first, last, origin, messages)
            self._confirm_tracker.after_replication(waiting, durable=durable)
            self.mirrored.mark_dirty()
        elif durable:
            self._confirm_tracker.after_flush(publisher, first, last)
        else:
            publisher.confirmed(first, last)

    @property
    def congested(self) -> bool:
        """Consumers have more ready messages than they need, or mirrors lag: publishers may pause."""
        backing = self.backing
        plenty = (
            backing.ready_count > limits.CONGESTED_MESSAGES or backing.ready_bytes > limits.CONGESTED_BYTES
        )
        return (plenty and bool(self.consumers.all)) or self.full

    @property
    def full(self) -> bool:
        """Mirrors lag so far behind that publishers must wait."""
        return self.mirrored is not None and self.mirrored.behind

    def when_room(self, go_on: Callable[[], None]) -> None:
        """Call `go_on` once the mirrors have caught up."""
        if self.full and not self.deleted:
            self._confirm_tracker.when_room(go_on)
        else:
            go_on()

    def flushed(self) -> None:
        """Confirm publishes that waited for the journal's flush."""
        self._confirm_tracker.flushed()

    def completed(self, received: int, durable: int) -> None:
        """Process the progress of the ring: operations that all members have received, and have on disk."""
        self._confirm_tracker.completed(received, durable)
        if self.kept.completed(received):
            self._host.wake(self)
        if not self.full:
            self._confirm_tracker.resume_publishers()

    # -- delivery ---------------------------------------------------------------------------------

    def pump(self) -> bool:
        """Deliver ready messages while consumers have room; True if more is left for another turn."""
        lifetimes = self._lifetimes
        if not lifetimes.expiring:
            more = self._deal(checking=False)
        else:
            lifetimes.expire()
            more = self._deal(checking=True)
            lifetimes.expire()
        self.kept.ask_deferred()
        return more

    def _deal_now_or_never(self, messages: Sequence[Message]) -> None:
        """Deliver messages with a TTL of 0. They do not wait for the ring, or they would always expire; but
        they do not overtake messages that wait."""
        up_to = self.kept.urgent_up_to(messages)
        if up_to is not None:
            self._deal(checking=False, up_to=up_to)

    def _deal(self, *, checking: bool, up_to: int | None = None) -> bool:
        """Deliver ready messages; not `checking` for expired ones, because a TTL of 0 means "now or
        never"."""
        backing, kept = self.backing, self.kept
        waits = up_to is None and (kept.gated or kept.awaiting)
        budget, budget_bytes = limits.DELIVERIES_PER_PUMP, limits.DELIVERY_BATCH_BYTES
        while budget > 0 and budget_bytes > 0 and backing.ready_count:
            if waits and not kept.may_deliver():
                return False
            turn = self.consumers.next()
            if turn is None:
                self.use.exhausted(self._clock.now_ms)
                return False
            consumer, room = turn
            held_bytes = backing.unacked_bytes
            messages = backing.fetch(min(room, budget), budget_bytes, up_to or kept.up_to)
            budget_bytes -= backing.unacked_bytes - held_bytes
            if checking:
                messages = self._lifetimes.without_expired(messages)
            if not messages:
                if up_to is not None:
                    return False
                continue
            budget -= len(messages)
            self._count_delivery(messages, consumer)
            consumer.deliver(messages)
            if consumer.no_ack:
                self.counters.delivered_no_ack += len(messages)
                backing.acknowledge(messages)
                continue
            self.counters.delivered += len(messages)
            if backing.unacked_count > limits.UNACKED_HOT_MESSAGES:
                backing.release_contents(messages)
        return backing.ready_count > 0

    def take(self, no_ack: bool, holder: str = "") -> Message | None:
        """Fetch one message for basic.get."""
        lifetimes = self._lifetimes
        lifetimes.touch()
        if lifetimes.expiring:
            lifetimes.expire()
        up_to = self.kept.up_to
        messages = self.backing.fetch(1, up_to=up_to)
        while messages and lifetimes.expiring and not lifetimes.without_expired(messages):
            messages = self.backing.fetch(1, up_to=up_to)
        if not messages:
            return None
        self._count_delivery(messages, None, holder)
        if no_ack:
            self.backing.acknowledge(messages)
        if lifetimes.expiring:
            lifetimes.expire()
        return messages[0]

    def acknowledge(self, messages: Sequence[Message]) -> None:
        """Remove messages that consumers acknowledged."""
        if self.deleted:
            self.kept.forward("acknowledge", messages)
        else:
            self.counters.acknowledged += len(messages)
            self.backing.acknowledge(messages)

    def requeue(self, messages: Sequence[Message]) -> None:
        """Make messages ready again that consumers returned."""
        if self.deleted:
            self.kept.forward("requeue", messages)
            return
        self.deliver_published()
        self.kept.given_back(messages)
        self.backing.requeue(messages)
        if self.settings.limited and not self.settings.rejects_publishes:
            self._drop_surplus()
        self._host.wake(self)

    # -- consumers and settings -------------------------------------------------------------------

    def touch(self) -> None:
        """Reset the idle time of the queue."""
        self._lifetimes.touch()

    def join(self, consumer: QueueConsumer) -> None:
        """Add a consumer that has passed the checks of `subscribe`."""
        self.consumers.add(consumer)
        self.use.available(self._clock.now_ms)
        if consumer.exclusive:
            self.exclusive_consumer = consumer
        if self.settings.auto_delete:
            self._host.consumed(self)
        self.touch()
        self._host.wake(self)

    def unsubscribe(self, consumer: QueueConsumer) -> None:
        """Remove a consumer; its channel settles the deliveries that it holds."""
        if self.deleted:
            return
        self.consumers.remove(consumer)
        self.touch()
        if self.exclusive_consumer is consumer:
            self.exclusive_consumer = None
        if self.settings.auto_delete and not self.consumers.all:
            self._host.unused(self)
        else:
            self._host.wake(self)

    def ready_again(self, consumer: QueueConsumer) -> None:
        """Resume a consumer whose prefetch was used up and now has room."""
        if not self.deleted:
            self.consumers.ready_again(consumer)
            self.use.available(self._clock.now_ms)
            if self.backing.ready_count:
                self._host.wake(self)

    def apply(self, settings: QueueSettings) -> None:
        """Apply settings that a policy has changed."""
        self.settings = settings
        self._plain = self._find_plain()
        self.kept.follow_settings()
        self.backing.lazy = settings.lazy
        self.touch()
        self._lifetimes.watch_idleness()
        if settings.message_ttl_ms is not None:
            self._lifetimes.expiring = True
        self._host.wake(self)
        if settings.limited and not settings.rejects_publishes:
            self._drop_surplus()

    def erase(self, notify: Callable[[QueueConsumer], None]) -> None:
        """Delete the queue: notify its consumers, delete its messages, confirm waiting publishes."""
        self.deleted = True
        self._confirm_tracker.forget()
        for deferred in self.kept.take_deferred():
            deferred.refused(NotFound(f"no {self._where()}"))
        for consumer in self._dismiss():
            notify(consumer)
        self.backing.erase()

    def _dismiss(self) -> list[QueueConsumer]:
        consumers, self.consumers = list(self.consumers.all), ConsumerTurns(single_active=False)
        return consumers

    # -- mirrors ----------------------------------------------------------------------------------

    def mirror(self, backing: MirroredBacking, producer: str, number: Callable[[int], int]) -> None:
        """Replicate the queue from now on."""
        self.backing = self.mirrored = backing
        self._producer, self._number = producer, number
        self._plain = False
        self.kept.follow_settings()

    def unmirror(self, backing: BackingQueue) -> None:
        """Stop replication after the last mirror has left."""
        self.backing, self.mirrored = backing, None
        self._plain = self._find_plain()
        self._confirm_tracker.alone()
        self.kept.follow_settings()
        self._host.wake(self)

    # -- earlier masters --------------------------------------------------------------------------

    def reclaim(self, spans: Sequence[Span]) -> list[Message]:
        """Fetch exactly these ready messages: clients hold them from an earlier master."""
        messages = self.backing.reclaim(spans)
        if self.backing.unacked_count > limits.UNACKED_HOT_MESSAGES:
            self.backing.release_contents(messages)
        return messages

    def claims_known(self) -> None:
        """Resume deliveries after all claims are stated or dropped."""
        if self.settings.limited and not self.settings.rejects_publishes:
            self._drop_surplus()
        self._host.wake(self)

    def keep(self, holder: str, claim: Claim) -> None:
        """Claim messages that clients of this node hold from an earlier master."""
        self.kept.keep(holder, claim)

    def settle_kept(self, settlement: Settlement, sequences: Sequence[int]) -> None:
        """Settle messages that clients of this node hold from an earlier master."""
        self.kept.settle(settlement, sequences)

    def detach(self) -> tuple[list[QueueConsumer], list[WaitingConfirms]]:
        """End this object because another node is master. Returns its consumers and waiting confirms; the
        caller takes care of the backing queue."""
        self.deleted = True
        return self._dismiss(), self._confirm_tracker.take_all()
