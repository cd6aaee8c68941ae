"""Take of a lease, from the first message set aside to the reply."""

from __future__ import annotations

from mirrormq.errors import AmqpError, PreconditionFailed
from mirrormq.metadata import commands, records
from mirrormq.queues import lease_operations
from mirrormq.queues.backing import ANY_BYTES
from mirrormq.queues.queue import Queue
from mirrormq.ranges import range_limits
from mirrormq.ranges.range_request import Answered, RangeReply, RangeRequest, Refused
from mirrormq.sequences.spans import Span, count_of, joined, pack


class LeaseTaking:
    """Collects messages until it has the requested number, or the queue has no more."""

    def __init__(self, record: records.Queue, queue: Queue, lease: str, range_request: RangeRequest) -> None:
        values = range_request.values()
        self.record = record
        self.queue = queue
        self.lease = lease
        self.range_request = range_request
        self.number = values.number("number")
        self.waiting: list[tuple[Answered, Refused]] = []
        self.spans: list[Span] = []
        self.count = 0
        self._limit = min(values.number("messages"), range_limits.TAKE_MESSAGES_MAX)
        self._limit_bytes = values.number("bytes", 0) or ANY_BYTES
        self._idle_ms = values.number("idle_ms", range_limits.IDLE_MS_DEFAULT) or range_limits.IDLE_MS_DEFAULT
        self._size_bytes = 0
        if not self.number or not self._limit:
            raise PreconditionFailed("a take needs a number and messages, both 1 or more")

    @property
    def key(self) -> records.LeaseKey:
        """Key of the lease."""
        return (self.record.queue_id, self.lease)

    def collect(self) -> bool:
        """Set some messages aside. Return True if the take is complete."""
        backing = self.queue.backing
        before = backing.unacked_bytes
        room = self._limit_bytes - self._size_bytes
        spans = lease_operations.lease_out(self.queue, self._limit - self.count, room, single=not self.count)
        self._size_bytes += backing.unacked_bytes - before
        self.count += count_of(spans)
        self.spans = joined([*self.spans, *spans])
        return (
            not spans
            or self.count >= self._limit
            or self._size_bytes >= self._limit_bytes
            or len(self.spans) >= range_limits.SPANS_PER_TAKE
        )

    def command(self, epoch: int, node: str, incarnation: int) -> commands.TakeMessages:
        """Return the metadata command that records the take."""
        take = records.LeaseTake(self.number, pack(self.spans), self.count, self._size_bytes)
        return commands.TakeMessages(
            self.record.queue_id,
            epoch,
            node,
            incarnation,
            self.lease,
            take,
            self.range_request.user,
            self._idle_ms,
        )

    def take_waiting(self) -> list[tuple[Answered, Refused]]:
        """Return and remove the waiting requests; the caller passes them on."""
        waiting, self.waiting = self.waiting, []
        return waiting

    def answer(self, given: RangeReply) -> None:
        """Reply to all waiting requests."""
        for answered, _ in self.take_waiting():
            answered(given)

    def refuse(self, error: AmqpError) -> None:
        """Refuse all waiting requests."""
        for _, refused in self.take_waiting():
            refused(error)
