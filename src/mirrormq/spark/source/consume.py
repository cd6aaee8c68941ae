"""A stream that consumes: every message once, whatever dies.

A queue has no offsets that a consumer could go back to: what is delivered and acknowledged is gone. What
makes a stream exactly-once is the *lease*: a name under which messages are taken out of the ready set and
kept by the broker, through lost connections and lost nodes, until whoever holds the name is done with them.

A batch is a *take*. `latestOffset` takes the next messages under the number that follows the last batch's,
and the offset it returns is that number. Then:

- Spark writes the offset into its checkpoint, plans, and runs. Tasks read the messages of the take by range;
  a task that is tried again reads the same ones.
- A driver that dies after the take and before the checkpoint has it takes again under the same number after
  its restart and is given the same messages. One that dies later finds the number in the checkpoint and asks
  for it again, with the same result.
- A batch is settled (its messages are acknowledged) when Spark asks for the next one: only then is it
  surely in Spark's commit log. Spark's own `commit` says so too, but never for the last batch of
  AvailableNow, whereas it always asks once more whether there is something left. Settling a number that is
  settled does nothing.

So at any moment a message is either ready, or in a take that is not settled, and that take belongs to
exactly one batch of the checkpoint, or to the next one there will be.

The lease's name must be in the checkpoint before anything is taken under it, or a driver that dies in between
would leave messages behind under a name nobody knows. Unless the name is given as an option, the first batch
of a query is therefore not taken when its offset is asked for. Its offset only says under which name and how
much will be taken, and that is done when Spark, which has written it down by then, asks for the partitions.
If others were quicker the batch has fewer messages than it was to have, or none.

Where two sides of a partition may both go on, a take whose answer was lost may be made again on the other
side, and give other messages under its number. So an offset has the digest of what it was given: what a lease
has under a number is settled only if it is that, and else goes back to the queue.

An offset is `{"lease": name, "owner": random, "queues": {queue: {"take": number, "next": sequence, "digest":
number, "id": queue's id}}}`; `next` is for people who look at a query's progress. The owner keeps two queries
from using one lease. The offset of the first batch also has `"first": {queue: [messages, bytes]}`, what is to
be taken; 0 bytes: any. `"partitions"` is the option `minPartitions` of the query that made the offset: a
batch that is repeated is cut as it was, whatever the option says now, or a sink that numbers the rows of
partitions would not recognise them.
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
from mirrormq.ranges.spans import digest, pack, unpack
from mirrormq.spark.client.client_errors import RequestRefused
from mirrormq.spark.client.node_selection import PAUSE_S
from mirrormq.spark.client.range_client import RangeAnswer
from mirrormq.spark.data_source_options import OptionError, SourceOptions
from mirrormq.spark.source.plan import PartitionPart
from mirrormq.spark.source.queue_stream import Offset, QueueShare, QueueStream
from mirrormq.spark.source.renewal import Renewal
from mirrormq.wire.fields import Table

TAKES_PER_BATCH_MAX = 16
"""A batch without a limit may need several takes: one gives so many messages at most, and only so many
stretches of a queue whose messages are scattered."""


OWNER_PATIENCE_S = 1.5 * LEASE_OWNER_MS / 1000
"""How long a lease that another client uses is asked for again. A client that died is forgotten earlier."""


class QueueLease(NamedTuple):
    """The lease of a query at one queue."""

    name: str
    owner: str
    queue_id: int


@contextmanager
def suppress_missing_queue() -> Iterator[None]:
    """Go on if the queue was deleted meanwhile."""
    try:
        yield
    except RequestRefused as error:
        if error.reason != error_reasons.NO_QUEUE:
            raise


def _digest(parts: Sequence[PartitionPart]) -> int:
    return digest(pack(part.spans) for part in parts)


class ConsumeReader(QueueStream):
    """A batch is one or more takes of each queue."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._settled: dict[str, int] = {}
        self._parts: dict[tuple[str, int], PartitionPart] = {}
        """Takes of this batch and the one before, so that they need not be asked for again."""
        self._leases: dict[str, LeaseEntry | None] = {}
        self._left: dict[str, int] | None = None
        """With AvailableNow: how many messages of each queue are still to be taken."""
        self._named: str | None = None
        """The lease, if this process has given it its name."""
        self._renewal: Renewal | None = None
        """Made with the first take: tasks get a copy of this object, and threads cannot be copied."""

    # --- offsets ---------------------------------------------------------------------------------

    def initialOffset(self) -> Offset:  # noqa: N802
        return {"lease": self.options.lease_name or "", "owner": uuid.uuid4().hex, "queues": {}}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._left = {name: extent.ready for name, extent in self.queues.extents().items()}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Everything before `start` is done with; take what comes after it."""
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
        """A name, and what to take under it once it is written down."""
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
        """The number after which a query goes on that finds a lease there was before it."""
        entry = self._lease(lease, queue)
        if entry is None:
            return 0
        return min((take.number for take in entry.takes), default=entry.number + 1) - 1

    def _lease(self, lease: QueueLease, queue: str) -> LeaseEntry | None:
        """The lease as it was when this process first asked."""
        if queue not in self._leases:
            entries: list[LeaseEntry] = []
            with suppress_missing_queue():
                asked = range_protocol.meant(range_protocol.leases(queue), lease.queue_id)
                entries = range_protocol.read_leases(bytes(self.queues.range_client.ask(asked).body))
            self._leases[queue] = next((entry for entry in entries if entry.name == lease.name), None)
        return self._leases[queue]

    def _allowed(
        self, limit: ReadLimit, known: Collection[str] = ()
    ) -> list[tuple[str, QueueExtent, QueueShare]]:
        """Queues, and what may be taken from each."""
        extents = self.present(known)
        ready = [extent.ready for extent in extents.values()]
        if self._left is not None:
            ready = [min(self._left.get(name, 0), extent.ready) for name, extent in extents.items()]
        given = self.shared(list(extents.values()), ready, limit)
        return [(name, extent, share) for (name, extent), share in zip(extents.items(), given, strict=True)]

    # --- takes -----------------------------------------------------------------------------------

    def _take(self, lease: QueueLease, queue: str, at: Offset, share: QueueShare) -> Offset:
        """Take up to so much; takes that were made before the driver died are found again, whatever the
        limits are now."""
        at = dict(at)
        before = self._lease(lease, queue)
        highest = before.number if before is not None else 0
        messages, size = share.messages, share.bytes
        taken = []
        for _ in range(TAKES_PER_BATCH_MAX):
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
        """The messages of a take; None if there was nothing to take, or the queue is gone."""
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

    def _ask(self, question: Table, lease: QueueLease, queue: str) -> RangeAnswer:
        """Ask as the owner of the lease. A driver that died before its owner's name was written down has left
        another owner behind; that one is silent, and the lease is free a moment later."""
        deadline_s = time.monotonic() + OWNER_PATIENCE_S
        while True:
            try:
                return self.queues.range_client.ask(question)
            except RequestRefused as error:
                if error.reason != error_reasons.LEASE_IN_USE:
                    raise
                if time.monotonic() >= deadline_s:
                    raise OptionError(
                        f"the lease '{lease.name}' of queue '{queue}' is in use by another query:"
                        " give each query a leaseName of its own, or none"
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
                    f"the lease '{lease.name}' of queue '{queue}' was released or has lain idle for too"
                    " long, and what the last batch had may be in the queue again"
                )
            elif (
                error.reason != error_reasons.NO_QUEUE
            ):  # the batch is processed: nothing of it went with the queue
                raise

    def _give_back(self, lease: QueueLease, queue: str) -> None:
        """The messages of the lease were given by another side of a partition, and no batch has had them."""
        with suppress_missing_queue():
            self.queues.range_client.ask(
                range_protocol.meant(range_protocol.release(queue, lease.name), lease.queue_id)
            )
        self._leases[queue] = None

    def _replaced(self, queue: str) -> None:
        """The queue was deleted and declared again. All that was taken of the old one is processed."""
        self._settled.pop(queue, None)
        self._leases.pop(queue, None)
        self._parts = {key: part for key, part in self._parts.items() if key[0] != queue}

    # --- what Spark asks for ---------------------------------------------------------------------

    def reportLatestOffset(self) -> Offset:  # noqa: N802
        """For `lastProgress`: where the queues end, and how many messages wait to be taken."""
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
        """What the first offset promised, as far as it is there."""
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
