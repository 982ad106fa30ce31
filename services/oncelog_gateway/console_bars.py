"""Transactions as bars: what the page of a transactional.id draws of them.

A bar's width is the transaction's duration. The longest among ordinary ones fills the row. A slow one fills the row
too, to a scale of its own, and the row says so. Otherwise a transaction that hung for minutes would leave nothing to
see of those that take milliseconds.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from oncelog.telemetry.events import Event
from oncelog.wording import counted
from oncelog_gateway.console_pages import Steps
from oncelog_gateway.console_values import EventRow, clock, dated_clock, event_rows
from oncelog_gateway.core.axes import TimeMark, ValueMark, decades_of, time_marks
from oncelog_gateway.core.event_text import sentence
from oncelog_gateway.core.transaction_spans import Between, Phase, Span, slow_from_ms
from oncelog_gateway.core.wording import duration, ranges

WIDTH: Final = 1_000
PART_WIDTH_MIN: Final = 3
STEPS_MAX: Final = 100
BARS_MAX: Final = 25
TOPICS_NAMED_MAX: Final = 3
STRIP_HEIGHT: Final = 120
STRIP_MS: Final = 3_600_000
STRIP_DOTS_MAX: Final = 1_000
STRIP_MARKS_MAX: Final = 4
"""Time marks of a strip at most. Their labels may have milliseconds; a narrow page shows every other one."""
_LOOKS: Final = {"committed": "good", "aborted": "bad", "aborting": "bad"}
_WORDS: Final[dict[Phase, str]] = {
    "adding": "begun, nothing written yet",
    "producing": "from the first record to the decision",
    "marking": "from the decision to the last marker",
}


@dataclass(frozen=True, slots=True)
class Part:
    x: int
    width: int
    look: str
    text: str


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark on a transaction's bar: when the commit or abort marker was written in one partition."""

    x: int
    text: str


@dataclass(frozen=True, slots=True)
class TransactionBar:
    key: str
    began_ms: int
    clock: str
    producer: str
    outcome: str
    look: str
    took: str
    phases: str
    notes: tuple[str, ...]
    parts: tuple[Part, ...]
    ticks: tuple[Tick, ...]
    has_own_scale: bool
    partitions: str
    steps: tuple[EventRow, ...]
    steps_left_out: int
    trace_id: str = ""


@dataclass(frozen=True, slots=True)
class BetweenRow:
    """A row for events between two transactions, such as the start of a producer. It shows the last event in words, and
    unfolds to all.
    """

    key: str
    began_ms: int
    clock: str
    text: str
    steps: tuple[EventRow, ...]
    steps_left_out: int


@dataclass(frozen=True, slots=True)
class Dot:
    percent: float
    y: int
    look: str
    key: str
    page: int
    text: str


@dataclass(frozen=True, slots=True)
class Strip:
    """A picture of how long each transaction took, one dot each: time runs from left to right, duration upwards by
    powers of ten.
    """

    says: str
    """A sentence that says what the strip shows, for a reader who does not see it."""

    dots: tuple[Dot, ...]
    times: tuple[TimeMark, ...]
    values: tuple[ValueMark, ...]


def rows_of_bars(
    shown: Sequence[Span | Between], every: Sequence[Span], now_ms: int
) -> tuple[list[TransactionBar | BetweenRow], int]:
    """Return the rows of one page, and how many milliseconds a full row stands for. `shown` are the page's
    transactions; `every` has all that are known, which say what counts as slow.
    """
    slow_ms = slow_from_ms(every, now_ms)
    durations = [one.duration_ms(now_ms) for one in shown if isinstance(one, Span)]
    ordinary = [one for one in durations if one < slow_ms]
    scale_ms = max(ordinary or durations or [1], default=1) or 1
    rows = [
        _bar(one, now_ms, scale_ms, slow_ms) if isinstance(one, Span) else _between(one, now_ms)
        for one in shown
    ]
    return rows, scale_ms


def _bar(span: Span, now_ms: int, scale_ms: int, slow_ms: int) -> TransactionBar:
    took_ms = span.duration_ms(now_ms)

    full_ms = max(scale_ms, took_ms)

    def x(at_ms: int) -> int:
        return min(max((at_ms - span.began_ms) * WIDTH // full_ms, 0), WIDTH)

    parts = []
    for phase, begin, end in span.phases(now_ms):
        look = phase if phase != "marking" else f"marking {_LOOKS.get(span.outcome, '')}".strip()
        width = max(x(end) - x(begin), PART_WIDTH_MIN if end >= begin else 0)
        left = min(x(begin), WIDTH - PART_WIDTH_MIN)
        parts.append(Part(left, width, look, f"{_WORDS[phase]}: {duration(end - begin)}"))
    return TransactionBar(
        span.key,
        span.began_ms,
        dated_clock(span.began_ms, now_ms),
        f"Producer {span.producer_id}, epoch {span.producer_epoch}",
        span.outcome,
        _LOOKS.get(span.outcome, "warn" if took_ms >= slow_ms else ""),
        duration(took_ms),
        "; ".join(one.text for one in parts),
        tuple(_notes(span, took_ms, slow_ms)),
        tuple(parts),
        tuple(
            Tick(x(at), f"marker in {name} after {duration(max(at - span.began_ms, 0))}")
            for name, at in span.marked.items()
        ),
        took_ms > scale_ms,
        partition_names(list(span.partitions)),
        *_steps(span.events),
        span.trace_id,
    )


def _notes(span: Span, took_ms: int, slow_ms: int) -> list[str]:
    notes = [span.reason] if span.reason else []
    if took_ms >= slow_ms:
        notes.append("slow")
    if span.refusals:
        notes.append(f"{span.refusals} refused")
    if not span.is_begin_known:
        notes.append("its begin is no longer remembered")
    return notes


def _between(between: Between, now_ms: int) -> BetweenRow:
    last = between.events[-1]
    more = len(between.events) - 1
    text = sentence(last) + (f" (and {more} more)" if more else "")
    first = between.events[0]
    at = dated_clock(first.time_ms, now_ms)
    return BetweenRow(first.id, first.time_ms, at, text, *_steps(between.events))


def _steps(events: Sequence[Event]) -> tuple[tuple[EventRow, ...], int]:
    return tuple(event_rows(events[:STEPS_MAX])), max(len(events) - STEPS_MAX, 0)


def partition_names(names: Sequence[str]) -> str:
    """Return the names of partitions grouped by topic: `orders-0–3, payments-1`."""
    of_topic: dict[str, list[int]] = {}
    cut = []
    for name in names:
        topic, _, number = name.rpartition("-")
        if number.isdecimal():
            of_topic.setdefault(topic, []).append(int(number))
        else:
            cut.append(name)
    every = [f"{topic}-{ranges(numbers)}" for topic, numbers in of_topic.items()] + cut
    more = len(every) - TOPICS_NAMED_MAX
    shown = ", ".join(every[:TOPICS_NAMED_MAX])
    return f"{shown} and {counted(more, 'topic')} more" if more > 0 else shown


def strip_of(spans: Sequence[Span], now_ms: int, page_of: Mapping[str, int]) -> Strip | None:
    """Draw the transactions of the last hour, the newest thousand at most. Returns None for fewer than two. `page_of`
    has the page of each transaction, to which its dot links.
    """
    drawn = [one for one in spans if one.began_ms >= now_ms - STRIP_MS][-STRIP_DOTS_MAX:]
    if len(drawn) < 2:
        return None
    first, last = drawn[0].began_ms, drawn[-1].began_ms
    longest = max(one.duration_ms(now_ms) for one in drawn)
    decades, top = decades_of(longest)

    def y(took_ms: int) -> int:
        return round((STRIP_HEIGHT - 8) * (1 - math.log10(max(took_ms, 1)) / top)) + 4

    dots = tuple(
        Dot(
            round((one.began_ms - first) * 100 / max(last - first, 1), 2),
            y(one.duration_ms(now_ms)),
            _LOOKS.get(one.outcome, "" if one.ended_ms else "warn"),
            one.key,
            page_of.get(one.key, 1),
            f"{clock(one.began_ms)}: {one.outcome} after {duration(one.duration_ms(now_ms))}",
        )
        for one in drawn
    )
    return Strip(
        f"How long {counted(len(drawn), 'transaction')} took that began within {duration(last - first)}, from "
        f"{dated_clock(first, now_ms)} UTC on; the list below tells the same",
        dots,
        time_marks(first, max(last, first + 1), STRIP_MARKS_MAX),
        tuple(ValueMark(y(one), duration(one)) for one in decades),
    )


def bars_page(
    transactional_id: str, found: Sequence[Span | Between], number: int, now_ms: int, key: str = ""
) -> dict[str, object]:
    """Return the template's variables for one page of the list of transactions, newest first. A number beyond the last
    page gives the last one.

    If `key` names a transaction, the page that contains it is returned instead.
    """
    newest_first = found[::-1]
    number = min(number, max(math.ceil(len(found) / BARS_MAX), 1))
    page_of = {
        one.key: at // BARS_MAX + 1 for at, one in enumerate(newest_first) if isinstance(one, Span)
    }
    number = page_of.get(key, number)
    spans = [one for one in found if isinstance(one, Span)]
    shown = newest_first[(number - 1) * BARS_MAX : number * BARS_MAX]
    rows, scale_ms = rows_of_bars(shown, spans, now_ms)
    return {
        "rows": rows,
        "scale": duration(scale_ms),
        "strip": strip_of(spans, now_ms, page_of),
        "strip_height": STRIP_HEIGHT,
        "total": len(found),
        "transaction_count": len(spans),
        "steps": Steps.of(number, len(found), {"id": transactional_id}, BARS_MAX),
    }
