"""Times of traces, interpolated from the ticks around them.

A task reads a contiguous span of the queue. A trace between two ticks gets a time between theirs, by its
place; the error is at most the interval between them. A trace with a tick on one side only gets that tick's
time, and one without any gets none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

APART_MS_MAX = 200
"""Largest distance of two ticks for an exact time; larger if the job or its connection stalled."""


def timed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add `time_ms` and `exact` to ordered rows, of which ticks have `tick_ms`."""
    import pyarrow as pa

    before: int | None = None
    for batch in batches:
        ticks = batch.column("tick_ms").to_numpy(zero_copy_only=False).astype(np.float64)
        times, exact = times_of(ticks, before)
        known = ticks[~np.isnan(ticks)]
        before = int(known[-1]) if len(known) else before
        missing = np.isnan(times)
        columns = {name: batch.column(name) for name in batch.schema.names}
        columns["time_ms"] = pa.array(np.where(missing, 0, times).astype(np.int64), mask=missing)
        columns["exact"] = pa.array(exact)
        yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def times_of(ticks: np.ndarray, before: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the time of each row, NaN if unknown, and whether it is exact. `before` is the last earlier
    tick."""
    places = np.flatnonzero(~np.isnan(ticks))
    values = ticks[places]
    if before is not None:
        places, values = np.insert(places, 0, -1), np.insert(values, 0, before)
    if not len(places):
        return np.full(len(ticks), np.nan), np.zeros(len(ticks), bool)
    rows = np.arange(len(ticks))
    after = np.searchsorted(places, rows)
    between = (after > 0) & (after < len(places))
    apart = np.diff(values, prepend=values[0])[np.minimum(after, len(places) - 1)]
    return np.interp(rows, places, values), between & (apart <= APART_MS_MAX)
