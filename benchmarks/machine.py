"""Description of the machine that gives a number its meaning, and tables with both."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from mirrormq import builds

CHANGED = ", with changes that are not committed"
"""End of a revision whose tree differs from the commit."""

NOT_TABLES = ":(top,exclude)benchmarks/*.md"
"""Pathspec of the tree without the tables that benchmarks write."""


def describe(rabbitmq_version: str | None) -> list[str]:
    """Return machine and program versions, one fact per line."""
    return [
        f"processor: {_processor()}, {os.cpu_count()} cores",
        f"memory: {_memory_gib():.0f} GiB",
        f"system: {platform.system()} {platform.release()}",
        f"Python: {platform.python_version()} ({platform.python_compiler()})",
        f"MirrorMQ: revision {revision()}, message core {builds.choice.description}",
        f"RabbitMQ: {rabbitmq_version or 'not installed'}",
        f"load average before: {load_average():.2f}",
    ]


def load_average() -> float:
    """Return the load average of the last minute."""
    return os.getloadavg()[0]


def revision(directory: str = ".") -> str:
    """Return the measured commit, and whether this directory of the tree had uncommitted changes."""
    given = os.environ.get("MIRRORMQ_REVISION")
    if given:
        return given
    try:
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", directory, NOT_TABLES)
        return _git("describe", "--always") + (CHANGED if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def measured_tree(conditions: str) -> str:
    """Return what is measured, to tell whether two runs measure the same: revision, build, conditions."""
    return f"{revision()}, {builds.choice.description}, {conditions}"


def _git(*arguments: str) -> str:
    root = Path(__file__).parent.parent
    return subprocess.run(
        ["git", *arguments], cwd=root, capture_output=True, text=True, check=True
    ).stdout.strip()


def today() -> str:
    return datetime.datetime.now(tz=datetime.UTC).date().isoformat()


def write_table(
    file: Path,
    text: Sequence[str],
    machine: Sequence[str],
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    more: Sequence[str] = (),
) -> None:
    """Write a page with text, machine and measurements, and `more` lines behind them."""
    facts = [f"- {fact}" for fact in machine]
    file.write_text("\n".join([*text, "", *facts, "", *table_lines(headings, rows), *more, ""]))


def table_lines(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a Markdown table."""
    head = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    return [*head, *("| " + " | ".join(cells) + " |" for cells in rows)]


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
