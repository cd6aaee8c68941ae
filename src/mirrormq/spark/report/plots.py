"""SVG panels, drawn one below the other over one time axis."""

from __future__ import annotations

from dataclasses import dataclass, field

from mirrormq.spark.report.axes import LEFT, RIGHT, WIDTH, TimeAxis, ValueAxis
from mirrormq.spark.report.number_format import text

LANE_HEIGHT = 22
TITLE_HEIGHT = 30
PANEL_HEIGHT = 120
AXIS_HEIGHT = 26
LETTER_WIDTH = 6.4
"""Approximate width of a letter at the labels' size, to check what fits into a bar."""
LABEL_LETTERS_MAX = 19
"""Letters that fit left of the plots."""


@dataclass(frozen=True)
class Bar:
    """Span of time in a lane."""

    begin_ns: float
    end_ns: float
    style: str
    label: str
    hint: str


@dataclass(frozen=True)
class Series:
    """Line of times and values, None for a missing value."""

    name: str
    style: str
    points: list[tuple[float, float | None]]


@dataclass
class Figure:
    """Builder of panels from top to bottom, rendered as SVG."""

    axis: TimeAxis
    shades: list[tuple[float, float, str]] = field(default_factory=list)
    """Times marked in every panel: start, end, and hint."""
    top: float = 0.0
    parts: list[str] = field(default_factory=list)

    def lanes(self, title: str, lanes: list[tuple[str, list[Bar]]]) -> None:
        """Draw one row of bars for each name."""
        self._title(title, [])
        for name, bars in lanes:
            middle = self.top + LANE_HEIGHT / 2
            short = name if len(name) <= LABEL_LETTERS_MAX else name[: LABEL_LETTERS_MAX - 1] + "…"
            self.parts.append(
                f'<text class="lane" x="{LEFT - 8}" y="{middle + 4}">'
                f"<title>{text(name)}</title>{text(short)}</text>"
                f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{middle}" y2="{middle}"/>'
            )
            follow = [self.axis.x(bar.begin_ns) for bar in bars[1:]] + [float(WIDTH - RIGHT)]
            self.parts += [self._bar(bar, room) for bar, room in zip(bars, follow, strict=True)]
            self.top += LANE_HEIGHT
        self._time_axis()

    def lines(self, title: str, scale: ValueAxis, series: list[Series]) -> None:
        """Draw lines over time, each with its name in the legend."""
        self._title(title, [(one.name, one.style) for one in series])
        self._background(scale)
        for one in series:
            for span in _spans(one.points):
                path = " ".join(f"{self.axis.x(t)},{self._y(scale, v)}" for t, v in span)
                if len(span) == 1:
                    x, y = path.split(",")
                    self.parts.append(f'<circle class="dot {one.style}" cx="{x}" cy="{y}" r="1.8"/>')
                else:
                    self.parts.append(f'<polyline class="line {one.style}" points="{path}"/>')
        self._end_panel()

    def columns(
        self, title: str, scale: ValueAxis, bars: list[tuple[float, float, float, str]], style: str
    ) -> None:
        """Draw vertical bars: start, end, value, hint."""
        self._title(title, [])
        self._background(scale)
        bottom = self.top + PANEL_HEIGHT
        for begin, end, value, hint in bars:
            x, y = self.axis.x(begin), self._y(scale, value)
            width = max(self.axis.x(end) - x - 0.5, 1.5)
            self.parts.append(
                f'<rect class="column {style}" x="{x}" y="{y}" width="{width:.1f}" height="{bottom - y:.1f}">'
                f"<title>{text(hint)}</title></rect>"
            )
        self._end_panel()

    def svg(self, label: str) -> str:
        """Return the whole figure."""
        return (
            f'<svg viewBox="0 0 {WIDTH} {self.top:.0f}" role="img" aria-label="{text(label)}">'
            + "".join(self.parts)
            + "</svg>"
        )

    def _title(self, title: str, legend: list[tuple[str, str]]) -> None:
        y = self.top + 20
        self.parts.append(f'<text class="title" x="{LEFT}" y="{y}">{text(title)}</text>')
        x = float(WIDTH - RIGHT)
        for name, style in reversed(legend):
            x -= len(name) * LETTER_WIDTH
            self.parts.append(f'<text class="legend" x="{x:.1f}" y="{y}">{text(name)}</text>')
            x -= 18
            self.parts.append(
                f'<line class="line {style}" x1="{x:.1f}" x2="{x + 13:.1f}" y1="{y - 4}" y2="{y - 4}"/>'
            )
            x -= 12
        self.top += TITLE_HEIGHT

    def _background(self, scale: ValueAxis) -> None:
        for begin, end, hint in self.shades:
            x = self.axis.x(begin)
            width = max(self.axis.x(end) - x, 1.5)
            self.parts.append(
                f'<rect class="shade" x="{x}" y="{self.top}" width="{width:.1f}" height="{PANEL_HEIGHT}">'
                f"<title>{text(hint)}</title></rect>"
            )
        for value, label in scale.ticks():
            y = self._y(scale, value)
            self.parts.append(
                f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>'
                f'<text class="value" x="{LEFT - 8}" y="{y + 4:.1f}">{text(label)}</text>'
            )

    def _end_panel(self) -> None:
        self.top += PANEL_HEIGHT
        self._time_axis()

    def _time_axis(self) -> None:
        for x, label in self.axis.ticks():
            self.parts.append(
                f'<line class="tick" x1="{x}" x2="{x}" y1="{self.top}" y2="{self.top + 4}"/>'
                f'<text class="time" x="{x}" y="{self.top + 16}">{label}</text>'
            )
        self.top += AXIS_HEIGHT

    def _bar(self, bar: Bar, room: float) -> str:
        """Return a bar with its label inside, or beside it if that ends before `room`, where the next bar
        begins."""
        x = self.axis.x(bar.begin_ns)
        width = max(self.axis.x(bar.end_ns) - x, 3.0)
        needs = len(bar.label) * LETTER_WIDTH + 8
        style, at = ("inside", x + 5) if needs <= width else ("beside", x + width + 5)
        label = f'<text class="{style}" x="{at:.1f}" y="{self.top + 15}">{text(bar.label)}</text>'
        if needs > width and x + width + needs > room:
            label = ""
        return (
            f'<g><title>{text(bar.hint)}</title><rect class="bar {bar.style}" x="{x}" y="{self.top + 3}" '
            f'width="{width:.1f}" height="{LANE_HEIGHT - 6}" rx="3"/>{label}</g>'
        )

    def _y(self, scale: ValueAxis, value: float) -> float:
        return round(self.top + PANEL_HEIGHT * (1 - scale.part(value)), 1)


def _spans(points: list[tuple[float, float | None]]) -> list[list[tuple[float, float]]]:
    """Split a line where a value is missing."""
    pieces: list[list[tuple[float, float]]] = [[]]
    for time, value in points:
        if value is None:
            pieces.append([])
        else:
            pieces[-1].append((time, value))
    return [piece for piece in pieces if piece]
