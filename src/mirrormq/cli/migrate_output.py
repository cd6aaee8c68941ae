"""Output of `mirrormq migrate`: survey, progress, status and report."""

from __future__ import annotations

import shutil
import sys
import textwrap
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

if TYPE_CHECKING:
    from mirrormq.migration.migration_records import Plan, State, Status
    from mirrormq.migration_io.migration_verify import Report

BAR_CELLS = 30
SLOWEST_SHOWN = 10
WIDTH_ONCE = 120
"""Width of tables without a terminal."""
COLUMN_MIN = 12

NEXT = {
    "planned": "mirrormq migrate run",
    "following": "mirrormq migrate switch consumers",
    "moving": "mirrormq migrate switch producers",
    "drained": "mirrormq migrate verify, then mirrormq migrate finish",
}


def table(headings: list[str], rows: list[list[str]], wrapped: int = 0) -> str:
    """Return a table; the last `wrapped` columns share the width that remains."""
    width = shutil.get_terminal_size((WIDTH_ONCE, 24)).columns if sys.stdout.isatty() else WIDTH_ONCE
    fixed = len(headings) - wrapped
    widths = [max(len(row[index]) for row in [headings, *rows]) for index in range(fixed)]
    left = width - sum(widths) - 2 * len(headings)
    widths += [max(COLUMN_MIN, left // wrapped)] * wrapped if wrapped else []
    lines = []
    for row in [headings, *rows]:
        cells = [
            textwrap.wrap(cell, widths[index]) or [""] if index >= fixed else [cell]
            for index, cell in enumerate(row)
        ]
        for number in range(max(map(len, cells))):
            parts = [
                (cell[number] if number < len(cell) else "").ljust(widths[i]) for i, cell in enumerate(cells)
            ]
            lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def findings_table(plan: Plan, directory: Path) -> str:
    """Return the survey, with what to do next."""
    rows = [
        [
            "accepted" if each.id in plan.accepted else each.severity,
            each.kind,
            each.name,
            each.reason,
            each.remedy,
        ]
        for each in plan.findings
    ]
    shown = table(["SEVERITY", "KIND", "NAME", "REASON", "REMEDY"], rows, wrapped=3)
    if plan.blockers:
        last = (
            f"Blockers: {len(plan.blockers)}. Follow the remedies and plan again, or accept each, for "
            f"example with --accept {plan.blockers[0].id!r}."
        )
    else:
        last = f"Nothing blocks the migration. Next: mirrormq migrate run --dir {directory}"
    return f"{shown}\n\n{last}"


def duration(seconds: float | None) -> str:
    """Return a time for people."""
    if seconds is None:
        return "unknown"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def progress_line(status: Status) -> str:
    """Return phase, bar, rate and remaining time."""
    total = status.moved + status.left
    parts = [f"phase {status.phase}"]
    if status.goal is not status.phase:
        parts.append(f"→ {status.goal}")
    if status.queues:
        done = status.moved * BAR_CELLS // total if total else BAR_CELLS
        parts.append(f"[{'#' * done}{'.' * (BAR_CELLS - done)}] {status.moved:,} of {total:,} messages")
        parts.append(f"{status.rate:,.0f}/s")
        if status.left:
            parts.append(f"{duration(status.eta_s)} left")
    note = status.error or status.waiting
    return "  ".join(parts) + (f"  {note}" if note else "")


def status_lines(state: State, status: Status | None, is_running: bool) -> list[str]:
    """Return the status as lines."""
    lines = [f"{entered.time}  {entered.phase}" for entered in state.history]
    lines.append("")
    if status is not None and is_running:
        lines.append(progress_line(status))
        slow = sorted(status.queues, key=lambda each: -each.left)[:SLOWEST_SHOWN]
        if slow:
            rows = [
                [each.vhost, each.queue, each.state, str(each.moved), str(each.left), each.reason]
                for each in slow
            ]
            lines += ["", table(["VHOST", "QUEUE", "LINK", "MOVED", "LEFT", "REASON"], rows)]
    if status is not None:
        lines += [f"not imported: {sentence}" for sentence in status.not_imported]
        lines += [f"user '{user}' needs a new password on the old cluster" for user in status.passwords]
    if not is_running and state.phase not in ("finished", "undone"):
        lines.append("Nothing carries the migration out now: start 'mirrormq migrate run'.")
    elif state.phase in NEXT:
        lines.append(f"Next: {NEXT[state.phase]}")
        if state.phase == "moving" and status is not None:
            lines.append(f"Producers would wait about {duration(status.eta_s)}, and some seconds more.")
    return lines


def report_table(report: Report) -> str:
    """Return a verification for people."""
    headings = ["VHOST", "QUEUE", "MOVED", "ARRIVED", "REPEATS", "LEFT", "DIGEST"]
    rows = [
        [row.vhost, row.queue, str(row.moved), str(row.arrived), str(row.repeats), str(row.left), row.digest]
        for row in report.rows
    ]
    sums = report.totals
    rows.append(["total", "", str(sums.moved), str(sums.arrived), str(sums.repeats), str(sums.left), ""])
    found = report.differences
    if not found:
        return f"{table(headings, rows)}\n\nNo unexplained difference."
    listed = "\n".join(f"  {sentence}" for sentence in found)
    return (
        f"{table(headings, rows)}\n\n{len(found)} unexplained difference{'s' * (len(found) != 1)}:\n{listed}"
    )


class ProgressScreen:
    """Progress on a terminal as one line, elsewhere as a line per change of the phase, or as JSON lines."""

    def __init__(self, as_json: bool, shows_line: bool | None = None) -> None:
        self._as_json = as_json
        self._is_terminal = sys.stderr.isatty() and not as_json
        self._shows_changes = shows_line is None and not as_json
        self._last = ("", "")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def show(self, status: Status) -> None:
        """Show a status."""
        if self._as_json:
            print(msgspec.json.encode(status).decode(), flush=True)
            return
        if self._is_terminal:
            width = shutil.get_terminal_size((WIDTH_ONCE, 24)).columns
            print(f"\r\x1b[K{progress_line(status)[: width - 1]}", end="", file=sys.stderr, flush=True)
            return
        change = (str(status.phase), status.error)
        if self._shows_changes and change != self._last:
            self._last = change
            print(progress_line(status), flush=True)
