"""Timelines: what happened to a transaction, from the events that this process remembers."""

from collections.abc import Sequence

from pydantic import Field

from oncelog.errors import ErrorCode, KafkaError
from oncelog.telemetry.events import Event, EventFilter
from oncelog.telemetry.history import History
from oncelog_gateway.core.event_text import sentence
from oncelog_gateway.resources import Resource, resource_of
from oncelog_gateway.roles import Roles


class TimelineEvent(Resource):
    """One event: something that a role decided or wrote."""

    id: str = Field(
        description="grows; a live stream goes on after it", examples=["1764000000000-0"]
    )
    time_ms: int = Field(description="by the clock of the role that tells it")
    role: str = Field(examples=["coordinator"])
    node: int
    kind: str = Field(
        description="transaction, verified, refused, opened, marker_queued, marker_sent, marker_failed, marker, shard "
        "or hole",
        examples=["transaction"],
    )
    text: str = Field(description="the event in a sentence")
    fields: dict[str, str | int] = Field(description="by kind; docs/events.md")


class EventPage(Resource):
    events: list[TimelineEvent] = Field(description="oldest first")
    since_ms: int | None = Field(
        description="time of the oldest event that is known; what happened before it is not. null: no event is known"
    )
    missing: str = Field(
        description="why events are missing at this moment; empty while they come", examples=[""]
    )


class Timeline(EventPage):
    transactional_id: str
    producer_id: int | None = Field(description="now, as its coordinator says")
    producer_epoch: int | None
    state: str | None = Field(description="now; null when no coordinator knows the id")


class Timelines:
    def __init__(self, roles: Roles, history: History) -> None:
        self._roles = roles
        self.history = history

    async def of_transaction(self, transactional_id: str, limit: int) -> Timeline:
        """Return the newest `limit` events of a transaction. Raises KafkaError when neither its coordinator nor any
        remembered event knows the id.
        """
        known = None
        unknown: KafkaError | None = None
        try:
            known = await self._roles.describe_transaction(transactional_id)
        except KafkaError as error:
            unknown = error
        producers = () if known is None else (known.producer_id,)
        events = self.events_of(transactional_id, producers)
        if unknown is not None and not events:
            raise unknown
        is_unknown = unknown is None or unknown.error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        missing = self.history.away_reason
        if not is_unknown:
            missing = "; ".join(
                filter(None, (missing, f"its coordinator did not answer: {unknown}"))
            )
        return Timeline(
            transactional_id=transactional_id,
            producer_id=known.producer_id if known else None,
            producer_epoch=known.producer_epoch if known else None,
            state=known.state if known else None,
            events=[shown(event) for event in events[-limit:]],
            since_ms=self.history.oldest_ms,
            missing=missing,
        )

    def newest(self, wanted: EventFilter, limit: int) -> EventPage:
        return EventPage(
            events=[shown(event) for event in self.history.newest(limit, wanted)],
            since_ms=self.history.oldest_ms,
            missing=self.history.away_reason,
        )

    def events_of(self, transactional_id: str, producer_ids: Sequence[int]) -> list[Event]:
        """Return the events of a transaction, and the holes among them, which stand for lost events. A lost event may
        be of any transaction that was alive then.
        """
        events = self.history.of_transaction(transactional_id, producer_ids)
        if not events:
            return events
        holes = self.history.holes(events[0].time_ms)
        return sorted((*events, *holes), key=lambda event: event.time_ms) if holes else events


def shown(event: Event) -> TimelineEvent:
    return resource_of(TimelineEvent, event, text=sentence(event), fields=dict(event.fields))
