"""Batches decode equally in plain Python, numpy and Arrow; malformed ones are refused."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirrormq.ranges.batch_builder import BatchBuilder
from mirrormq.ranges.range_batch import HEADS, BatchEnvelope, BatchError, BatchRow, RangeBatch

HEAD = HEADS[2]

ENVELOPES = [BatchEnvelope(b"", b"orders", b"\x10\x00\x02"), BatchEnvelope(b"logs", b"a.b", b"\x00\x00")]


def batch_of(rows: list[BatchRow], at_once: int = 3, *, with_times: bool = True) -> bytes:
    builder = BatchBuilder(with_ingestion_times=with_times)
    for at in range(0, len(rows), at_once):
        some = rows[at : at + at_once]
        builder.add(
            [row.sequence for row in some],
            [(envelope, len(list(same))) for envelope, same in groupby(row.envelope for row in some)],
            bytes([row.redelivered for row in some]),
            [row.body for row in some],
            [row.ingested_ms for row in some],
        )
    return builder.finish()


rows_of_any_kind = st.lists(
    st.builds(
        BatchRow,
        st.integers(0, 2**64 - 1),
        st.builds(BatchEnvelope, st.binary(max_size=9), st.binary(max_size=9), st.binary(max_size=20)),
        st.booleans(),
        st.binary(max_size=40),
        st.integers(0, 2**64 - 1),
    ),
    max_size=20,
)


@given(rows_of_any_kind)
def test_a_batch_is_decoded_to_its_rows(rows: list[BatchRow]) -> None:
    batch = RangeBatch(batch_of(rows))
    assert len(batch) == len(rows)
    assert list(batch) == rows
    without = RangeBatch(batch_of(rows, with_times=False))
    assert without.ingested_ms is None
    assert list(without) == [row._replace(ingested_ms=0) for row in rows]


@given(rows_of_any_kind)
def test_every_column_begins_at_a_multiple_of_eight(rows: list[BatchRow]) -> None:
    data = batch_of(rows)
    at = HEAD.size
    for length in HEAD.unpack_from(data)[4:]:
        assert at % 8 == 0
        at += length + -length % 8
    assert at == len(data)


def test_numpy_and_arrow_read_the_columns_as_they_are() -> None:
    rows = [BatchRow(7 + n, ENVELOPES[n % 2], n == 3, b"body %d" % n, 5000 + n) for n in range(5)]
    batch = RangeBatch(batch_of(rows))
    assert np.frombuffer(batch.sequences, "<u8").tolist() == [7, 8, 9, 10, 11]
    assert np.frombuffer(batch.envelope_indexes, "<u4").tolist() == [0, 1, 0, 1, 0]
    assert batch.ingested_ms is not None
    assert np.frombuffer(batch.ingested_ms, "<u8").tolist() == [5000, 5001, 5002, 5003, 5004]
    assert np.frombuffer(batch.redelivered, "u1").tolist() == [0, 0, 0, 1, 0]
    bodies = [None, pa.py_buffer(batch.body_offsets), pa.py_buffer(batch.bodies)]
    array = pa.Array.from_buffers(pa.binary(), batch.rows, bodies)
    array.validate(full=True)
    assert array.to_pylist() == [row.body for row in rows]


@pytest.mark.parametrize("cut", [0, 1, HEAD.size - 1, HEAD.size, -1])
def test_a_batch_that_ends_early_is_refused(cut: int) -> None:
    data = batch_of([BatchRow(1, ENVELOPES[0], False, b"12345678")])
    with pytest.raises(BatchError):
        RangeBatch(data[:cut])


def test_other_bytes_are_refused() -> None:
    with pytest.raises(BatchError, match="not a batch"):
        RangeBatch(bytes(HEAD.size))
    data = bytearray(batch_of([BatchRow(1, ENVELOPES[0], False, b"x")]))
    data[8] = 2  # one more row than there are columns for
    with pytest.raises(BatchError, match="rows"):
        RangeBatch(bytes(data))
