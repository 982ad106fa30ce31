"""The console's page that lists a topic's records."""

import base64
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, get_args
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from oncelog.security.api_tokens import Role
from oncelog_gateway.access import CALLER, Caller
from oncelog_gateway.console_pages import Pages
from oncelog_gateway.console_values import field_texts, moment
from oncelog_gateway.core.record_content import as_json, hex_dump, hex_preview, preview_of
from oncelog_gateway.core.record_filter import RecordFilter
from oncelog_gateway.core.record_walk import Outcome
from oncelog_gateway.operators import Operators
from oncelog_gateway.problems import status_of
from oncelog_gateway.record_access import RecordAccess, RecordsClosedError
from oncelog_gateway.record_pace import Turns
from oncelog_gateway.record_resources import BrowsedRecord, PartitionRead, RecordPage
from oncelog_gateway.record_source import Wanted
from oncelog_gateway.records import PARTITIONS_MAX
from oncelog_gateway.resources import INT32_MAX
from oncelog_gateway.routes.records import begin_of, refused, whole_number

RECORDS_SHOWN: Final = 50
CONTENT_BYTES: Final = 2_000
HEX_BYTES: Final = 256
"""Bytes that are shown as hex in a row that unfolds; the page of the record shows more."""
SPANS_SHOWN: Final = 5
_OUTCOMES: Final = (
    ("committed", "committed"),
    ("aborted", "aborted"),
    ("open", "open"),
    ("plain", "of no transaction"),
    ("marker", "markers"),
)


class RecordRow(NamedTuple):
    one: BrowsedRecord
    time: str
    """The record's time, with the day unless it is today's."""
    moment: str
    preview: str
    is_soft: bool
    """True if the value is null or empty; `preview` then says so in words."""
    shown: str
    """The text that unfolds: in lines where the value is JSON, in hex where it is no text."""
    fields: Sequence[tuple[str, str]]
    """Names and values of the decoded fields, for a record of one of Kafka's internal topics; empty for others."""


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
        outcome: str = "",
        cursor: str = "",
    ) -> HTMLResponse:
        """Show a topic's records. A form field left empty is no filter; only REST can filter by an empty key."""
        begin = request.query_params.get("from", "") or "newest"
        is_committed = isolation == "read_committed"
        outcome = "" if is_committed else outcome
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
                outcomes=_outcomes_of(outcome),
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
            "outcome": outcome,
        }
        turns, now_ms = Turns(pages.views.records.pace), pages.clock.now()
        rows = await _rows(found.records, turns, now_ms)
        return await pages.page_in_turns(
            turns,
            "records.html",
            "/topics",
            rows=rows,
            reader=reader,
            is_writer=_is_writer(CALLER.get()) and not pages.roles.topic(topic).internal,
            filters=filters,
            is_committed=is_committed,
            is_later=bool(cursor),
            partition_count=len(pages.roles.topic(topic).partitions),
            partitions_max=PARTITIONS_MAX,
            outcomes=_OUTCOMES,
            content_bytes=CONTENT_BYTES,
            hour_ago=time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime(now_ms / 1000 - 3600)),
            **_shown(found),
            **_links(filters, found),
        )


async def _rows(records: Sequence[BrowsedRecord], turns: Turns, now_ms: int) -> list[RecordRow]:
    rows = []
    for one in records:
        rows.append(record_row(one, now_ms))
        await turns.next()
    return rows


def _is_writer(caller: Caller | None) -> bool:
    """True if the caller's role may write records, so the page offers it. ACLs are checked only when the
    caller writes.
    """
    return caller is not None and caller.role is not None and caller.role >= Role.OPERATOR


def _shown(found: RecordPage) -> dict[str, object]:
    return {
        "found": found,
        "counts": _counts(found.records),
        "markers": sum(one.outcome == "marker" for one in found.records),
        "got": sum(one.read_committed for one in found.records),
        "held": _held_partition(found),
        "spans": _spans(found),
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
    """Return how many of these records have each outcome: the words to show, the count, and the CSS class that colours
    them.
    """
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
    """Return the first partition where an open transaction holds records back from read_committed readers; None: there
    is none.
    """
    held = (
        one.partition for one in found.partitions if one.last_stable_offset < one.high_watermark
    )
    return next(held, None)


def _spans(found: RecordPage) -> list[PartitionRead]:
    """Return the partitions whose offsets the page names: the first few that have a record on it. If none has, they are
    the first few that were read.
    """
    shown = {one.partition for one in found.records}
    return [one for one in found.partitions if not shown or one.partition in shown][:SPANS_SHOWN]


def _outcomes_of(text: str) -> frozenset[Outcome]:
    """Return the outcomes to show. Raises RequestValidationError for an unknown word, as REST does."""
    found = {name for name in get_args(Outcome) if name == text}
    if text and not found:
        raise refused("outcome", f"{text!r} is none of {', '.join(get_args(Outcome))}")
    return frozenset(found)


def _partition_of(text: str) -> int | None:
    """Return the partition's number; None: all partitions. Raises RequestValidationError for other text, as REST
    does.
    """
    if not text.strip():
        return None
    return whole_number("partition", text, INT32_MAX, "; give a number, or nothing for all")
