"""Columns and event kinds of a history; `docs/history.md` explains them for users.

One table holds all events: those of publishers and consumers, faults of the cluster, masters by time, and the
final contents of replicas. A column that a kind does not use is null, which costs next to nothing in Parquet.
(run, queue, publisher, number) identifies a message. Attempts, confirms, deliveries and acknowledgements are
joined by these four columns only.
"""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa

VERSION = 1
"""Format version. It grows when a column changes its meaning or is removed; a new nullable column does not
change it."""

VERSION_KEY = "mirrormq.history.version"
"""Key of the version in the metadata of each Parquet file."""


class EventKind(StrEnum):
    """Kind of an event. The values are those of the column `kind`."""

    ATTEMPTED = "attempted"
    """A publisher is about to send the message."""
    CONFIRMED = "confirmed"
    """The publisher received basic.ack for the message."""
    NACKED = "nacked"
    """The publisher received basic.nack for the message."""
    RETURNED = "returned"
    """The publisher received basic.return for the message; the confirm that follows guarantees nothing."""
    DELIVERED = "delivered"
    """A consumer received the message."""
    ACKNOWLEDGED = "acknowledged"
    """A consumer sent its acknowledgement."""
    CANCELLED = "cancelled"
    """A consumer received basic.cancel from the broker."""
    DISCONNECTED = "disconnected"
    """A connection ended that the client did not close."""
    FAULT_BEGAN = "fault_began"
    FAULT_ENDED = "fault_ended"
    MASTER = "master"
    """A node reported that it is the queue's master in this epoch."""
    MASTER_CONFIRMED = "master_confirmed"
    """A node confirmed messages as the queue's master in this epoch."""
    REPLICA = "replica"
    """Contents of a replica, as a checksum, at (epoch, sequence)."""
    DRAINED = "drained"
    """Consumers drained the queue; `count` messages stayed in it."""


SCHEMA = pa.schema(
    [
        pa.field("run", pa.int32(), nullable=False),
        pa.field("time_ns", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("queue", pa.string()),
        pa.field("node", pa.string()),
        pa.field("publisher", pa.int32()),
        pa.field("number", pa.int64()),
        pa.field("attempt", pa.int16()),
        pa.field("consumer", pa.int32()),
        pa.field("redelivered", pa.bool_()),
        pa.field("epoch", pa.int64()),
        pa.field("sequence", pa.int64()),
        pa.field("checksum", pa.int64()),
        pa.field("count", pa.int64()),
        pa.field("fault", pa.int32()),
        pa.field("what", pa.string()),
        pa.field("detail", pa.string()),
    ],
    metadata={VERSION_KEY: str(VERSION)},
)

TEXT_COLUMNS = [field.name for field in SCHEMA if pa.types.is_string(field.type)]
"""Columns with few distinct values: written with a dictionary."""

RISING_COLUMNS = ["time_ns", "number"]
"""Columns whose values are near their predecessor: written as differences, which takes a third of the space.
"""
