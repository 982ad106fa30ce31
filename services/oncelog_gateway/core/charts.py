"""Charts of rates over time, as a picture and as a table: which lines are drawn, how they differ without colour, and a
sentence that describes the chart.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from oncelog_gateway.core.axes import Shape, TimeMark, ValueMark, round_values, shape_of, time_marks
from oncelog_gateway.core.rate_families import Family
from oncelog_gateway.core.rate_ring import OTHERS, Line
from oncelog_gateway.core.wording import duration, rate, size

HEIGHT: Final = 150
WIDTH: Final = 1_000
LINES_MAX: Final = 6
"""The most lines of a chart that a reader can tell apart. The other lines are drawn as one, their sum."""


LATEST_STEPS: Final = 6
LOOKS_MAX: Final = 1_000
"""Names whose look, such as colour and dashes, is remembered at most."""


class ChartLine(NamedTuple):
    name: str
    look: str
    strokes: tuple[str, ...]
    """SVG points (`x,y x,y`), one text for each part of the line that is longer than one step and has no gap."""
    dots: tuple[tuple[float, float], ...]
    """The parts of the line that are one step long: x in percent of the width, y from the top."""
    latest: str
    href: str


class ChartRow(NamedTuple):
    time_ms: int
    shape: Shape
    cells: tuple[str, ...]


class Chart(NamedTuple):
    id: str
    title: str
    unit: str
    note: str
    lines: tuple[ChartLine, ...]
    times: tuple[TimeMark, ...]
    values: tuple[ValueMark, ...]
    rows: tuple[ChartRow, ...]
    """Rows of the table, newest first."""
    began_percent: float | None
    """The place where the remembered time begins, in percent of the width; None: it is not in the picture."""
    bands: tuple[tuple[float, float], ...]
    """Begin and width, in percent, of the times that one reading of a much longer time covers."""
    says: str
    """The chart in one sentence, for a reader who does not see it."""


class Span(NamedTuple):
    """The time that a chart covers: `steps` steps of `step_ms` each, from `first_ms` on."""

    first_ms: int
    step_ms: int
    steps: int

    @property
    def end_ms(self) -> int:
        return self.first_ms + self.step_ms * self.steps


def span_until(now_ms: int, minutes: int, step_ms: int) -> Span:
    """Return the last `minutes` minutes as a `Span`. Its last step is the present one."""
    count = minutes * 60_000 // step_ms
    return Span((now_ms // step_ms - count + 1) * step_ms, step_ms, count)


def chart_of(
    family: Family,
    found: Sequence[Line],
    span: Span,
    *,
    since_ms: int | None,
    links: Callable[[str], str] = lambda name: "",
    looks: dict[str, int] | None = None,
    newest: Sequence[Line] | None = None,
    coarse: Sequence[bool] = (),
) -> Chart | None:
    """Return the chart of a family's lines, ready for the template. Returns None if no line has a value in any step.

    A look is a line's colour and dashes. `looks` has the looks that other charts gave to names, and new ones are added
    to it. `newest` has the same lines with finer steps: the value that is shown as the present one is read from them.
    `coarse` marks the steps that one reading of a much longer time covers. `since_ms` is when the recording began,
    which the chart marks; None: no mark. `links` gives the URL that a line's name leads to.
    """
    shown = [one for one in _shown(found) if any(value is not None for value in one.values)]
    if not shown:
        return None
    latest = _latest(shown, found if newest is None else newest)
    # The idle ones would stand before those that matter.
    shown.sort(key=lambda one: (one.name == OTHERS, -(latest.get(one.name) or 0.0), one.name))
    known = [value for one in shown for value in one.values if value is not None]
    marks = round_values(max(known), is_binary=family.unit.startswith("bytes"))
    top = marks[-1]
    say = SAID[family.unit]
    if say is _count:
        marks = [one for one in marks if one == int(one)]
    chosen = _looks([one.name for one in shown], {} if looks is None else looks)
    lines = tuple(
        ChartLine(
            one.name or "all others",
            chosen[one.name],
            *_drawn(one.values, top),
            _said(latest.get(one.name), say),
            links(one.name) if one.name else "",
        )
        for one in shown
    )
    rows = tuple(
        ChartRow(
            span.first_ms + number * span.step_ms,
            shape_of(span.step_ms),
            tuple(_said(one.values[number], say) for one in shown),
        )
        for number in range(span.steps - 1, -1, -1)
    )
    began = None
    if since_ms is not None and span.first_ms + span.step_ms < since_ms < span.end_ms:
        began = (since_ms - span.first_ms) * 100 / (span.end_ms - span.first_ms)
    now = ", ".join(f"{one.name} {one.latest}" for one in lines)
    return Chart(
        family.name,
        family.title,
        UNITS[family.unit],
        family.note,
        lines,
        time_marks(span.first_ms, span.end_ms, 4),
        tuple(ValueMark(_y(one, top), _marked(one, say)) for one in marks),
        rows,
        began,
        _bands(coarse),
        f"{family.title}, {UNITS[family.unit]}, of the last {duration(span.end_ms - span.first_ms)}. Now: {now}",
    )


def _shown(found: Sequence[Line]) -> list[Line]:
    """Return the `LINES_MAX` largest lines in order of name. The other lines follow as one line without a name, which
    is their sum.
    """
    named = [one for one in found if one.name != OTHERS]
    rest = [one for one in found if one.name == OTHERS]
    if len(named) > LINES_MAX:
        named.sort(key=_weight, reverse=True)
        rest += named[LINES_MAX:]
        named = sorted(named[:LINES_MAX])
    return [*named, Line(OTHERS, _added([one.values for one in rest]))] if rest else named


def _looks(names: Sequence[str], known: dict[str, int]) -> dict[str, str]:
    """Return a different look (colour and dashes) for each name of a chart. A name keeps its look from other charts
    if no other name has taken that look.
    """
    free = list(range(LINES_MAX))
    chosen: dict[str, str] = {OTHERS: "others"}
    since = {name: number for number, name in enumerate(known)}
    for name in sorted(filter(None, names), key=lambda one: since.get(one, len(since))):
        wanted = known.setdefault(name, free[0])
        number = wanted if wanted in free else free[0]
        free.remove(number)
        chosen[name] = f"l{number}"
    while len(known) > LOOKS_MAX:
        del known[next(iter(known))]
    return chosen


def _weight(one: Line) -> float:
    known = [value for value in one.values if value is not None]
    return sum(known) / len(known) if known else -1.0


def _added(lines: Sequence[Sequence[float | None]]) -> list[float | None]:
    return [
        sum(known) if (known := [value for value in step if value is not None]) else None
        for step in zip(*lines, strict=True)
    ]


def _y(value: float, top: float) -> float:
    return round(HEIGHT * (1 - min(value / top, 1.0)), 1)


def _drawn(
    values: Sequence[float | None], top: float
) -> tuple[tuple[str, ...], tuple[tuple[float, float], ...]]:
    """Return the strokes and the dots of a line; each point stands in the middle of its step. A stroke has the SVG
    points of several steps without a gap. A dot is a part of one step: x in percent of the width, y from the top. `top`
    is the value at the upper edge of the chart.
    """
    parts: list[list[tuple[float, float]]] = [[]]
    for number, value in enumerate(values):
        if value is None:
            parts.append([])
        else:
            parts[-1].append((round((number + 0.5) * WIDTH / len(values), 1), _y(value, top)))
    strokes = tuple(" ".join(f"{x},{y}" for x, y in part) for part in parts if len(part) > 1)
    dots = tuple((x / WIDTH * 100, y) for part in parts if len(part) == 1 for x, y in part)
    return strokes, dots


def _latest(shown: Sequence[Line], newest: Sequence[Line]) -> dict[str, float | None]:
    """Return the latest known value of each line by its name. It is looked for in the last few steps of `newest`,
    because the step that runs now may have no reading yet.
    """
    names = {one.name for one in shown}
    found: dict[str, float | None] = {}
    for line in newest:
        values = line.values[: -LATEST_STEPS - 1 : -1]
        value = next((one for one in values if one is not None), None)
        name = line.name if line.name in names else OTHERS
        before = found.get(name)
        found[name] = before if value is None else value + (before or 0.0)
    return found


def _bands(coarse: Sequence[bool]) -> tuple[tuple[float, float], ...]:
    """Return the bands that a chart shades: begin and width, in percent, of the steps that `coarse` marks. Neighbouring
    steps are one band.
    """
    found: list[tuple[float, float]] = []
    width = 100 / max(len(coarse), 1)
    for number, is_coarse in enumerate(coarse):
        if not is_coarse:
            continue
        if number and coarse[number - 1]:
            begin, wide = found.pop()
            found.append((begin, wide + width))
        else:
            found.append((number * width, width))
    return tuple((round(begin, 2), round(wide, 2)) for begin, wide in found)


def _marked(value: float, say: Callable[[float], str]) -> str:
    """Return the label of a mark on the value axis, without a zero behind the point. `say` writes a value with its
    unit.
    """
    return say(value).replace(".0", "", 1) if value else "0"


def _said(value: float | None, say: Callable[[float], str]) -> str:
    return "–" if value is None else say(value)


def _seconds(value: float) -> str:
    if value < 0.01:
        return f"{value * 1000:.3g} ms"
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.3g} s"


def _number(value: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M")):
        if value >= limit:
            return f"{value / limit:.3g} {unit}"
    return rate(value) if value >= 0.1 or not value else f"{value:.2g}"


def _count(value: float) -> str:
    return _number(value) if value >= 1e6 else str(round(value))


SAID: Final[Mapping[str, Callable[[float], str]]] = {
    "bytes/s": lambda value: f"{size(round(value))}/s",
    "records/s": _number,
    "transactions/s": _number,
    "seconds": _seconds,
    "records": _count,
    "markers": _count,
    "bytes": lambda value: size(round(value)),
    "cores": lambda value: f"{value * 100:.3g} %",
}
UNITS: Final[Mapping[str, str]] = {
    "bytes/s": "bytes a second",
    "records/s": "records a second",
    "transactions/s": "a second",
    "seconds": "time",
    "records": "offsets",
    "markers": "markers",
    "bytes": "bytes",
    "cores": "of one core",
}
"""The text that is shown beside a chart's title, by unit."""
