"""Samples as they are collected, and the text exposition format that they leave in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mirrormq.management.metrics.metric_names import METRICS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

PIECE_LINES = 2_000
"""Lines joined between two turns of the loop: about a millisecond."""


def labels(**named: str) -> str:
    """Labels as a sample carries them."""
    return "{" + ",".join([f'{name}="{_escaped(value)}"' for name, value in named.items()]) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Exposition:
    """The samples of one scrape, by metric."""

    def __init__(self, wanted: Mapping[str, str] | None = None) -> None:
        self._lines: dict[str, list[str]] = {}
        self._wanted = wanted
        """The metrics that are told of, and under which names; None for all under their own."""

    def wants(self, prefix: str) -> bool:
        """Is any metric told of whose name begins so?"""
        return self._wanted is None or any(name.startswith(prefix) for name in self._wanted)

    def announce(self, name: str) -> None:
        """A metric that is told of even if there turns out to be no sample of it."""
        if self._wanted is None or name in self._wanted:
            self._lines.setdefault(name, [])

    def add(self, name: str, value: float, labelled: str = "") -> None:
        """One sample of a metric that is in the table."""
        if self._wanted is None:
            self._lines.setdefault(name, []).append(f"{name}{labelled} {_number(value)}")
        elif name in self._wanted:
            self._lines.setdefault(name, []).append(f"{self._wanted[name]}{labelled} {_number(value)}")

    def histogram(self, name: str, bounds: Sequence[float], counts: Sequence[int], total: float) -> None:
        """Counts of what was up to each bound, the last of what was beyond all."""
        if self._wanted is not None:
            return
        lines, seen = self._lines.setdefault(name, []), 0
        for bound, count in zip((*bounds, "+Inf"), counts, strict=True):
            seen += count
            lines.append(f'{name}_bucket{{le="{bound}"}} {seen}')
        lines += [f"{name}_count {seen}", f"{name}_sum {_number(total)}"]

    def pieces(self) -> Iterator[bytes]:
        """The text, in parts."""
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
