"""A transaction's timeline as a picture with lanes: one each for the client, the coordinator, the marker sender and
each partition. Events go from left to right. A line shows where one lane calls another.

Events have equal distances whatever time lies between them, because a commit takes milliseconds and a hung producer
minutes. A pause of a second or more is a gap with its length.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from oncelog.telemetry.events import HOLE, Event, partitions_of
from oncelog_gateway.core.event_text import sentence
from oncelog_gateway.core.wording import duration

CLIENT: Final = "client"
COORDINATOR: Final = "coordinator"
MARKER_SENDER: Final = "marker sender"
GAP_MS: Final = 1_000
EVENTS_MAX: Final = 60
PARTITIONS_MAX: Final = 12
STEP: Final = 26
GAP_WIDTH: Final = 54
LANE_HEIGHT: Final = 36
NAMES_WIDTH: Final = 150
TOP: Final = 14


@dataclass(frozen=True, slots=True)
class Mark:
    """An event in the picture: a dot in its lane, and a line to it from the lane that caused it."""

    x: int
    y: int
    from_y: int
    look: str
    """The look of the dot: `good`, `bad`, `warn` or empty."""
    text: str


@dataclass(frozen=True, slots=True)
class Gap:
    x: int
    text: str


@dataclass(frozen=True, slots=True)
class Lane:
    y: int
    name: str


@dataclass(frozen=True, slots=True)
class Picture:
    lanes: tuple[Lane, ...]
    marks: tuple[Mark, ...]
    gaps: tuple[Gap, ...]
    width: int
    height: int
    left_out: int
    """The number of older events that are not drawn."""


def draw(events: Sequence[Event]) -> Picture:
    shown = [event for event in events if event.kind != "shard"][-EVENTS_MAX:]
    names = [CLIENT, COORDINATOR, MARKER_SENDER, *_partitions(shown)]
    y_of = {name: TOP + at * LANE_HEIGHT + LANE_HEIGHT // 2 for at, name in enumerate(names)}
    marks: list[Mark] = []
    gaps: list[Gap] = []
    x, last_ms = 0, None
    for event in shown:
        pause_ms = 0 if last_ms is None else event.time_ms - last_ms
        if pause_ms >= GAP_MS:
            gaps.append(Gap(x + GAP_WIDTH // 2, duration(pause_ms)))
            x += GAP_WIDTH
        last_ms = event.time_ms
        x += STEP
        caller, called = _way(event)
        for lane in called:
            if lane in y_of:
                y, from_y = y_of[lane], y_of.get(caller, y_of[lane])
                marks.append(Mark(x, y, from_y, look_of(event), sentence(event)))
    return Picture(
        tuple(Lane(y_of[name], name) for name in names),
        tuple(marks),
        tuple(gaps),
        x + STEP,
        TOP + len(names) * LANE_HEIGHT + 18,
        len(events) - len(shown),
    )


def _partitions(events: Sequence[Event]) -> list[str]:
    found = {
        f"{one.topic}-{one.partition}": None for event in events for one in partitions_of(event)
    }
    return list(found)[:PARTITIONS_MAX]


def _way(event: Event) -> tuple[str, list[str]]:
    """Return the lane that caused the event, and the lanes in which it happened. The line of the picture goes from the
    first to the others.
    """
    own = [f"{one.topic}-{one.partition}" for one in partitions_of(event)]
    match event.kind:
        case "transaction":
            is_client_request = event.text("request") in (
                "InitProducerId",
                "AddPartitions",
                "EndTxn",
            )
            caller = MARKER_SENDER if event.text("request") == "MarkersDelivered" else COORDINATOR
            return (CLIENT if is_client_request else caller), [COORDINATOR]
        case "verified":
            return (own[0] if own else COORDINATOR), [COORDINATOR]
        case "refused":
            return CLIENT, own[:1] if event.role == "storage" else [COORDINATOR]
        case "opened":
            return CLIENT, own
        case "marker_queued":
            return COORDINATOR, [MARKER_SENDER]
        case "marker_sent" | "marker_failed":
            return MARKER_SENDER, own or [MARKER_SENDER]
        case "marker":
            return (own[0] if own else MARKER_SENDER), own
        case _:
            return COORDINATOR, [COORDINATOR]


def look_of(event: Event) -> str:
    if event.kind in ("refused", "marker_failed") or event.number("error_code") > 0:
        return "bad"
    if event.kind == HOLE or event.text("bump") in ("takeover", "timeout", "operator"):
        return "warn"
    state = event.text("state")
    return "good" if event.kind == "marker" or state.startswith("Complete") else ""
