"""Spool of a partition's rows: in memory up to a limit, then in a temporary file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from types import TracebackType
from typing import IO, Self

import pyarrow as pa

SPOOL_MEMORY_BYTES = 64 * 1024 * 1024
"""Rows of one task in memory. Further rows go to an anonymous temporary file, which ends with the task."""


class Spool:
    """Spool of record batches, returned in the same order. Use as a context manager."""

    def __init__(self, memory_bytes: int = SPOOL_MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._kept: list[pa.RecordBatch] = []
        self._kept_bytes = 0
        self._file: IO[bytes] | None = None
        self._writer: pa.RecordBatchStreamWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def add(self, batch: pa.RecordBatch) -> None:
        if self._writer is None and self._kept_bytes + batch.nbytes <= self._memory_bytes:
            self._kept.append(batch)
            self._kept_bytes += batch.nbytes
            return
        if self._writer is None:
            self._file = tempfile.TemporaryFile(prefix="mirrormq-sink-")  # noqa: SIM115 - closed by __exit__
            self._writer = pa.ipc.new_stream(self._file, batch.schema)
        self._writer.write_batch(batch)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all batches, in the order of `add`. Call once, after the last `add`."""
        yield from self._kept
        if self._writer is not None and self._file is not None:
            self._writer.close()
            self._file.seek(0)
            with pa.ipc.open_stream(self._file) as reader:
                yield from reader
