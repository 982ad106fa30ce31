"""The console's page of one record: what became of it, and all of it as JSON, text and hex."""

import base64
from typing import Final, NamedTuple
from urllib.parse import urlencode

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from oncelog.ids import Partition
from oncelog_gateway.access import CALLER
from oncelog_gateway.console_pages import Pages
from oncelog_gateway.console_records import closed_page, record_row
from oncelog_gateway.core.record_content import as_json, hex_dump, schema_id
from oncelog_gateway.operators import Operators
from oncelog_gateway.record_access import RecordAccess, RecordsClosedError
from oncelog_gateway.record_resources import BrowsedRecord
from oncelog_gateway.record_source import FromOffset, Wanted
from oncelog_gateway.record_status import RecordStatus, record_status
from oncelog_gateway.resources import INT32_MAX, INT64_MAX
from oncelog_gateway.routes.records import whole_number

CONTENT_BYTES: Final = 64 << 10
HEX_BYTES: Final = 4 << 10
"""Bytes of a key or a value that are shown as hex. Each takes five bytes of the page."""


class Hex(NamedTuple):
    dump: str
    bytes: int
    is_cut: bool
    schema: int | None


class Part(NamedTuple):
    """The key or the value of a record as the page shows it: as text, JSON and hex."""

    name: str
    text: str | None
    json: str | None
    hex: Hex
    bytes: int | None
    is_cut: bool


def add_record(router: APIRouter, pages: Pages, access: RecordAccess, operators: Operators) -> None:
    @router.get("/record")
    async def one_record(request: Request, topic: str, partition: str, offset: str) -> HTMLResponse:
        key = Partition(topic, whole_number("partition", partition, INT32_MAX))
        wanted = whole_number("offset", offset, INT64_MAX)
        try:
            access.check(CALLER.get(), operators.address_of(request), topic)
        except RecordsClosedError as closed:
            return closed_page(pages, topic, closed)
        views = pages.views
        status = await record_status(pages.roles, views.partitions, views.transactions, key, wanted)
        found = await _record_at(pages, key, status)
        return pages.page(
            "record.html",
            "/topics",
            topic=topic,
            partition=key.partition,
            status=status,
            row=None if found is None else record_row(found, -1),
            parts=[] if found is None or found.decoded else _parts(found),
            content_bytes=CONTENT_BYTES,
            before=wanted - 1 if wanted > status.log_start_offset else None,
            after=wanted + 1 if wanted + 1 < status.high_watermark else None,
            events=f"/v1/events?limit=1&{urlencode({'topic': topic})}",
        )


async def _record_at(pages: Pages, key: Partition, status: RecordStatus) -> BrowsedRecord | None:
    """Return the record at the offset of `status`. Returns None if no record has this offset, or if it is not below the
    high watermark yet.
    """
    if not status.log_start_offset <= status.offset < status.high_watermark:
        return None
    page = await pages.views.records.page(
        key.topic,
        Wanted(FromOffset(status.offset), key.partition, limit=1, content_bytes=CONTENT_BYTES),
    )
    return next((one for one in page.records if one.offset == status.offset), None)


def _parts(one: BrowsedRecord) -> list[Part]:
    return [
        _part("Key", one.key, one.key_base64, one.key_bytes, "key" in one.cut),
        _part("Value", one.value, one.value_base64, one.value_bytes, "value" in one.cut),
    ]


def _part(
    name: str, text: str | None, in_base64: str | None, size: int | None, is_cut: bool
) -> Part:
    data = base64.b64decode(in_base64) if in_base64 is not None else (text or "").encode()
    shown = data[:HEX_BYTES]
    found = Hex(
        hex_dump(shown), len(shown), len(shown) < len(data), schema_id(data) if in_base64 else None
    )
    json = None if text is None or is_cut else as_json(text)
    return Part(name, text, json, found, size, is_cut)
