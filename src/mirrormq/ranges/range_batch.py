"""A batch of messages as columns: what a range read answers with.

Whoever reads a million messages wants arrays, not a million objects. So a batch is a handful of columns, one
behind the other, each as a numpy or an Arrow buffer would have it; nobody has to walk over the rows.
All numbers are little-endian, every column starts at a multiple of eight, and the head says how long each is:

    head        "MMQB", version u32, rows u32, envelopes u32, then the byte length of each column, u64
    columns     exchange offsets     i32, envelopes + 1      where each envelope's exchange lies in …
                exchanges            bytes
                routing key offsets  i32, envelopes + 1
                routing keys         bytes
                properties offsets   i32, envelopes + 1
                properties           bytes                   raw, from the property flags on
                sequences            u64, rows               ascending
                envelope             u32, rows               which of the envelopes a row has
                redelivered          u8, rows                0 or 1: it may have been with a consumer
                body offsets         i32, rows + 1           where each row's body lies in …
                bodies               bytes

An *envelope* is what messages have in common: exchange, routing key and properties. Publishers repeat
themselves, so there are few of them, and what is costly to take apart is taken apart once for each.

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
    "COLUMNS",
    "HEAD",
    "MAGIC",
    "VERSION",
    "BatchEnvelope",
    "BatchError",
    "BatchRow",
    "RangeBatch",
]

MAGIC = b"MMQB"
VERSION = 1
ALIGNMENT = 8
COLUMNS = 11
HEAD = Struct(f"<4sIII{COLUMNS}Q")


class BatchEnvelope(NamedTuple):
    """What messages have in common."""

    exchange: bytes
    routing_key: bytes
    properties: bytes
    """Raw, from the property flags on: `wire.properties.decode_properties(properties, 0)` reads them."""


class BatchError(ValueError):
    """These bytes are not a batch."""


class BatchRow(NamedTuple):
    """One message, for whoever does want objects."""

    sequence: int
    envelope: BatchEnvelope
    redelivered: bool
    body: bytes


class RangeBatch:
    """A batch, taken apart into its columns; nothing is copied."""

    __slots__ = (
        "bodies", "body_offsets", "envelope_count", "envelope_indexes", "exchange_offsets", "exchanges",
        "properties", "properties_offsets", "redelivered", "routing_key_offsets", "routing_keys", "rows",
        "sequences",
    )  # fmt: skip

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        if len(data) < HEAD.size:
            raise BatchError(f"a batch has at least {HEAD.size} bytes, not {len(data)}")
        magic, version, self.rows, self.envelope_count, *lengths = HEAD.unpack_from(data)
        if magic != MAGIC or version != VERSION:
            raise BatchError(f"not a batch of version {VERSION}: it begins with {bytes(data[:8])!r}")
        columns = _columns(memoryview(data), lengths)
        (
            self.exchange_offsets, self.exchanges, self.routing_key_offsets, self.routing_keys,
            self.properties_offsets, self.properties, self.sequences, self.envelope_indexes,
            self.redelivered, self.body_offsets, self.bodies,
        ) = columns  # fmt: skip
        per_envelope, per_row = 4 * (self.envelope_count + 1), self.rows
        expected = [per_envelope] * 3 + [8 * per_row, 4 * per_row, per_row, 4 * (per_row + 1)]
        if [lengths[column] for column in (0, 2, 4, 6, 7, 8, 9)] != expected:
            raise BatchError("a column's length does not fit the number of rows")

    def envelopes(self) -> list[BatchEnvelope]:
        """The distinct envelopes, in the order that `envelope_indexes` counts them."""
        exchanges = _cut(self.exchange_offsets, self.exchanges)
        keys = _cut(self.routing_key_offsets, self.routing_keys)
        properties = _cut(self.properties_offsets, self.properties)
        return list(map(BatchEnvelope, exchanges, keys, properties))

    def __iter__(self) -> Iterator[BatchRow]:
        """Row by row: for tests and small batches."""
        envelopes = self.envelopes()
        sequences, indexes = _read("Q", self.sequences), _read("I", self.envelope_indexes)
        bodies = _cut(self.body_offsets, self.bodies)
        for sequence, index, flag, body in zip(sequences, indexes, self.redelivered, bodies, strict=True):
            yield BatchRow(sequence, envelopes[index], bool(flag), body)

    def __len__(self) -> int:
        return int(self.rows)


def _columns(view: memoryview, lengths: list[int]) -> list[memoryview]:
    at, found = HEAD.size, []
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
