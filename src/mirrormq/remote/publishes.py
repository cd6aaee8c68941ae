"""Publishes to a queue of another node: what is unsettled, and what of it has not been sent yet."""

from __future__ import annotations

from mirrormq.remote import limits
from mirrormq.remote.messages import Publish, Run, Settled
from mirrormq.remote.packing import pack
from mirrormq.remote.place import Place
from mirrormq.remote.stream import Stream
from mirrormq.remote.unsettled import Batch, Unsettled


class Publishes:
    """The publishes of this node to one queue, in one tenure."""

    __slots__ = ("_place", "_producer", "congested", "unsent", "unsettled")

    def __init__(self, place: Place, producer: str) -> None:
        self._place = place
        self._producer = producer
        self.unsettled = Unsettled()
        self.unsent: list[Batch] = []
        self.congested = False
        """The master has enough for its consumers."""

    @property
    def full(self) -> bool:
        """Is as much unsettled as may be?"""
        unsettled = self.unsettled
        return (
            unsettled.size_bytes > limits.PUBLISH_BYTES_MAX or unsettled.count > limits.PUBLISH_MESSAGES_MAX
        )

    def add(self, batch: Batch) -> None:
        """A batch was published."""
        self.unsettled.add(batch)
        self.unsent.append(batch)

    def settle(self, settled: Settled) -> None:
        """The master has spoken."""
        for number in settled.refused:
            self.unsettled.refuse(number)
        for first, last in settled.kept:
            self.unsettled.settle(first, last)
        self.congested = settled.congested

    def send(self, stream: Stream) -> None:
        """Send what may be sent; batches whose numbers follow each other travel together."""
        unsent, at = self.unsent, 0
        while at < len(unsent) and stream.writable:
            start, expected, size_bytes = at, unsent[at].first, 0
            while at < len(unsent) and unsent[at].first == expected and size_bytes < limits.PARCEL_BYTES:
                expected = unsent[at].last + 1
                size_bytes += unsent[at].size_bytes
                at += 1
            runs = _runs(unsent[start:at])
            place = self._place
            stream.put(
                Publish(place.queue_id, place.epoch, self._producer, unsent[start].first, runs), size_bytes
            )
        del unsent[:at]

    def take_all(self) -> list[Batch]:
        """What is unsettled, for the next tenure."""
        for batch in self.unsent:
            batch.sent = False
        self.unsent = []
        return self.unsettled.take_all()


def _runs(batches: list[Batch]) -> list[Run]:
    """Neighbours that share everything but their contents become one run."""
    runs: list[Run] = []
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


def _alike(one: Batch, other: Batch) -> bool:
    return (
        one.envelope is other.envelope is not None
        and one.messages[0].redelivered is other.messages[0].redelivered
    )
