"""Axes of the console's pictures: marks at round times and round values, and their labels."""

import math
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

_SECOND, _MINUTE, _HOUR, _DAY = 1_000, 60_000, 3_600_000, 86_400_000
_TIME_STEPS_MS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(_SECOND * one for one in (1, 2, 5, 10, 20, 30)),
    *(_MINUTE * one for one in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * one for one in (1, 2, 3, 6, 12)),
    *(_DAY * one for one in (1, 2, 7)),
)
DECADES_MS: Final = (1, 10, 100, 1_000, 10_000, 60_000, 600_000, 3_600_000)
"""Marks of a logarithmic axis of durations: powers of ten, and above ten seconds the units of the clock."""


Shape = Literal["milli", "second", "minute", "day"]
"""The precision with which a time is written on an axis."""


class TimeMark(NamedTuple):
    """A labelled point of time on the horizontal axis of a chart: where it stands, in percent of the width, and how it
    is written.
    """

    percent: float
    time_ms: int
    shape: Shape


class ValueMark(NamedTuple):
    """A mark of a value on the vertical axis; y counts from the top."""

    y: float
    text: str


def time_marks(from_ms: int, to_ms: int, marks_max: int = 6) -> tuple[TimeMark, ...]:
    """Return marks at round times within the span, about `marks_max` of them at most."""
    span_ms = max(to_ms - from_ms, 1)
    step_ms = next((one for one in _TIME_STEPS_MS if span_ms <= one * marks_max), 7 * _DAY)
    shape = shape_of(step_ms)
    first = -(-from_ms // step_ms) * step_ms
    return tuple(
        TimeMark(round((at - from_ms) * 100 / span_ms, 2), at, shape)
        for at in range(first, to_ms + 1, step_ms)
    )


def shape_of(step_ms: int) -> Shape:
    """Return how finely the times of an axis are written: no finer than two marks that are `step_ms` apart need."""
    if step_ms >= _DAY:
        return "day"
    if step_ms >= _MINUTE:
        return "minute"
    return "second" if step_ms >= _SECOND else "milli"


def round_values(largest: float, marks_max: int = 4, *, is_binary: bool = False) -> list[float]:
    """Return the marks of a value axis: from 0 on in equal round steps, the last one not below `largest`. With
    `is_binary` they are round in KiB, MiB and so on.
    """
    if not largest > 0:
        return [0.0, 1.0]
    unit = 1.0
    if is_binary:
        unit = 1024.0 ** math.floor(math.log(max(largest, 1), 1024))
    wanted = largest / unit / marks_max
    power = 10.0 ** math.floor(math.log10(wanted))
    step = unit * next(one * power for one in (1, 2, 5, 10) if one * power >= wanted * 0.9999)
    return [step * number for number in range(math.ceil(largest / step - 1e-4) + 1)]


def decades_of(longest_ms: int) -> tuple[Sequence[int], float]:
    """Return the marks, in milliseconds, of a logarithmic axis of durations, and the base-ten logarithm of its top."""
    marks = [one for one in DECADES_MS if one <= longest_ms] or [DECADES_MS[0]]
    return marks, math.log10(
        next((one for one in DECADES_MS if one > longest_ms), longest_ms)
    ) or 1.0
