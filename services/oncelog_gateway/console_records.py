"""The pages of topics and of their records."""

import base64
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from oncelog.ids import Partition
from oncelog_gateway.access import CALLER
from oncelog_gateway.console_pages import PARTITIONS_READ_MAX, ROWS_MAX, Pages, Steps, page_number
from oncelog_gateway.console_values import field_texts, moment
from oncelog_gateway.core.record_content import as_json, hex_dump, hex_preview, preview_of
from oncelog_gateway.core.record_filter import RecordFilter
from oncelog_gateway.core.record_walk import Outcome
from oncelog_gateway.operators import Operators
from oncelog_gateway.problems import status_of
from oncelog_gateway.record_access import RecordAccess, RecordsClosedError
from oncelog_gateway.record_resources import BrowsedRecord, PartitionRead, RecordPage
from oncelog_gateway.record_source import Wanted
from oncelog_gateway.records import PARTITIONS_MAX
from oncelog_gateway.resources import INT32_MAX, PartitionStatus
from oncelog_gateway.routes.records import begin_of, whole_number
from oncelog_gateway.topic_resources import config_texts

RECORDS_SHOWN: Final = 50
CONTENT_BYTES: Final = 2_000
HEX_BYTES: Final = 256
"""In a row that unfolds; the page of the record shows more."""
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
    time: str
    """The day as well, unless it is today's."""
    moment: str
    preview: str
    is_soft: bool
    """There is no value to be seen."""
    shown: str
    """What unfolds: in lines where it is JSON, in hex where it is no text."""
    fields: Sequence[tuple[str, str]]
    """Of Kafka's own records."""


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
        markers: str = "",
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
            return closed_page(pages, topic, closed)
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
                are_markers_wanted=markers != "hide",
            ),
        )
        filters = {
            "topic": topic,
            "partition": partition,
            "from": begin,
            "isolation": "read_committed" if is_committed else "",
            "markers": markers,
            "key": key,
            "header": header,
            "text": text,
        }
        return pages.page(
            "records.html",
            "/topics",
            reader=reader,
            filters=filters,
            is_committed=is_committed,
            is_later=bool(cursor),
            partition_count=len(pages.roles.topic(topic).partitions),
            partitions_max=PARTITIONS_MAX,
            content_bytes=CONTENT_BYTES,
            **_shown(found, pages.clock.now()),
            **_links(filters, found),
        )


def _shown(found: RecordPage, now_ms: int) -> dict[str, object]:
    return {
        "found": found,
        "rows": [record_row(one, now_ms) for one in found.records],
        "counts": _counts(found.records),
        "markers": sum(one.outcome == "marker" for one in found.records),
        "got": sum(one.read_committed for one in found.records),
        "held": _held_partition(found),
        "spans": _spans(found),
        "hour_ago": time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime(now_ms / 1000 - 3600)),
    }


def _links(filters: Mapping[str, str], found: RecordPage) -> dict[str, str | None]:
    def link(**changed: str) -> str:
        given = {**filters, **changed}
        return "?" + urlencode({name: one for name, one in given.items() if one})

    return {
        "everything": link(isolation=""),
        "committed": link(isolation="read_committed"),
        "first": link(),
        "after": link(cursor=found.next_cursor) if found.next_cursor else None,
    }


def closed_page(pages: Pages, topic: str, closed: RecordsClosedError) -> HTMLResponse:
    page = pages.page("records_closed.html", "/topics", topic=topic, closed=closed)
    page.status_code = status_of(closed.error_code)
    return page


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


def record_row(one: BrowsedRecord, now_ms: int) -> RecordRow:
    fields = () if one.decoded is None else field_texts(one.decoded)
    is_soft = False
    if fields:
        preview = " · ".join(f"{name} {text}" for name, text in fields)
        shown = ""
    elif not one.value_bytes:
        preview, shown, is_soft = "null" if one.value_bytes is None else "empty", "", True
    elif one.value is not None:
        preview = preview_of(one.value)
        shown = (None if "value" in one.cut else as_json(one.value)) or one.value
    else:
        data = base64.b64decode(one.value_base64 or "")
        preview, shown = hex_preview(data), hex_dump(data[:HEX_BYTES])
    full = moment(one.timestamp_ms)
    today = moment(now_ms).partition(" ")[0] + " "
    return RecordRow(one, full.removeprefix(today), full, preview, is_soft, shown, fields)


def _counts(records: Sequence[BrowsedRecord]) -> list[tuple[str, int, str]]:
    """How many of each outcome, with the look of it."""
    looks: tuple[tuple[Outcome, str, str], ...] = (
        ("committed", "committed", "good"),
        ("aborted", "aborted", "bad"),
        ("open", "open", "warn"),
        ("plain", "of no transaction", ""),
        ("marker", "markers", ""),
    )
    counted = Counter(one.outcome for one in records)
    found = [(word, counted[outcome], look) for outcome, word, look in looks if counted[outcome]]
    held = sum(one.outcome in ("committed", "plain") and not one.read_committed for one in records)
    return [*found, ("held back", held, "warn")] if held else found


def _held_partition(found: RecordPage) -> int | None:
    """The first that holds something back."""
    held = (
        one.partition for one in found.partitions if one.last_stable_offset < one.high_watermark
    )
    return next(held, None)


def _spans(found: RecordPage) -> list[PartitionRead]:
    """Of the first partitions with a record here; without any, of the first that were read."""
    shown = {one.partition for one in found.records}
    return [one for one in found.partitions if not shown or one.partition in shown][:SPANS_SHOWN]


def _partition_of(text: str) -> int | None:
    """Raises RequestValidationError, as REST does."""
    if not text.strip():
        return None
    return whole_number("partition", text, INT32_MAX, "; give a number, or nothing for all")
