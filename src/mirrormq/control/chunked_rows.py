"""Long listings in slices: rows are made, and turned into JSON, a few at a time, so that deliveries go on."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import islice
from types import coroutine
from typing import Any, TypeVar

from mirrormq.control.control_protocol import LENGTH_BYTES, encode_document

SLICE_ROWS = 50
"""Made or encoded between two turns of the loop: at some 40 µs for a queue's row, about 2 ms."""

Row = TypeVar("Row")


@coroutine
def others_turn() -> Generator[None, None, None]:
    """Let whatever else waits for the loop have its turn; any loop takes a bare yield so."""
    yield


async def collected(rows: Iterable[Row]) -> list[Row]:
    """All rows; the loop has its turn between slices of them."""
    found: list[Row] = []
    waiting = iter(rows)
    while some := list(islice(waiting, SLICE_ROWS)):
        found += some
        await others_turn()
    return found


async def encoded(reply: dict[str, Any]) -> bytes:
    """A reply as JSON; one that has a long list as its result, in slices."""
    rows = reply.get("result")
    if not isinstance(rows, list) or len(rows) <= SLICE_ROWS:
        return encode_document(reply)
    parts = []
    for start in range(0, len(rows), SLICE_ROWS):
        parts.append(encode_document(rows[start : start + SLICE_ROWS])[1:-1])
        await others_turn()
    return b'{"ok":true,"result":[' + b",".join(parts) + b"]}"


async def framed(reply: dict[str, Any]) -> bytes:
    """The same as it goes over the control socket."""
    document = await encoded(reply)
    return len(document).to_bytes(LENGTH_BYTES, "big") + document
