"""Lists with paging, filtering, sorting and columns, built in chunks so that a long list blocks no client.

A list in its default order is sent while it is being built. A list sorted by a column is built completely
first; the event loop runs after each chunk in both cases.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from mirrormq.management import columns
from mirrormq.management.api_request import ListReply
from mirrormq.management.http_errors import BAD_REQUEST, HttpRefusal, bad_request, encode
from mirrormq.management.json_encoding import integer

SLICE_ROWS = 50
"""Rows built between two turns of the loop: about 1.5 ms at 30 µs per queue row."""

BLOCK_ROWS = 500
"""Rows for which other nodes are queried at a time."""

PAGE_SIZE_DEFAULT = 100
PAGE_SIZE_MAX = 500
"""Limits of RabbitMQ."""

FILTER_TIMEOUT_S = 0.01
"""Timeout of one match of a name; a filter that needs longer is refused."""


async def chunks(listing: ListReply, query: dict[str, str]) -> AsyncIterator[bytes]:
    """Yield the reply's JSON in pieces; an error is raised before the first piece."""
    if listing.name is not None and "page" in query:
        yield encode(await _page(listing, query))
        return
    wanted = columns.wanted(query)
    if "sort" in query:
        rows = _sorted(await _rows(listing, listing.items), query)
        yield b"["
        for start in range(0, len(rows), SLICE_ROWS):
            yield _piece([columns.cut(row, wanted) for row in rows[start : start + SLICE_ROWS]], start > 0)
            await asyncio.sleep(0)
        yield b"]"
        return
    items = list(listing.items)
    if query.get("sort_reverse") == "true":
        items.reverse()
    yield b"["
    comma = False
    async for chunk in _slices(listing, items):
        yield _piece([columns.cut(row, wanted) for row in chunk], comma)
        comma = True
    yield b"]"


async def _slices(listing: ListReply, items: Sequence[Any]) -> AsyncIterator[list[dict[str, Any]]]:
    """Yield rows in chunks; other work runs in between."""
    for first in range(0, len(items), BLOCK_ROWS):
        block = items[first : first + BLOCK_ROWS]
        if listing.prepare is not None:
            await listing.prepare(block)
        for start in range(0, len(block), SLICE_ROWS):
            yield [listing.row(item) for item in block[start : start + SLICE_ROWS]]
            await asyncio.sleep(0)


def _piece(rows: list[Any], comma: bool) -> bytes:
    inside = encode(rows)[1:-1]
    return b"," + inside if comma else inside


async def _rows(listing: ListReply, items: Sequence[Any]) -> list[dict[str, Any]]:
    return [row async for chunk in _slices(listing, items) for row in chunk]


async def rows_of(listing: ListReply) -> list[dict[str, Any]]:
    """Return all rows of a listing."""
    return await _rows(listing, listing.items)


async def _page(listing: ListReply, query: dict[str, str]) -> dict[str, Any]:
    number, size = _page_numbers(query)
    matching = await _filtered(listing, query)
    pages = -(-len(matching) // size)
    first = (number - 1) * size
    # As in RabbitMQ, the page right after the last one is empty and no error.
    if first > len(matching):
        text = f"Page out of range, page: {number} page size: {size}, len: {len(matching)}"
        raise HttpRefusal(BAD_REQUEST, "page_out_of_range", text)
    if "sort" in query:
        rows = _sorted(await _rows(listing, matching), query)[first : first + size]
    else:
        if query.get("sort_reverse") == "true":
            matching.reverse()
        rows = await _rows(listing, matching[first : first + size])
    wanted = columns.wanted(query)
    return {
        "filtered_count": len(matching),
        "item_count": len(rows),
        "items": [columns.cut(row, wanted) for row in rows],
        "page": number,
        "page_count": pages,
        "page_size": size,
        "total_count": len(listing.items),
    }


def _page_numbers(query: dict[str, str]) -> tuple[int, int]:
    given = query.get("page_size")
    try:
        number = integer(query["page"])
        size = PAGE_SIZE_DEFAULT if given is None else integer(given)
    except ValueError:
        raise bad_request("Pagination parameters are invalid") from None
    if number < 1 or not 1 <= size <= PAGE_SIZE_MAX:
        shown = "undefined" if given is None else given
        text = f"Invalid pagination parameters: page number {number}, page size {shown}"
        raise HttpRefusal(BAD_REQUEST, "invalid_pagination_parameters", text)
    return number, size


async def _filtered(listing: ListReply, query: dict[str, str]) -> list[Any]:
    part = query.get("name", "")
    assert listing.name is not None
    if not part:
        return list(listing.items)
    import regex

    try:
        is_pattern = query.get("use_regex") == "true"
        pattern = regex.compile(part if is_pattern else regex.escape(part), regex.IGNORECASE)
        matching: list[Any] = []
        for start in range(0, len(listing.items), SLICE_ROWS):
            matching += [
                item
                for item in listing.items[start : start + SLICE_ROWS]
                if pattern.search(listing.name(item), timeout=FILTER_TIMEOUT_S)
            ]
            await asyncio.sleep(0)
    except (regex.error, TimeoutError):
        raise bad_request("Pagination parameters are invalid") from None
    return matching


def _sorted(rows: list[dict[str, Any]], query: dict[str, str]) -> list[dict[str, Any]]:
    path = query["sort"].split(".")
    return sorted(
        rows, key=lambda row: _rank(_value_at(row, path)), reverse=query.get("sort_reverse") == "true"
    )


def _rank(value: Any) -> tuple[int, Any]:
    """Return a sort key in Erlang's order of types; a missing value counts as 0."""
    if value is None:
        return 0, 0
    if isinstance(value, bool):
        return 1, value
    if isinstance(value, int | float):
        return 0, value
    return (3, value) if isinstance(value, str) else (2, encode(value))


def _value_at(row: dict[str, Any], path: list[str]) -> Any:
    value: Any = row
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
