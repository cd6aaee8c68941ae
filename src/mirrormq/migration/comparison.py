"""Comparison of both clusters by numbers: one row per queue, each difference explained or named.

    moved      messages that the old cluster has forgotten, from the ledger
    arrived    messages that the new cluster has stored, from its publish ids
    repeats    arrived - moved: messages that were moved again after a connection or the command broke; each
               is marked as redelivered, and an attempt repeats no more than the prefetch count
    left       messages that are still on the old cluster

A temporary queue may have been deleted with its last consumer, and its numbers with it: `gone`.

The digest is compared where the new queue still holds everything that arrived. Otherwise its consumers have
taken messages, and the row says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from mirrormq.migration.move_ledger import DIGEST_MODULUS, Moved, QueueKey

PREFETCH = 1_000
"""Messages of one queue under way: what a destination confirms within a few syncs of the ledger. A broken
attempt repeats at most as many."""

EQUAL, CONSUMED, NOT_READ, GONE = "equal", "consumed", "not read", "gone"


class Stored(NamedTuple):
    """Migrated messages that a queue of the new cluster holds now."""

    messages: int
    digest: int


class Arrived(NamedTuple):
    """Migrated messages that a queue of the new cluster has ever stored."""

    messages: int
    attempts: int
    """Attempts of the link that stored some of them."""


class OldQueue(NamedTuple):
    """Queue of the old cluster."""

    ready: int
    unacked: int


class Row(msgspec.Struct, frozen=True):
    """Numbers of one queue."""

    vhost: str
    queue: str
    moved: int
    arrived: int
    repeats: int
    left: int
    digest: str
    """`equal`, `consumed`, `not read`, `gone`, or the difference."""
    difference: str = ""
    """Unexplained difference as a sentence; empty: none."""


def compare(
    queue: QueueKey, moved: Moved, arrived: Arrived | None, old: OldQueue | None, stored: Stored | None,
    *, under_way: bool = False, temporary: bool = False,
) -> Row:  # fmt: skip
    """Compare one queue. `arrived` None: the new cluster has no such queue; `stored` None: it was not read.

    `under_way`: the link still moves messages, so some have arrived and are not entered yet.
    `temporary`: the new cluster deletes the queue by itself when nothing uses it."""
    count = 0 if arrived is None else arrived.messages
    repeats = count - moved.count
    left = 0 if old is None else old.ready + old.unacked
    if arrived is None and temporary and not left:
        return Row(*queue, moved.count, 0, 0, 0, GONE)
    problems = []
    if arrived is None and (moved.count or left):
        problems.append("the new cluster has no such queue")
    elif repeats < 0:
        problems.append(f"{-repeats} moved messages did not arrive")
    elif arrived is not None and repeats > (moved.flagged and arrived.attempts * PREFETCH) and not under_way:
        problems.append(f"{repeats} more messages arrived than moved")
    if left and old is not None and not under_way:
        problems.append(
            f"the old cluster still has {old.ready} ready and {old.unacked} unacknowledged messages"
        )
    digest = NOT_READ if under_way else _digest(moved, max(0, repeats), stored)
    if digest not in (EQUAL, CONSUMED, NOT_READ):
        problems.append(digest)
    return Row(*queue, moved.count, count, max(0, repeats), left, digest, "; ".join(problems))


def _digest(moved: Moved, repeats: int, stored: Stored | None) -> str:
    if stored is None:
        return NOT_READ
    if stored.messages < moved.count:
        return CONSUMED
    if repeats:
        return NOT_READ
    return EQUAL if stored == (moved.count, moved.digest) else "the contents differ between the clusters"


class StoredMessages:
    """Sum over the migrated messages that are read back from one queue."""

    def __init__(self) -> None:
        self.count = 0
        self.digest = 0

    def add(self, value: int) -> None:
        """Add the hash of one message."""
        self.count += 1
        self.digest = (self.digest + value) % DIGEST_MODULUS

    @property
    def result(self) -> Stored:
        """Count and digest."""
        return Stored(self.count, self.digest)


class Totals(msgspec.Struct, frozen=True):
    """Sums over all queues."""

    queues: int
    moved: int
    arrived: int
    repeats: int
    left: int


def totals(rows: Iterable[Row]) -> Totals:
    """Return the sums."""
    listed = list(rows)
    sums = (sum(getattr(row, name) for row in listed) for name in ("moved", "arrived", "repeats", "left"))
    return Totals(len(listed), *sums)
