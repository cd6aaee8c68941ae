"""The columns of a history and the kinds of rows in it; `docs/history.md` explains them for readers.

One table holds everything: what publishers and consumers saw, the faults done to the cluster, who was
master when, and what the replicas held in the end. A column that a kind has no use for is null, which
costs next to nothing in Parquet. A message is named by (run, queue, publisher, number), so what was
attempted, confirmed, delivered and acknowledged is joined by these four columns and nothing else.
"""

from __future__ import annotations

from enum import StrEnum

import pyarrow as pa

VERSION = 1
"""Grows when a column changes its meaning or goes; a new column that may be null does not change it."""

VERSION_KEY = "mirrormq.history.version"
"""Where the version stands in the metadata of each Parquet file."""


class EventKind(StrEnum):
    """What happened. The names are the values of the column `kind`."""

    ATTEMPTED = "attempted"
    """A publisher is about to send the message."""
    CONFIRMED = "confirmed"
    """The publisher got basic.ack for it."""
    NACKED = "nacked"
    """The publisher got basic.nack for it."""
    RETURNED = "returned"
    """The publisher got it back with basic.return; the confirm that follows does not promise anything."""
    DELIVERED = "delivered"
    """A consumer received it."""
    ACKNOWLEDGED = "acknowledged"
    """A consumer sent its acknowledgement."""
    CANCELLED = "cancelled"
    """A consumer got basic.cancel from the broker."""
    DISCONNECTED = "disconnected"
    """A connection ended that the client did not close."""
    FAULT_BEGAN = "fault_began"
    FAULT_ENDED = "fault_ended"
    MASTER = "master"
    """A node said that it is the queue's master in this epoch."""
    MASTER_CONFIRMED = "master_confirmed"
    """A node confirmed messages as the queue's master in this epoch."""
    REPLICA = "replica"
    """What a replica holds, as a checksum, at (epoch, sequence)."""
    DRAINED = "drained"
    """Consumers took out all that would come; `count` messages stayed behind."""


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
"""Few different values in many rows: written with a dictionary."""

RISING_COLUMNS = ["time_ns", "number"]
"""Each value is near the one before it: written as differences, which takes a third of the space."""
