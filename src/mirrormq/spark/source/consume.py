"""Consuming stream: exactly-once reads under any failure.

A queue has no offsets that a consumer could return to: a delivered and acknowledged message is removed. The
*lease* makes a stream exactly-once: a name under which the broker moves messages out of the ready set and
keeps them, through lost connections and lost nodes, until the holder of the name settles them.

A batch is a *take*. `latestOffset` takes the next messages under the number that follows the last batch's,
and the offset it returns is that number. Then:

- Spark writes the offset into its checkpoint, plans, and runs. Tasks read the messages of the take by range;
  a retried task reads the same ones.
- If the driver fails after the take and before the checkpoint, it takes again under the same number after its
  restart and gets the same messages. If it fails later, it finds the number in the checkpoint and requests it
  again, with the same result.
- A batch is settled (its messages are acknowledged) when Spark requests the next one: only then is the batch
  certainly in Spark's commit log. Spark's own `commit` reports that too, but never for the last batch of
  AvailableNow. Spark always requests one more offset, however. Settling a settled number has no effect.

At any moment a message is therefore either ready, or in an unsettled take, and that take belongs to exactly
one batch of the checkpoint, or to the next one.

The lease's name must be in the checkpoint before the first take. Otherwise a driver that fails in between
leaves messages behind under an unknown name. Unless an option gives the name, `latestOffset` therefore takes
nothing for the first batch of a query. Its offset only holds the name and the amounts to take. The take
follows when Spark, which has stored the offset by then, requests the partitions. If other consumers were
faster the batch has fewer messages than planned, or none.

If both sides of a partition serve clients, a take whose reply was lost may be repeated on the other side, and
give other messages under its number. An offset therefore has the digest of its messages. A take is settled
only if its digest matches; otherwise its messages return to the queue.

An offset is `{"lease": name, "owner": random, "queues": {queue: {"take": number, "next": sequence, "digest":
number, "id": queue's id}}}`; `next` is for users who look at a query's progress. The owner keeps two queries
from using one lease. The offset of the first batch also has `"first": {queue: [messages, bytes]}`, the
amounts to take; 0 bytes means any. `"partitions"` is the option `minPartitions` of the query that made the
offset. A repeated batch is cut as before, whatever the option is now; otherwise a sink that numbers the rows
of partitions would not recognise them.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from mirrormq.ranges import error_reasons, range_protocol
from mirrormq.ranges.range_limits import LEASE_OWNER_MS, TAKE_MESSAGES_MAX
from mirrormq.ranges.range_protocol import LeaseEntry, QueueExtent
from mirrormq.sequences.spans import digest, pack, unpack
from mirrormq.spark.client.client_errors import RequestRefused
from mirrormq.spark.client.node_selection import PAUSE_S
from mirrormq.spark.client.range_client import RangeAnswer
from mirrormq.spark.data_source_options import OptionError, SourceOptions
from mirrormq.spark.source.plan import PartitionPart
from mirrormq.spark.source.queue_stream import Offset, QueueShare, QueueStream
from mirrormq.spark.source.renewal import Renewal
from mirrormq.wire.fields import Table

TAKES_PER_BATCH_MAX = 16
"""Takes per batch. A batch without a limit may need several: one take has a maximum of messages, and of spans
in a queue whose messages are scattered."""


OWNER_PATIENCE_S = 1.5 * LEASE_OWNER_MS / 1000
"""Time to retry a lease that another client uses. The broker forgets a dead client earlier."""


class QueueLease(NamedTuple):
    """Lease of a query on one queue."""

    name: str
    owner: str
    queue_id: int


@contextmanager
def suppress_missing_queue() -> Iterator[None]:
    """Ignore that the queue was deleted meanwhile."""
    try:
        yield
    except RequestRefused as error:
        if error.reason != error_reasons.NO_QUEUE:
            raise


def _digest(parts: Sequence[PartitionPart]) -> int:
    return digest(pack(part.spans) for part in parts)


class ConsumeReader(QueueStream):
    """Stream reader whose batch is one or more takes of each queue."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._settled: dict[str, int] = {}
        self._parts: dict[tuple[str, int], PartitionPart] = {}
        """Takes of this batch and the one before, cached to avoid another request."""
        self._leases: dict[str, LeaseEntry | None] = {}
        self._left: dict[str, int] | None = None
        """Messages of each queue still to be taken, with AvailableNow."""
        self._named: str | None = None
        """Lease, if this process has chosen its name."""
        self._renewal: Renewal | None = None
        """Created with the first take: tasks get a copy of this object, and threads cannot be copied."""

    # --- offsets ---------------------------------------------------------------------------------

    def initialOffset(self) -> Offset:  # noqa: N802
        return {"lease": self.options.lease_name or "", "owner": uuid.uuid4().hex, "queues": {}}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._left = {name: extent.ready for name, extent in self.queues.extents().items()}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Settle everything before `start`; take the messages after it."""
        if not start["lease"]:
            return self._first(limit)
        self._settle(start)
        found = {name: dict(at) for name, at in start["queues"].items()}
        for name, extent, share in self._allowed(limit, found):
            at = found.get(name)
            if at is not None and at["id"] != extent.id:
                self._replaced(name)
                at = None
            lease = self._of(start, extent.id)
            at = at or {"take": self._taken_before(lease, name), "next": 0, "id": extent.id}
            taken = self._take(lease, name, at, share)
            if taken["take"]:
                found[name] = taken
        if found == start["queues"]:
            return start
        queues = dict(sorted(found.items()))
        kept = {"lease": start["lease"], "owner": start.get("owner", "")}
        return {**kept, "queues": queues, "partitions": self.options.partitions_min}

    def _first(self, limit: ReadLimit) -> Offset:
        """Return an offset with a new lease name and the amounts to take after the checkpoint has it."""
        self._named = f"spark-{uuid.uuid4().hex}"
        wanted = [found for found in self._allowed(limit) if found[2].messages]
        return {
            "lease": self._named,
            "owner": uuid.uuid4().hex,
            "queues": {name: {"take": 1, "next": extent.next, "id": extent.id} for name, extent, _ in wanted},
            "first": {name: [share.messages, share.bytes or 0] for name, _, share in wanted},
            "partitions": self.options.partitions_min,
        }

    def _of(self, offset: Offset, queue_id: int) -> QueueLease:
        return QueueLease(offset["lease"], offset.get("owner", ""), queue_id)

    def _taken_before(self, lease: QueueLease, queue: str) -> int:
        """Return the take number after which a query continues on an existing lease."""
        entry = self._lease(lease, queue)
        if entry is None:
            return 0
        # Continue before the oldest unsettled take: its messages belong to no batch of this checkpoint yet.
        return min((take.number for take in entry.takes), default=entry.number + 1) - 1

    def _lease(self, lease: QueueLease, queue: str) -> LeaseEntry | None:
        """Return the lease as of this process's first request."""
        if queue not in self._leases:
            entries: list[LeaseEntry] = []
            with suppress_missing_queue():
                request = range_protocol.meant(range_protocol.leases(queue), lease.queue_id)
                entries = range_protocol.read_leases(bytes(self.queues.range_client.ask(request).body))
            self._leases[queue] = next((entry for entry in entries if entry.name == lease.name), None)
        return self._leases[queue]

    def _allowed(
        self, limit: ReadLimit, known: Collection[str] = ()
    ) -> list[tuple[str, QueueExtent, QueueShare]]:
        """Return queues with the share that may be taken from each."""
        extents = self.present(known)
        ready = [extent.ready for extent in extents.values()]
        if self._left is not None:
            ready = [min(self._left.get(name, 0), extent.ready) for name, extent in extents.items()]
        given = self.shared(list(extents.values()), ready, limit)
        return [(name, extent, share) for (name, extent), share in zip(extents.items(), given, strict=True)]

    # --- takes -----------------------------------------------------------------------------------

    def _take(self, lease: QueueLease, queue: str, at: Offset, share: QueueShare) -> Offset:
        """Take up to a share. Takes made before a restart of the driver are found again, whatever the limits
        are now."""
        at = dict(at)
        before = self._lease(lease, queue)
        highest = before.number if before is not None else 0
        messages, size = share.messages, share.bytes
        taken = []
        for _ in range(TAKES_PER_BATCH_MAX):
            # A take that the lease already has returns its messages whatever the amounts: request it first,
            # or the batch would skip messages that an earlier run of the driver took.
            made = at["take"] < highest
            if not made and (messages <= 0 or (size is not None and size <= 0)):
                break
            part = self._part(lease, queue, at["take"] + 1, messages, size or 0)
            if part is None:
                break
            taken.append(part)
            at.update(take=at["take"] + 1, next=sum(part.spans[-1]), digest=_digest(taken))
            messages -= part.messages
            size = None if size is None else size - part.bytes
            if self._left is not None and not made:
                self._left[queue] = self._left.get(queue, 0) - part.messages
        return at

    def _part(
        self, lease: QueueLease, queue: str, number: int, messages: int, size: int
    ) -> PartitionPart | None:
        """Return the messages of a take; None if no message was ready, or the queue was deleted."""
        known = self._parts.get((queue, number))
        if known is not None:
            return known
        messages = max(1, min(messages, TAKE_MESSAGES_MAX))
        taking = range_protocol.take(
            queue, lease.name, number, messages, max(0, size), self.options.lease_idle_ms
        )
        try:
            answer = self._ask(range_protocol.meant(taking, lease.queue_id, lease.owner), lease, queue)
        except RequestRefused as error:
            if error.reason != error_reasons.NO_QUEUE:
                raise
            return None
        if not answer.headers["count"]:
            return None
        spans = tuple(unpack(bytes(answer.body)))
        part = PartitionPart(queue, spans, answer.headers["bytes"], True, lease.queue_id)
        self._parts[queue, number] = part
        if self._renewal is None:
            self._renewal = Renewal(self.options)
        self._renewal.add(queue, lease.name, lease.queue_id, lease.owner)
        return part

    def _ask(self, request: Table, lease: QueueLease, queue: str) -> RangeAnswer:
        """Send a request as the owner of the lease. A driver that died before the checkpoint had its owner
        has left another owner behind. That owner is silent, and the lease is free after `LEASE_OWNER_MS`."""
        deadline_s = time.monotonic() + OWNER_PATIENCE_S
        while True:
            try:
                return self.queues.range_client.ask(request)
            except RequestRefused as error:
                if error.reason != error_reasons.LEASE_IN_USE:
                    raise
                if time.monotonic() >= deadline_s:
                    raise OptionError(
                        f"the lease '{lease.name}' of queue '{queue}' is in use by another query:"
                        " give each query its own leaseName, or none"
                    ) from None
            time.sleep(PAUSE_S)

    def _settle(self, done: Offset) -> None:
        for name, at in done["queues"].items():
            if self._settled.get(name, 0) < at["take"]:
                self._settle_queue(name, at, done)
                self._settled[name] = at["take"]
        self._parts = {
            (name, number): part
            for (name, number), part in self._parts.items()
            if number > self._settled.get(name, 0)
        }

    def _settle_queue(self, queue: str, at: Offset, done: Offset) -> None:
        number, lease = at["take"], self._of(done, at["id"])
        # The first offset is stored before its take, hence has no digest; compute it from the messages.
        first = self._parts.get((queue, number)) if queue in done.get("first", ()) else None
        digest = _digest([first]) if first is not None else at.get("digest")
        settling = range_protocol.settle(queue, lease.name, number=number, digest=digest)
        try:
            self._ask(range_protocol.meant(settling, lease.queue_id, lease.owner), lease, queue)
        except RequestRefused as error:
            if error.reason == error_reasons.OTHER_MESSAGES:
                self._give_back(lease, queue)
            elif error.reason == error_reasons.LEASE_ENDED:
                self.lost(
                    f"the lease '{lease.name}' of queue '{queue}' was released or was idle for too"
                    " long, and the messages of the last batch may be in the queue again"
                )
            elif error.reason != error_reasons.NO_QUEUE:
                raise  # a deleted queue is no loss: the batch is processed

    def _give_back(self, lease: QueueLease, queue: str) -> None:
        """Release the lease: its messages come from another side of a partition, and no batch has had
        them."""
        with suppress_missing_queue():
            self.queues.range_client.ask(
                range_protocol.meant(range_protocol.release(queue, lease.name), lease.queue_id)
            )
        self._leases[queue] = None

    def _replaced(self, queue: str) -> None:
        """Forget a queue that was deleted and declared again. All messages taken from the old one are
        processed."""
        self._settled.pop(queue, None)
        self._leases.pop(queue, None)
        self._parts = {key: part for key, part in self._parts.items() if key[0] != queue}

    # --- interface of Spark ------------------------------------------------------------------------

    def reportLatestOffset(self) -> Offset:  # noqa: N802
        """Return the end of each queue and its ready messages, for `lastProgress`."""
        extents = self.queues.extents()
        return {
            "queues": {
                name: {"next": extent.next, "behind": extent.ready} for name, extent in extents.items()
            },
            "behind": sum(extent.ready for extent in extents.values()),
        }

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        if "first" in end:
            return self.cut(self._take_first(end), end.get("partitions"))
        parts = []
        for name, at in end["queues"].items():
            before = start["queues"].get(name, {"take": 0, "id": at["id"]})
            first = before["take"] if before["id"] == at["id"] else 0
            numbers, lease = range(first + 1, at["take"] + 1), self._of(end, at["id"])
            taken = [self._part(lease, name, number, TAKE_MESSAGES_MAX, 0) for number in numbers]
            found = [part for part in taken if part is not None]
            if found and at.get("digest", _digest(found)) != _digest(found):
                self.lost(
                    f"the lease '{end['lease']}' has other messages of queue '{name}' than this batch had:"
                    " it was released, or has expired, or a partition has healed since"
                )
                self._give_back(lease, name)
                continue
            if len(found) < len(taken):
                self.lost(
                    f"the lease '{end['lease']}' was released or has expired, or queue '{name}' was deleted,"
                    " and the messages that this batch is about are no longer there"
                )
            parts += found
        return self.cut(parts, end.get("partitions"))

    def _take_first(self, end: Offset) -> list[PartitionPart]:
        """Take the amounts of the first offset, as far as messages are ready."""
        parts = []
        for name, (messages, size) in end["first"].items():
            number = end["queues"][name]["take"]
            is_new = (name, number) not in self._parts and self._named == end["lease"]
            part = self._part(self._of(end, end["queues"][name]["id"]), name, number, messages, size)
            if part is not None:
                parts.append(part)
                if self._left is not None and is_new:
                    self._left[name] = self._left.get(name, 0) - part.messages
        return parts

    def commit(self, end: Offset) -> None:
        if end["lease"]:
            self._settle(end)

    def stop(self) -> None:
        if self._renewal is not None:
            self._renewal.stop()
        super().stop()
