"""Arrow arrays built from buffers: slices of one byte buffer, flags, and values repeated over rows.

Arrow's own constructors check whether Python values are of pandas, and import pandas for it: that takes a
task's process longer than reading a hundred thousand messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

Numbers = np.ndarray[Any, np.dtype[Any]]

ASCII_MAX = 127


def array_of(kind: pa.DataType, count: int, buffers: Sequence[Any]) -> pa.Array:
    """Return an array of these buffers; None stands for no nulls."""
    made = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    return pa.Array.from_buffers(kind, count, made)


def bits(truths: Any) -> Numbers:
    """Return truth values as a bitmap of Arrow."""
    return np.packbits(np.asarray(truths, np.bool_), bitorder="little")


def flags(values: memoryview) -> pa.Array:
    """Return booleans from bytes that are 0 or 1."""
    return array_of(pa.bool_(), len(values), [None, bits(np.frombuffer(values, np.uint8))])


def numbers(values: Numbers, valid: Numbers, kind: pa.DataType) -> pa.Array:
    """Return a column of numbers; null where `valid` is False."""
    width = np.int32 if kind.bit_width == 32 else np.int64
    stored = np.where(valid, values, 0).astype(width, copy=False)
    return array_of(kind, len(values), [bits(valid), np.ascontiguousarray(stored)])


def slices(data: Numbers, starts: Numbers, lengths: Numbers, valid: Numbers | None = None) -> pa.Array:
    """Return the slices of `data` as a binary array; null where `valid` is False.

    The slices ascend and do not overlap. Slices and the gaps between them are an Arrow array without any
    copy, of which `take` copies every second value.
    """
    count = len(starts)
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0:-1:2] = starts
    offsets[1::2] = starts + lengths
    offsets[-1] = len(data)
    # Arrow does not check offsets: a wrong one would read memory outside the buffer.
    if not bool((offsets[1:] >= offsets[:-1]).all()):
        raise ValueError("slices must ascend and must not overlap")
    both = array_of(pa.binary(), 2 * count, [None, offsets, data])
    places = np.arange(0, 2 * count, 2, dtype=np.uint32)
    return both.take(array_of(pa.uint32(), count, [None if valid is None else bits(valid), places]))


def text(values: pa.Array) -> pa.Array:
    """Return binary values as strings. Clients can send any bytes where AMQP has a string: bytes that are not
    UTF-8 become U+FFFD."""
    validity, offsets, data = values.buffers()
    if data is None or not data.size or int(np.frombuffer(data, np.uint8).max()) <= ASCII_MAX:
        return pa.Array.from_buffers(
            pa.string(), len(values), [validity, offsets, data], offset=values.offset
        )
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        return strings(
            [None if value is None else value.decode("utf-8", "replace") for value in values.to_pylist()]
        )


def strings(values: Sequence[str | None]) -> pa.Array:
    """Return a string array of Python values."""
    encoded = [b"" if value is None else value.encode() for value in values]
    offsets = np.zeros(len(values) + 1, np.int32)
    np.cumsum([len(each) for each in encoded], out=offsets[1:])
    valid = bits([value is not None for value in values])
    return array_of(pa.string(), len(values), [valid, offsets, b"".join(encoded)])


class RowColumns:
    """Expansion of columns with one value per envelope to one value per row."""

    def __init__(self, indexes: memoryview, envelopes: int) -> None:
        """`indexes` holds the envelope of each row, 32 bits each."""
        self._rows = len(indexes) // 4
        self._indexes = array_of(pa.uint32(), self._rows, [None, indexes])
        places = np.frombuffer(indexes, np.uint32)
        self._one_each = envelopes == self._rows and bool((places == np.arange(self._rows)).all())

    def column(self, values: pa.Array) -> pa.Array:
        """Return the column of all rows."""
        if self._one_each:
            return values
        kind = values.type
        if pa.types.is_struct(kind):
            children = [self.column(values.field(place)) for place in range(kind.num_fields)]
            return pa.StructArray.from_arrays(children, fields=list(kind))
        if values.null_count == len(values):
            return pa.nulls(self._rows, kind)
        if len(values) == 1 and pa.types.is_string(kind):
            return self.repeated(values[0].as_buffer().to_pybytes())
        return values.take(self._indexes)

    def repeated(self, value: bytes) -> pa.Array:
        """Return a string column with one value in all rows."""
        offsets = np.arange(self._rows + 1, dtype=np.int32) * np.int32(len(value))
        return array_of(pa.string(), self._rows, [None, offsets, value * self._rows])
