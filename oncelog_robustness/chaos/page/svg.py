"""The elements of SVG that the page's plots need: scales, axes, and shapes with tooltips."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

LEFT: Final = 116
RIGHT: Final = 18
WIDTH: Final = 1100
TICKS_MAX: Final = 6
SECONDS: Final = (5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 14400)
"""Steps of a time axis, in seconds."""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear or logarithmic map from values to pixels of a plot."""

    low: float
    high: float
    from_px: float
    to_px: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        share = (self._of(value) - self._of(self.low)) / (self._of(self.high) - self._of(self.low))
        return self.from_px + min(max(share, 0.0), 1.0) * (self.to_px - self.from_px)

    def _of(self, value: float) -> float:
        return math.log10(max(value, self.low, 1e-9)) if self.is_log else value

    def ticks(self, of: Sequence[float] = (1, 2, 5, 10)) -> list[float]:
        """Return the values at ticks: the powers of ten of a logarithmic scale, otherwise multiples of a step that
        starts with one of `of`."""
        if self.is_log:
            first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
            return [10.0**at for at in range(first, last + 1) if self.low <= 10.0**at <= self.high]
        step = nice_step((self.high - self.low) / TICKS_MAX, of)
        first = math.ceil(self.low / step)
        return [at * step for at in range(first, math.floor(self.high / step + 1e-9) + 1)]


def nice_step(least: float, of: Sequence[float]) -> float:
    """Return the first of the steps `of` that is at least `least`, or else the last one. If `of` begins at 1, its steps
    are multiplied by the power of ten in which `least` lies."""
    power = 10.0 ** math.floor(math.log10(max(least, 1e-9))) if of[0] == 1 else 1.0
    return next((power * one for one in of if power * one >= least * (1 - 1e-9)), power * of[-1])


def time_scale(duration_s: float) -> Scale:
    return Scale(0, max(duration_s, 1), LEFT, WIDTH - RIGHT)


def tag(name: str, content: str = "", tip: str = "", **attributes: object) -> str:
    """Return an HTML or SVG element. In `attributes`, `class_` stands for class, and `_` for a dash; `tip` is
    shown when a pointer is over the element."""
    written = "".join(
        f' {key.strip("_").replace("_", "-")}="{_attribute(value)}"'
        for key, value in attributes.items()
    )
    if tip:
        written += f' data-tip="{escape(tip)}"'
    return f"<{name}{written}>{content}</{name}>"


def _attribute(value: object) -> str:
    return f"{value:.1f}" if isinstance(value, float) else escape(str(value))


def text(x: float, y: float, content: str, class_: str = "", anchor: str = "start") -> str:
    return tag("text", escape(content), x=x, y=y, class_=class_, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> str:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=class_)


def rect(
    x: float, y: float, width: float, height: float, class_: str, tip: str = "", round_: float = 0.0
) -> str:
    return tag("rect", tip=tip, x=x, y=y, width=width, height=height, rx=round_, class_=class_)


def circle(x: float, y: float, radius: float, class_: str, tip: str = "") -> str:
    return tag("circle", tip=tip, cx=x, cy=y, r=radius, class_=class_)


def path(points: Iterable[Point], class_: str) -> str:
    return tag("path", d="M" + "L".join(f"{x:.1f},{y:.1f}" for x, y in points), class_=class_)


def area(points: Sequence[Point], base_px: float, class_: str) -> str:
    """Return the SVG of the filled area between the points and a base line."""
    if not points:
        return ""
    closed = [(points[0][0], base_px), *points, (points[-1][0], base_px)]
    return path(closed, class_)


def steps(points: Sequence[Point]) -> Iterator[Point]:
    """Yield the points of a step line, on which each value holds until the next."""
    for number, (x, y) in enumerate(points):
        if number:
            yield x, points[number - 1][1]
        yield x, y


def plot(height: float, parts: Iterable[str], label: str) -> str:
    drawn = tag(
        "svg",
        "".join(parts),
        viewBox=f"0 0 {WIDTH} {height:.0f}",
        role="img",
        aria_label=label,
        class_="plot",
    )
    return tag("div", drawn, class_="scroll")


def time_axis(scale: Scale, top: float, bottom: float) -> Iterator[str]:
    for at in scale.ticks(SECONDS):
        x = scale(at)
        yield line(x, top, x, bottom, "grid")
        yield text(x, bottom + 16, clock_label(at), "tick", "middle")


def value_axis(scale: Scale, unit: str, label: str, *, is_time: bool = False) -> Iterator[str]:
    """Yield the labels of the vertical axis at the left, with lines across the plot. If `is_time`, the values are
    milliseconds; otherwise `unit` is written after each."""
    for at in scale.ticks():
        y = scale(at)
        yield line(LEFT, y, WIDTH - RIGHT, y, "grid")
        written = milliseconds_label(at) if is_time else f"{at:g}{unit}"
        yield text(LEFT - 8, y + 4, written, "tick", "end")
    yield text(0, scale.to_px + 4, label, "axis")


def clock_label(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def milliseconds_label(ms: float) -> str:
    return f"{ms / 1000:g} s" if ms >= 1000 else f"{ms:g} ms"
