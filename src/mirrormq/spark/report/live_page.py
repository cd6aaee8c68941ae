"""Page of a live audit: state, findings, and queues."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from mirrormq.spark.report.number_format import duration, moment, number, text
from mirrormq.spark.report.report_tables import table

if TYPE_CHECKING:
    from mirrormq.spark.jobs.audit_state import AuditState

ROWS_MAX = 200
"""Queues and findings on the page; the counts at its top cover everything."""

RELOAD_S = 10
"""Reload interval; the page is rewritten after each batch."""

HINTS = {
    "published": "Routed to a queue, with a known outcome.",
    "ok": "Deliveries, up to the number of publishes.",
    "out": "Delivered; a redelivery is still possible.",
    "waiting": "Published, and possibly still in the queue.",
    "lost": "Published, left the queue, and were not delivered.",
    "unflagged": "Redelivered without the flag redelivered.",
    "duplicated": "Delivered more often than published.",
    "before": "Delivered, and published before tracing began.",
    "gone": "Their queue was deleted.",
    "leased": "Their queue is read under a lease, which is not traced.",
    "unseen": "Traces are or may be missing: not judged.",
}
BAD = ("lost", "unflagged")


def page(book: AuditState) -> str:
    """Return the whole page as one HTML text."""
    style = files("mirrormq.spark.report").joinpath("style.css").read_text(encoding="utf-8")
    serious = any(book.totals[name] for name in BAD)
    state, word = ("failed", "Failed") if serious else ("passed", "Nothing serious")
    spent = duration((book.time_ms - book.first_ms) * 1e6)
    tiles = "".join(
        f'<div class="tile{" bad" if name in BAD and book.totals[name] else ""}" title="{text(hint)}">'
        f"<b>{number(book.totals[name])}</b><span>{name}</span></div>"
        for name, hint in HINTS.items()
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="refresh" content="{RELOAD_S}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Live audit: {text(book.verdict)}</title><style>{style}</style></head><body><main>"
        f'<header class="{state}"><p class="stamp">{word}</p><h1>{text(book.verdict)}.</h1>'
        f'<p class="quiet">{number(book.traces)} traces since {moment(book.first_ms * 1_000_000)}, '
        f'over {spent}.{_gaps(book)}</p></header><section class="tiles">{tiles}</section>'
        f"{_section('Findings', _findings(book))}{_section('Queues', _queues(book))}{_words()}"
        "</main></body></html>\n"
    )


def _section(title: str, body: str) -> str:
    return f"<section><h2>{title}</h2>{body}</section>" if body else ""


def _gaps(book: AuditState) -> str:
    missing = f" Traces were missing {number(book.gaps)} times." if book.gaps else ""
    taken_over = f" Their queue got another master {number(book.takeovers)} times." if book.takeovers else ""
    return missing + taken_over


def _findings(book: AuditState) -> str:
    rows = [
        [moment(found.time_ms * 1_000_000), text(found.kind), text(found.sentence)]
        for found in book.findings[-ROWS_MAX:][::-1]
    ]
    return table(["found", "what", ""], rows, left=3)


def _queues(book: AuditState) -> str:
    worst = sorted(book.queues.items(), key=lambda item: [-item[1][name] for name in (*BAD, "published")])
    rows = [[text(name), *(number(counts[each]) for each in HINTS)] for name, counts in worst[:ROWS_MAX]]
    return f'<div class="wide">{table(["queue", *HINTS], rows)}</div>' if rows else ""


def _words() -> str:
    items = "".join(f"<dt>{name}</dt><dd>{text(hint)}</dd>" for name, hint in HINTS.items())
    return (
        f"<footer><h2>Words</h2><dl>{items}</dl>"
        '<p class="quiet">A trace shows publishes and deliveries, not confirms. Messages that '
        "expired, were dropped by a limit or purged count as lost.</p></footer>"
    )
