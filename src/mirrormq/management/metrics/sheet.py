"""Samples as they are collected, and the text exposition format that they leave in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mirrormq.management.metrics.names import METRICS

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

PIECE_LINES = 2_000
"""Lines joined between two turns of the loop: about a millisecond."""


def labels(**named: str) -> str:
    """Labels as a sample carries them."""
    return "{" + ",".join([f'{name}="{_escaped(value)}"' for name, value in named.items()]) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Sheet:
    """The samples of one scrape, by metric."""

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def add(self, name: str, value: float, labelled: str = "") -> None:
        """One sample of a metric that is in the table."""
        self._lines.setdefault(name, []).append(f"{name}{labelled} {_number(value)}")

    def histogram(self, name: str, bounds: Sequence[float], counts: Sequence[int], total: float) -> None:
        """Counts of what was up to each bound, the last of what was beyond all."""
        lines, seen = self._lines.setdefault(name, []), 0
        for bound, count in zip((*bounds, "+Inf"), counts, strict=True):
            seen += count
            lines.append(f'{name}_bucket{{le="{bound}"}} {seen}')
        lines += [f"{name}_count {seen}", f"{name}_sum {_number(total)}"]

    def pieces(self) -> Iterator[bytes]:
        """The text, in parts."""
        for name in sorted(self._lines):
            kind, meaning = METRICS[name]
            lines = [f"# TYPE {name} {kind}", f"# HELP {name} {meaning}", *self._lines[name]]
            for start in range(0, len(lines), PIECE_LINES):
                text = "\n".join(lines[start : start + PIECE_LINES]) + "\n"
                yield text.encode("utf-8", "replace")


def _number(value: float) -> str:
    return str(int(value)) if isinstance(value, bool) else repr(value)
