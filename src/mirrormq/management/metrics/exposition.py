"""Collector of samples and writer of Prometheus' text exposition format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mirrormq.management.metrics.metric_names import METRICS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

PIECE_LINES = 2_000
"""Lines joined between two turns of the loop: about a millisecond."""


def labels(**named: str) -> str:
    """Return the labels of a sample."""
    return "{" + ",".join([f'{name}="{_escaped(value)}"' for name, value in named.items()]) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Exposition:
    """Samples of one scrape, by metric."""

    def __init__(self, wanted: Mapping[str, str] | None = None) -> None:
        self._lines: dict[str, list[str]] = {}
        self._wanted = wanted
        """Requested metrics and their names; None for all metrics under their own names."""

    def wants(self, prefix: str) -> bool:
        """Report whether any metric with this prefix is requested."""
        return self._wanted is None or any(name.startswith(prefix) for name in self._wanted)

    def announce(self, name: str) -> None:
        """Include a metric even if it has no sample."""
        if self._wanted is None or name in self._wanted:
            self._lines.setdefault(name, [])

    def add(self, name: str, value: float, labelled: str = "") -> None:
        """Add one sample of a metric in the table."""
        if self._wanted is None:
            self._lines.setdefault(name, []).append(f"{name}{labelled} {_number(value)}")
        elif name in self._wanted:
            self._lines.setdefault(name, []).append(f"{self._wanted[name]}{labelled} {_number(value)}")

    def histogram(self, name: str, bounds: Sequence[float], counts: Sequence[int], total: float) -> None:
        """Add a histogram from the counts per bucket; the last count is above all bounds."""
        if self._wanted is not None:
            return
        lines, seen = self._lines.setdefault(name, []), 0
        for bound, count in zip((*bounds, "+Inf"), counts, strict=True):
            # Prometheus' buckets are cumulative.
            seen += count
            lines.append(f'{name}_bucket{{le="{bound}"}} {seen}')
        lines += [f"{name}_count {seen}", f"{name}_sum {_number(total)}"]

    def pieces(self) -> Iterator[bytes]:
        """Yield the text in pieces."""
        for name in sorted(self._lines):
            kind, meaning = METRICS[name]
            shown = name if self._wanted is None else self._wanted[name]
            lines = [f"# TYPE {shown} {kind}", f"# HELP {shown} {meaning}", *self._lines[name]]
            for start in range(0, len(lines), PIECE_LINES):
                text = "\n".join(lines[start : start + PIECE_LINES]) + "\n"
                yield text.encode("utf-8", "replace")


def _number(value: float) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return "NaN" if value != value else repr(value)
