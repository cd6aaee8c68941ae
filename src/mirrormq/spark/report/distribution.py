"""Latency distribution: for each measure a histogram of messages by latency."""

from __future__ import annotations

import math
from collections import defaultdict

from mirrormq.spark.audit.findings import Findings
from mirrormq.spark.audit.latency import BUCKETS_PER_DOUBLING, middle_ns
from mirrormq.spark.report.axes import LEFT, RIGHT, WIDTH, ValueAxis
from mirrormq.spark.report.number_format import duration, number, text

HEIGHT = 150
TOP = 30
LEGEND_WIDTH = 170
BUCKETS_PER_COLUMN = BUCKETS_PER_DOUBLING // 4
"""Four columns per doubling: fine enough to show two peaks, coarse enough to be smooth."""

STYLES = {"confirm": "c0", "delivery": "c2"}
NAMES = {"confirm": "time to confirm", "delivery": "time to delivery"}


def distribution(found: Findings) -> str:
    """Return the figure as SVG; empty without measurements."""
    columns = _columns(found)
    if not columns:
        return ""
    whole = {measure: sum(counts.values()) for measure, counts in columns.items()}
    places = [_time(column) for counts in columns.values() for column in counts]
    scale = ValueAxis.latency([min(places), max(places)])
    parts_max = max(n / whole[measure] for measure, counts in columns.items() for n in counts.values())
    parts = [_axis(scale)]
    for index, (measure, counts) in enumerate(columns.items()):
        style = STYLES[measure]
        x = LEFT + index * LEGEND_WIDTH
        parts.append(
            f'<line class="line {style}" x1="{x}" x2="{x + 13}" y1="16" y2="16"/>'
            f'<text class="legend" x="{x + 18}" y="20">{NAMES[measure]}</text>'
        )
        for column, n in sorted(counts.items()):
            begin, end = _x(scale, _time(column)), _x(scale, _time(column + 1))
            height = max(HEIGHT * n / whole[measure] / parts_max, 1.0)
            hint = f"{number(n)} messages, {NAMES[measure]} about {duration(_time(column + 0.5))}"
            parts.append(
                f'<rect class="column {style}" x="{begin:.1f}" y="{TOP + HEIGHT - height:.1f}" '
                f'width="{max(end - begin - 0.5, 1):.1f}" height="{height:.1f}">'
                f"<title>{text(hint)}</title></rect>"
            )
    height = TOP + HEIGHT + 26
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="Latencies">{"".join(parts)}</svg>'


def _columns(found: Findings) -> dict[str, dict[int, int]]:
    columns: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for row in found.latency_buckets:
        columns[row["measure"]][row["bucket"] // BUCKETS_PER_COLUMN] += row["messages"]
    return columns


def _time(column: float) -> float:
    """Return the latency at a column's left edge."""
    return max(middle_ns(math.floor(column * BUCKETS_PER_COLUMN)), 1.0)


def _x(scale: ValueAxis, latency_ns: float) -> float:
    return LEFT + scale.part(latency_ns) * (WIDTH - LEFT - RIGHT)


def _axis(scale: ValueAxis) -> str:
    bottom = TOP + HEIGHT
    parts = [f'<line class="tick" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>']
    for value, label in scale.ticks():
        x = _x(scale, value)
        parts.append(
            f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom + 4}"/>'
            f'<text class="time" x="{x:.1f}" y="{bottom + 17}">{text(label)}</text>'
        )
    return "".join(parts)
