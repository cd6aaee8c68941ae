"""Page of an audit: verdict, problems, timeline, then the tables behind them."""

from __future__ import annotations

from importlib.resources import files

from mirrormq.spark.audit.collect import EXAMPLES_MAX, TABLE_ROWS_MAX
from mirrormq.spark.audit.findings import Findings
from mirrormq.spark.report import report_tables
from mirrormq.spark.report.distribution import distribution
from mirrormq.spark.report.number_format import duration, moment, number, text
from mirrormq.spark.report.timeline_plot import timeline

TILES = (
    ("attempted", "Publishes that were attempted."),
    ("confirmed", "Publishes that the broker confirmed."),
    ("ok", "Deliveries, up to the number of attempts."),
    ("lost", "Confirmed, and never delivered."),
    ("unexpected", "Delivered, and never published."),
    ("unflagged", "Redelivered without the flag redelivered."),
    ("duplicated", "Delivered more often than published."),
    ("recovered", "Never confirmed, and delivered."),
)


def page(found: Findings) -> str:
    """Return the whole report as one HTML text."""
    style = files("mirrormq.spark.report").joinpath("style.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Audit: {text(found.verdict)}</title><style>{style}</style></head><body><main>"
        f"{_header(found)}{_tiles(found)}{_problems(found)}{_sections(found)}{_footer()}"
        "</main></body></html>\n"
    )


def _header(found: Findings) -> str:
    state, word = ("passed", "Passed") if found.passed else ("failed", "Failed")
    runs = f" in {number(found.runs)} runs" if found.runs > 1 else ""
    return (
        f'<header class="{state}"><p class="stamp">{word}</p><h1>{text(found.verdict)}.</h1>'
        f'<p class="quiet">History <b>{text(found.history)}</b>: {number(found.rows)} rows{runs}, '
        f"from {moment(found.start_ns)}, over {duration(found.end_ns - found.start_ns)}.</p></header>"
    )


def _tiles(found: Findings) -> str:
    tiles = []
    for name, hint in TILES:
        value = found.totals[name]
        style = " bad" if name in report_tables.BAD and value else ""
        tiles.append(
            f'<div class="tile{style}" title="{text(hint)}"><b>{number(value)}</b><span>{name}</span></div>'
        )
    return f'<section class="tiles">{"".join(tiles)}</section>'


def _problems(found: Findings) -> str:
    items = "".join(
        f'<li class="{"serious" if problem.serious else "note"}"><b>{text(problem.title)}.</b> '
        f"{text(problem.explanation)}</li>"
        for problem in found.problems
    )
    return f'<section><h2>Problems and notes</h2><ul class="problems">{items}</ul></section>' if items else ""


def _sections(found: Findings) -> str:
    """Return everything below the summary; an empty section is left out."""
    many, few = TABLE_ROWS_MAX, EXAMPLES_MAX
    examples = {name: report_tables.message_examples(found, name) for name in report_tables.BAD}
    cut = {name: report_tables.cut(rows, few) for name, rows in found.examples.items()}
    parts = [
        ("Timeline", f'<div class="scroll"><div class="figure">{timeline(found)}</div></div>'),
        ("Faults", report_tables.faults(found, many) + report_tables.cut(found.faults, many)),
        ("Loss by epoch", report_tables.lost_by_epoch(found)),
        ("Lost messages", examples["lost"] + cut.get("lost", "")),
        ("Unexpected messages", examples["unexpected"] + cut.get("unexpected", "")),
        ("Redeliveries without the flag", examples["unflagged"] + cut.get("unflagged", "")),
        ("Epochs with two masters", report_tables.split_epochs(found)),
        ("Replicas that differ", report_tables.divergences(found)),
        (
            "Messages that were overtaken",
            report_tables.inversions(found) + report_tables.cut(found.inversions, few),
        ),
        (
            "Queues",
            f'<div class="wide">{report_tables.queues(found)}</div>' + report_tables.cut(found.queues, many),
        ),
        ("Latencies", _latencies(found)),
        (
            "Longest silence of the cluster and of each node",
            report_tables.silences(found) + report_tables.cut(found.silences, many),
        ),
        ("Interruptions", report_tables.interruptions(found)),
        ("Replicas in the end", report_tables.replicas(found) + report_tables.cut(found.replicas, many)),
        ("Rows of the history", report_tables.kinds(found)),
    ]
    return "".join(f"<section><h2>{title}</h2>{body}</section>" for title, body in parts if body)


def _latencies(found: Findings) -> str:
    plot = distribution(found)
    if not plot:
        return ""
    return f'{report_tables.latencies(found)}<div class="scroll"><div class="figure">{plot}</div></div>'


def _footer() -> str:
    return (
        "<footer><h2>Words</h2><dl>"
        "<dt>ok</dt><dd>deliveries of a message, up to the number of its attempts</dd>"
        "<dt>lost</dt><dd>confirms (less returns) without a delivery</dd>"
        "<dt>unexpected</dt><dd>deliveries of what was never attempted in that queue</dd>"
        "<dt>duplicated</dt><dd>deliveries beyond the number of attempts</dd>"
        "<dt>recovered</dt><dd>ok without a confirm</dd>"
        "<dt>unknown</dt><dd>attempts with neither confirm nor nack</dd>"
        "<dt>unflagged</dt><dd>deliveries without the flag redelivered, beyond the number of attempts</dd>"
        "<dt>came back</dt><dd>delivered again after the acknowledgement was sent</dd>"
        '</dl><p class="quiet">Times are since the first row of the history. A lost message counts for the '
        "fault in which it was confirmed, or the next fault after its confirm. Percentiles are exact to "
        "about one percent. Shaded: a fault lasts.</p></footer>"
    )
