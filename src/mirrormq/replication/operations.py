"""What happens to a queue's messages, as its mirrors are told of it.

Three things happen to messages: they come, they go, and they are handed to a consumer for the first
time. Why one goes (acknowledged, expired, dropped, purged) is the master's business; a mirror only
has to hold what the master holds.
"""

from __future__ import annotations

import msgspec


class Append(msgspec.Struct, frozen=True, array_like=True, tag="a"):
    """Messages that share an envelope join the queue, numbered from `first_sequence` on."""

    first_sequence: int
    publish: bytes
    properties: bytes
    frames: list[bytes]
    expires_at: int = 0
    """Milliseconds since the epoch; the same for all of them. 0: never."""
    producer: str = ""
    """Who sent them from another node, if so: `first_number` lets a new master know them again."""
    first_number: int = 0


class Remove(msgspec.Struct, frozen=True, array_like=True, tag="r"):
    """Messages leave the queue: (first sequence, how many)."""

    ranges: list[tuple[int, int]]


class Delivered(msgspec.Struct, frozen=True, array_like=True, tag="d"):
    """Everything up to `sequence` has been with a consumer."""

    sequence: int


class Forget(msgspec.Struct, frozen=True, array_like=True, tag="f"):
    """A producer is gone; what was remembered of it can be forgotten."""

    producer: str


Operation = Append | Remove | Delivered | Forget


def size_bytes(operation: Operation) -> int:
    """About how much room an operation takes in a buffer."""
    if isinstance(operation, Append):
        return sum(map(len, operation.frames)) + len(operation.publish) + len(operation.properties) + 64
    if isinstance(operation, Remove):
        return 16 * len(operation.ranges) + 16
    return 32


class Lap(msgspec.Struct, frozen=True, array_like=True, tag="lap"):
    """What a member of a ring sends to its right-hand neighbour."""

    queue_id: int
    epoch: int
    version: int
    """Of the sender's view."""
    base: int
    """The last operation before this epoch."""
    first: int
    """The number of the first of `operations`; one more than the last sent if there are none."""
    operations: list[Operation]
    everyone: int
    """Every member so far has received up to here."""
    received: int
    """Every synchronised member so far has received up to here …"""
    durable: int
    """… and has it on disk up to here."""
    stable: int
    """All the way round: nobody needs to remember operations up to here."""
