"""Axes of a plot: positions of values, tick lines and labels."""

from __future__ import annotations

import math
from dataclasses import dataclass

from mirrormq.spark.report.number_format import duration, short_number

WIDTH = 1060
LEFT, RIGHT = 132, 12
"""Margins: names of lanes and numbers of axes on the left, padding on the right."""

TIME_STEPS_S = (
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
)
TIME_TICKS_MAX = 9
VALUE_TICKS = 4


@dataclass(frozen=True)
class TimeAxis:
    """Time axis from the first event of the history to the last, left to right."""

    start_ns: int
    end_ns: int

    @property
    def span_ns(self) -> int:
        """Length of the axis."""
        return max(self.end_ns - self.start_ns, 1)

    def x(self, time_ns: float) -> float:
        """Return the position of a time; times outside lie on the edge."""
        part = min(max((time_ns - self.start_ns) / self.span_ns, 0.0), 1.0)
        return round(LEFT + part * (WIDTH - LEFT - RIGHT), 1)

    def ticks(self) -> list[tuple[float, str]]:
        """Return positions and labels, in time since the start."""
        span_s = self.span_ns / 1e9
        step = next(
            (step for step in TIME_STEPS_S if span_s / step <= TIME_TICKS_MAX), span_s / TIME_TICKS_MAX
        )
        count = int(span_s / step)
        return [(self.x(self.start_ns + i * step * 1e9), _clock(i * step, step)) for i in range(count + 1)]


def _clock(seconds: float, step: float) -> str:
    if step >= 60:
        hours, minutes = divmod(round(seconds / 60), 60)
        return f"{hours}:{minutes:02d} h" if hours else f"{minutes} min"
    digits = 0 if step >= 1 else 1 if step >= 0.1 else 2
    return f"{seconds:.{digits}f} s"


@dataclass(frozen=True)
class ValueAxis:
    """Value axis from zero (a logarithmic one from `low`) to `high`, bottom to top."""

    high: float
    low: float = 0.0
    logarithmic: bool = False

    @classmethod
    def counting(cls, values: list[float]) -> ValueAxis:
        """Return an axis for rates: from zero to a round number above all values."""
        highest = max(values, default=0.0) or 1.0
        step = _round_up(highest / VALUE_TICKS)
        return cls(step * math.ceil(highest / step))

    @classmethod
    def latency(cls, values: list[float]) -> ValueAxis:
        """Return an axis for times: whole powers of ten around all values."""
        positive = [value for value in values if value > 0] or [1e6]
        low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
        return cls(10.0 ** max(high, low + 1), 10.0**low, logarithmic=True)

    def part(self, value: float) -> float:
        """Return the relative position: 0 at the bottom, 1 at the top."""
        if not self.logarithmic:
            return min(max(value / self.high, 0.0), 1.0)
        value = min(max(value, self.low), self.high)
        return math.log10(value / self.low) / math.log10(self.high / self.low)

    def ticks(self) -> list[tuple[float, str]]:
        """Return values and labels."""
        if self.logarithmic:
            powers = range(round(math.log10(self.low)), round(math.log10(self.high)) + 1)
            return [
                (10.0**power, duration(10.0**power).replace(".00", "").replace(".0", "")) for power in powers
            ]
        step = _round_up(self.high / VALUE_TICKS)
        return [(i * step, short_number(i * step)) for i in range(int(self.high / step + 0.5) + 1)]


def _round_up(value: float) -> float:
    """Round up to 1, 2 or 5 with zeros."""
    power = 10.0 ** math.floor(math.log10(value))
    return next(power * step for step in (1, 2, 5, 10) if power * step >= value * 0.999999)
