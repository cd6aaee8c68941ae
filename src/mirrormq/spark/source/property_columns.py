"""Columns of encoded properties, decoded for all messages of a batch at once.

AMQP encodes properties one after the other: the position of one depends on the lengths of those before it.
The decoder therefore walks over the properties, not over the messages. A step handles one property of all
messages with a few operations of numpy. Malformed properties give nulls.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from mirrormq.spark.source.arrays import Numbers, numbers, slices, text
from mirrormq.spark.source.header_columns import headers
from mirrormq.spark.source.typed_header_columns import typed_headers
from mirrormq.wire.properties import PROPERTY_TYPES

MICROSECONDS = 1_000_000

TIMESTAMP_MAX_S = 253_402_300_799
"""End of the year 9999, Spark's last. A later stamp, of a client that does not count in seconds, becomes
null."""

PADDING_BYTES = 8
"""Zeros behind the properties: a number that starts at the last byte of malformed properties is readable."""

FLAG_BYTES = 2
CONTINUATION = 0x0001

_FIXED: Final = {"octet": 1, "timestamp": 8}
"""Sizes of values without a length in front."""


class EncodedProperty(NamedTuple):
    """Place of one property in the properties of every message."""

    starts: Numbers
    """Position of the value, behind its length."""
    lengths: Numbers
    present: Numbers


class PropertyColumns:
    """Decoder of the properties of many messages; `offsets` (32 bits each) cut `properties` into messages."""

    def __init__(self, offsets: memoryview, properties: memoryview) -> None:
        cuts = np.frombuffer(offsets, np.int32).astype(np.int64)
        self.count = len(cuts) - 1
        self._data = np.zeros(len(properties) + PADDING_BYTES, np.uint8)
        self._data[: len(properties)] = np.frombuffer(properties, np.uint8)
        self._begins, self._ends = cuts[:-1], cuts[1:]
        self._places: dict[str, EncodedProperty] = {}
        self._walk()

    def _walk(self) -> None:
        at, ends = self._begins, self._ends
        words = unsigned(self._data, 2)[np.minimum(at, ends)].astype(np.int64)
        used = int(np.bitwise_or.reduce(words, initial=0))
        at = at + FLAG_BYTES
        overrun = at > ends
        found: dict[str, EncodedProperty] = {}
        for index, (name, wire_type) in enumerate(PROPERTY_TYPES.items()):
            flag = 0x8000 >> index
            if not used & flag:
                continue
            present = (words & flag) != 0
            # A position behind the end belongs to malformed properties: keep it inside the buffer.
            at = np.minimum(at, ends)
            if wire_type in _FIXED:
                head_bytes, lengths = 0, np.full(self.count, _FIXED[wire_type], np.int64)
            else:
                head_bytes = 1 if wire_type == "shortstr" else 4
                lengths = unsigned(self._data, head_bytes)[at].astype(np.int64)
            starts = at + head_bytes
            found[name] = EncodedProperty(starts, lengths, present)
            at = np.where(present, starts + lengths, at)
            overrun |= at > ends
        self._sound = (at == ends) & ~overrun & ((words & CONTINUATION) == 0)
        all_sound = bool(self._sound.all())
        for name, place in found.items():
            present = place.present if all_sound else place.present & self._sound
            starts = np.where(present, place.starts, self._begins)
            self._places[name] = EncodedProperty(starts, np.where(present, place.lengths, 0), present)

    def texts(self, name: str) -> pa.Array:
        """Return a property of type shortstr."""
        place = self._places.get(name)
        if place is None:
            return pa.nulls(self.count, pa.string())
        valid = None if place.present.all() else place.present
        return text(slices(self._data, place.starts, place.lengths, valid))

    def octets(self, name: str, kind: pa.DataType) -> pa.Array:
        """Return a property of type octet."""
        place = self._places.get(name)
        if place is None:
            return pa.nulls(self.count, kind)
        return numbers(self._data[place.starts], place.present, kind)

    def timestamps(self, kind: pa.DataType) -> pa.Array:
        """Return the property `timestamp` in microseconds."""
        place = self._places.get("timestamp")
        if place is None:
            return pa.nulls(self.count, kind)
        seconds = unsigned(self._data, 8)[place.starts].astype(np.uint64)
        valid = place.present & (seconds <= TIMESTAMP_MAX_S)
        return numbers(np.where(valid, seconds, 0).astype(np.int64) * MICROSECONDS, valid, kind)

    def headers(self, kind: pa.DataType) -> pa.Array:
        """Return the property `headers` as maps of texts, or of types and texts."""
        place = self._places.get("headers")
        if place is None:
            return pa.nulls(self.count, kind)
        convert = typed_headers if pa.types.is_struct(kind.item_type) else headers
        return convert(self._data, place.starts, place.lengths, place.present, kind)


def unsigned(data: Numbers, width: int) -> Numbers:
    """Return a view of `data` whose item n is the big-endian number at byte n."""
    kind = {1: "u1", 2: ">u2", 4: ">u4", 8: ">u8"}[width]
    return np.ndarray(len(data) - width + 1, kind, data, 0, (1,))
