"""What `mirrormq top` shows, as lines of text: a picture of the cluster cut to the size of a terminal.

Nothing here touches a terminal. A line is made of parts, each a text with the name of a style; names come
from clients, so whatever in them is no printable character is shown as a question mark.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

SORTS = ("messages", "in", "out", "name")
"""The orders of the queues; the API's column for each is in SORT_COLUMNS."""
SORT_COLUMNS = {
    "messages": "messages",
    "in": "message_stats.publish_details.rate",
    "out": "message_stats.deliver_get_details.rate",
    "name": "name",
}
RATES = (("in", "publish"), ("out", "deliver_get"), ("acks", "ack"), ("redelivered", "redeliver"))
COUNTED = ("connections", "channels", "consumers", "queues")
ROWS_ONCE = 20
"""Queues shown where there is no screen to fill."""

Part = tuple[str, str]
Line = list[Part]


class ClusterSnapshot(NamedTuple):
    """One look at the cluster, as the HTTP API told it."""

    source: str
    at: str
    overview: dict[str, Any]
    nodes: list[dict[str, Any]]
    queues: dict[str, Any]
    """A page of queues."""


class ScreenColumn(NamedTuple):
    """One of a table: its title, how wide it may be, and on which side its cells stand."""

    title: str
    width: int
    right: bool = False


def screen(picture: ClusterSnapshot, sort: str, width: int, height: int | None) -> list[Line]:
    """As many lines as fit; all where there is no height."""
    head = [*_head(picture), [("", "plain")], *_nodes(picture), [("", "plain")]]
    rows = picture.queues["items"]
    room = ROWS_ONCE if height is None else max(1, height - len(head) - 2)
    shown = rows[:room]
    lines = [*head, *_queues(shown, sort, width, rates_shown(picture))]
    hidden = int(picture.queues["filtered_count"]) - len(shown)
    if hidden > 0:
        lines.append([(f"  … and {hidden:,} more queues", "soft")])
    return [cut(line, width) for line in (lines if height is None else lines[:height])]


# -- parts of the screen ------------------------------------------------------------------------


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
            yield [(f"! {name} does not run", "bad")]
            continue
        for alarm, what in (("mem_alarm", "memory"), ("disk_free_alarm", "disk")):
            if node.get(alarm):
                yield [(f"! {name} is short of {what}: publishers are blocked", "bad")]
        if node.get("partitions"):
            yield [(f"! {name} is apart from {', '.join(map(clean, node['partitions']))}", "bad")]


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
"""A narrow terminal shows fewer columns, so that the ring stays."""
RING_WIDTH = 34
NAME_WIDTH = (16, 40)
"""A queue's name gets what the other columns leave it, between these."""


def _queue_columns(sort: str, width: int) -> list[ScreenColumn]:
    """The columns for which there is room beside the ring, the queue's name first."""
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
    """A queue's master, then its mirrors: synchronised, or how far behind."""
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
    """Without anything that a terminal would obey."""
    return "".join(each if each.isprintable() else "?" for each in str(text))


def number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else "–"


def counted(count: int, things: str) -> str:
    return f"{count:,} {things.removesuffix('s') if count == 1 else things}"


def rates_shown(picture: ClusterSnapshot) -> bool:
    """Whether the node tells what messages do: `management.rates_mode = none` forbids it."""
    return bool(picture.overview.get("rates_mode") != "none")


def rate(stats: dict[str, Any] | None, key: str) -> str:
    """Per second, with one decimal where that says something."""
    if stats is None:
        return "–"
    found = float(stats.get(f"{key}_details", {}).get("rate", 0.0))
    return f"{found:,.0f}" if found >= 100 or found == 0 else f"{found:.1f}"


def size(count: float) -> str:
    """Bytes for people."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 100 else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"


def duration(milliseconds: int) -> str:
    """The two largest units of a time: 3d 4h, 4h 5m, 5m 6s."""
    seconds = milliseconds // 1000
    units = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
    for (length, unit), (smaller, other) in pairwise(units):
        if seconds >= length:
            return f"{seconds // length}{unit} {seconds % length // smaller}{other}"
    return f"{seconds}s"


def columns_of(text: str) -> int:
    """How many places of a terminal a text takes."""
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
    """Cut to a width, with a sign that something is missing."""
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
    """No wider than the terminal: a line that wraps would push out the last one."""
    found: Line = []
    for text, style in line:
        room = width - sum(columns_of(each) for each, _ in found)
        if room <= 0:
            break
        found.append((fitted(text.rstrip() if columns_of(text) > room else text, room), style))
    return found
