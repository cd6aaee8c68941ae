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

An offset is `{"lease": name, "queues": {queue: {"take": number, "next": sequence, "digest": number, "id":
queue's id}}}`; `next` is for people who look at a query's progress. That of the first batch also has
`"first": {queue: [messages, bytes]}`, what is to be taken; 0 bytes: any. `"partitions"` is the option
`minPartitions` of the query that made the offset: a batch that is repeated is cut as it was, whatever the
option says now, or a sink that numbers the rows of partitions would not recognise them.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from mirrormq.ranges import questions, reasons
from mirrormq.ranges.limits import TAKE_MESSAGES_MAX
from mirrormq.ranges.questions import Extent, LeaseEntry
from mirrormq.ranges.stretches import digest, pack, unpack
from mirrormq.spark.client.errors import Refused
from mirrormq.spark.options import SourceOptions
from mirrormq.spark.source.plan import Part
from mirrormq.spark.source.stream import Offset, QueueStream, Share

TAKES_PER_BATCH_MAX = 16
"""A batch without a limit may need several takes: one gives so many messages at most, and only so many
stretches of a queue whose messages are scattered."""


def _digest(parts: Sequence[Part]) -> int:
    return digest(pack(part.stretches) for part in parts)


class ConsumeReader(QueueStream):
    """A batch is one or more takes of each queue."""

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._settled: dict[str, int] = {}
        self._parts: dict[tuple[str, int], Part] = {}
        """Takes of this batch and the one before, so that they need not be asked for again."""
        self._leases: dict[str, LeaseEntry | None] = {}
        self._left: dict[str, int] | None = None
        """With AvailableNow: how many messages of each queue are still to be taken."""
        self._named: str | None = None
        """The lease, if this process has given it its name."""

    # --- offsets ---------------------------------------------------------------------------------

    def initialOffset(self) -> Offset:  # noqa: N802
        return {"lease": self.options.lease_name or "", "queues": {}}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._left = {name: extent.ready for name, extent in self.queues.extents().items()}

    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:  # noqa: N802
        """Everything before `start` is done with; take what comes after it."""
        if not start["lease"]:
            return self._first(limit)
        self._settle(start)
        found = {name: dict(at) for name, at in start["queues"].items()}
        for name, extent, share in self._allowed(limit):
            at = found.get(name)
            if at is not None and at["id"] != extent.id:
                self._replaced(name)
                at = None
            at = at or {"take": self._taken_before(start["lease"], name), "next": 0, "id": extent.id}
            taken = self._take(start["lease"], name, at, share)
            if taken["take"]:
                found[name] = taken
        if found == start["queues"]:
            return start
        queues = dict(sorted(found.items()))
        return {"lease": start["lease"], "queues": queues, "partitions": self.options.partitions_min}

    def _first(self, limit: ReadLimit) -> Offset:
        """A name, and what to take under it once it is written down."""
        self._named = f"spark-{uuid.uuid4().hex}"
        wanted = [found for found in self._allowed(limit) if found[2].messages]
        return {
            "lease": self._named,
            "queues": {name: {"take": 1, "next": extent.next, "id": extent.id} for name, extent, _ in wanted},
            "first": {name: [share.messages, share.bytes or 0] for name, _, share in wanted},
            "partitions": self.options.partitions_min,
        }

    def _taken_before(self, lease: str, queue: str) -> int:
        """The number after which a query goes on that finds a lease there was before it."""
        entry = self._lease(lease, queue)
        if entry is None:
            return 0
        return min((take.number for take in entry.takes), default=entry.number + 1) - 1

    def _lease(self, lease: str, queue: str) -> LeaseEntry | None:
        """The lease as it was when this process first asked."""
        if queue not in self._leases:
            body = self.queues.asker.ask(questions.leases(queue)).body
            entries = questions.read_leases(bytes(body))
            self._leases[queue] = next((entry for entry in entries if entry.name == lease), None)
        return self._leases[queue]

    def _allowed(self, limit: ReadLimit) -> list[tuple[str, Extent, Share]]:
        """Queues, and what may be taken from each."""
        extents = self.queues.extents()
        ready = [extent.ready for extent in extents.values()]
        if self._left is not None:
            ready = [min(self._left.get(name, 0), extent.ready) for name, extent in extents.items()]
        given = self.shared(list(extents.values()), ready, limit)
        return [(name, extent, share) for (name, extent), share in zip(extents.items(), given, strict=True)]

    # --- takes -----------------------------------------------------------------------------------

    def _take(self, lease: str, queue: str, at: Offset, share: Share) -> Offset:
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
            at.update(take=at["take"] + 1, next=sum(part.stretches[-1]), digest=_digest(taken))
            messages -= part.messages
            size = None if size is None else size - part.bytes
            if self._left is not None and not made:
                self._left[queue] = self._left.get(queue, 0) - part.messages
        return at

    def _part(self, lease: str, queue: str, number: int, messages: int, size: int) -> Part | None:
        """The messages of a take; None if there was nothing to take."""
        known = self._parts.get((queue, number))
        if known is not None:
            return known
        messages = max(1, min(messages, TAKE_MESSAGES_MAX))
        question = questions.take(queue, lease, number, messages, max(0, size), self.options.lease_idle_ms)
        answer = self.queues.asker.ask(question)
        if not answer.headers["count"]:
            return None
        part = Part(queue, tuple(unpack(bytes(answer.body))), answer.headers["bytes"], True)
        self._parts[queue, number] = part
        return part

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
        number, lease = at["take"], done["lease"]
        first = self._parts.get((queue, number)) if queue in done.get("first", ()) else None
        digest = _digest([first]) if first is not None else at.get("digest")
        try:
            self.queues.asker.ask(questions.settle(queue, lease, number=number, digest=digest))
        except Refused as error:
            if error.reason == reasons.OTHER_MESSAGES:
                self._give_back(lease, queue)
                return
            if error.reason != reasons.NO_LEASE:
                raise
            if queue not in done.get("first", ()):  # a first take that found nothing makes no lease
                self.lost(
                    f"the lease '{done['lease']}' of queue '{queue}' was released or has lain idle for too"
                    " long, and what the last batch had may be in the queue again"
                )

    def _give_back(self, lease: str, queue: str) -> None:
        """What the lease has was given by another side of a partition, and nobody has seen it."""
        self.queues.asker.ask(questions.release(queue, lease))
        self._leases[queue] = None

    def _replaced(self, queue: str) -> None:
        self._settled.pop(queue, None)
        self._leases.pop(queue, None)
        self._parts = {key: part for key, part in self._parts.items() if key[0] != queue}
        self.lost(f"queue '{queue}' was deleted and declared again, what was not processed of it is gone")

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
            numbers = range(first + 1, at["take"] + 1)
            taken = [self._part(end["lease"], name, number, TAKE_MESSAGES_MAX, 0) for number in numbers]
            found = [part for part in taken if part is not None]
            if found and at.get("digest", _digest(found)) != _digest(found):
                self.lost(
                    f"the lease '{end['lease']}' has other messages of queue '{name}' than this batch had:"
                    " it was released, or has expired, or a partition has healed since"
                )
                self._give_back(end["lease"], name)
                continue
            if len(found) < len(taken):
                self.lost(
                    f"the lease '{end['lease']}' was released or has expired, and no longer holds the"
                    f" messages of queue '{name}' that this batch is about"
                )
            parts += found
        return self.cut(parts, end.get("partitions"))

    def _take_first(self, end: Offset) -> list[Part]:
        """What the first offset promised, as far as it is there."""
        parts = []
        for name, (messages, size) in end["first"].items():
            number = end["queues"][name]["take"]
            is_new = (name, number) not in self._parts and self._named == end["lease"]
            part = self._part(end["lease"], name, number, messages, size)
            if part is not None:
                parts.append(part)
                if self._left is not None and is_new:
                    self._left[name] = self._left.get(name, 0) - part.messages
        return parts

    def commit(self, end: Offset) -> None:
        if end["lease"]:
            self._settle(end)
