"""Live queue on a real journal, with consumers and a host that only record events."""

from __future__ import annotations

from collections.abc import Sequence

from mirrormq.clock import Clock
from mirrormq.queues.consumer_turns import ConsumerDescription
from mirrormq.queues.memory_budget import MemoryBudget
from mirrormq.queues.message import Message
from mirrormq.queues.queue import Queue
from mirrormq.queues.queue_host import OnDeadLettered
from mirrormq.queues.queue_limits import DEFAULT_LIMITS, QueueLimits
from mirrormq.queues.queue_settings import QueueSettings
from mirrormq.queues.turn_work import TurnWork
from mirrormq.ranges.range_request import Answered, RangeRequest, Refused
from mirrormq.replication.queue_factory import make_backing_queue
from tests.queues.support import body, make_disk, make_message, open_journal

ROOMY = 1 << 20


class TestConsumer:
    """Consumer that accepts messages up to its capacity and holds them."""

    __test__ = False

    def __init__(self, queue: Queue, priority: int, capacity: int, no_ack: bool, exclusive: bool) -> None:
        self.queue = queue
        self.priority = priority
        self.capacity = capacity
        self.no_ack = no_ack
        self.exclusive = exclusive
        self.waiting = False
        self.active = False
        self.told_cancelled = False
        self.held: list[Message] = []
        self.bodies: list[bytes] = []

    def room(self) -> int:
        return self.capacity - len(self.held)

    def deliver(self, messages: list[Message]) -> None:
        assert 0 < len(messages) <= self.room()
        self.bodies += [body(message).split(b" ")[0] for message in messages]
        if not self.no_ack:
            self.held += messages

    def cancelled(self) -> None:
        self.told_cancelled = True

    def activated(self, active: bool) -> None:
        self.active = active

    def describe(self) -> ConsumerDescription:
        raise NotImplementedError("the queue under test is not listed")


class TestPublisher:
    """Publisher that records confirms and refusals."""

    __test__ = False

    def __init__(self) -> None:
        self.confirms: list[int] = []
        self.refusals: list[int] = []

    def confirmed(self, first: int, last: int) -> None:
        self.confirms += range(first, last + 1)

    def refused(self, number: int) -> None:
        self.refusals.append(number)


class LiveQueue:
    """Queue with everything around it. Implements `QueueHost`."""

    def __init__(
        self, settings: QueueSettings | None = None, now_ms: int = 1_000, limits: QueueLimits = DEFAULT_LIMITS
    ) -> None:
        self.limits = limits
        self.clock = Clock(now_ms)
        self.budget = MemoryBudget(1 << 30, limits)
        self.journal = open_journal(make_disk())
        self.work = TurnWork()
        self.dead: list[tuple[bytes, str]] = []
        self.unused_count = 0
        self.published = 0
        chosen = settings or QueueSettings()
        backing_queue = make_backing_queue(self.journal.queue(1), chosen, self.budget, lambda warning: None)
        self.queue = Queue("/", "q", chosen, backing_queue, self)

    # -- QueueHost ------------------------------------------------------------------------------

    def dead_letter(
        self, queue: Queue, messages: Sequence[Message], reason: str, on_dead_lettered: OnDeadLettered
    ) -> None:
        self.dead += [(body(message), reason) for message in messages]
        on_dead_lettered(messages)

    def unused(self, queue: Queue) -> None:
        self.unused_count += 1

    def consumed(self, queue: Queue) -> None:
        pass

    def handle_range_request(
        self, queue: Queue, range_request: RangeRequest, answered: Answered, refused: Refused, reader: object
    ) -> None:
        raise AssertionError("nobody here knows")

    # -- test operations ------------------------------------------------------------------------

    def publish(
        self, count: int, publisher: TestPublisher | None = None, *, size: int = 0, persistent: bool = False,
        expiration: str | None = None,
    ) -> None:  # fmt: skip
        """Publish messages with bodies 1, 2, 3 …, padded to `size`, in one batch, with the same numbers
        for confirms."""
        first = self.published + 1
        self.published += count
        numbers = range(first, first + count)
        bodies = [b"%d" % n if not size else (b"%d " % n).ljust(size, b"x") for n in numbers]
        batch = [make_message(text, persistent=persistent, expiration=expiration) for text in bodies]
        self.queue.publish(batch, publisher, first)

    def subscribe(
        self, *, priority: int = 0, capacity: int = ROOMY, no_ack: bool = False, exclusive: bool = False
    ) -> TestConsumer:
        consumer = TestConsumer(self.queue, priority, capacity, no_ack, exclusive)
        self.queue.join(consumer)
        return consumer

    def acknowledge(self, consumer: TestConsumer, count: int) -> None:
        """Acknowledge the oldest `count` messages that the consumer holds."""
        self.queue.acknowledge(self._take(consumer, count))
        self._free(consumer)

    def requeue(self, consumer: TestConsumer, count: int) -> None:
        """Requeue the oldest `count` messages that the consumer holds."""
        messages = self._take(consumer, count)
        if messages:
            self.queue.requeue(messages)
        self._free(consumer)

    def _take(self, consumer: TestConsumer, count: int) -> list[Message]:
        messages, consumer.held = consumer.held[:count], consumer.held[count:]
        return messages

    def _free(self, consumer: TestConsumer) -> None:
        if consumer.waiting and consumer.room() > 0 and consumer in self.queue.consumers.all:
            self.queue.ready_again(consumer)

    def turn(self) -> None:
        """Do the broker's work at the end of a turn, until there is nothing left to do."""
        while self.work.awake:
            queue = self.work.awake.pop()
            queue.awake = False
            if not queue.deleted and queue.pump():
                self.work.wake(queue)
        self.flush()

    def flush(self) -> None:
        """Perform the group commit."""
        self.journal.flush(sync=True)
        for _ in range(len(self.work.awaiting_flush)):
            self.work.awaiting_flush.popleft().flushed()

    def advance(self, milliseconds: int) -> None:
        """Advance the clock."""
        self.clock.now_ms += milliseconds
        self.clock.run_due()

    @property
    def counts(self) -> tuple[int, int]:
        """Return the numbers of ready and unacknowledged messages."""
        return self.queue.backing.ready_count, self.queue.backing.unacked_count

    def drain(self) -> list[bytes]:
        """Return the bodies of all ready messages, first to last."""
        found = []
        while (message := self.queue.take(no_ack=True)) is not None:
            found.append(body(message))
        return found
