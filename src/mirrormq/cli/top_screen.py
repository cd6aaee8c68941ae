"""Screen of `mirrormq top` as lines of text: a snapshot of the cluster, cut to the size of a terminal.

This module does not access a terminal. A line consists of parts, each a text with the name of a style.
Names come from clients, so every unprintable character is shown as a question mark.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

SORTS = ("messages", "in", "out", "name")
"""Orders of the queues; SORT_COLUMNS has the API's column of each."""
SORT_COLUMNS = {
    "messages": "messages",
    "in": "message_stats.publish_details.rate",
    "out": "message_stats.deliver_get_details.rate",
    "name": "name",
}
RATES = (("in", "publish"), ("out", "deliver_get"), ("acks", "ack"), ("redelivered", "redeliver"))
COUNTED = ("connections", "channels", "consumers", "queues")
ROWS_ONCE = 20
"""Number of queues shown without a terminal."""

Part = tuple[str, str]
Line = list[Part]


class ClusterSnapshot(NamedTuple):
    """Snapshot of the cluster from the HTTP API."""

    source: str
    at: str
    overview: dict[str, Any]
    nodes: list[dict[str, Any]]
    queues: dict[str, Any]
    """Page of queues."""


class ScreenColumn(NamedTuple):
    """Column of a table: title, largest width and alignment."""

    title: str
    width: int
    right: bool = False


def screen(picture: ClusterSnapshot, sort: str, width: int, height: int | None) -> list[Line]:
    """Return the lines that fit; all lines if there is no height."""
    head = [*_head(picture), [("", "plain")], *_nodes(picture), [("", "plain")]]
    rows = picture.queues["items"]
    room = ROWS_ONCE if height is None else max(1, height - len(head) - 2)
    shown = rows[:room]
    lines = [*head, *_queues(shown, sort, width, rates_shown(picture))]
    hidden = int(picture.queues["filtered_count"]) - len(shown)
    if hidden > 0:
        lines.append([(f"  … and {hidden:,} more queues", "soft")])
    return [cut(line, width) for line in (lines if height is None else lines[:height])]


# -- sections -----------------------------------------------------------------------------------


def _head(picture: ClusterSnapshot) -> Iterable[Line]:
    overview = picture.overview
    objects, lengths = overview.get("object_totals", {}), overview.get("queue_totals", {})
    name = clean(overview.get("cluster_name", ""))
    yield [("mirrormq top", "title"), (f"  {name}  {picture.at}  by {picture.source}", "plain")]
    counts = [counted(objects.get(kind, 0), kind) for kind in COUNTED]
    ready, unacked = lengths.get("messages_ready", 0), lengths.get("messages_unacknowledged", 0)
    yield [("  ".join(counts) + f"  {ready:,} ready  {unacked:,} unacked", "plain")]
    stats = overview.get("message_stats", {}) if rates_shown(picture) else None
    yield [("  ".join(f"{title} {rate(stats, key)}" for title, key in RATES), "plain")]
    yield from _troubles(picture.nodes)


def _troubles(nodes: list[dict[str, Any]]) -> Iterable[Line]:
    for node in nodes:
        name = clean(node["name"])
        if not node["running"]:
            yield [(f"! {name} is down", "bad")]
            continue
        for alarm, what in (("mem_alarm", "memory"), ("disk_free_alarm", "disk")):
            if node.get(alarm):
                yield [(f"! {name} has a {what} alarm: publishers are blocked", "bad")]
        if node.get("partitions"):
            yield [(f"! {name} is partitioned from {', '.join(map(clean, node['partitions']))}", "bad")]


NODE_COLUMNS = (
    ScreenColumn("NODE", 28),
    ScreenColumn("STATE", 8),
    ScreenColumn("UP", 8, True),
    ScreenColumn("MEMORY", 18, True),
    ScreenColumn("DISK FREE", 10, True),
    ScreenColumn("HANDLES", 8, True),
    ScreenColumn("SOCKETS", 8, True),
)


def _nodes(picture: ClusterSnapshot) -> Iterable[Line]:
    yield _row(NODE_COLUMNS, [column.title for column in NODE_COLUMNS], "heading")
    for node in picture.nodes:
        if not node["running"]:
            yield _row(NODE_COLUMNS, [clean(node["name"]), "down", "", "", "", "", ""], "bad")
            continue
        memory = f"{size(node.get('mem_used', 0))} / {size(node.get('mem_limit', 0))}"
        yield _row(NODE_COLUMNS, [
            clean(node["name"]), "running", duration(node.get("uptime", 0)), memory,
            size(node.get("disk_free", 0)), str(node.get("fd_used", "")), str(node.get("sockets_used", "")),
        ], "plain")  # fmt: skip


QUEUE_COLUMNS = (
    ScreenColumn("VHOST", 8),
    ScreenColumn("READY", 10, True),
    ScreenColumn("UNACKED", 9, True),
    ScreenColumn("IN/s", 8, True),
    ScreenColumn("OUT/s", 8, True),
    ScreenColumn("CONS", 5, True),
)
LEFT_OUT_FIRST = ("VHOST", "CONS", "UNACKED", "OUT/s", "IN/s")
"""Columns that a narrow terminal omits first, so that the ring stays visible."""
RING_WIDTH = 34
NAME_WIDTH = (16, 40)
"""Smallest and largest width of a queue's name, which gets the space that other columns leave."""


def _queue_columns(sort: str, width: int) -> list[ScreenColumn]:
    """Return the columns that fit beside the ring, the queue's name first."""
    columns = list(QUEUE_COLUMNS)
    for title in (*LEFT_OUT_FIRST, ""):
        left = width - RING_WIDTH - sum(column.width + 1 for column in columns) - 1
        if left >= NAME_WIDTH[0]:
            break
        columns = [column for column in columns if column.title != title]
    return [ScreenColumn(f"QUEUE by {sort}", min(max(left, NAME_WIDTH[0]), NAME_WIDTH[1])), *columns]


def _queues(rows: Sequence[dict[str, Any]], sort: str, width: int, with_rates: bool) -> Iterable[Line]:
    columns = _queue_columns(sort, width)
    titles = [column.title for column in columns]
    yield [*_row(columns, titles, "heading"), ("RING", "heading")]
    for row in rows:
        stats = row.get("message_stats", {}) if with_rates else None
        name, vhost = clean(row["name"]), clean(row["vhost"])
        cells = {
            titles[0]: name if "VHOST" in titles or vhost == "/" else f"{vhost}: {name}", "VHOST": vhost,
            "READY": number(row.get("messages_ready")),
            "UNACKED": number(row.get("messages_unacknowledged")),
            "IN/s": rate(stats, "publish"), "OUT/s": rate(stats, "deliver_get"),
            "CONS": number(row.get("consumers")),
        }  # fmt: skip
        style = "plain" if row.get("state", "running") == "running" else "bad"
        yield [*_row(columns, [cells[title] for title in titles], style), *ring(row)]
    if not rows:
        yield [("  no queues", "soft")]


def ring(row: dict[str, Any]) -> Line:
    """Return a queue's master, then its mirrors: synchronised, or with their lag."""
    facts = row.get("mirrormq")
    if not facts or (len(facts["members"]) < 2 and not facts["waits_for"]):
        return [(_short(row.get("node", "")), "plain")]
    if facts["waits_for"]:
        return [(f"down, waits for {', '.join(map(_short, facts['waits_for']))}", "bad")]
    parts: Line = [(f"★{_short(facts['members'][0])}", "good")]
    for name in facts["members"][1:]:
        if name in facts["in_sync"]:
            parts.append((f" ✓{_short(name)}", "good"))
            continue
        behind = facts["lag"].get(name)
        parts.append((f" …{_short(name)}" + (f" -{behind:,}" if behind else ""), "bad"))
    return [*parts, (f" e{facts['epoch']}", "soft")]


# -- texts --------------------------------------------------------------------------------------


def _short(node: str) -> str:
    return clean(node).partition("@")[0]


def clean(text: object) -> str:
    """Return the text without control characters, which a terminal would execute."""
    return "".join(character if character.isprintable() else "?" for character in str(text))


def number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "–"


def counted(count: int, things: str) -> str:
    return f"{count:,} {things.removesuffix('s') if count == 1 else things}"


def rates_shown(picture: ClusterSnapshot) -> bool:
    """Report whether the node publishes message rates; `management.rates_mode = none` disables them."""
    return bool(picture.overview.get("rates_mode") != "none")


def rate(stats: dict[str, Any] | None, key: str) -> str:
    """Return a rate per second, with one decimal if it is below 100."""
    if stats is None:
        return "–"
    found = float(stats.get(f"{key}_details", {}).get("rate", 0.0))
    return f"{found:,.0f}" if found >= 100 or found == 0 else f"{found:.1f}"


def size(count: float) -> str:
    """Format a number of bytes."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def duration(milliseconds: int) -> str:
    """Format a duration with its two largest units: 3d 4h, 4h 5m, 5m 6s."""
    seconds = milliseconds // 1000
    units = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
    for (length, unit), (smaller, other) in pairwise(units):
        if seconds >= length:
            return f"{seconds // length}{unit} {seconds % length // smaller}{other}"
    return f"{seconds}s"


def columns_of(text: str) -> int:
    """Return the number of terminal columns of a text."""
    return sum(_places(each) for each in text)


def _places(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _row(columns: Sequence[ScreenColumn], cells: Sequence[str], style: str) -> Line:
    texts = []
    for column, cell in zip(columns, cells, strict=True):
        text = fitted(cell, column.width)
        space = " " * (column.width - columns_of(text))
        texts.append(space + text if column.right else text + space)
    return [(" ".join(texts) + " ", style)]


def fitted(text: str, width: int) -> str:
    """Cut a text to a width and mark the cut with an ellipsis."""
    if columns_of(text) <= width:
        return text
    kept, taken = "", 1
    for each in text:
        taken += _places(each)
        if taken > width:
            break
        kept += each
    return kept + "…"


def cut(line: Line, width: int) -> Line:
    """Cut a line to the width of the terminal: a wrapped line would push out the last one."""
    found: Line = []
    for text, style in line:
        room = width - sum(columns_of(each) for each, _ in found)
        if room <= 0:
            break
        found.append((fitted(text.rstrip() if columns_of(text) > room else text, room), style))
    return found
