"""The pages of topics and of their records."""

from typing import Final, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from oncelog.ids import Partition
from oncelog_gateway.access import CALLER
from oncelog_gateway.console_pages import PARTITIONS_READ_MAX, ROWS_MAX, Pages, Steps, page_number
from oncelog_gateway.console_values import moment
from oncelog_gateway.core.record_content import as_json
from oncelog_gateway.core.record_filter import RecordFilter
from oncelog_gateway.operators import Operators
from oncelog_gateway.problems import status_of
from oncelog_gateway.record_access import RecordAccess, RecordsClosedError
from oncelog_gateway.record_resources import BrowsedRecord, PartitionRead, RecordPage
from oncelog_gateway.record_source import Wanted
from oncelog_gateway.records import PARTITIONS_MAX
from oncelog_gateway.resources import INT32_MAX, PartitionStatus
from oncelog_gateway.routes.records import begin_of, refused
from oncelog_gateway.topic_resources import config_texts

RECORDS_SHOWN: Final = 50
CONTENT_BYTES: Final = 2_000
PARTITION_DIGITS_MAX: Final = 10
SPANS_SHOWN: Final = 5


class TopicRow(NamedTuple):
    name: str
    partition_count: int
    read_count: int
    """Partitions that this page knows: those that were asked and answered."""
    size_bytes: int
    held_count: int
    """Partitions in which a transaction holds the last stable offset."""
    lso_lag: int
    oldest: PartitionStatus | None
    """The partition that is held back the most."""
    retention_ms: int
    retention_bytes: int


class RecordRow(NamedTuple):
    one: BrowsedRecord
    moment: str
    json: str | None
    """The value in lines, where it is JSON and shown whole."""


def add_topics(router: APIRouter, pages: Pages) -> None:
    @router.get("/topics")
    async def topic_list(topic: str = "", page: str = "1", internal: str = "") -> HTMLResponse:
        number = page_number(page)
        image = pages.roles.image
        names = sorted(
            name
            for name, one in image.topics.items()
            if topic in name and (internal or topic or not one.internal)
        )
        shown = names[(number - 1) * ROWS_MAX : number * ROWS_MAX]
        return pages.page(
            "topics.html",
            "/topics",
            rows=await _topic_rows(pages, shown),
            total=len(names),
            topic=topic,
            internal=internal,
            steps=Steps.of(number, len(names), {"topic": topic, "internal": internal}),
            events="/v1/events?kind=transaction&limit=1",
        )

    @router.get("/topic")
    async def one_topic(name: str) -> HTMLResponse:
        (row,) = await _topic_rows(pages, [name])
        image = pages.roles.image
        partitions = [Partition(name, one.partition) for one in image.topics[name].partitions]
        rows = await pages.views.partitions.statuses(partitions[:ROWS_MAX])
        return pages.page(
            "topic.html",
            "/topics",
            row=row,
            rows=rows,
            partition_count=len(partitions),
            configs=sorted(image.topics[name].configs.items()),
            replicas=len(image.topics[name].partitions[0].replicas) if partitions else 0,
            events=f"/v1/events?limit=1&{urlencode({'topic': name})}",
        )


def add_records(
    router: APIRouter, pages: Pages, access: RecordAccess, operators: Operators
) -> None:
    @router.get("/records")
    async def record_list(
        request: Request,
        topic: str,
        partition: str = "",
        isolation: str = "",
        key: str = "",
        header: str = "",
        text: str = "",
        cursor: str = "",
    ) -> HTMLResponse:
        """A field that was left empty is not given: an empty key is asked for by REST."""
        begin = request.query_params.get("from", "") or "newest"
        is_committed = isolation == "read_committed"
        try:
            reader = access.check(CALLER.get(), operators.address_of(request), topic)
        except RecordsClosedError as closed:
            page = pages.page("records_closed.html", "/topics", topic=topic, closed=closed)
            page.status_code = status_of(closed.error_code)
            return page
        found = await pages.views.records.page(
            topic,
            Wanted(
                begin_of(begin),
                _partition_of(partition),
                "read_committed" if is_committed else "read_uncommitted",
                RecordFilter.of(key or None, header or None, text or None),
                RECORDS_SHOWN,
                content_bytes=CONTENT_BYTES,
                cursor=cursor or None,
            ),
        )
        filters = {
            "topic": topic,
            "partition": partition,
            "from": begin,
            "isolation": "read_committed" if is_committed else "",
            "key": key,
            "header": header,
            "text": text,
        }

        def link(**changed: str) -> str:
            given = {**filters, **changed}
            return "?" + urlencode({name: one for name, one in given.items() if one})

        return pages.page(
            "records.html",
            "/topics",
            found=found,
            reader=reader,
            rows=[_record_row(one) for one in found.records],
            spans=_spans(found),
            filters=filters,
            is_committed=is_committed,
            partitions_max=PARTITIONS_MAX,
            everything=link(isolation=""),
            committed=link(isolation="read_committed"),
            first=link(),
            is_later=bool(cursor),
            after=link(cursor=found.next_cursor) if found.next_cursor else None,
        )


async def _topic_rows(pages: Pages, names: list[str]) -> list[TopicRow]:
    image = pages.roles.image
    found: dict[str, list[PartitionStatus]] = {name: [] for name in names}
    wanted = [
        Partition(name, one.partition)
        for name in names
        for one in (image.topics[name].partitions if name in image.topics else ())
    ]
    for row in await pages.views.partitions.statuses(wanted[:PARTITIONS_READ_MAX]):
        if row.failure is None:
            found[row.topic].append(row)
    return [_topic_row(pages, name, found[name]) for name in names]


def _topic_row(pages: Pages, name: str, rows: list[PartitionStatus]) -> TopicRow:
    topic = pages.roles.topic(name)
    held = [row for row in rows if row.lso_holder is not None]
    configs = config_texts(pages.roles.image, topic)
    return TopicRow(
        name,
        len(topic.partitions),
        len(rows),
        sum(row.size_bytes or 0 for row in rows),
        len(held),
        sum(row.lso_lag or 0 for row in rows),
        max(held, key=lambda row: row.lso_lag or 0, default=None),
        int(configs["retention.ms"]),
        int(configs["retention.bytes"]),
    )


def _record_row(one: BrowsedRecord) -> RecordRow:
    json = None if one.value is None or "value" in one.cut else as_json(one.value)
    return RecordRow(one, moment(one.timestamp_ms), json)


def _spans(found: RecordPage) -> list[PartitionRead]:
    """Of the first partitions with a record here; without any, of the first that were read."""
    shown = {one.partition for one in found.records}
    return [one for one in found.partitions if not shown or one.partition in shown][:SPANS_SHOWN]


def _partition_of(text: str) -> int | None:
    """Raises RequestValidationError, as REST does."""
    if not text.strip():
        return None
    number = text.strip()
    if number.isascii() and number.isdigit() and len(number) <= PARTITION_DIGITS_MAX:
        found = int(number)
        if found <= INT32_MAX:
            return found
    raise refused("partition", f"{text!r} is no partition; give a number, or nothing for all")
