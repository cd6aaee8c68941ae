"""The page of a live audit: how it stands, what was found, and the queues."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from mirrormq.spark.report.number_format import duration, moment, number, text
from mirrormq.spark.report.report_tables import table

if TYPE_CHECKING:
    from mirrormq.spark.jobs.audit_state import AuditState

ROWS_MAX = 200
"""Queues and findings on the page; the counts at its top are of everything."""

RELOAD_S = 10
"""The page is written again after each batch, and loads itself again."""

HINTS = {
    "published": "Went into a queue, and what became of them is known.",
    "ok": "Came out as often as they went in, at most.",
    "out": "Came out, and are followed in case they come again.",
    "waiting": "Went in and may still be there.",
    "lost": "Went in, left the queue, and nobody got them.",
    "unflagged": "Came again without the flag redelivered.",
    "duplicated": "Came out more often than they went in.",
    "before": "Came out, and went in before tracing began.",
    "gone": "Their queue was deleted.",
    "leased": "Their queue is read under a lease, which is not traced.",
    "unseen": "Traces were missing, or may be: nothing can be said.",
}
BAD = ("lost", "unflagged")


def page(book: AuditState) -> str:
    """The whole page as one HTML text."""
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
        f"{_section('What was found', _findings(book))}{_section('Queues', _queues(book))}{_words()}"
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
        '<p class="quiet">A trace shows what went in and what was delivered, not what was confirmed. What '
        "expired, was dropped by a limit or purged counts as lost.</p></footer>"
    )
