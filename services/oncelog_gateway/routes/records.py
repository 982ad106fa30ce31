"""`/v1/topics/{name}/records`: reads the records of a topic, each with the outcome of its transaction, and writes
one.
"""

from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.exceptions import RequestValidationError

from oncelog.security.acl import Operation
from oncelog.times import milliseconds_of
from oncelog_gateway.access import CALLER
from oncelog_gateway.core.record_filter import RecordFilter
from oncelog_gateway.core.record_walk import Outcome
from oncelog_gateway.operators import Operators
from oncelog_gateway.problems import described
from oncelog_gateway.record_access import RecordAccess, RecordsClosedError
from oncelog_gateway.record_resources import (
    Isolation,
    RecordPage,
    WriteRecordRequest,
    WrittenRecord,
)
from oncelog_gateway.record_source import Begin, FromOffset, FromTime, Newest, Oldest, Wanted
from oncelog_gateway.record_writing import RecordWriter
from oncelog_gateway.records import Records
from oncelog_gateway.resources import INT32_MAX, INT64_MAX
from oncelog_gateway.routes.topics import Name

LIMIT_MAX: Final = 500
BYTES_MAX: Final = 8 << 20
CONTENT_BYTES_MAX: Final = 1 << 20
_TEXT_MAX: Final = 1_000

From = Annotated[
    str,
    Query(
        alias="from",
        max_length=100,
        description="`newest`: back from the end; `oldest`: on from the beginning; a number: on from this offset; "
        "`@TIME`: on from the first record that is not older, such as @2026-01-31T14:00:00Z or @1769868000000",
        examples=["newest"],
    ),
]


Partition = Annotated[
    int | None, Query(ge=0, le=INT32_MAX, description="without it: all, at most 200")
]
Isolated = Annotated[
    Isolation,
    Query(
        description="read_committed: what such a consumer gets now; read_uncommitted: every record up to the high "
        "watermark, markers too"
    ),
]
Key = Annotated[str | None, Query(max_length=_TEXT_MAX, description="only with exactly this key")]
Header = Annotated[
    str | None,
    Query(max_length=_TEXT_MAX, description="only with this header: NAME or NAME=VALUE"),
]
Text = Annotated[
    str | None,
    Query(
        max_length=_TEXT_MAX,
        description="only with this text in the key, the value or a header's value",
    ),
]
Limit = Annotated[int, Query(ge=1, le=LIMIT_MAX, description="records at most")]
Bytes = Annotated[
    int,
    Query(
        ge=1,
        le=BYTES_MAX,
        description="bytes of record batches that are read for this page; one batch of a partition is read whole in "
        "any case",
    ),
]
ContentBytes = Annotated[
    int,
    Query(
        ge=0,
        le=CONTENT_BYTES_MAX,
        description="bytes that are shown of each key, value and header; `cut` says where there are more",
    ),
]
Cursor = Annotated[
    str | None,
    Query(
        max_length=20_000,
        description="`next_cursor` of the page before; it goes on from there, whatever `from` says",
    ),
]
Outcomes = Annotated[
    list[Outcome] | None,
    Query(description="only with this outcome; repeat it for several. Markers are an outcome too"),
]
Markers = Annotated[bool, Query(description="control records too, with read_uncommitted")]


def records_router(
    records: Records, writer: RecordWriter, access: RecordAccess, operators: Operators
) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["topics"])

    @router.get(**described("/topics/{name}/records", "Records of a topic", 404))
    async def topic_records(
        request: Request,
        name: Name,
        partition: Partition = None,
        begin: From = "newest",
        isolation: Isolated = "read_uncommitted",
        key: Key = None,
        header: Header = None,
        text: Text = None,
        limit: Limit = 100,
        max_bytes: Bytes = 1 << 20,
        content_bytes: ContentBytes = 4_096,
        cursor: Cursor = None,
        markers: Markers = True,
        outcome: Outcomes = None,
    ) -> RecordPage:
        """Records, each with the outcome of its transaction. The next page goes on where this one ended:
        `next_cursor`.

        They are read as a consumer reads, and no offset moves.
        """
        wanted = Wanted(
            begin_of(begin),
            partition,
            isolation,
            RecordFilter.of(key, header, text),
            limit,
            max_bytes,
            content_bytes,
            cursor,
            markers,
            frozenset(outcome or ()),
        )
        access.check(CALLER.get(), operators.address_of(request), name)
        return await records.page(name, wanted)

    @router.post(
        **described("/topics/{name}/records", "Write a record", 400, 403, 404, 409, 413),
        status_code=HTTPStatus.CREATED,
    )
    async def write_record(request: Request, name: Name, body: WriteRecordRequest) -> WrittenRecord:
        """Writes a record by itself or in a transaction of its own. Without an answer it may have been written: look
        before you write it again.
        """
        operator = operators.of(request)
        try:
            access.check(CALLER.get(), operators.address_of(request), name, Operation.WRITE)
        except RecordsClosedError as closed:
            await writer.refused(operator, name, closed)
            raise
        return await writer.write(operator, name, body)

    return router


def begin_of(text: str) -> Begin:
    """Return where a page of records begins, from a text such as `newest` or an offset. Raises RequestValidationError
    that names the text and what is allowed.
    """
    if text == "newest":
        return Newest()
    if text == "oldest":
        return Oldest()
    if text.startswith("@"):
        try:
            found = milliseconds_of(text[1:])
        except (ValueError, OverflowError) as error:
            raise refused("from", str(error)) from None
        if found < 0:
            raise refused("from", f"{text!r} is before 1970; give a later time, or oldest")
        return FromTime(found)
    if text.isascii() and text.isdigit() and int(text) <= INT64_MAX:
        return FromOffset(int(text))
    raise refused("from", f"{text!r} is neither newest, oldest, an offset nor @TIME")


def whole_number(name: str, text: str, most: int, way_out: str = "; give a number") -> int:
    """Return the number from 0 to `most` in the query parameter `name` of a console page. Raises RequestValidationError
    for other text, as REST does; `way_out` ends its message.
    """
    number = text.strip()
    if number.isascii() and number.isdigit() and len(number) <= len(str(most)):
        found = int(number)
        if found <= most:
            return found
    raise refused(name, f"{text!r} is no {name}{way_out}")


def refused(name: str, message: str) -> RequestValidationError:
    """Return the error that refuses a query parameter."""
    return RequestValidationError([{"loc": ("query", name), "msg": message}])
