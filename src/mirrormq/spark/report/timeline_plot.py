"""Timeline plot: faults, masters, rates and latencies over the time of the history."""

from __future__ import annotations

from collections import defaultdict

from mirrormq.spark.audit.findings import Findings, Row
from mirrormq.spark.report.axes import TimeAxis, ValueAxis
from mirrormq.spark.report.number_format import duration, number, since
from mirrormq.spark.report.plots import Bar, Figure, Series

NODE_COLOURS = 8
"""Colours of the style sheet; further nodes share them."""

QUEUE_LANES_MAX = 8
CLUSTER = "cluster"
"""Lane of faults without a single node."""


def timeline(found: Findings) -> str:
    """Return the figure as SVG."""
    axis = TimeAxis(found.start_ns, found.end_ns)
    figure = Figure(axis, _shades(found))
    colours = node_colours(found)
    if found.faults:
        figure.lanes("Faults", _fault_lanes(found))
    if found.epochs:
        figure.lanes("Masters, by epoch", _master_lanes(found, colours))
    if found.lost_over_time:
        _lost(found, figure)
    for kind, title in (("confirmed", "Confirms per second"), ("delivered", "Deliveries per second")):
        _rates(found, figure, colours, kind, title)
    for measure, title in (("confirm", "Time to confirm"), ("delivery", "Time to delivery")):
        _latencies(found, figure, measure, title)
    return figure.svg("Faults, masters, rates and latencies over time")


def node_colours(found: Findings) -> dict[str, str]:
    """Return a style for every node."""
    names = {row["node"] for row in found.rates} | {row["node"] for row in found.faults}
    names |= {node for row in found.epochs for node in (*row["masters"], *row["confirming"])}
    return {name: f"c{index % NODE_COLOURS}" for index, name in enumerate(sorted(filter(None, names)))}


def _hint(fault: Row, found: Findings) -> str:
    end = fault["end_ns"]
    lasted = "never ended" if end is None else f"for {duration(end - fault['begin_ns'])}"
    where = f" of {fault['node']}" if fault["node"] else ""
    detail = f" ({fault['detail']})" if fault["detail"] else ""
    return f"{fault['what'] or 'fault'}{where}{detail}, {since(fault['begin_ns'], found.start_ns)}, {lasted}"


def _shades(found: Findings) -> list[tuple[float, float, str]]:
    return [
        (fault["begin_ns"], found.end_ns if fault["end_ns"] is None else fault["end_ns"], _hint(fault, found))
        for fault in found.faults
    ]


def _fault_lanes(found: Findings) -> list[tuple[str, list[Bar]]]:
    lanes: dict[str, list[Bar]] = defaultdict(list)
    for fault, (begin, end, hint) in zip(found.faults, _shades(found), strict=True):
        lanes[fault["node"] or CLUSTER].append(Bar(begin, end, "fault", fault["what"] or "fault", hint))
    return sorted(lanes.items(), key=lambda lane: (lane[0] == CLUSTER, lane[0]))


def _master_lanes(found: Findings, colours: dict[str, str]) -> list[tuple[str, list[Bar]]]:
    """Return each queue's epochs, the queues with most of them first. An epoch lasts until the next
    begins."""
    by_queue: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for row in found.epochs:
        by_queue[row["run"], row["queue"]].append(row)
    busiest = sorted(by_queue.items(), key=lambda item: (-len(item[1]), item[0]))[:QUEUE_LANES_MAX]
    lanes = []
    for (run, queue), rows in busiest:
        ends = [row["since_ns"] for row in rows[1:]] + [found.end_ns]
        bars = []
        for row, end in zip(rows, ends, strict=True):
            nodes = sorted({*row["masters"], *row["confirming"]})
            split = len(nodes) > 1
            label = f"{row['epoch']}: {' and '.join(nodes)}"
            hint = f"epoch {label}, since {since(row['since_ns'], found.start_ns)}"
            bars.append(Bar(row["since_ns"], end, "split" if split else colours[nodes[0]], label, hint))
        lanes.append((queue if found.runs == 1 else f"{queue} ({run})", bars))
    return lanes


def _middle(found: Findings, slice_number: int) -> float:
    return found.start_ns + (slice_number + 0.5) * found.slice_ns


def _rates(found: Findings, figure: Figure, colours: dict[str, str], kind: str, title: str) -> None:
    counts: dict[str, dict[int, int]] = defaultdict(dict)
    for row in found.rates:
        if row["kind"] == kind:
            counts[row["node"]][row["slice"]] = row["events"]
    if not counts:
        return
    last = (found.end_ns - found.start_ns) // found.slice_ns
    per_second = 1e9 / found.slice_ns
    series = []
    for node, events in sorted(counts.items()):
        points = [(_middle(found, i), events.get(i, 0) * per_second) for i in range(last + 1)]
        series.append(Series(node, colours[node], [(time, value) for time, value in points]))
    highest = [value for one in series for _, value in one.points if value is not None]
    figure.lines(title, ValueAxis.counting(highest), series)


def _latencies(found: Findings, figure: Figure, measure: str, title: str) -> None:
    rows = {row["slice"]: row for row in found.latencies_over_time if row["measure"] == measure}
    if not rows:
        return
    series = []
    for name, style in (("p50", "c0"), ("p99", "c1")):
        points = [(_middle(found, i), rows[i][name] if i in rows else None) for i in range(max(rows) + 1)]
        series.append(Series(name, style, points))
    values = [value for one in series for _, value in one.points if value is not None]
    figure.lines(title, ValueAxis.latency(values), series)


def _lost(found: Findings, figure: Figure) -> None:
    bars = []
    for row in found.lost_over_time:
        begin = found.start_ns + row["slice"] * found.slice_ns
        hint = f"{number(row['lost'])} lost of those confirmed around {since(begin, found.start_ns)}"
        bars.append((begin, begin + found.slice_ns, float(row["lost"]), hint))
    scale = ValueAxis.counting([value for _, _, value, _ in bars])
    figure.columns("Lost messages, by the time of their confirm", scale, bars, "bad")
