"""One take of a lease, from the first message that is set aside to the answer."""

from __future__ import annotations

from mirrormq.errors import AmqpError, PreconditionFailed
from mirrormq.metadata import commands, records
from mirrormq.queues.backing import ANY_BYTES
from mirrormq.queues.queue import Queue
from mirrormq.ranges import range_limits
from mirrormq.ranges.range_request import Answered, RangeReply, RangeRequest, Refused
from mirrormq.ranges.spans import Span, count_of, joined, pack


class LeaseTaking:
    """Collects messages until it has as many as were asked for, or there are no more."""

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
        """Whose take it is."""
        return (self.record.queue_id, self.lease)

    def collect(self) -> bool:
        """Set some messages aside; True if that is all."""
        backing = self.queue.backing
        before = backing.unacked_bytes
        room = self._limit_bytes - self._size_bytes
        found = self.queue.lease_out(self._limit - self.count, room, single=not self.count)
        self._size_bytes += backing.unacked_bytes - before
        self.count += count_of(found)
        self.spans = joined([*self.spans, *found])
        return (
            not found
            or self.count >= self._limit
            or self._size_bytes >= self._limit_bytes
            or len(self.spans) >= range_limits.SPANS_PER_TAKE
        )

    def command(self, epoch: int, node: str, incarnation: int) -> commands.TakeMessages:
        """What the metadata should agree on."""
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
        """Those who wait for the answer; they will get it from somebody else."""
        waiting, self.waiting = self.waiting, []
        return waiting

    def answer(self, given: RangeReply) -> None:
        """The answer, for all who wait."""
        for answered, _ in self.take_waiting():
            answered(given)

    def refuse(self, error: AmqpError) -> None:
        """It came to nothing."""
        for _, refused in self.take_waiting():
            refused(error)
