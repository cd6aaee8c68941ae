"""Requests of `queues.queue_interface` to a queue whose master is this node. The queue replies at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mirrormq.errors import AccessRefused, PreconditionFailed
from mirrormq.queues.backing import ANY_SEQUENCE
from mirrormq.queues.kept_deliveries import Deferred, holder_of
from mirrormq.queues.message import Message
from mirrormq.queues.redelivery import RedeliveryMarks
from mirrormq.ranges.range_request import Answered, RangeRequest

if TYPE_CHECKING:
    from mirrormq.queues.consumer_turns import QueueConsumer
    from mirrormq.queues.queue import Queue
    from mirrormq.queues.queue_interface import Refused


class LocalRequests(RedeliveryMarks):
    """Request methods of Queue (mixin)."""

    def is_active(self: Queue, consumer: QueueConsumer) -> bool:  # type: ignore[misc]
        """Return whether the consumer may receive messages."""
        return not self.consumers.single_active or self.consumers.active is consumer

    def _count_delivery(  # type: ignore[misc]
        self: Queue, messages: list[Message], consumer: QueueConsumer | None, holder: str = ""
    ) -> None:
        """Record the delivery of messages to a consumer or a holder, and mark those that were delivered
        before."""
        self._mark(messages)
        if self.kept.gated:
            if consumer is not None:
                holder = holder_of(consumer, self._producer)
            self.kept.delivered(holder or self._producer, messages[-1].sequence)
        if messages[0].redelivered or messages[-1].redelivered:
            self.counters.redelivered += sum([message.redelivered for message in messages])
        self._tell_delivered(messages[-1].sequence)

    def _where(self: Queue) -> str:  # type: ignore[misc]
        return f"queue '{self.name}' in vhost '{self.vhost}'"

    def deliver_published(self: Queue) -> None:  # type: ignore[misc]
        """Deliver ready messages as far as consumers have credit. Deliveries otherwise wait for the end of
        the turn; as in RabbitMQ, a method that follows a publish must find them done."""
        while self.awake and not self.deleted and self.pump():
            pass

    def get(  # type: ignore[misc]
        self: Queue,
        no_ack: bool,
        answered: Callable[[Message | None, int], bool],
        refused: Refused,
        holder: str = "",
    ) -> None:
        """Fetch one message for basic.get, for a client of this node or of node `holder`."""
        self.deliver_published()
        if self.kept.up_to != ANY_SEQUENCE and self.backing.ready_count and not self.kept.may_deliver():
            self.touch()
            ask = lambda queue: queue.get(no_ack, answered, refused)  # noqa: E731
            if holder:
                ask = lambda queue: self.get(no_ack, answered, refused, holder)  # noqa: E731
            self.kept.defer(Deferred(ask, refused, not holder))
            return
        message = self.take(no_ack=False, holder=holder)
        taken = answered(message, self.backing.ready_count)
        if message is None:
            self.counters.got_empty += 1
        elif not taken:
            self.requeue([message])
        elif no_ack:
            self.counters.got_no_ack += 1
            self.backing.acknowledge([message])
        else:
            self.counters.got += 1

    def count(self: Queue, answered: Callable[[int, int], object], refused: Refused) -> None:  # type: ignore[misc]
        """Report the numbers of ready messages and of consumers."""
        self.touch()
        self.deliver_published()
        answered(self.backing.ready_count, len(self.consumers.all))

    def purge(self: Queue, answered: Callable[[int], object], refused: Refused) -> None:  # type: ignore[misc]
        """Drop all ready messages. The purge waits while claims of other nodes are not known."""
        self.deliver_published()
        if self.kept.awaiting:
            self.kept.defer(Deferred(lambda queue: queue.purge(answered, refused), refused, True))
        else:
            answered(self.backing.purge())

    def check_deletion(  # type: ignore[misc]
        self: Queue,
        if_unused: bool,
        if_empty: bool,
        answered: Callable[[int], object],
        refused: Refused,
    ) -> None:
        """Check the conditions of queue.delete, and report the number of ready messages."""
        self.deliver_published()
        if if_unused and self.consumers.all:
            refused(PreconditionFailed(f"{self._where()} in use"))
        elif if_empty and self.backing.ready_count:
            refused(PreconditionFailed(f"{self._where()} not empty"))
        else:
            answered(self.backing.ready_count)

    def handle_range_request(  # type: ignore[misc]
        self: Queue, range_request: RangeRequest, answered: Answered, refused: Refused, reader: object
    ) -> None:
        """Pass a range or lease request to the host, which has access to the journal and the metadata."""
        if self.successor is not None:
            self.successor.handle_range_request(range_request, answered, refused, reader)
        else:
            self._host.handle_range_request(self, range_request, answered, refused, reader)

    def subscribe(  # type: ignore[misc]
        self: Queue,
        consumer: QueueConsumer,
        answered: Callable[[], object],
        refused: Refused,
    ) -> None:
        """Add a consumer, unless another consumer has exclusive use of the queue."""
        alone = consumer.exclusive and (self.consumers.all or self.settings.single_active_consumer)
        if self.exclusive_consumer is not None or alone:
            refused(AccessRefused(f"{self._where()} in exclusive use"))
            return
        self.deliver_published()
        self.join(consumer)
        answered()
