"""Long listings in chunks: rows are built and encoded a few per turn, so that deliveries continue
meanwhile."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import islice
from types import coroutine
from typing import Any, TypeVar

from mirrormq.control.control_protocol import LENGTH_BYTES, encode_document

SLICE_ROWS = 50
"""Rows built or encoded between two turns of the event loop: about 2 ms at 40 µs per queue row."""

Row = TypeVar("Row")


@coroutine
def yield_to_loop() -> Generator[None, None, None]:
    """Yield to the event loop once; a bare yield works with any loop."""
    yield


async def collected(rows: Iterable[Row]) -> list[Row]:
    """Collect all rows; yield to the event loop after each chunk."""
    collected_rows: list[Row] = []
    remaining = iter(rows)
    while chunk := list(islice(remaining, SLICE_ROWS)):
        collected_rows += chunk
        await yield_to_loop()
    return collected_rows


async def encoded(reply: dict[str, Any]) -> bytes:
    """Encode a reply as JSON; a long list result is encoded in chunks."""
    rows = reply.get("result")
    if not isinstance(rows, list) or len(rows) <= SLICE_ROWS:
        return encode_document(reply)
    parts = []
    for start in range(0, len(rows), SLICE_ROWS):
        parts.append(encode_document(rows[start : start + SLICE_ROWS])[1:-1])
        await yield_to_loop()
    return b'{"ok":true,"result":[' + b",".join(parts) + b"]}"


async def framed(reply: dict[str, Any]) -> bytes:
    """Encode a reply with the length prefix of the control socket."""
    document = await encoded(reply)
    return len(document).to_bytes(LENGTH_BYTES, "big") + document
