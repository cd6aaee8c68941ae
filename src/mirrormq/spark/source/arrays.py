"""Arrow arrays of a few distinct values, and of many rows that share them.

The arrays are built from buffers. Arrow's own constructors check whether Python values are of pandas, and
import pandas for it: that takes a task's process longer than reading a hundred thousand messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np
import pyarrow as pa


class RepeatedColumn:
    """Builder of columns whose rows take the values of their groups."""

    def __init__(self, groups: memoryview) -> None:
        """`groups` holds the group number of each row, 32 bits each."""
        self._rows = len(groups) // 4
        self._groups = pa.Array.from_buffers(pa.uint32(), self._rows, [None, pa.py_buffer(groups)])

    def column(self, values: Sequence[Any], kind: pa.DataType) -> pa.Array:
        """Return an array of all rows. `values` has one per group: text, a number, a dict for a struct, pairs
        of texts for a map, or None."""
        if all(value is None for value in values):
            return pa.nulls(self._rows, kind)
        if pa.types.is_struct(kind):
            children = [self.column([value[field.name] for value in values], field.type) for field in kind]
            return pa.StructArray.from_arrays(children, fields=list(kind))
        if len(values) == 1 and not pa.types.is_map(kind):
            return self.repeated(values[0], kind)
        return distinct(values, kind).take(self._groups)

    def repeated(self, value: Any, kind: pa.DataType) -> pa.Array:
        """Return an array with one value in all rows."""
        if not pa.types.is_string(kind):
            numbers = np.full(self._rows, value, _number_type(kind))
            return _array(kind, self._rows, [None, numbers])
        text = value.encode()
        offsets = np.arange(self._rows + 1, dtype=np.int32) * np.int32(len(text))
        return _array(kind, self._rows, [None, offsets, text * self._rows])


def distinct(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return an array of these values."""
    count, validity = len(values), _bits([value is not None for value in values])
    if pa.types.is_map(kind):
        pairs = list(chain.from_iterable(value or () for value in values))
        keys = distinct([key for key, _ in pairs], kind.key_type)
        items = distinct([item for _, item in pairs], kind.item_type)
        entries = pa.StructArray.from_arrays([keys, items], fields=[kind.key_field, kind.item_field])
        offsets = _offsets(len(value or ()) for value in values)
        return pa.Array.from_buffers(
            kind, count, [pa.py_buffer(validity), pa.py_buffer(offsets)], children=[entries]
        )
    if pa.types.is_string(kind):
        texts = [b"" if value is None else value.encode() for value in values]
        return _array(kind, count, [validity, _offsets(map(len, texts)), b"".join(texts)])
    numbers = np.array([value or 0 for value in values], _number_type(kind))
    return _array(kind, count, [validity, numbers])


def flags(values: memoryview) -> pa.Array:
    """Return booleans from bytes that are 0 or 1."""
    return _array(pa.bool_(), len(values), [None, _bits(np.frombuffer(values, np.uint8))])


def _number_type(kind: pa.DataType) -> type[np.int32 | np.int64]:
    return np.int32 if kind.bit_width == 32 else np.int64


def _bits(truths: Any) -> np.ndarray[Any, Any]:
    return np.packbits(np.asarray(truths, np.bool_), bitorder="little")


def _offsets(sizes: Iterable[int]) -> np.ndarray[Any, Any]:
    return np.fromiter(accumulate(sizes, initial=0), np.int32)


def _array(kind: pa.DataType, count: int, buffers: Sequence[Any]) -> pa.Array:
    made = [None if buffer is None else pa.py_buffer(buffer) for buffer in buffers]
    return pa.Array.from_buffers(kind, count, made)
