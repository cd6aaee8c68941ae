"""Headers of many messages as one column of maps from text to type and value (`spark.typed_fields`).

Strings, integers and booleans become text without a loop over the messages, as in the column `headers`. Other
types are decoded once for each distinct value.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mirrormq.errors import AmqpError
from mirrormq.spark.source.arrays import Numbers, array_of, bits, slices, strings
from mirrormq.spark.source.header_columns import TableEntries, encoded_fields, maps, text_values
from mirrormq.spark.typed_fields import TypedValue, typed_value
from mirrormq.wire.fields import TYPE_NAMES, decode_entries

_PLAIN: Final = np.zeros(256, np.bool_)
"""Types whose text in the column `headers` is that of `typed_value`."""
for _letter in "bBsuIilLTtV":
    _PLAIN[ord(_letter)] = True

_NAMES: Final = tuple(dict.fromkeys(TYPE_NAMES.values()))
_NAME_INDEXES: Final = np.zeros(256, np.uint32)
for _letter, _name in {**TYPE_NAMES, "L": TYPE_NAMES["l"]}.items():
    _NAME_INDEXES[ord(_letter)] = _NAMES.index(_name)


def typed_headers(
    data: Numbers, starts: Numbers, lengths: Numbers, present: Numbers, kind: pa.DataType
) -> pa.Array:
    """Return the field tables at `starts` as maps; null where a table is missing or malformed."""

    def items(data: Numbers, entries: TableEntries) -> pa.Array:
        return _typed(data, entries, kind.item_type)

    return maps(data, starts, lengths, present, kind, items)


def _typed(data: Numbers, entries: TableEntries, kind: pa.DataType) -> pa.Array:
    """Return type and value of all entries."""
    count = len(entries.kinds)
    names = strings(_NAMES).take(array_of(pa.uint32(), count, [None, _NAME_INDEXES[entries.kinds]]))
    plain = _PLAIN[entries.kinds] | _is_utf8(data, entries)
    values = text_values(data, entries)
    places = np.flatnonzero(~plain)
    if places.size:
        encoded = encoded_fields(data, entries.only(places)).dictionary_encode()
        decoded = [_decoded(each) for each in encoded.dictionary.to_pylist()]
        names = _replaced(names, places, strings([name for name, _ in decoded]).take(encoded.indices))
        values = _replaced(values, places, strings([value for _, value in decoded]).take(encoded.indices))
    return pa.StructArray.from_arrays([names, values], fields=list(kind))


def _is_utf8(data: Numbers, entries: TableEntries) -> Numbers:
    """Return which entries are strings that are valid UTF-8. One check is enough for most batches."""
    are_strings: Numbers = entries.kinds == ord("S")
    places = np.flatnonzero(are_strings)
    some = slices(data, entries.value_starts[places], entries.value_lengths[places])
    try:
        some.cast(pa.string())
    except pa.ArrowInvalid:
        are_strings[places] = [_decodes(each) for each in some.to_pylist()]
    return are_strings


def _decodes(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _decoded(encoded: bytes) -> TypedValue:
    """Return type and value of a field, type letter first; void if it is malformed."""
    try:
        return typed_value(decode_entries(b"\0" + encoded)[""])
    except AmqpError:
        return "void", None


def _replaced(column: pa.Array, places: Numbers, values: pa.Array) -> pa.Array:
    """Return the column with other values at these places."""
    mask = np.zeros(len(column), np.bool_)
    mask[places] = True
    return pc.replace_with_mask(column, array_of(pa.bool_(), len(column), [None, bits(mask)]), values)
