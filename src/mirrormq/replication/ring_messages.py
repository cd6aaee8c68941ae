"""What the members of a ring say to each other. Part of the union of all messages between nodes."""

from __future__ import annotations

import msgspec

from mirrormq.replication.ring_operations import AppendOperation
from mirrormq.replication.sequence_set import PackedNumbers


class OperationBatch(msgspec.Struct, frozen=True, array_like=True, tag="lap"):
    """What a member of a ring sends to its right-hand neighbour."""

    queue_id: int
    epoch: int
    version: int
    """Of the sender's view."""
    history: list[tuple[int, int]]
    """The epochs that led here, and the last operation before each."""
    first: int
    """The number of the first of `operations`; one more than the last sent if there are none."""
    operations: list[bytes]
    stable: int
    """Nobody needs to remember operations up to here. `first` right behind it: this is all there is."""


class ProgressReport(msgspec.Struct, frozen=True, array_like=True, tag="report"):
    """What a member tells its master: how far it has come."""

    queue_id: int
    epoch: int
    version: int
    """Of the sender's view."""
    joined: int
    """The version that the sender joined with: a member that died and came back is another one."""
    attempt: int
    """The synchronisation that its copy rests on."""
    received: int
    """It has all operations up to here …"""
    durable: int
    """… and on disk up to here."""


class ResendRequest(msgspec.Struct, frozen=True, array_like=True, tag="again"):
    """A member lacks operations and asks its left-hand neighbour for all that it has."""

    queue_id: int
    epoch: int


class SyncRequest(msgspec.Struct, frozen=True, array_like=True, tag="join"):
    """A mirror wants to be synchronised, and says what it has."""

    queue_id: int
    epoch: int
    version: int
    """Of the view that made it a member: the master may hear of that later."""
    attempt: int
    """Every batch for it says so; those of an earlier attempt are too old to be of use."""
    received: int
    """The ring will bring it what was published behind this operation."""
    have: PackedNumbers


class SyncBatch(msgspec.Struct, frozen=True, array_like=True, tag="sync"):
    """Older messages for a mirror, and sequences that it should not have."""

    queue_id: int
    epoch: int
    attempt: int
    messages: list[AppendOperation]
    drop: PackedNumbers | None = None
    """Only in the first batch, with what follows."""
    delivered_up_to: int = 0
    producers: dict[str, int] = {}
    """The highest publish number of each producer, as known when the mirror joined."""
    delivered_by: dict[str, int] = {}
    """Up to where clients of each node have had messages, if the master is gated."""
    gated: bool = False


class SyncAck(msgspec.Struct, frozen=True, array_like=True, tag="taken"):
    """The mirror has a batch, on its disk as far as that matters."""

    queue_id: int
    epoch: int
    attempt: int


ReplicaMessage = OperationBatch | ProgressReport | ResendRequest | SyncRequest | SyncBatch | SyncAck


class RingBatch(msgspec.Struct, frozen=True, array_like=True, tag="ring"):
    """All that one turn of a node has for the rings that it shares with another."""

    messages: list[ReplicaMessage]
