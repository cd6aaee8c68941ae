"""Takes of one queue for one batch, in the order in which a lease numbers them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mirrormq.ranges import range_protocol
from mirrormq.sequences.spans import digest, pack
from mirrormq.spark.source.plan import PartitionPart
from mirrormq.spark.source.queue_stream import Offset, QueueShare
from mirrormq.wire.fields import Table

TAKES_PER_BATCH_MAX = 16
"""Takes per batch. A batch without a limit may need several: one take has a maximum of messages, and of spans
in a queue whose messages are scattered."""


class QueueLease(NamedTuple):
    """Lease of a query on one queue."""

    name: str
    owner: str
    queue: str
    queue_id: int

    def owned(self, request: Table) -> Table:
        """Restrict a request to this queue and the lease's owner."""
        return range_protocol.meant(request, self.queue_id, self.owner)


class TakeRequest(NamedTuple):
    """Take of a lease, made before or to be made now."""

    lease: QueueLease
    number: int
    messages: int
    bytes: int
    """0: no limit."""


class QueueTaking:
    """Takes of one queue for one batch, until they reach the queue's share."""

    def __init__(self, lease: QueueLease, at: Offset, share: QueueShare, highest: int) -> None:
        self.lease = lease
        self.at = dict(at)
        self._messages, self._bytes = share.messages, share.bytes
        self._highest = highest
        """Number of the lease's last take when this process began."""
        self._taken: list[PartitionPart] = []
        self._over = False

    @property
    def is_made(self) -> bool:
        """Whether the lease already has the next take."""
        return bool(self.at["take"] < self._highest)

    def next_request(self) -> TakeRequest | None:
        """Return the next take; None if the share is reached."""
        # A take that the lease already has returns its messages whatever the amounts: request it first, or
        # the batch would skip messages that an earlier run of the driver took.
        spent = self._messages <= 0 or (self._bytes is not None and self._bytes <= 0)
        if self._over or len(self._taken) >= TAKES_PER_BATCH_MAX or (spent and not self.is_made):
            return None
        return TakeRequest(self.lease, self.at["take"] + 1, self._messages, self._bytes or 0)

    def add(self, part: PartitionPart | None) -> None:
        """Add the messages of the next take; None if no message was ready."""
        if part is None:
            self._over = True
            return
        self._taken.append(part)
        self.at.update(take=self.at["take"] + 1, next=sum(part.spans[-1]), digest=digest_of(self._taken))
        self._messages -= part.messages
        self._bytes = None if self._bytes is None else self._bytes - part.bytes


def digest_of(parts: Sequence[PartitionPart]) -> int:
    """Return the digest of these messages."""
    return digest(pack(part.spans) for part in parts)
