"""Headers of many messages as one column of maps from text to text.

A field table is a sequence of entries: name, type letter, value. The decoder handles the first entry of all
tables, then the second of those that have one, and so on. Strings, integers and booleans become text without
a loop over the messages. Other types are decoded once for each distinct value.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from mirrormq.errors import AmqpError
from mirrormq.spark.source.arrays import Numbers, array_of, bits, slices, strings, text
from mirrormq.wire.fields import Field, decode_entries, plain_value

_LONG, _UNKNOWN = -1, -2
_SIZES: Final = np.full(256, _UNKNOWN, np.int64)
"""Bytes of a value by type letter; `_LONG` for values with a length of four bytes in front."""
_INTEGERS: Final = {"b": ">i1", "B": ">u1", "s": ">i2", "u": ">u2", "I": ">i4", "i": ">u4", "l": ">i8"}
_TEXTS: Final = b"Sx"
for _letter, _size in {
    **{k: int(v[2]) for k, v in _INTEGERS.items()},
    "L": 8,
    "T": 8,
    "t": 1,
    "V": 0,
}.items():
    _SIZES[ord(_letter)] = _size
for _letter, _size in {"f": 4, "d": 8, "D": 5, "S": _LONG, "x": _LONG, "F": _LONG, "A": _LONG}.items():
    _SIZES[ord(_letter)] = _size
_SPARK_INTEGERS: Final = {**_INTEGERS, "L": ">i8", "T": ">u8"}

PAIRWISE_ENTRIES_MAX = 32
"""Entries of a table up to which names are compared pair by pair; it is faster than sorting."""


class TableEntries(NamedTuple):
    """Entries of all tables, in the order of the tables."""

    tables: Numbers
    name_starts: Numbers
    name_lengths: Numbers
    kinds: Numbers
    value_starts: Numbers
    value_lengths: Numbers

    def only(self, kept: Numbers) -> TableEntries:
        return TableEntries(*(column[kept] for column in self))


Items = Callable[[Numbers, TableEntries], pa.Array]
"""Conversion of the values of all entries."""


def headers(
    data: Numbers, starts: Numbers, lengths: Numbers, present: Numbers, kind: pa.DataType
) -> pa.Array:
    """Return the field tables at `starts` as maps of texts; null where a table is missing or malformed."""
    return maps(data, starts, lengths, present, kind, text_values)


def maps(
    data: Numbers, starts: Numbers, lengths: Numbers, present: Numbers, kind: pa.DataType, items: Items
) -> pa.Array:
    """Return the field tables at `starts` as maps; `items` converts the values."""
    entries, sound = _entries(data, starts, starts + lengths)
    entries = _without_repeated_names(data, entries)
    valid = present & sound
    if not valid.all():
        entries = entries.only(valid[entries.tables])
    offsets = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(np.bincount(entries.tables, minlength=len(starts)), out=offsets[1:])
    names = text(slices(data, entries.name_starts, entries.name_lengths))
    pairs = pa.StructArray.from_arrays(
        [names, items(data, entries)], fields=[kind.key_field, kind.item_field]
    )
    buffers = [None if valid.all() else pa.py_buffer(bits(valid)), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(kind, len(starts), buffers, children=[pairs])


def _entries(data: Numbers, starts: Numbers, ends: Numbers) -> tuple[TableEntries, Numbers]:
    """Return the entries of all tables, and which tables are well-formed."""
    sound = np.ones(len(starts), np.bool_)
    tables = np.flatnonzero(starts < ends)
    at, end = starts[tables], ends[tables]
    lengths = np.ndarray(len(data) - 3, ">u4", data, 0, (1,))
    rounds: list[TableEntries] = []
    while tables.size:
        name_lengths = data[at].astype(np.int64)
        kind_at = np.minimum(at + 1 + name_lengths, end)
        kinds = data[kind_at]
        sizes = _SIZES[kinds]
        value_starts = kind_at + 1
        long = sizes == _LONG
        if long.any():
            given = lengths[np.minimum(value_starts, end)].astype(np.int64)
            value_starts = np.where(long, value_starts + 4, value_starts)
            sizes = np.where(long, given, sizes)
        after = value_starts + sizes
        good = (after <= end) & (sizes >= 0)
        if not good.all():
            sound[tables[~good]] = False
        rounds.append(TableEntries(tables, at + 1, name_lengths, kinds, value_starts, sizes))
        going_on = good & (after < end)
        if not going_on.all():
            tables, after, end = tables[going_on], after[going_on], end[going_on]
        at = after
    return _in_order(rounds, sound), sound


def _in_order(rounds: list[TableEntries], sound: Numbers) -> TableEntries:
    """Sort the entries by table; within a table they keep their order. Leave malformed tables out."""
    if not rounds:
        return TableEntries(*(np.zeros(0, np.int64) for _ in TableEntries._fields))
    if not sound.all():
        rounds = [entries.only(sound[entries.tables]) for entries in rounds]
    counts = np.zeros(len(sound), np.int64)
    for entries in rounds:
        counts[entries.tables] += 1
    firsts = np.cumsum(counts) - counts
    places = np.concatenate([firsts[entries.tables] + number for number, entries in enumerate(rounds)])
    columns = []
    for column in zip(*rounds, strict=True):
        ordered = np.empty(len(places), column[0].dtype)
        ordered[places] = np.concatenate(column)
        columns.append(ordered)
    return TableEntries(*columns)


def text_values(data: Numbers, entries: TableEntries) -> pa.Array:
    """Return the values of all entries as text."""
    total = len(entries.kinds)
    order = np.zeros(total, np.uint32)
    valid = np.ones(total, np.bool_)
    parts: list[pa.Array] = []
    filled = 0

    def add(places: Numbers, part: pa.Array) -> None:
        nonlocal filled
        order[places] = np.arange(filled, filled + len(part), dtype=np.uint32)
        parts.append(part)
        filled += len(part)

    rest = np.ones(total, np.bool_)
    for letters in (_TEXTS, *(letter.encode() for letter in (*_SPARK_INTEGERS, "t", "V"))):
        chosen = entries.kinds == letters[0]
        for letter in letters[1:]:
            chosen |= entries.kinds == letter
        places = np.flatnonzero(chosen)
        if not places.size:
            continue
        rest[places] = False
        some = entries.only(places)
        kind = chr(letters[0])
        if kind == "V":
            valid[places] = False
        elif kind in _SPARK_INTEGERS:
            add(places, _integers(data, some.value_starts, _SPARK_INTEGERS[kind]))
        elif kind == "t":
            truths = (data[some.value_starts] != 0).astype(np.uint32)
            add(places, strings(["false", "true"]).take(array_of(pa.uint32(), len(places), [None, truths])))
        else:
            add(places, text(slices(data, some.value_starts, some.value_lengths)))
    places = np.flatnonzero(rest)
    if places.size:
        add(places, _others(data, entries.only(places)))
    if not parts:
        return pa.nulls(total, pa.string())
    whole = pa.concat_arrays(parts)
    if len(parts) == 1 and valid.all():
        return whole
    return whole.take(array_of(pa.uint32(), total, [None if valid.all() else bits(valid), order]))


def _integers(data: Numbers, starts: Numbers, kind: str) -> pa.Array:
    width = int(kind[2])
    found = np.ndarray(len(data) - width + 1, kind, data, 0, (1,))[starts]
    wide, arrow = (np.uint64, pa.uint64()) if kind[1] == "u" else (np.int64, pa.int64())
    return array_of(arrow, len(found), [None, found.astype(wide)]).cast(pa.string())


def _others(data: Numbers, entries: TableEntries) -> pa.Array:
    """Return tables, arrays and numbers with a fraction as JSON, decoded once for each distinct value."""
    encoded = encoded_fields(data, entries).dictionary_encode()
    return strings([_json(value) for value in encoded.dictionary.to_pylist()]).take(encoded.indices)


def encoded_fields(data: Numbers, entries: TableEntries) -> pa.Array:
    """Return the values with their type letters in front."""
    # Nested values and strings have four bytes of length behind the letter.
    heads = np.where(_SIZES[entries.kinds] == _LONG, 5, 1)
    return slices(data, entries.value_starts - heads, entries.value_lengths + heads)


def _json(encoded: bytes) -> str | None:
    """Return a field, type letter first, as text; None if it is malformed."""
    try:
        return header_text(decode_entries(b"\0" + encoded)[""])
    except AmqpError:
        return None


def header_text(field: Field) -> str | None:
    """Return a header's value as text: strings unchanged, anything else as JSON."""
    value = plain_value(field)
    if value is None:
        return None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str):
        return _valid(value)
    return _valid(json.dumps(value, default=_plain_json, ensure_ascii=False))


def _valid(value: str) -> str:
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _plain_json(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


# -- repeated names ---------------------------------------------------------------------------------


def _without_repeated_names(data: Numbers, entries: TableEntries) -> TableEntries:
    """Keep the first entry of a name in each table, as the broker does."""
    if not len(entries.tables):
        return entries
    suspects = _tables_to_check(data, entries)
    if not suspects.size:
        return entries
    kept = np.ones(len(entries.tables), np.bool_)
    first = np.searchsorted(entries.tables, suspects)
    last = np.searchsorted(entries.tables, suspects, "right")
    for start, end in zip(first.tolist(), last.tolist(), strict=True):
        seen: set[bytes] = set()
        for place in range(start, end):
            name_at, length = int(entries.name_starts[place]), int(entries.name_lengths[place])
            name = data[name_at : name_at + length].tobytes()
            kept[place] = name not in seen
            seen.add(name)
    return entries.only(kept)


def _tables_to_check(data: Numbers, entries: TableEntries) -> Numbers:
    """Return the tables of which two names may be equal: their lengths, first and last bytes are."""
    words = np.ndarray(len(data) - 7, "<u8", data, 0, (1,))
    lengths = entries.name_lengths
    # The word at a name's start: of a short name only its own bytes count.
    masks = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)
    heads = words[entries.name_starts] & masks[np.minimum(lengths, 8)]
    tails = (
        words[np.maximum(entries.name_starts + lengths - 8, entries.name_starts)]
        & masks[np.minimum(lengths, 8)]
    )
    with np.errstate(over="ignore"):
        marks = (heads * np.uint64(0x9E3779B97F4A7C15) + tails) * np.uint64(0xC2B2AE3D27D4EB4F)
        marks += lengths.astype(np.uint64)
    counts = np.bincount(entries.tables)
    longest = int(counts.max())
    if longest <= PAIRWISE_ENTRIES_MAX:
        suspects = np.zeros(0, np.int64)
        for distance in range(1, longest):
            equal = (marks[distance:] == marks[:-distance]) & (
                entries.tables[distance:] == entries.tables[:-distance]
            )
            if equal.any():
                suspects = np.union1d(suspects, entries.tables[:-distance][equal])
        return suspects
    order = np.lexsort((marks, entries.tables))
    equal = (np.diff(marks[order].astype(np.int64)) == 0) & (np.diff(entries.tables[order]) == 0)
    return np.unique(entries.tables[order][1:][equal])
