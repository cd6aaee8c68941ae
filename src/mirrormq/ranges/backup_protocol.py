"""Requests of `mirrormq backup` and `mirrormq restore`, sent like range requests. Only administrators may.

    ask       part        headers                reply's headers and body
    backup    metadata    –                      body: the metadata snapshot
    backup    queue       vhost queue            the extent of the queue; body: a `QueueCut`
    restore   objects     backup; body: snapshot count: vhosts, policies, exchanges and queues
    restore   messages    vhost queue held;      count
                          body: a batch
    restore   producers   vhost queue;           count: publish ids
                          body: `producers`
    restore   lease       vhost queue;           count: leased messages
                          body: a `LeaseCut`
    restore   access      backup; body: snapshot count: bindings, users, permissions and parameters

`vhost` names the vhost of the queue, because a backup covers all vhosts over one connection. A `read` of an
administrator may carry it too.

`held` is the number of messages that the queue must hold before the batch. A repeated batch is therefore
refused instead of stored twice.
"""

from __future__ import annotations

import msgspec

from mirrormq.wire.fields import Table, table_of

__all__ = [
    "ACCESS",
    "BACKUP",
    "LEASE",
    "MESSAGES",
    "METADATA",
    "OBJECTS",
    "PRODUCERS",
    "QUEUE",
    "RESTORE",
    "LeaseCut",
    "QueueCut",
    "TakeCut",
    "backup_metadata",
    "backup_queue",
    "decode_lease",
    "decode_producers",
    "decode_queue_cut",
    "encode",
    "restore_messages",
    "restore_metadata",
    "restore_queue_part",
]

BACKUP = "backup"
RESTORE = "restore"
ASKS = (BACKUP, RESTORE)

METADATA = "metadata"
QUEUE = "queue"
OBJECTS = "objects"
MESSAGES = "messages"
PRODUCERS = "producers"
LEASE = "lease"
ACCESS = "access"


class TakeCut(msgspec.Struct, frozen=True, array_like=True):
    """Unsettled take of a lease."""

    number: int
    spans: bytes
    """Packed spans (`sequences.spans`)."""
    size_bytes: int


class LeaseCut(msgspec.Struct, frozen=True, array_like=True):
    """Lease of a queue at the moment of its backup."""

    name: str
    user: str
    number: int
    """Highest take so far, settled or not."""
    idle_ms: int
    takes: list[TakeCut]


class QueueCut(msgspec.Struct, frozen=True, array_like=True):
    """State of a queue beside its messages, all of one moment on its master."""

    producers: dict[str, int]
    """Highest publish id of each client producer."""
    leases: list[LeaseCut]
    settled: bytes
    """Packed spans of messages that readers have settled and the queue has not removed yet."""


_cut_decoder = msgspec.msgpack.Decoder(QueueCut)
_lease_decoder = msgspec.msgpack.Decoder(LeaseCut)
_producers_decoder = msgspec.msgpack.Decoder(dict[str, int])


def encode(value: QueueCut | LeaseCut | dict[str, int]) -> bytes:
    """Encode the body of a request or reply."""
    return msgspec.msgpack.encode(value)


def decode_queue_cut(body: bytes) -> QueueCut:
    """Decode a QueueCut; raises msgspec.DecodeError or ValidationError."""
    return _cut_decoder.decode(body)


def decode_lease(body: bytes) -> LeaseCut:
    """Decode a LeaseCut; raises msgspec.DecodeError or ValidationError."""
    return _lease_decoder.decode(body)


def decode_producers(body: bytes) -> dict[str, int]:
    """Decode publish ids; raises msgspec.DecodeError or ValidationError."""
    return _producers_decoder.decode(body)


def backup_metadata() -> Table:
    """Build a request for the metadata snapshot."""
    return table_of({"ask": BACKUP, "part": METADATA})


def backup_queue(vhost: str, queue: str) -> Table:
    """Build a request for the extent and the state of a queue."""
    return table_of({"ask": BACKUP, "part": QUEUE, "vhost": vhost, "queue": queue})


def restore_metadata(part: str, backup: str) -> Table:
    """Build a request that restores `OBJECTS` or `ACCESS` of the backup with this id."""
    return table_of({"ask": RESTORE, "part": part, "backup": backup})


def restore_messages(vhost: str, queue: str, held: int) -> Table:
    """Build a request that appends the batch in its body to a queue with `held` messages."""
    return table_of({"ask": RESTORE, "part": MESSAGES, "vhost": vhost, "queue": queue, "held": held})


def restore_queue_part(part: str, vhost: str, queue: str) -> Table:
    """Build a request that restores `PRODUCERS` or one `LEASE` of a queue."""
    return table_of({"ask": RESTORE, "part": part, "vhost": vhost, "queue": queue})
