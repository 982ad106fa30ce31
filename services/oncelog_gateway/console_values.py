"""What pages show beside REST's resources: where things stand in a picture, and the audit file as rows."""

import json
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from oncelog.telemetry.events import Event
from oncelog_gateway.core.event_text import sentence
from oncelog_gateway.core.swim_lanes import GAP_MS, look_of
from oncelog_gateway.core.wording import duration
from oncelog_gateway.resources import ActiveProducer, PartitionStatus

AUDIT_BYTES_MAX: Final = 1 << 20
"""Of the end of the file."""
AUDIT_ROWS_MAX: Final = 200
BAR_WIDTH: Final = 1000
LAG_SAMPLES_MAX: Final = 720
LAG_EVERY_MS: Final = 5_000


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


@dataclass(frozen=True, slots=True)
class OpenedAt:
    x: int
    text: str


@dataclass(frozen=True, slots=True)
class Bar:
    """Positions on a bar of BAR_WIDTH, from the start of the log to its end."""

    lso: int
    hw: int
    opened: tuple[OpenedAt, ...]


def bar_of(row: PartitionStatus, producers: Sequence[ActiveProducer]) -> Bar | None:
    """None while the leader does not answer."""
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
class LagLine:
    points: str
    now: int
    most: int
    span: int


class LagSamples:
    """The records held back in all partitions, as often as the overview was read."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, int]] = deque(maxlen=LAG_SAMPLES_MAX)

    def add(self, time_ms: int, lag: int) -> None:
        if not self._samples or time_ms - self._samples[-1][0] >= LAG_EVERY_MS:
            self._samples.append((time_ms, lag))

    def line(self) -> LagLine | None:
        """None while there are no two samples."""
        if len(self._samples) < 2:
            return None
        first, last = self._samples[0][0], self._samples[-1][0]
        most = max(lag for _, lag in self._samples)
        points = " ".join(
            f"{(at - first) * 1000 / max(last - first, 1):.0f},{84 - lag * 78 / max(most, 1):.0f}"
            for at, lag in self._samples
        )
        return LagLine(points, self._samples[-1][1], most, last - first)


@dataclass(frozen=True, slots=True)
class AuditRow:
    clock: str
    who: str
    action: str
    target: str
    outcome: str
    detail: str


def audit_rows(path: Path) -> list[AuditRow]:
    """The newest first; empty where nothing was written. Blocks; a torn line is left out."""
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(file.tell() - AUDIT_BYTES_MAX, 0))
            lines = file.read().splitlines()
    except FileNotFoundError:
        return []
    attempts: dict[str, dict[str, Any]] = {}
    for line in lines:
        try:
            told = json.loads(line)
            attempts.setdefault(told["audit_id"], {})[told["event"]] = told
        except (ValueError, KeyError, TypeError):
            continue
    begun = [one for one in attempts.values() if "attempted" in one]
    return [_audit_row(one) for one in reversed(begun[-AUDIT_ROWS_MAX:])]


def _audit_row(found: dict[str, Any]) -> AuditRow:
    attempted, ended = found["attempted"], found.get("ended", {})
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(attempted["time_ms"] / 1000))
    known = {"audit_id", "event", "time_ms", "action", "target"}
    who = ", ".join(str(value) for name, value in attempted.items() if name not in known and value)
    return AuditRow(
        f"{at} UTC",
        who or "not known",
        attempted["action"].replace("_", " "),
        json.dumps(attempted["target"], ensure_ascii=False)[:300],
        ended.get("outcome", "under way").replace("_", " "),
        ended.get("detail", ""),
    )
