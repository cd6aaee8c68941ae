"""Rows of histories for tests: named values in, Parquet out."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from mirrormq.history import SCHEMA


class Event(NamedTuple):
    """One row of a history, with the columns of SCHEMA in their order."""

    run: int
    time_ns: int
    kind: str
    queue: str | None = None
    node: str | None = None
    publisher: int | None = None
    number: int | None = None
    attempt: int | None = None
    consumer: int | None = None
    redelivered: bool | None = None
    epoch: int | None = None
    sequence: int | None = None
    checksum: int | None = None
    count: int | None = None  # type: ignore[assignment]  # the column's name
    fault: int | None = None
    what: str | None = None
    detail: str | None = None


def to_table(events: Iterable[Event]) -> pa.Table:
    """The rows as Arrow."""
    columns = zip(*events, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def write(events: Iterable[Event], path: Path) -> None:
    """A Parquet file with these rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(to_table(events), path)
