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

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from mirrormq.ranges import error_reasons, range_protocol
from mirrormq.ranges.range_limits import LEASE_OWNER_MS, TAKE_MESSAGES_MAX
from mirrormq.ranges.range_protocol import LeaseEntry, QueueExtent
from mirrormq.sequences.spans import unpack
from mirrormq.spark.client.client_errors import RequestRefused
from mirrormq.spark.client.node_selection import PAUSE_S
from mirrormq.spark.client.range_client import RangeAnswer
from mirrormq.spark.data_source_options import SourceOptions
from mirrormq.spark.option_reader import OptionError
from mirrormq.spark.source.plan import PartitionPart
from mirrormq.spark.source.queue_stream import Offset, QueueShare, QueueStream
from mirrormq.spark.source.queue_taking import QueueLease, QueueTaking, TakeRequest, digest_of
from mirrormq.spark.source.renewal import Renewal
from mirrormq.wire.fields import Table

OWNER_PATIENCE_S = 1.5 * LEASE_OWNER_MS / 1000
"""Time to retry a lease that another client uses. The broker forgets a dead client earlier."""


@contextmanager
def suppress_missing_queue() -> Iterator[None]:
    """Ignore that the queue was deleted meanwhile."""
    try:
        yield
    except RequestRefused as error:
        if error.reason != error_reasons.NO_QUEUE:
            raise


def _is_in_use(answer: RangeAnswer | RequestRefused) -> bool:
    return isinstance(answer, RequestRefused) and answer.reason == error_reasons.LEASE_IN_USE


class ConsumeReader(QueueStream):
    """Stream reader whose batch is one or more takes of each queue."""

    def __init__(self, options: SourceOptions, owner_patience_s: float = OWNER_PATIENCE_S) -> None:
        super().__init__(options)
        self._owner_patience_s = owner_patience_s
        self._settled: dict[str, int] = {}
        self._parts: dict[tuple[str, int], PartitionPart] = {}
        """Takes of this batch and the one before, cached to avoid another request."""
        self._taken_s: dict[tuple[str, int], float] = {}
        """Time at which this process made or found each of these takes."""
        self._leases: dict[str, LeaseEntry | None] = {}
        self._left: dict[str, int] | None = None
        """Messages of each queue still to be taken, with AvailableNow."""
        self._named: str | None = None
        """Lease, if this process has chosen its name."""
        self._planned: dict[str, int] = {}
        """Messages of each queue that the first batch is about to take."""
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
            return self._first(start, limit)
        self._settle(start)
        found = {name: dict(at) for name, at in start["queues"].items()}
        allowed = self._allowed(limit, found)
        # A queue that the option names stays: after a restart its deletion would be a misspelt name.
        for name in found.keys() - {name for name, _, _ in allowed} - set(self.options.queues):
            self._forget(name)
            del found[name]
        if self._left is None and self.waits_for_more(sum(share.messages for _, _, share in allowed)):
            return start
        replaced = {name for name, extent, _ in allowed if name in found and found[name]["id"] != extent.id}
        for name in replaced:
            self._forget(name)
        leases = [self._of(start, name, extent.id) for name, extent, _ in allowed]
        self._find_leases(leases)
        takings = []
        for lease, (name, extent, share) in zip(leases, allowed, strict=True):
            at = None if name in replaced else found.get(name)
            at = at or {"take": self._taken_before(name), "next": 0, "id": extent.id}
            takings.append(QueueTaking(lease, at, share, self._highest(name)))
        self._take_all(takings)
        found.update({taking.lease.queue: taking.at for taking in takings if taking.at["take"]})
        if all(start["queues"].get(name) == at for name, at in found.items()):
            return start
        queues = dict(sorted(found.items()))
        kept = {"lease": start["lease"], "owner": start.get("owner", "")}
        return {**kept, "queues": queues, "partitions": self.options.partitions_min}

    def _first(self, start: Offset, limit: ReadLimit) -> Offset:
        """Return an offset with a new lease name and the amounts to take after the checkpoint has it."""
        wanted = [found for found in self._allowed(limit) if found[2].messages]
        if self._left is None and self.waits_for_more(sum(share.messages for _, _, share in wanted)):
            return start
        self._named = f"spark-{uuid.uuid4().hex}"
        self._planned = {name: share.expected(extent) for name, extent, share in wanted}
        return {
            "lease": self._named,
            "owner": uuid.uuid4().hex,
            "queues": {name: {"take": 1, "next": extent.next, "id": extent.id} for name, extent, _ in wanted},
            "first": {name: [share.messages, share.bytes or 0] for name, _, share in wanted},
            "partitions": self.options.partitions_min,
        }

    def _of(self, offset: Offset, queue: str, queue_id: int) -> QueueLease:
        return QueueLease(offset["lease"], offset.get("owner", ""), queue, queue_id)

    def _highest(self, queue: str) -> int:
        """Return the number of the lease's last take when this process began."""
        entry = self._leases.get(queue)
        return 0 if entry is None else entry.number

    def _taken_before(self, queue: str) -> int:
        """Return the take number after which a query continues on an existing lease."""
        entry = self._leases.get(queue)
        if entry is None:
            return 0
        # Continue before the oldest unsettled take: its messages belong to no batch of this checkpoint yet.
        return min((take.number for take in entry.takes), default=entry.number + 1) - 1

    def _find_leases(self, leases: Sequence[QueueLease]) -> None:
        """Read the state of leases that this process has not used yet."""
        new = [lease for lease in leases if lease.queue not in self._leases]
        requests = [range_protocol.meant(range_protocol.leases(lease.queue), lease.queue_id) for lease in new]
        for lease, answer in zip(new, self.queues.range_client.ask_all(requests), strict=True):
            entries: list[LeaseEntry] = []
            if isinstance(answer, RangeAnswer):
                entries = range_protocol.read_leases(bytes(answer.body))
            elif answer.reason != error_reasons.NO_QUEUE:
                raise answer
            self._leases[lease.queue] = next((each for each in entries if each.name == lease.name), None)

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

    def _take_all(self, takings: Sequence[QueueTaking]) -> None:
        """Take up to the share of each queue: one round trip for all queues, and further ones for those whose
        share is larger than a take. Takes made before a restart of the driver are found again, whatever the
        limits are now."""
        open_takings = [(taking, request) for taking in takings if (request := taking.next_request())]
        while open_takings:
            parts = self._parts_of([request for _, request in open_takings])
            for (taking, _), part in zip(open_takings, parts, strict=True):
                if part is not None and self._left is not None and not taking.is_made:
                    self._left[part.queue] = self._left.get(part.queue, 0) - part.messages
                taking.add(part)
            open_takings = [
                (taking, request) for taking, _ in open_takings if (request := taking.next_request())
            ]

    def _parts_of(self, takes: Sequence[TakeRequest]) -> list[PartitionPart | None]:
        """Return the messages of takes; None if no message was ready, or the queue was deleted."""
        new = [take for take in takes if (take.lease.queue, take.number) not in self._parts]
        requests = []
        for lease, number, messages, size in new:
            messages = max(1, min(messages, TAKE_MESSAGES_MAX))
            taking = range_protocol.take(
                lease.queue, lease.name, number, messages, max(0, size), self.options.lease_idle_ms
            )
            requests.append(lease.owned(taking))
        for take, answer in zip(new, self._ask_all(requests, [take.lease for take in new]), strict=True):
            if isinstance(answer, RangeAnswer):
                self._keep(take, answer)
            elif answer.reason != error_reasons.NO_QUEUE:
                raise answer
        return [self._parts.get((take.lease.queue, take.number)) for take in takes]

    def _keep(self, take: TakeRequest, answer: RangeAnswer) -> None:
        """Remember the messages of a take, and renew its lease from now on."""
        if not answer.headers["count"]:
            return
        lease, spans = take.lease, tuple(unpack(bytes(answer.body)))
        part = PartitionPart(lease.queue, spans, answer.headers["bytes"], True, lease.queue_id)
        self._parts[lease.queue, take.number] = part
        self._taken_s[lease.queue, take.number] = time.monotonic()
        if self._renewal is None:
            self._renewal = Renewal(self.options)
        self._renewal.add(lease.queue, lease.name, lease.queue_id, lease.owner)

    def _ask_all(
        self, requests: Sequence[Table], leases: Sequence[QueueLease]
    ) -> list[RangeAnswer | RequestRefused]:
        """Send requests as the owner of the leases, in one round trip. A driver that died before the
        checkpoint had its owner has left another owner behind. That owner is silent, and the lease is free
        after `LEASE_OWNER_MS`."""
        deadline_s = time.monotonic() + self._owner_patience_s
        answers = self.queues.range_client.ask_all(requests)
        while refused := [place for place, answer in enumerate(answers) if _is_in_use(answer)]:
            if time.monotonic() >= deadline_s:
                lease = leases[refused[0]]
                raise OptionError(
                    f"the lease '{lease.name}' of queue '{lease.queue}' is in use by another query:"
                    " give each query its own leaseName, or none"
                )
            time.sleep(PAUSE_S)
            again = self.queues.range_client.ask_all([requests[place] for place in refused])
            for place, answer in zip(refused, again, strict=True):
                answers[place] = answer
        return answers

    def _settle(self, done: Offset) -> None:
        unsettled = {
            name: at for name, at in done["queues"].items() if self._settled.get(name, 0) < at["take"]
        }
        leases = [self._of(done, name, at["id"]) for name, at in unsettled.items()]
        requests = [
            lease.owned(
                range_protocol.settle(
                    lease.queue, lease.name, number=at["take"], digest=self._digest_of(lease.queue, at, done)
                )
            )
            for lease, at in zip(leases, unsettled.values(), strict=True)
        ]
        for lease, answer in zip(leases, self._ask_all(requests, leases), strict=True):
            if isinstance(answer, RequestRefused):
                self._not_settled(lease, answer)
            self._settled[lease.queue] = unsettled[lease.queue]["take"]
        self._parts = {
            (name, number): part
            for (name, number), part in self._parts.items()
            if number > self._settled.get(name, 0)
        }
        self._taken_s = {key: self._taken_s[key] for key in self._parts}

    def _digest_of(self, queue: str, at: Offset, done: Offset) -> int | None:
        # The first offset is stored before its take, hence has no digest; compute it from the messages.
        first = self._parts.get((queue, at["take"])) if queue in done.get("first", ()) else None
        return digest_of([first]) if first is not None else at.get("digest")

    def _not_settled(self, lease: QueueLease, error: RequestRefused) -> None:
        if error.reason == error_reasons.OTHER_MESSAGES:
            self._give_back(lease)
        elif error.reason == error_reasons.LEASE_ENDED:
            self.lost(
                f"the lease '{lease.name}' of queue '{lease.queue}' was released or was idle for too"
                " long, and the messages of the last batch may be in the queue again"
            )
        elif error.reason != error_reasons.NO_QUEUE:
            raise error  # a deleted queue is no loss: the batch is processed

    def _give_back(self, lease: QueueLease) -> None:
        """Release the lease: its messages come from another side of a partition, and no batch has had
        them."""
        with suppress_missing_queue():
            self.queues.range_client.ask(
                range_protocol.meant(range_protocol.release(lease.queue, lease.name), lease.queue_id)
            )
        self._leases[lease.queue] = None

    def _forget(self, queue: str) -> None:
        """Forget a queue that was deleted. All messages taken from it are processed."""
        if self._renewal is not None:
            self._renewal.remove(queue)
        self._settled.pop(queue, None)
        self._leases.pop(queue, None)
        self._parts = {key: part for key, part in self._parts.items() if key[0] != queue}
        self._taken_s = {key: self._taken_s[key] for key in self._parts}

    # --- interface of Spark ------------------------------------------------------------------------

    def reportLatestOffset(self) -> Offset:  # noqa: N802
        """Return how far the query is behind, and the age of its lease's oldest messages, for
        `lastProgress`."""
        queues = {}
        for name, extent in self.queues.extents().items():
            left = max(0, extent.ready - self._planned.get(name, 0))
            size = round(extent.mean_bytes * left)
            queues[name] = {"next": extent.next, "behind": left, "bytes_behind": size}
        return {
            "queues": queues,
            "behind": sum(each["behind"] for each in queues.values()),
            "bytes_behind": sum(each["bytes_behind"] for each in queues.values()),
            "lease_age_s": round(self._lease_age_s(), 3),
        }

    def _lease_age_s(self) -> float:
        """Return the time since the oldest take that is not settled; 0 if all are."""
        return max((time.monotonic() - taken_s for taken_s in self._taken_s.values()), default=0.0)

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        self._planned = {}
        if "first" in end:
            return self.cut(self._take_first(end), end.get("partitions"))
        parts = []
        batch = self._takes_between(start, end)
        self._parts_of([take for takes in batch.values() for take in takes])
        for name, takes in batch.items():
            lease, digest = self._of(end, name, end["queues"][name]["id"]), end["queues"][name].get("digest")
            found = [part for take in takes if (part := self._parts.get((name, take.number))) is not None]
            if found and digest is not None and digest != digest_of(found):
                self.lost(
                    f"the lease '{end['lease']}' has other messages of queue '{name}' than this batch had:"
                    " it was released, or has expired, or a partition has healed since"
                )
                self._give_back(lease)
                continue
            if len(found) < len(takes):
                self.lost(
                    f"the lease '{end['lease']}' was released or has expired, or queue '{name}' was deleted,"
                    " and the messages that this batch is about are no longer there"
                )
            parts += found
        return self.cut(parts, end.get("partitions"))

    def _takes_between(self, start: Offset, end: Offset) -> dict[str, list[TakeRequest]]:
        """Return the takes of a batch by queue."""
        batch = {}
        for name, at in end["queues"].items():
            before = start["queues"].get(name, {"take": 0, "id": at["id"]})
            first = before["take"] if before["id"] == at["id"] else 0
            lease = self._of(end, name, at["id"])
            numbers = range(first + 1, at["take"] + 1)
            batch[name] = [TakeRequest(lease, number, TAKE_MESSAGES_MAX, 0) for number in numbers]
        return batch

    def _take_first(self, end: Offset) -> list[PartitionPart]:
        """Take the amounts of the first offset, as far as messages are ready."""
        takes = []
        for name, (messages, size) in end["first"].items():
            at = end["queues"][name]
            takes.append(TakeRequest(self._of(end, name, at["id"]), at["take"], messages, size))
        known = set(self._parts)
        parts = [part for part in self._parts_of(takes) if part is not None]
        for part, take in ((self._parts.get((take.lease.queue, take.number)), take) for take in takes):
            is_new = (take.lease.queue, take.number) not in known and self._named == end["lease"]
            if part is not None and self._left is not None and is_new:
                self._left[part.queue] = self._left.get(part.queue, 0) - part.messages
        return parts

    def commit(self, end: Offset) -> None:
        if end["lease"]:
            self._settle(end)

    def stop(self) -> None:
        if self._renewal is not None:
            self._renewal.stop()
        super().stop()
