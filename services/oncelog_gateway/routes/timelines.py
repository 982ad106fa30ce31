"""`/v1/transactions/{id}/timeline` and `/v1/events`: the events of one transaction, and the newest and live events of
all.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Header, Query, Request
from fastapi.responses import Response, StreamingResponse

from oncelog.errors import ErrorCode, KafkaError
from oncelog.telemetry.events import Event, EventFilter
from oncelog_gateway.problems import described, documented
from oncelog_gateway.resources import INT32_MAX, INT64_MAX
from oncelog_gateway.routes.transactions import TransactionalId
from oncelog_gateway.timelines import EventPage, Timeline, Timelines, shown

KEEP_ALIVE_S: Final = 10.0
"""Seconds between comments in a live stream, so that neither a proxy nor the client takes silence for an end."""

Kind = Literal[
    "transaction",
    "verified",
    "refused",
    "opened",
    "marker_queued",
    "marker_sent",
    "marker_failed",
    "marker",
    "shard",
]
Limit = Annotated[int, Query(ge=1, le=10_000, description="newest events at most")]


def timelines_router(timelines: Timelines, streams_max: int) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["transactions"])

    @router.get(
        **described(
            "/transactions/{transactional_id:path}/timeline", "Timeline of a transaction", 404
        )
    )
    async def timeline(transactional_id: TransactionalId, limit: Limit = 1_000) -> Timeline:
        """The remembered events of a transaction: each state change, epoch bump with its cause, partition,
        verification, refusal and marker. A `hole` stands where events are missing.
        """
        return await timelines.of_transaction(transactional_id, limit)

    @router.get(
        "/events",
        summary="Events, also live",
        responses={
            200: {
                "model": EventPage,
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
                "description": "JSON, or with `Accept: text/event-stream` each event as it happens",
            },
            **documented(503),
        },
        response_model=EventPage,
    )
    async def events(
        request: Request,
        kind: Annotated[list[Kind] | None, Query(description="repeat it for several")] = None,
        transactional_id: Annotated[str | None, Query(max_length=32_767)] = None,
        producer_id: Annotated[int | None, Query(ge=0, le=INT64_MAX)] = None,
        topic: Annotated[str | None, Query(max_length=249)] = None,
        partition: Annotated[int | None, Query(ge=0, le=INT32_MAX)] = None,
        limit: Limit = 100,
        last_event_id: Annotated[
            str,
            Header(
                pattern=r"^(\d{1,18}-\d{1,18})?$",
                description="go on after this one; empty: with the newest",
            ),
        ] = "",
    ) -> Response | EventPage:
        """The newest events. With `Accept: text/event-stream` they come first, then each new one as a server-sent
        event: `id`, `event` (its kind) and `data` (JSON).
        """
        wanted = EventFilter(frozenset(kind or ()), transactional_id, producer_id, topic, partition)
        if "text/event-stream" not in request.headers.get("accept", ""):
            return timelines.newest(wanted, limit)
        if timelines.history.subscriber_count >= streams_max:
            raise KafkaError(
                ErrorCode.BROKER_NOT_AVAILABLE,
                f"{streams_max} clients follow live events already "
                "(ONCELOG_GATEWAY_EVENT_STREAMS_MAX); ask again later",
            )
        return StreamingResponse(
            _stream(timelines, wanted, limit, last_event_id),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )

    return router


async def _stream(
    timelines: Timelines, wanted: EventFilter, limit: int, last_event_id: str
) -> AsyncIterator[str]:
    history = timelines.history
    subscription = history.subscribe(wanted)
    try:
        yield ": live events of oncelog\n\n"
        first = (
            list(history.after(last_event_id, wanted))
            if last_event_id
            else history.newest(limit, wanted)
        )
        for event in first:
            yield _written(event)
        while True:
            events = await subscription.next(KEEP_ALIVE_S)
            if not events:
                yield ": still here\n\n"
            for event in events:
                yield _written(event)
            await asyncio.sleep(0)
    finally:
        history.unsubscribe(subscription)


def _written(event: Event) -> str:
    return f"id: {event.id}\nevent: {event.kind}\ndata: {shown(event).model_dump_json()}\n\n"
