"""Formatting of numbers, times and names for HTML."""

from __future__ import annotations

from datetime import UTC, datetime
from html import escape
from typing import Any

MISSING = "–"


def text(value: Any) -> str:
    """Return any value as HTML text."""
    return MISSING if value is None else escape(str(value))


def number(value: int | float | None) -> str:
    """Format a number: 1234567 → 1,234,567"""
    return MISSING if value is None else f"{value:,}"


def duration(nanoseconds: float | None) -> str:
    """Format a duration with three digits and a fitting unit."""
    if nanoseconds is None:
        return MISSING
    for unit, size in (("h", 3.6e12), ("min", 6e10), ("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if nanoseconds >= size * (2 if unit in ("h", "min") else 1):
            return f"{_three_digits(nanoseconds / size)} {unit}"
    return f"{nanoseconds:.0f} ns"


def _three_digits(value: float) -> str:
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def short_number(value: float) -> str:
    """Format a number for an axis: 12500 → 12.5 k"""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g} {unit}"
    return f"{value:g}"


def moment(nanoseconds: int) -> str:
    """Format a time of day with its date, in UTC."""
    return f"{datetime.fromtimestamp(nanoseconds / 1e9, UTC):%Y-%m-%d %H:%M:%S} UTC"


def since(nanoseconds: int | None, start_ns: int) -> str:
    """Format the time since the start of the history."""
    return MISSING if nanoseconds is None else f"+{(nanoseconds - start_ns) / 1e9:,.3f} s"
