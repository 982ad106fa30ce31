"""Values that console pages show beside those of REST: positions in pictures, times as text, and entries of the audit
log as rows.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from oncelog.telemetry.events import Event
from oncelog_gateway.acts import Act
from oncelog_gateway.core.axes import Shape
from oncelog_gateway.core.event_text import sentence
from oncelog_gateway.core.swim_lanes import GAP_MS, look_of
from oncelog_gateway.core.wording import duration
from oncelog_gateway.resources import ActiveProducer, PartitionStatus

BAR_WIDTH: Final = 1000
_SAID_LAST: Final = frozenset(
    {
        "version",
        "producer_id",
        "producer_epoch",
        "timeout_ms",
        "previous_producer_id",
        "next_producer_id",
        "next_producer_epoch",
        "last_producer_epoch",
        "client_transaction_version",
        "leader_epoch",
        "topic_id",
    }
)
"""Fields of Kafka's own records that are shown last, because readers seldom look for them."""


@dataclass(frozen=True, slots=True)
class EventRow:
    time_ms: int
    clock: str
    pause: str
    role: str
    node: int
    text: str
    look: str


def event_rows(events: Sequence[Event]) -> list[EventRow]:
    rows: list[EventRow] = []
    last_ms: int | None = None
    for event in events:
        pause_ms = 0 if last_ms is None else event.time_ms - last_ms
        last_ms = event.time_ms
        rows.append(
            EventRow(
                event.time_ms,
                clock(event.time_ms),
                duration(pause_ms) if pause_ms >= GAP_MS else "",
                event.role,
                event.node,
                sentence(event),
                look_of(event),
            )
        )
    return rows


def clock(time_ms: int) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(time_ms / 1000)) + f".{time_ms % 1000:03d}"


def dated_clock(time_ms: int, now_ms: int) -> str:
    """Return the time of day in UTC, with its date where that is not today's."""
    at, now = time.gmtime(time_ms / 1000), time.gmtime(now_ms / 1000)
    return ("" if at[:3] == now[:3] else time.strftime("%d %b ", at)) + clock(time_ms)


def axis_time(time_ms: int, shape: Shape) -> str:
    """Return the label of a time on an axis, in UTC. `shape` says how finely it is written. A script on the page
    replaces it by the viewer's local time.
    """
    if shape == "milli":
        return clock(time_ms)
    form = {"second": "%H:%M:%S", "minute": "%H:%M", "day": "%d %b"}[shape]
    return time.strftime(form, time.gmtime(time_ms / 1000))


def moment(time_ms: int) -> str:
    """Return a record's timestamp as date and time in UTC. Its producer may write any number there, also one that is
    no time.
    """
    if time_ms < 0:
        return "no time"
    try:
        return time.strftime("%Y-%m-%d ", time.gmtime(time_ms / 1000)) + clock(time_ms)
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"


def field_texts(decoded: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return names and texts of the fields of a decoded record of an internal topic. Times are written as times, and
    empty fields are left out.
    """
    found: list[tuple[str, str]] = []
    for name, value in sorted(decoded.items(), key=lambda one: one[0] in _SAID_LAST):
        if name == "type" or value is None or value == []:
            continue
        if name.endswith("_ms") and not name.endswith("timeout_ms"):
            assert isinstance(value, int), (name, value)
            found.append((name.removesuffix("_ms"), moment(value)))
        elif isinstance(value, list):
            found.append((name, ", ".join(map(_item_text, value))))
        else:
            found.append((name, "yes" if value is True else str(value)))
    return found


def _item_text(one: object) -> str:
    if isinstance(one, Mapping):
        return " ".join(f"{name} {text}" for name, text in field_texts(one))
    return str(one)


@dataclass(frozen=True, slots=True)
class OpenedAt:
    x: int
    text: str


@dataclass(frozen=True, slots=True)
class Bar:
    """The picture of a partition's log as a bar from its start to its end: x positions of the last stable offset, the
    high watermark and open transactions.
    """

    lso: int
    hw: int
    opened: tuple[OpenedAt, ...]


def bar_of(row: PartitionStatus, producers: Sequence[ActiveProducer]) -> Bar | None:
    """Return the bar that shows a partition's log; None while its leader does not answer."""
    start, end = row.log_start_offset, row.log_end_offset
    stable, high = row.last_stable_offset, row.high_watermark
    if start is None or end is None or stable is None or high is None:
        return None

    def x(offset: int) -> int:
        return BAR_WIDTH if end <= start else round((offset - start) * BAR_WIDTH / (end - start))

    return Bar(
        x(stable),
        x(high),
        tuple(
            OpenedAt(
                x(one.current_txn_start_offset),
                f"{one.transactional_id or f'producer {one.producer_id}'}: open since offset "
                f"{one.current_txn_start_offset}",
            )
            for one in producers
            if one.current_txn_start_offset is not None
        ),
    )


@dataclass(frozen=True, slots=True)
class AuditRow:
    clock: str
    who: str
    action: str
    target: str
    outcome: str
    detail: str


def audit_row(act: Act) -> AuditRow:
    who = [act.user or act.caller, f"at {act.forwarded_for or act.remote_address}"]
    if act.reason:
        who.append(f"“{act.reason}”")
    return AuditRow(
        time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(act.time_ms / 1000)),
        " ".join(who),
        act.action.replace("_", " "),
        json.dumps(act.target, ensure_ascii=False)[:300],
        act.outcome.replace("_", " "),
        act.detail,
    )
