"""Queue on its master: appends publishes, delivers to consumers in turn, expires and dead-letters messages.

The queue decides and its BackingQueue stores. Work is done in batches: publishers append, channels
acknowledge, and `pump` delivers ready messages once per turn of the loop. The backing queue of a mirrored
queue replicates to the mirrors (`mirror`). A queue consists of parts with their own state:

    intake         publishes that need more than an append      `queues.publish_intake`
    confirms       publishes that wait until they are safe      `queues.confirm_tracker`
    consumers      turn order of the consumers                  `queues.consumer_turns`
    marks          messages that count as redelivered           `queues.redelivery`
    lifetimes      expiry of messages and of the queue          `queues.expiry`
    dead_letters   dead letters that are not confirmed yet      `queues.dead_lettering`
    kept           deliveries that survive a failover           `queues.kept_deliveries`
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mirrormq import limits
from mirrormq.errors import AccessRefused, NotFound, PreconditionFailed
from mirrormq.queues.backing import ANY_SEQUENCE, BackingQueue, MirroredBacking
from mirrormq.queues.claims import Claim, Settlement
from mirrormq.queues.confirm_tracker import ConfirmTracker, WaitingConfirms
from mirrormq.queues.consumer_turns import ConsumerTurns, QueueConsumer, holder_of
from mirrormq.queues.dead_lettering import DeadLettering
from mirrormq.queues.expiry import ExpiryTimer
from mirrormq.queues.kept_deliveries import GIVEN_BACK, Deferred, KeptDeliveries
from mirrormq.queues.memory_use import ConsumerUse
from mirrormq.queues.message import NEVER, Message
from mirrormq.queues.paged_queue import AnyBacking
from mirrormq.queues.publish_ids import PublishOrigin
from mirrormq.queues.publish_intake import PublishIntake, PublishNumbers
from mirrormq.queues.queue_host import QueueCounters, QueueHost
from mirrormq.queues.queue_interface import Publisher, QueueInterface, Refused
from mirrormq.queues.queue_settings import QueueSettings
from mirrormq.queues.redelivery import RedeliveryMarks
from mirrormq.ranges.error_reasons import NO_QUEUE
from mirrormq.ranges.range_request import Answered, RangeRequest
from mirrormq.sequences.spans import Span


class Queue:
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
        self.backing: AnyBacking = backing
        self.consumers = ConsumerTurns(settings.single_active_consumer)
        self.counters = QueueCounters()
        self.deleted = False
        self.awake = False
        """Already on the list of queues to pump."""
        self.owner: object | None = None
        """Connection that an exclusive queue belongs to."""
        self.exclusive_consumer: QueueConsumer | None = None
        self.mirrored: MirroredBacking | None = None
        """Backing queue, if it replicates to mirrors."""
        self.successor: QueueInterface | None = None
        """Queue object that took over, if this one is detached."""
        self._host = host
        self._work = host.work
        self.clock = host.clock
        self.use = ConsumerUse(self.clock.now_ms)
        self.intake = PublishIntake(self, host)
        self.confirms = ConfirmTracker()
        self.marks = RedeliveryMarks()
        self._limits = host.limits
        self.dead_letters = DeadLettering(host.limits)
        self.kept = KeptDeliveries(self)
        """Deliveries that survive a failover (`ha-redeliver: lost`)."""
        self.lifetimes = ExpiryTimer(self, host)
        self.lifetimes.watch_idleness()
        self._plain = False
        """Whether ordinary publishes are only appended: no mirrors, length limit and message TTL."""
        self._follow_settings()

    # -- publishing -------------------------------------------------------------------------------

    def publish(
        self, messages: list[Message], publisher: Publisher | None = None, first: int = 0,
        origin: PublishOrigin | None = None,
    ) -> None:  # fmt: skip
        """Append messages numbered `first`, `first + 1` … by their publisher, if it wants confirms. `origin`
        identifies messages of another node; the queue keeps them once. All or none of them are deduplicated
        by publish id."""
        envelope = messages[0].envelope
        if not self._plain or not envelope.plain or origin is not None or messages[0].expires_at != NEVER:
            self.intake.publish(messages, publisher, first, origin)
            return
        self.backing.publish(messages)
        count = len(messages)
        self.counters.published += count
        if publisher is not None:
            if not envelope.persistent or not self.settings.durable:
                publisher.confirmed(first, first + count - 1)
            elif self.confirms.after_flush(publisher, first, first + count - 1):
                self._work.awaits_flush(self)
        if not self.awake:
            self._work.wake(self)

    def _follow_settings(self) -> None:
        """Determine again whether ordinary publishes are only appended."""
        self._plain = (
            not self.deleted
            and self.mirrored is None
            and not self.settings.limited
            and self.settings.message_ttl_ms is None
        )
        self.kept.follow_settings()

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

    def when_room(self, resume: Callable[[], None]) -> None:
        """Call `resume` once the mirrors have caught up."""
        if self.full and not self.deleted:
            self.confirms.when_room(resume)
        else:
            resume()

    def flushed(self) -> None:
        """Confirm publishes that waited for the journal's flush."""
        self.confirms.flushed()

    def completed(self, received: int, durable: int) -> None:
        """Process the progress of the ring: operations that all members have received, and have on disk."""
        self.confirms.completed(received, durable)
        if self.kept.completed(received):
            self._work.wake(self)
        if not self.full:
            self.confirms.resume_publishers()

    # -- delivery ---------------------------------------------------------------------------------

    def pump(self) -> bool:
        """Deliver ready messages while consumers have room; True if more is left for another turn."""
        lifetimes = self.lifetimes
        if not lifetimes.expiring:
            more = self._deal(checking=False)
        else:
            lifetimes.expire()
            more = self._deal(checking=True)
            lifetimes.expire()
        self.kept.ask_deferred()
        return more

    def deliver_now_or_never(self, messages: Sequence[Message]) -> None:
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
        budget, budget_bytes = self._limits.deliveries_per_pump, self._limits.delivery_batch_bytes
        while budget > 0 and budget_bytes > 0 and backing.ready_count:
            if waits and not kept.may_deliver():
                return False
            turn = self.consumers.next() if kept.overtaken is None else kept.next_turn()
            if turn is None:
                self.use.exhausted(self.clock.now_ms)
                return False
            consumer, room = turn
            held_bytes = backing.unacked_bytes
            messages = backing.fetch(min(room, budget), budget_bytes, up_to or kept.up_to)
            budget_bytes -= backing.unacked_bytes - held_bytes
            if checking:
                messages = self.lifetimes.without_expired(messages)
            if not messages:
                # Only messages above `up_to` are left: they stay ready, and the loop would never end.
                if up_to is not None:
                    return False
                continue
            budget -= len(messages)
            # Marks go first: the frames that `deliver` writes contain the redelivered flag.
            self._count_delivery(messages, consumer)
            consumer.deliver(messages)
            if consumer.no_ack:
                self.counters.delivered_no_ack += len(messages)
                backing.acknowledge(messages)
                continue
            self.counters.delivered += len(messages)
            if backing.unacked_count > self._limits.unacked_hot_messages:
                backing.release_contents(messages)
        return backing.ready_count > 0

    def take(self, no_ack: bool, holder: str = "") -> Message | None:
        """Fetch one message for basic.get."""
        lifetimes = self.lifetimes
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
        self.became_ready()

    def became_ready(self) -> None:
        """Deliver messages that have returned to the queue, after dropping those over the length limit."""
        if self.settings.limited and not self.settings.rejects_publishes:
            self.drop_surplus()
        self._work.wake(self)

    def reject(self, messages: Sequence[Message]) -> None:
        """Discard messages that consumers rejected without requeue."""
        if self.deleted:
            self.kept.forward("reject", messages)
        else:
            self.kept.given_back(messages)
            self.discard(messages, "rejected")

    # -- marks ------------------------------------------------------------------------------------

    def _count_delivery(
        self, messages: list[Message], consumer: QueueConsumer | None, holder: str = ""
    ) -> None:
        """Record the delivery of messages to a consumer or a holder, and mark those that were delivered
        before. The lowest sequence is first."""
        marks, last = self.marks, messages[-1].sequence
        if messages[0].sequence <= marks.highest:
            marks.mark(messages)
        kept = self.kept
        if kept.gated or kept.overtaken is not None:
            if consumer is not None:
                holder = holder_of(consumer, self.intake.producer)
            holder = holder or self.intake.producer
            if kept.overtaken is not None:
                kept.overtaken.mark(messages, holder)
            kept.delivered(holder, last)
        if messages[0].redelivered or messages[-1].redelivered:
            self.counters.redelivered += sum([message.redelivered for message in messages])
        if last > marks.delivered_up_to:
            marks.delivered_up_to = last
            self.backing.delivered(last)

    def delivered(self, sequence: int, holder: str = GIVEN_BACK) -> None:
        """Replicate that messages up to `sequence` were delivered, by this master or an earlier one."""
        if sequence > self.marks.delivered_up_to:
            self.marks.delivered_up_to = sequence
            self.backing.delivered(sequence)
        self.kept.delivered(holder, sequence)

    def delivered_before(self, sequence: int, holder: str = "", unclaimed_up_to: int | None = None) -> None:
        """Record that consumers, of node `holder`, have had messages up to `sequence` from an earlier
        master."""
        if unclaimed_up_to is not None and self.kept.may_overtake(holder, sequence):
            sequence = unclaimed_up_to
        if sequence:
            self.marks.delivered_before(sequence)
            self.delivered(sequence)

    def published_before(self, messages: Sequence[Message]) -> None:
        """Record messages, published together, that an earlier master may have delivered. The next master, or
        this one after a restart, knows only the highest delivered sequence. It therefore marks a few messages
        too many."""
        last = self.marks.published_before(messages)
        if last:
            self.delivered(last)

    # -- removal ----------------------------------------------------------------------------------

    def is_over(self) -> bool:
        """Return whether the ready messages exceed the length limit."""
        return self.settings.exceeded(self.backing.ready_count, self.backing.ready_bytes)

    def drop_surplus(self) -> None:
        """Discard the oldest messages over the length limit; none while a client may hold any of them."""
        dropped: list[Message] = []
        if self.kept.awaiting:
            return
        while self.backing.ready_count and self.is_over():
            dropped += self.backing.fetch(1)
        if dropped:
            self.discard(dropped, "maxlen")

    def expire(self) -> None:
        """Discard expired messages at the head."""
        if self.lifetimes.expiring:
            self.lifetimes.expire()

    def discard(self, messages: Sequence[Message], reason: str) -> None:
        """Remove fetched messages from the queue; send them to the dead-letter exchange, if there is one."""
        if not self.dead_letters.applies(self.settings, reason):
            self.backing.acknowledge(messages)
            return
        undamaged = self.backing.load_contents(messages)
        if len(undamaged) < len(messages):
            # A damaged message cannot be published again. Without this it would stay unacknowledged for ever.
            self.backing.acknowledge([message for message in messages if not message.frames])
        # Count first: the targets may confirm during the call, and the count must not fall below zero.
        # The messages stay unacknowledged here until then, so that a failover dead-letters them again.
        self.dead_letters.began(len(undamaged))
        self._host.dead_letter(self, undamaged, reason, self._dead_letter_confirmed)

    def _dead_letter_confirmed(self, messages: Sequence[Message]) -> None:
        """Remove dead letters that every target queue has confirmed."""
        may_expire = self.dead_letters.confirmed(len(messages))
        if self.deleted:
            return
        self.backing.acknowledge(messages)
        if may_expire:
            self._work.wake(self)

    # -- requests ---------------------------------------------------------------------------------

    def _where(self) -> str:
        return f"queue '{self.name}' in vhost '{self.vhost}'"

    def deliver_published(self) -> None:
        """Deliver ready messages as far as consumers have credit. Deliveries otherwise wait for the end of
        the turn; as in RabbitMQ, a method that follows a publish must find them done."""
        while self.awake and not self.deleted and self.pump():
            pass

    def get(
        self, no_ack: bool, answered: Callable[[Message | None, int], bool], refused: Refused,
        holder: str = "",
    ) -> None:  # fmt: skip
        """Fetch one message for basic.get, for a client of this node or of node `holder`."""
        if not self.may_get():
            self.touch()

            def ask(queue: QueueInterface) -> None:
                if holder:
                    self.get(no_ack, answered, refused, holder)
                else:
                    queue.get(no_ack, answered, refused)

            self.kept.defer(Deferred(ask, refused, not holder))
            return
        # Not `no_ack`, whatever the client asked for: if it is gone by now, the message is requeued.
        message = self.take(no_ack=False, holder=holder)
        taken = answered(message, self.backing.ready_count)
        if message is not None and not taken:
            self.requeue([message])
        else:
            self.got(message, no_ack)

    def may_get(self) -> bool:
        """Deliver what consumers have credit for; return whether basic.get can be answered at once."""
        self.deliver_published()
        return self.kept.up_to == ANY_SEQUENCE or not self.backing.ready_count or self.kept.may_deliver()

    def got(self, message: Message | None, no_ack: bool) -> None:
        """Count the reply to basic.get; remove the message if the client need not acknowledge it."""
        if message is None:
            self.counters.got_empty += 1
        elif no_ack:
            self.counters.got_no_ack += 1
            self.backing.acknowledge([message])
        else:
            self.counters.got += 1

    def count(self, answered: Callable[[int, int], object], refused: Refused) -> None:
        """Report the numbers of ready messages and of consumers."""
        self.touch()
        self.deliver_published()
        answered(self.backing.ready_count, len(self.consumers.all))

    def purge(self, answered: Callable[[int], object], refused: Refused) -> None:
        """Drop all ready messages. The purge waits while claims of other nodes are not known."""
        self.deliver_published()
        if self.kept.awaiting:
            self.kept.defer(Deferred(lambda queue: queue.purge(answered, refused), refused, True))
        else:
            answered(self.backing.purge())

    def check_deletion(
        self, if_unused: bool, if_empty: bool, answered: Callable[[int], object], refused: Refused
    ) -> None:
        """Check the conditions of queue.delete, and report the number of ready messages."""
        self.deliver_published()
        if if_unused and self.consumers.all:
            refused(PreconditionFailed(f"{self._where()} in use"))
        elif if_empty and self.backing.ready_count:
            refused(PreconditionFailed(f"{self._where()} not empty"))
        else:
            answered(self.backing.ready_count)

    def handle_range_request(
        self, range_request: RangeRequest, answered: Answered, refused: Refused, reader: object
    ) -> None:
        """Pass a range or lease request to the host, which has access to the journal and the metadata."""
        if self.successor is not None:
            self.successor.handle_range_request(range_request, answered, refused, reader)
        else:
            self._host.handle_range_request(self, range_request, answered, refused, reader)

    def subscribe(self, consumer: QueueConsumer, answered: Callable[[], object], refused: Refused) -> None:
        """Add a consumer, unless another consumer has exclusive use of the queue."""
        alone = consumer.exclusive and (self.consumers.all or self.settings.single_active_consumer)
        if self.exclusive_consumer is not None or alone:
            refused(AccessRefused(f"{self._where()} in exclusive use"))
            return
        self.deliver_published()
        self.join(consumer)
        answered()

    def is_active(self, consumer: QueueConsumer) -> bool:
        """Return whether the consumer may receive messages."""
        return not self.consumers.single_active or self.consumers.active is consumer

    # -- consumers and settings -------------------------------------------------------------------

    def touch(self) -> None:
        """Reset the idle time of the queue."""
        self.lifetimes.touch()

    def join(self, consumer: QueueConsumer) -> None:
        """Add a consumer that has passed the checks of `subscribe`."""
        self.consumers.add(consumer)
        self.use.available(self.clock.now_ms)
        if consumer.exclusive:
            self.exclusive_consumer = consumer
        if self.settings.auto_delete:
            self._host.consumed(self)
        self.touch()
        self._work.wake(self)

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
            self._work.wake(self)

    def ready_again(self, consumer: QueueConsumer) -> None:
        """Resume a consumer whose prefetch was used up and now has room."""
        if not self.deleted:
            self.consumers.ready_again(consumer)
            self.use.available(self.clock.now_ms)
            if self.backing.ready_count:
                self._work.wake(self)

    def apply(self, settings: QueueSettings) -> None:
        """Apply settings that a policy has changed."""
        self.settings = settings
        self._follow_settings()
        self.backing.lazy = settings.lazy
        self.touch()
        self.lifetimes.watch_idleness()
        if settings.message_ttl_ms is not None:
            self.lifetimes.expiring = True
        self.became_ready()

    def erase(self, notify: Callable[[QueueConsumer], None]) -> None:
        """Delete the queue: notify its consumers, delete its messages, confirm waiting publishes."""
        self.deleted, self._plain = True, False
        self.confirms.forget()
        for deferred in self.kept.take_deferred():
            deferred.refused(NotFound(f"no {self._where()}", reason=NO_QUEUE))
        for consumer in self._dismiss():
            notify(consumer)
        self.backing.erase()

    def _dismiss(self) -> list[QueueConsumer]:
        consumers, self.consumers = list(self.consumers.all), ConsumerTurns(single_active=False)
        return consumers

    # -- mirrors ----------------------------------------------------------------------------------

    def mirror(self, backing: MirroredBacking, numbers: PublishNumbers, queue_id: int) -> None:
        """Replicate the queue from now on."""
        self.backing = self.mirrored = backing
        self.intake.number_with(numbers, queue_id)
        self._follow_settings()

    def unmirror(self, backing: BackingQueue) -> None:
        """Stop replication after the last mirror has left."""
        self.backing, self.mirrored = backing, None
        if self.confirms.alone():
            self._work.awaits_flush(self)
        self._follow_settings()
        self._work.wake(self)

    # -- earlier masters --------------------------------------------------------------------------

    def reclaim(self, spans: Sequence[Span]) -> list[Message]:
        """Fetch exactly these ready messages: clients hold them from an earlier master."""
        messages = self.backing.reclaim(spans)
        if self.backing.unacked_count > self._limits.unacked_hot_messages:
            self.backing.release_contents(messages)
        return messages

    def claims_known(self) -> None:
        """Resume deliveries after all claims are stated or dropped."""
        self.became_ready()

    def keep(self, holder: str, claim: Claim) -> None:
        """Claim messages that clients of this node hold from an earlier master."""
        self.kept.keep(holder, claim)

    def settle_kept(self, settlement: Settlement, sequences: Sequence[int]) -> None:
        """Settle messages that clients of this node hold from an earlier master."""
        self.kept.settle(settlement, sequences)

    def detach(self) -> tuple[list[QueueConsumer], list[WaitingConfirms]]:
        """End this object because another node is master. Returns its consumers and waiting confirms; the
        caller takes care of the backing queue."""
        self.deleted, self._plain = True, False
        return self._dismiss(), self.confirms.take_all()


AnyQueue = Queue | QueueInterface
"""Any queue. Compiled code calls the class that is named here directly, and others by method name."""
