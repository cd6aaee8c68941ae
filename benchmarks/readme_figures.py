"""Figures of README.md and README.zh.md, copied from the files that `make bench` writes.

    python -m benchmarks.readme_figures

Each row of the READMEs' table is one line of RESULTS.md or CLUSTER.md. The texts of the rows stay as their
authors wrote them; the script replaces the two medians, the ratio, and the dates and revisions below the
table. `tests/examples/test_readme.py` fails while a README differs from the files.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LANGUAGES = ("README.md", "README.zh.md")

FASTER, SHORTER, LESS = "faster", "shorter", "less"
RATIOS: Final = {
    "README.md": {FASTER: "{} ×", SHORTER: "{} × shorter", LESS: "{} × less"},
    "README.zh.md": {FASTER: "{} ×", SHORTER: "缩短至 1/{}", LESS: "降至 1/{}"},
}
ORIGIN: Final = {
    "README.md": "[one node](benchmarks/RESULTS.md): {}; [three nodes](benchmarks/CLUSTER.md): {}.",
    "README.zh.md": "[单节点](benchmarks/RESULTS.md)：{}；[三节点](benchmarks/CLUSTER.md)：{}。",
}
RUN: Final = {"README.md": "revision {1} of {0}", "README.zh.md": "{0}，修订版 {1}"}

ROW = re.compile(r"^\| (?P<work>.+?) \| (?P<rabbitmq>\d.*?) \| (?P<mirrormq>\d.*?) \| (?P<ratio>.+?) \|$")
"""Row of a README's table of figures: the only table whose second column begins with a digit."""


class Figure(NamedTuple):
    """Line of a benchmark file that a README shows."""

    file: str
    work: str
    comparison: str


FIGURES: Final = (
    Figure("RESULTS.md", "publish + consume, persistent, durable queue, acks as above", FASTER),
    Figure("RESULTS.md", "consume only, from a backlog of 200,000", FASTER),
    Figure(
        "RESULTS.md",
        "unlike publishes: amq.topic, ten routing keys, own properties, 50–150 B, persistent, window 1000",
        LESS,
    ),
    Figure("CLUSTER.md", "publish + consume through the master's node", FASTER),
    Figure("CLUSTER.md", "kill -9 of the master under load: longest gap in confirms on other nodes", SHORTER),
    Figure(
        "CLUSTER.md",
        "two mirrors join a queue of 1,000,000 under load: longest gap in confirms",
        SHORTER,
    ),
    Figure("RESULTS.md", "node start to first client served", SHORTER),
)
"""Lines in the order of the READMEs' rows."""


class Measured(NamedTuple):
    """Medians of both brokers as the READMEs show them, and how many times better MirrorMQ is."""

    rabbitmq: str
    mirrormq: str
    ratio: str


def table_row(text: str, work: str) -> dict[str, str]:
    """Return the cells of a benchmark line by the headings of its table."""
    headings: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split("|")] if line.startswith("|") else []
        if cells[:1] == ["work"]:
            headings = cells
        elif cells[:1] == [work]:
            return dict(zip(headings, cells, strict=True))
    raise LookupError(f"no line '{work}': choose another one in benchmarks/readme_figures.py")


def median(row: dict[str, str], broker: str) -> str:
    """Return a broker's median with its unit, without the range in brackets."""
    heading = next(name for name in (broker, f"{broker} mirrored", f"{broker} µs") if name in row)
    figure = row[heading].partition(" (")[0]
    return f"{figure} µs" if heading.endswith(" µs") else figure


def number(figure: str) -> float:
    """Return the number at the beginning of a figure."""
    return float(figure.split()[0].replace(",", ""))


def measured(figure: Figure) -> Measured:
    """Read one line of a benchmark file.

    The ratio is the file's own if that says how many times better MirrorMQ is: `make bench` computes it
    before rounding. For durations the file has its inverse with two digits, hence the medians are divided.
    """
    row = table_row((ROOT / "benchmarks" / figure.file).read_text(), figure.work)
    rabbitmq, mirrormq = median(row, "RabbitMQ"), median(row, "MirrorMQ")
    if figure.comparison == SHORTER:
        times = number(rabbitmq) / number(mirrormq)
        ratio = f"{times:.1f}" if times < 100 else f"{times:.0f}"
    else:
        ratio = row["ratio" if "ratio" in row else "× mirrored"].removesuffix(" ×")
    if number(ratio) < 1:
        raise ValueError(f"'{figure.work}' is a line that RabbitMQ wins: its row needs other words")
    return Measured(rabbitmq, mirrormq, ratio)


def run_of(file: str) -> tuple[str, str]:
    """Return date and revision of the run that wrote a benchmark file."""
    text = (ROOT / "benchmarks" / file).read_text()
    date = re.search(r"^Written by .* on (\d{4}-\d\d-\d\d)", text, re.MULTILINE)
    revision = re.search(r"^- MirrorMQ: revision (\w+)", text, re.MULTILINE)
    if date is None or revision is None:
        raise LookupError(f"benchmarks/{file} names no date and revision")
    return date[1], revision[1]


def refreshed(name: str, text: str) -> str:
    """Return the text of a README with the figures of the benchmark files."""
    lines = text.splitlines()
    rows = [(index, found) for index, line in enumerate(lines) if (found := ROW.match(line))]
    for (index, found), figure in zip(rows, FIGURES, strict=True):
        figures = measured(figure)
        ratio = RATIOS[name][figure.comparison].format(figures.ratio)
        lines[index] = f"| {found['work']} | {figures.rabbitmq} | {figures.mirrormq} | {ratio} |"
    pattern = re.compile(re.escape(ORIGIN[name]).replace(r"\{\}", ".*"))
    runs = [RUN[name].format(*run_of(file)) for file in ("RESULTS.md", "CLUSTER.md")]
    origins = [index for index, line in enumerate(lines) if pattern.fullmatch(line)]
    if len(origins) != 1:
        raise LookupError(f"{name} needs one line that states the runs of its figures")
    lines[origins[0]] = ORIGIN[name].format(*runs)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Rewrite both READMEs."""
    for name in LANGUAGES:
        path = ROOT / name
        path.write_text(refreshed(name, path.read_text()))


if __name__ == "__main__":
    main()
