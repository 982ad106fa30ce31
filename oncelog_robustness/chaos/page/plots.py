"""The four plots of a report: availability under faults, commit latency, LSO lag, recovery."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from oncelog_robustness.chaos.measures import Lag, Measures, Recovery, percentile
from oncelog_robustness.chaos.page.svg import (
    LEFT,
    RIGHT,
    WIDTH,
    Point,
    Scale,
    area,
    circle,
    line,
    milliseconds_label,
    path,
    plot,
    rect,
    steps,
    text,
    time_axis,
    time_scale,
    value_axis,
)
from oncelog_robustness.fault_plan import FAMILIES

_LANE: Final = 26
_RATE_HEIGHT: Final = 170
_PLOT_HEIGHT: Final = 190
_BUCKETS_MAX: Final = 300
_DOTS_MAX: Final = 4_000
_SILENCE_MS: Final = 4_000
_BAR_PX_MIN: Final = 3.0


def family_class(kind: str) -> str:
    for name, kinds in FAMILIES.items():
        if kind in kinds:
            return "f-" + name.split()[0]
    return "f-other"


def availability(measures: Measures) -> str:
    """Draw the commits a second over the time of the run, with a lane for each role below that shows its
    faults."""
    scale = _time(measures)
    roles = [one.role for one in measures.roles]
    bottom = _RATE_HEIGHT + 12 + _LANE * len(roles)
    return plot(
        bottom + 24,
        [
            *time_axis(scale, 8, bottom),
            *_rate(measures, scale),
            *_lanes(measures, scale, roles, _RATE_HEIGHT + 12),
        ],
        "Commits a second over time, with the faults of each role",
    )


def _rate(measures: Measures, scale: Scale) -> Iterator[str]:
    bucket_s = max(1.0, -(-scale.high // _BUCKETS_MAX))
    counted = Counter(
        int((one.ended_ms - measures.from_ms) / 1000 // bucket_s) for one in measures.commits
    )
    count = int(scale.high // bucket_s) + 1
    rates = [counted[bucket] / bucket_s for bucket in range(count)]
    values = Scale(0, max(*rates, 1.0) * 1.08, _RATE_HEIGHT, 12)
    yield from value_axis(values, "", "commits/s")
    for since, until in measures.gaps:
        x1, x2 = (scale((at - measures.from_ms) / 1000) for at in (since, until))
        tip = f"no commit for {(until - since) / 1000:.1f} s"
        yield rect(x1, 12, x2 - x1, _RATE_HEIGHT - 12, "gap", tip)
    points = list(steps([(scale(at * bucket_s), values(rate)) for at, rate in enumerate(rates)]))
    yield area(points, _RATE_HEIGHT, "rate-area")
    yield path(points, "rate-line")


def _lanes(measures: Measures, scale: Scale, roles: Sequence[str], top: float) -> Iterator[str]:
    for number, role in enumerate(roles):
        y = top + number * _LANE
        yield rect(LEFT, y + 2, WIDTH - LEFT - RIGHT, _LANE - 4, "lane", round_=3)
        yield text(0, y + _LANE / 2 + 4, role, "lane-name")
    for one in measures.recoveries:
        if one.role not in roles:
            continue
        y = top + roles.index(one.role) * _LANE
        since, until = (
            scale((at - measures.from_ms) / 1000)
            for at in (one.fault.invoked_ms, one.fault.completed_ms or one.fault.invoked_ms)
        )
        width = max(until - since, _BAR_PX_MIN)
        if one.ms is not None and one.ms > 0:
            back = scale((one.fault.invoked_ms + one.ms - measures.from_ms) / 1000)
            yield line(since, y + _LANE - 4, back, y + _LANE - 4, "until-commit")
        css = f"fault {family_class(one.fault.kind)}"
        yield rect(since, y + 5, width, _LANE - 10, css, fault_tip(one, measures.from_ms), 2)


def fault_tip(one: Recovery, from_ms: int) -> str:
    fault = one.fault
    lasted_s = ((fault.completed_ms or fault.invoked_ms) - fault.invoked_ms) / 1000
    lines = [
        f"{fault.kind} {fault.target}",
        f"at {(fault.invoked_ms - from_ms) / 1000:.1f} s, over after {lasted_s:.1f} s",
        "nothing was committed any more"
        if one.ms is None
        else f"next commit after {one.ms / 1000:.2f} s",
    ]
    return "\n".join([*lines, fault.facts] if fault.facts else lines)


def latency(measures: Measures) -> str:
    """Draw the latency of each commit of the producer that never pauses as a dot, on a logarithmic scale.
    Lines show the median and the 99th percentile."""
    scale, bottom = _time(measures), _PLOT_HEIGHT - 24
    latencies = [one.latency_ms for one in measures.commits]
    values = Scale(1, max(10, *latencies, 10) * 1.5, bottom, 10, is_log=True)
    parts = [*time_axis(scale, 10, bottom), *value_axis(values, "", "commit", is_time=True)]
    every = -(-len(measures.commits) // _DOTS_MAX) or 1
    slow_ms = percentile(latencies, 0.99) or 0
    for number, one in enumerate(measures.commits):
        # Of many dots some are left out, but never one that matters.
        if number % every and one.latency_ms <= slow_ms:
            continue
        at = (one.ended_ms - measures.from_ms) / 1000
        is_slow = one.latency_ms > slow_ms
        tip = f"{one.latency_ms} ms at {at:.1f} s" if is_slow else ""
        radius, css = (2.6, "dot slow") if is_slow else (1.4, "dot")
        parts.append(circle(scale(at), values(one.latency_ms), radius, css, tip))
    for share, css in ((0.5, "p50"), (0.99, "p99")):
        found = percentile(latencies, share)
        if found is not None:
            y = values(found)
            parts.append(line(LEFT, y, WIDTH - RIGHT, y, css))
            parts.append(
                text(WIDTH - RIGHT, y - 4, f"{css} {milliseconds_label(found)}", css, "end")
            )
    return plot(_PLOT_HEIGHT, parts, "Latency of each commit over time")


def lag(measures: Measures) -> str:
    scale, bottom = _time(measures), _PLOT_HEIGHT - 24
    greatest = max((one.records for one in measures.lags), default=0)
    values = Scale(0, max(greatest, 5) * 1.08, bottom, 10)
    samples = [one for one in measures.lags if measures.from_ms <= one.at_ms <= measures.until_ms]
    points = [
        (scale((one.at_ms - measures.from_ms) / 1000), values(one.records)) for one in samples
    ]
    parts = [*time_axis(scale, 10, bottom), *value_axis(values, "", "records")]
    for stretch in _stretches(samples, points):
        stepped = list(steps(stretch))
        parts += [area(stepped, bottom, "lag-area"), path(stepped, "lag-line")]
    for (x, y), one in zip(points, samples, strict=True):
        if one.records:
            tip = f"{one.partition}: {one.records} records above the last stable offset"
            parts.append(circle(x, y, 2.2, "lag-dot", tip))
    return plot(
        _PLOT_HEIGHT, parts, "Records between the last stable offset and the high watermark"
    )


def _stretches(samples: Sequence[Lag], points: Sequence[Point]) -> list[list[Point]]:
    """Cut the line of points wherever samples are missing for some seconds: what was not seen is not
    drawn."""
    found: list[list[Point]] = []
    last_ms = -_SILENCE_MS
    for one, point in zip(samples, points, strict=True):
        if one.at_ms - last_ms >= _SILENCE_MS:
            found.append([])
        found[-1].append(point)
        last_ms = one.at_ms
    return found


def recovery(measures: Measures) -> str:
    """Draw the time from each fault to the next commit, as a dot in the row of the struck role. A tick in
    each row shows the median."""
    known = [one.ms for one in measures.recoveries if one.ms is not None]
    bottom = 12 + _LANE * len(measures.roles)
    scale = Scale(1, max([10, *known]) * 1.5, LEFT, WIDTH - RIGHT, is_log=True)
    parts: list[str] = []
    for at in scale.ticks():
        parts.append(line(scale(at), 8, scale(at), bottom, "grid"))
        parts.append(text(scale(at), bottom + 16, milliseconds_label(at), "tick", "middle"))
    for number, role in enumerate(measures.roles):
        y = 12 + number * _LANE
        parts.append(rect(LEFT, y + 2, WIDTH - LEFT - RIGHT, _LANE - 4, "lane", round_=3))
        parts.append(text(0, y + _LANE / 2 + 4, role.role, "lane-name"))
        if role.p50_ms is not None:
            x = scale(max(role.p50_ms, 1))
            parts.append(line(x, y + 3, x, y + _LANE - 3, "median"))
        own = [one for one in measures.recoveries if one.role == role.role and one.ms is not None]
        for place, one in enumerate(own):
            # Dots are moved apart a little, so that equal ones are seen as many.
            offset = (place % 3 - 1) * 4
            tip = fault_tip(one, measures.from_ms)
            css = f"fault {family_class(one.fault.kind)}"
            parts.append(circle(scale(max(one.ms or 1, 1)), y + _LANE / 2 + offset, 4, css, tip))
    return plot(bottom + 24, parts, "From each fault to the next commit, by role")


def _time(measures: Measures) -> Scale:
    return time_scale((measures.until_ms - measures.from_ms) / 1000)
