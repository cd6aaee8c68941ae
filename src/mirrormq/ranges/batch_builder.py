"""Incremental builder of a batch of messages.

A node adds messages a slice at a time and encodes what it can at once. Little work is left for the last step,
and the event loop serves other clients in between.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate

from mirrormq.ranges.range_batch import ALIGNMENT, HEADS, MAGIC, VERSION, VERSION_WITH_TIMES, BatchEnvelope

_PADDING = bytes(ALIGNMENT)


class BatchBuilder:
    """Columns of a batch, as far as messages were added."""

    def __init__(self, *, with_ingestion_times: bool = False) -> None:
        self._version = VERSION_WITH_TIMES if with_ingestion_times else VERSION
        self.rows = 0
        self.body_bytes = 0
        self._envelopes: dict[BatchEnvelope, int] = {}
        self._sequences = array("Q")
        self._indexes = array("I")
        self._redelivered: list[bytes] = []
        self._body_offsets = array("i", (0,))
        self._bodies: list[bytes] = []
        self._ingested_ms = array("Q")

    def add(
        self,
        sequences: Sequence[int],
        envelopes: Iterable[tuple[BatchEnvelope, int]],
        redelivered: bytes,
        bodies: Sequence[bytes],
        ingested_ms: Sequence[int] = (),
    ) -> None:
        """Append messages; `envelopes` gives each envelope with the number of consecutive messages that share
        it. Ingestion times count only in a batch that has them."""
        self._sequences.extend(sequences)
        for envelope, count in envelopes:
            index = self._envelopes.setdefault(envelope, len(self._envelopes))
            self._indexes.extend((index,) * count)
        self._redelivered.append(redelivered)
        offsets = accumulate(map(len, bodies), initial=self.body_bytes)
        next(offsets)
        self._body_offsets.extend(offsets)
        self._bodies.append(b"".join(bodies))
        if self._version == VERSION_WITH_TIMES:
            self._ingested_ms.extend(ingested_ms)
        self.rows += len(sequences)
        self.body_bytes = self._body_offsets[-1]

    def finish(self) -> bytes:
        """Return the encoded batch."""
        envelopes = list(self._envelopes)
        exchanges = [envelope.exchange for envelope in envelopes]
        keys = [envelope.routing_key for envelope in envelopes]
        properties = [envelope.properties for envelope in envelopes]
        columns = [
            [_offsets(exchanges)], exchanges, [_offsets(keys)], keys, [_offsets(properties)], properties,
            [_column(self._sequences)], [_column(self._indexes)], self._redelivered,
            [_column(self._body_offsets)], self._bodies,
        ]  # fmt: skip
        if self._version == VERSION_WITH_TIMES:
            columns.append([_column(self._ingested_ms)])
        lengths = [sum(map(len, column)) for column in columns]
        parts = [HEADS[self._version].pack(MAGIC, self._version, self.rows, len(envelopes), *lengths)]
        for column, length in zip(columns, lengths, strict=True):
            parts += column
            parts.append(_PADDING[: -length % ALIGNMENT])
        return b"".join(parts)


def _offsets(values: Sequence[bytes]) -> bytes:
    return _column(array("i", accumulate(map(len, values), initial=0)))


def _column(numbers: array[int]) -> bytes:
    if sys.byteorder != "little":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()
