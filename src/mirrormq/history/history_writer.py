"""Writer of a history during load: little memory, little time per row, and little loss in a crash.

Rows wait as tuples (ROWS_PENDING_MAX), then as Arrow batches (ROWS_PER_GROUP), then they become a row group
of the open file. A Parquet file without its footer is unreadable; the open file therefore has a name that
readers skip. The writer finishes, syncs and renames it when it has ROWS_PER_FILE rows or is SECONDS_PER_FILE
old. A crash of the writer therefore loses the rows of the last few seconds, and never leaves an unreadable
history. `close` finishes the last file; leaving a `with` block closes.

One writer belongs to one thread. Several may write into one directory under different names.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from time import monotonic_ns, time_ns
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from mirrormq.history.event_schema import RISING_COLUMNS, SCHEMA, TEXT_COLUMNS, EventKind


class SteadyClock:
    """Monotonic clock with a fixed offset to Unix time.

    The monotonic clock is shared by the whole machine. Processes that write one history agree on the order of
    events if all get the `offset_ns` of the first one.
    """

    __slots__ = ("offset_ns",)

    def __init__(self, offset_ns: int | None = None) -> None:
        self.offset_ns = time_ns() - monotonic_ns() if offset_ns is None else offset_ns

    def __call__(self) -> int:
        return monotonic_ns() + self.offset_ns


ROWS_PENDING_MAX = 8 * 1024
"""Rows as tuples before they become an Arrow batch: some 3 MB, and 10 ms to convert them."""

ROWS_PER_GROUP = 128 * 1024
"""Rows of one row group. It is built in memory, about 100 bytes a row; readers skip by group."""

ROWS_PER_FILE = 4 * 1024 * 1024
"""Rows of one file: some tens of megabytes, to give Spark files to distribute."""

SECONDS_PER_FILE = 10.0
"""Age of the oldest row at which the next row finishes the file: the loss bound of a crash."""

CHECKSUM_MASK = (1 << 64) - 1

LOAD_COLUMNS = 10
"""Columns that load events use: the first of SCHEMA, run … redelivered."""

LoadRow = tuple[int, int, str, str, str, int | None, int | None, int | None, int | None, bool | None]


class HistoryWriter:
    """Writer of one run's events into Parquet files NAME-00000.parquet, NAME-00001.parquet, … of a directory.

    Every method takes `time_ns`; without it `clock` gives the time of the event.
    """

    def __init__(
        self,
        directory: Path,
        name: str = "load",
        *,
        run: int = 0,
        clock: Callable[[], int] | None = None,
        rows_per_group: int = ROWS_PER_GROUP,
        rows_per_file: int = ROWS_PER_FILE,
        seconds_per_file: float = SECONDS_PER_FILE,
    ) -> None:
        if not name or name.startswith((".", "_")) or "/" in name:
            raise ValueError(
                f"the files of a history cannot be named {name!r}: readers skip such names; choose another"
            )
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.name = name
        self.run = run
        self.clock = clock or SteadyClock()
        self._rows_per_group = rows_per_group
        self._rows_per_file = rows_per_file
        self._seconds_per_file = seconds_per_file
        self._load: list[LoadRow] = []
        self._rare: list[dict[str, Any]] = []
        self._batches: list[pa.RecordBatch] = []
        self._batched_rows = 0
        self._file: pq.ParquetWriter | None = None
        self._file_rows = 0
        self._due_s: float | None = None
        self._file_index = 0
        self._last_delivery_ns = 0
        self._last_fault = -1
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- publisher events --------------------------------------------------------------------------

    def attempted(
        self, queue: str, publisher: int, number: int, node: str, *, attempt: int = 1,
        time_ns: int | None = None,
    ) -> None:  # fmt: skip
        """Record that the publisher is about to send the message, for the `attempt`-th time."""
        now = self.clock() if time_ns is None else time_ns
        self._add((self.run, now, "attempted", queue, node, publisher, number, attempt, None, None))

    def confirmed(
        self, queue: str, publisher: int, numbers: Iterable[int], node: str, *, time_ns: int | None = None
    ) -> None:
        """Record one basic.ack for these messages."""
        self._add_numbers("confirmed", queue, publisher, numbers, node, time_ns)

    def nacked(
        self, queue: str, publisher: int, numbers: Iterable[int], node: str, *, time_ns: int | None = None
    ) -> None:
        """Record one basic.nack for these messages."""
        self._add_numbers("nacked", queue, publisher, numbers, node, time_ns)

    def returned(
        self, queue: str, publisher: int, number: int, node: str, *, time_ns: int | None = None
    ) -> None:
        """Record that the broker returned the message as unroutable; a confirm of it follows."""
        self._add_numbers("returned", queue, publisher, (number,), node, time_ns)

    # -- consumer events ---------------------------------------------------------------------------

    def delivered(
        self, queue: str, publisher: int | None, number: int | None, node: str, consumer: int, *,
        redelivered: bool, attempt: int = 1, time_ns: int | None = None,
    ) -> None:  # fmt: skip
        """Record a delivery; publisher and number are None if the body is not one of ours.

        Deliveries of one read get times one nanosecond apart: the audit checks their order.
        """
        now = self.clock() if time_ns is None else time_ns
        if now <= self._last_delivery_ns:
            now = self._last_delivery_ns + 1
        self._last_delivery_ns = now
        self._add(
            (self.run, now, "delivered", queue, node, publisher, number, attempt, consumer, redelivered)
        )

    def acknowledged(
        self, queue: str, publisher: int | None, number: int | None, node: str, consumer: int, *,
        time_ns: int | None = None,
    ) -> None:  # fmt: skip
        """Record that the consumer sent its acknowledgement."""
        now = self.clock() if time_ns is None else time_ns
        self._add((self.run, now, "acknowledged", queue, node, publisher, number, None, consumer, None))

    def cancelled(self, queue: str, node: str, consumer: int, *, time_ns: int | None = None) -> None:
        """Record that the broker cancelled the consumer."""
        self.add(EventKind.CANCELLED, time_ns, queue=queue, node=node, consumer=consumer)

    def disconnected(
        self, node: str, *, publisher: int | None = None, consumer: int | None = None, detail: str = "",
        time_ns: int | None = None,
    ) -> None:  # fmt: skip
        """Record that a connection ended which the client did not close."""
        self.add(
            EventKind.DISCONNECTED, time_ns, node=node, publisher=publisher, consumer=consumer,
            detail=detail or None,
        )  # fmt: skip

    def drained(self, queue: str, *, left: int = 0, time_ns: int | None = None) -> None:
        """Record that consumers drained the queue; `left` messages stayed in it."""
        self.add(EventKind.DRAINED, time_ns, queue=queue, count=left)

    # -- faults ------------------------------------------------------------------------------------

    def fault_began(
        self, what: str, node: str | None = None, *, detail: str = "", time_ns: int | None = None
    ) -> int:
        """Record the start of a fault: kill, freeze, partition, restart, policy … Return its number, for its
        end."""
        self._last_fault += 1
        self.add(
            EventKind.FAULT_BEGAN,
            time_ns,
            fault=self._last_fault,
            what=what,
            node=node,
            detail=detail or None,
        )
        return self._last_fault

    def fault_ended(self, fault: int, *, time_ns: int | None = None) -> None:
        """Record the end of a fault: the node runs again, the partition is healed."""
        self.add(EventKind.FAULT_ENDED, time_ns, fault=fault)

    # -- cluster state -----------------------------------------------------------------------------

    def master(self, queue: str, node: str, epoch: int, *, time_ns: int | None = None) -> None:
        """Record that the node reports to be the queue's master in this epoch."""
        self.add(EventKind.MASTER, time_ns, queue=queue, node=node, epoch=epoch)

    def master_confirmed(
        self, queue: str, node: str, epoch: int, *, count: int = 1, time_ns: int | None = None
    ) -> None:
        """Record that the node confirmed `count` messages as the queue's master in this epoch."""
        self.add(EventKind.MASTER_CONFIRMED, time_ns, queue=queue, node=node, epoch=epoch, count=count)

    def replica(
        self, queue: str, node: str, epoch: int, sequence: int, checksum: int, count: int, *,
        time_ns: int | None = None,
    ) -> None:  # fmt: skip
        """Record the node's copy of the queue at (epoch, sequence): `count` messages with this checksum."""
        self.add(
            EventKind.REPLICA, time_ns, queue=queue, node=node, epoch=epoch, sequence=sequence,
            checksum=_signed(checksum), count=count,
        )  # fmt: skip

    # -- rows, batches, files ---------------------------------------------------------------------

    def add(self, kind: EventKind, time_ns: int | None = None, **values: Any) -> None:
        """Record an event by column names: for rare events."""
        values.update(run=self.run, time_ns=self.clock() if time_ns is None else time_ns, kind=kind.value)
        self._rare.append(values)
        self._step()

    def flush(self) -> None:
        """Finish the open file: readers then see everything recorded so far."""
        self._batch()
        self._write_group()
        self._finish_file()
        self._due_s = None

    def close(self) -> None:
        """Finish the last file; later events are refused."""
        if not self._closed:
            self.flush()
            self._closed = True

    def _add(self, row: LoadRow) -> None:
        self._load.append(row)
        self._step()

    def _step(self) -> None:
        """Advance after each row: convert rows when enough are pending, finish the file when it is due."""
        if self._closed:
            raise ValueError("the history is closed: nothing more can be recorded in it")
        now_s = time.monotonic()
        if self._due_s is None:
            self._due_s = now_s + self._seconds_per_file
        if len(self._load) + len(self._rare) >= ROWS_PENDING_MAX:
            self._batch()
            if self._batched_rows >= self._rows_per_group:
                self._write_group()
        if now_s >= self._due_s or self._file_rows >= self._rows_per_file:
            self.flush()

    def _add_numbers(
        self, kind: str, queue: str, publisher: int, numbers: Iterable[int], node: str, time_ns: int | None
    ) -> None:
        now = self.clock() if time_ns is None else time_ns
        for number in numbers:
            self._add((self.run, now, kind, queue, node, publisher, number, None, None, None))

    def _batch(self) -> None:
        """Convert the pending rows into Arrow batches."""
        if self._load:
            fields = list(SCHEMA)
            columns = zip(*self._load, strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=False)]
            arrays += [pa.nulls(len(self._load), field.type) for field in fields[LOAD_COLUMNS:]]
            self._batches.append(pa.record_batch(arrays, schema=SCHEMA))
        if self._rare:
            self._batches.append(pa.RecordBatch.from_pylist(self._rare, schema=SCHEMA))
        self._batched_rows += len(self._load) + len(self._rare)
        self._load, self._rare = [], []

    def _write_group(self) -> None:
        if self._batches:
            if self._file is None:
                self._open_file()
            assert self._file is not None
            table = pa.Table.from_batches(self._batches)
            self._file.write_table(table, row_group_size=max(self._rows_per_group, table.num_rows))
            self._file_rows += table.num_rows
            self._batches, self._batched_rows = [], 0

    def _open_file(self) -> None:
        while self._path().exists():
            self._file_index += 1
        self._file = pq.ParquetWriter(
            self._open_path(),
            SCHEMA,
            compression="zstd",
            use_dictionary=TEXT_COLUMNS,
            column_encoding=dict.fromkeys(RISING_COLUMNS, "DELTA_BINARY_PACKED"),
        )
        self._file_rows = 0

    def _finish_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            with self._open_path().open("rb") as file:
                os.fsync(file.fileno())
            self._open_path().rename(self._path())
            self._file_rows = 0

    def _path(self) -> Path:
        return self.directory / f"{self.name}-{self._file_index:05d}.parquet"

    def _open_path(self) -> Path:
        return self.directory / f".{self._path().name}.open"


def _signed(checksum: int) -> int:
    """Return a checksum of up to 64 bits as the signed number that Parquet and Spark store."""
    checksum &= CHECKSUM_MASK
    return checksum - (1 << 64) if checksum >> 63 else checksum
