"""Publishes of this node to a queue with its master on another node: unsettled and unsent ones."""

from __future__ import annotations

from mirrormq.remote.pending_publishes import PendingBatch, PendingPublishes
from mirrormq.remote.publish_codec import pack
from mirrormq.remote.queue_ref import QueueRef
from mirrormq.remote.remote_limits import RemoteLimits
from mirrormq.remote.remote_messages import ItemStream, Publish, RemoteRun, Settled


class Publishes:
    """Publishes of this node to one queue, in one epoch."""

    __slots__ = ("_limits", "_place", "_producer", "congested", "unsent", "unsettled")

    def __init__(self, place: QueueRef, producer: str, limits: RemoteLimits) -> None:
        self._limits = limits
        self._place = place
        self._producer = producer
        self.unsettled = PendingPublishes()
        self.unsent: list[PendingBatch] = []
        self.congested = False
        """Whether the master has enough messages for its consumers."""

    @property
    def full(self) -> bool:
        """Whether the limit of unsettled publishes is reached."""
        unsettled = self.unsettled
        return (
            unsettled.size_bytes > self._limits.publish_bytes_max
            or unsettled.count > self._limits.publish_messages_max
        )

    def add(self, batch: PendingBatch) -> None:
        self.unsettled.add(batch)
        self.unsent.append(batch)

    def settle(self, settled: Settled) -> None:
        """Apply the master's reply about settled and refused publishes."""
        for number in settled.refused:
            self.unsettled.refuse(number)
        for first, last in settled.kept:
            self.unsettled.settle(first, last)
        self.congested = settled.congested

    def send(self, stream: ItemStream) -> None:
        """Send unsent batches while the stream is writable. Batches with consecutive numbers travel
        together."""
        unsent, end = self.unsent, 0
        while end < len(unsent) and stream.writable:
            start, expected, size_bytes = end, unsent[end].first, 0
            while (
                end < len(unsent) and unsent[end].first == expected and size_bytes < self._limits.frame_bytes
            ):
                expected = unsent[end].last + 1
                size_bytes += unsent[end].size_bytes
                end += 1
            runs = _runs(unsent[start:end])
            place = self._place
            stream.put(
                Publish(place.queue_id, place.epoch, self._producer, unsent[start].first, runs), size_bytes
            )
        del unsent[:end]

    def take_all(self) -> list[PendingBatch]:
        """Remove and return the unsettled batches, for the next epoch."""
        for batch in self.unsent:
            batch.sent = False
        self.unsent = []
        return self.unsettled.take_all()


def _runs(batches: list[PendingBatch]) -> list[RemoteRun]:
    """Encode batches; neighbours that share everything but their contents become one run."""
    runs: list[RemoteRun] = []
    start = 0
    for end in range(1, len(batches) + 1):
        if end < len(batches) and _alike(batches[start], batches[end]):
            continue
        if end - start == 1:
            runs += pack(batches[start].messages)
        else:
            runs += pack([message for batch in batches[start:end] for message in batch.messages])
        start = end
    return runs


def _alike(one: PendingBatch, other: PendingBatch) -> bool:
    return (
        one.envelope is other.envelope is not None
        and one.messages[0].redelivered is other.messages[0].redelivered
    )
