"""Batch of messages as columns: the body of a reply to a range read.

A client that reads a million messages needs arrays, not a million objects. A batch is a sequence of columns,
each in the layout of a numpy or Arrow buffer. A client need not iterate over the rows.
All numbers are little-endian, every column starts at a multiple of eight, and the head has their lengths:

    head        "MMQB", version u32, rows u32, envelopes u32, then the byte length of each column, u64
    columns     exchange offsets     i32, envelopes + 1      offset of each envelope's exchange in …
                exchanges            bytes
                routing key offsets  i32, envelopes + 1
                routing keys         bytes
                properties offsets   i32, envelopes + 1
                properties           bytes                   raw, from the property flags on
                sequences            u64, rows               ascending
                envelope             u32, rows               index of a row's envelope
                redelivered          u8, rows                0 or 1: a consumer may have seen it
                body offsets         i32, rows + 1           offset of each row's body in …
                bodies               bytes
                ingestion times      u64, rows               milliseconds since the Unix epoch; 0: unknown

Version 2 has all twelve columns. Version 1 lacks the last one; a node sends it unless the request has the
header `with_ingestion_times`.

An *envelope* is exchange, routing key and properties, shared by messages with equal ones. Publishers repeat
themselves: a batch has few envelopes, and a client decodes properties once per envelope.

With numpy: `np.frombuffer(batch.sequences, "<u8")`. With Arrow, without copying: `pa.Array.from_buffers(
pa.binary(), batch.rows, [None, pa.py_buffer(batch.body_offsets), pa.py_buffer(batch.bodies)])`.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator
from itertools import pairwise
from struct import Struct
from typing import NamedTuple

__all__ = [
    "ALIGNMENT",
    "HEADS",
    "MAGIC",
    "VERSION",
    "VERSION_WITH_TIMES",
    "BatchEnvelope",
    "BatchError",
    "BatchRow",
    "RangeBatch",
]

MAGIC = b"MMQB"
VERSION = 1
VERSION_WITH_TIMES = 2
ALIGNMENT = 8
HEADS = {VERSION: Struct("<4sIII11Q"), VERSION_WITH_TIMES: Struct("<4sIII12Q")}
"""Head of each version, with the length of each column."""
_START = Struct("<4sI")


class BatchEnvelope(NamedTuple):
    """Exchange, routing key and properties that messages of a batch share."""

    exchange: bytes
    routing_key: bytes
    properties: bytes
    """Encoded properties, from the property flags on: `wire.properties.decode_properties(properties, 0)`
    reads them."""


class BatchError(ValueError):
    """Bytes that are not a batch."""


class BatchRow(NamedTuple):
    """One message of a batch as an object."""

    sequence: int
    envelope: BatchEnvelope
    redelivered: bool
    body: bytes
    ingested_ms: int = 0
    """Ingestion time in milliseconds since the Unix epoch; 0: unknown, or the batch has no times."""


class RangeBatch:
    """Batch decoded into its columns, without copying."""

    __slots__ = (
        "bodies", "body_offsets", "envelope_count", "envelope_indexes", "exchange_offsets", "exchanges",
        "ingested_ms", "properties", "properties_offsets", "redelivered", "routing_key_offsets",
        "routing_keys", "rows", "sequences",
    )  # fmt: skip

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        magic, version = _START.unpack_from(data) if len(data) >= _START.size else (b"", 0)
        head = HEADS.get(version)
        if magic != MAGIC or head is None:
            known = " or ".join(map(str, HEADS))
            raise BatchError(f"not a batch of version {known}: it begins with {bytes(data[:8])!r}")
        if len(data) < head.size:
            raise BatchError(f"a batch has at least {head.size} bytes, not {len(data)}")
        _, _, self.rows, self.envelope_count, *lengths = head.unpack_from(data)
        columns = _columns(memoryview(data), head.size, lengths)
        self.ingested_ms = columns.pop() if version == VERSION_WITH_TIMES else None
        """Ingestion times; None if the batch has none."""
        (
            self.exchange_offsets, self.exchanges, self.routing_key_offsets, self.routing_keys,
            self.properties_offsets, self.properties, self.sequences, self.envelope_indexes,
            self.redelivered, self.body_offsets, self.bodies,
        ) = columns  # fmt: skip
        per_envelope, per_row = 4 * (self.envelope_count + 1), self.rows
        expected = [per_envelope] * 3 + [8 * per_row, 4 * per_row, per_row, 4 * (per_row + 1)]
        expected += [8 * per_row] * len(lengths[11:])
        if [lengths[column] for column in (0, 2, 4, 6, 7, 8, 9)] + lengths[11:] != expected:
            raise BatchError("a column's length does not fit the number of rows")

    def envelopes(self) -> list[BatchEnvelope]:
        """Return the distinct envelopes, in the order that `envelope_indexes` counts them."""
        exchanges = _cut(self.exchange_offsets, self.exchanges)
        keys = _cut(self.routing_key_offsets, self.routing_keys)
        properties = _cut(self.properties_offsets, self.properties)
        return list(map(BatchEnvelope, exchanges, keys, properties))

    def __iter__(self) -> Iterator[BatchRow]:
        """Yield the rows one by one: for tests and small batches."""
        envelopes = self.envelopes()
        sequences, indexes = _read("Q", self.sequences), _read("I", self.envelope_indexes)
        bodies = _cut(self.body_offsets, self.bodies)
        times = array("Q", bytes(8 * self.rows)) if self.ingested_ms is None else _read("Q", self.ingested_ms)
        rows = zip(sequences, indexes, self.redelivered, bodies, times, strict=True)
        for sequence, index, flag, body, ingested_ms in rows:
            yield BatchRow(sequence, envelopes[index], bool(flag), body, ingested_ms)

    def __len__(self) -> int:
        return int(self.rows)


def _columns(view: memoryview, at: int, lengths: list[int]) -> list[memoryview]:
    found = []
    for length in lengths:
        found.append(view[at : at + length])
        at += length + -length % ALIGNMENT
    if at > len(view):
        raise BatchError(f"the batch ends after {len(view)} bytes of {at}")
    return found


def _read(kind: str, column: memoryview) -> array[int]:
    numbers = array(kind)
    numbers.frombytes(column)
    if sys.byteorder != "little":
        numbers.byteswap()
    return numbers


def _cut(offsets: memoryview, values: memoryview) -> list[bytes]:
    ends = _read("i", offsets)
    return [bytes(values[start:end]) for start, end in pairwise(ends)]
