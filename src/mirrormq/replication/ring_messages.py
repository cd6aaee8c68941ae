"""Messages between the members of a ring: part of the union of all messages between nodes."""

from __future__ import annotations

import msgspec

from mirrormq.replication.ring_operations import AppendOperation
from mirrormq.sequences.sequence_set import PackedNumbers


class OperationBatch(msgspec.Struct, frozen=True, array_like=True, tag="lap"):
    """Operations that a ring member sends to its right-hand neighbour."""

    queue_id: int
    epoch: int
    version: int
    """Version of the sender's view."""
    history: list[tuple[int, int]]
    """Epochs of this ring, each with the last operation before it."""
    first: int
    """Number of the first of `operations`; one more than the last sent operation if there are none."""
    operations: list[bytes]
    stable: int
    """Operation up to which members need not keep operations. If `first` follows it directly, the batch
    contains every operation that a member may still need."""


class ProgressReport(msgspec.Struct, frozen=True, array_like=True, tag="report"):
    """Progress of one member, reported to its master."""

    queue_id: int
    epoch: int
    version: int
    """Version of the sender's view."""
    joined: int
    """Version that the sender joined with: a member that died and came back is another one."""
    attempt: int
    """Synchronisation that the sender's copy rests on."""
    received: int
    """Operation up to which the sender has received everything."""
    durable: int
    """Operation up to which the sender has everything on disk."""


class ResendRequest(msgspec.Struct, frozen=True, array_like=True, tag="again"):
    """Request of a member that lacks operations, to its left-hand neighbour, to send all that it has."""

    queue_id: int
    epoch: int


class SyncRequest(msgspec.Struct, frozen=True, array_like=True, tag="join"):
    """Request of a mirror to be synchronised, with the sequences that it has."""

    queue_id: int
    epoch: int
    version: int
    """Version of the view that made the sender a member. The master may learn of that view later."""
    attempt: int
    """Number of the attempt, repeated in each batch. The mirror ignores batches of an earlier attempt."""
    received: int
    """Last operation that the sender has received. The ring delivers messages published after it."""
    have: PackedNumbers


class SyncBatch(msgspec.Struct, frozen=True, array_like=True, tag="sync"):
    """Older messages for a mirror, and sequences that it must drop."""

    queue_id: int
    epoch: int
    attempt: int
    messages: list[AppendOperation]
    drop: PackedNumbers | None = None
    """Sequences to drop; only in the first batch, as are the fields below."""
    delivered_up_to: int = 0
    producers: dict[str, int] = {}
    """Highest publish number of each producer, as known when the mirror joined."""
    delivered_by: dict[str, int] = {}
    """Highest sequence delivered to clients of each node, if the master is gated."""
    gated: bool = False


class SyncAck(msgspec.Struct, frozen=True, array_like=True, tag="taken"):
    """Acknowledgement of a batch: the mirror has it, on disk where that matters."""

    queue_id: int
    epoch: int
    attempt: int


ReplicaMessage = OperationBatch | ProgressReport | ResendRequest | SyncRequest | SyncBatch | SyncAck


class RingBatch(msgspec.Struct, frozen=True, array_like=True, tag="ring"):
    """Ring messages of one turn from one node to another, for all rings that they share."""

    messages: list[ReplicaMessage]
