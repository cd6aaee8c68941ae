"""Grafana dashboard: it queries only metrics that a node has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mirrormq.management.metrics.metric_names import METRICS

DASHBOARD = Path(__file__).resolve().parents[2] / "deploy" / "grafana" / "mirrormq.json"
NAME = re.compile(r"\b(?:rabbitmq|mirrormq)_\w+")
BY = re.compile(r"\bby \(([^)]*)\)")
PER_OBJECT = {"mirrormq_ring_epoch"}


def _dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text())
    return found


def _expressions(document: Any) -> Iterator[str]:
    """Return every expression of the dashboard."""
    if isinstance(document, dict):
        for name, value in document.items():
            if name in ("expr", "query") and isinstance(value, str):
                yield value
            yield from _expressions(value)
    elif isinstance(document, list):
        for each in document:
            yield from _expressions(each)


def test_each_expression_names_metrics_that_exist() -> None:
    expressions = [each for each in _expressions(_dashboard()) if each != "prometheus"]
    assert len(expressions) > 30
    for expression in expressions:
        names = NAME.findall(expression)
        assert names, expression
        for name in names:
            base = re.sub(r"_(bucket|sum|count)$", "", name)
            kind = METRICS.get(name, METRICS.get(base, ("", "")))[0]
            assert kind, f"{name} in {expression}"
            assert name not in PER_OBJECT, f"{name} is not on /metrics"
            assert (kind == "histogram") == (base != name), name
            if kind in ("counter", "histogram"):
                assert re.search(rf"(rate|increase)\({name}\b", expression), expression
        for labels in BY.findall(expression):
            assert set(labels.split(", ")) <= {"instance", "kind", "le", "number", "protocol", "state"}, (
                expression
            )
        assert expression.count("(") == expression.count(")")


def test_every_metric_of_our_own_is_on_it() -> None:
    shown = {
        re.sub(r"_(bucket|sum|count)$", "", n) for e in _expressions(_dashboard()) for n in NAME.findall(e)
    }
    ours = {name for name in METRICS if name.startswith("mirrormq_")} - PER_OBJECT
    assert ours <= shown


def test_panels_do_not_overlap() -> None:
    panels = _dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert place["x"] + place["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells
