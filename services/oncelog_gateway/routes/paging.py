"""The query parameters `limit` and `cursor`, which every list of REST takes."""

from typing import Annotated, Final

from fastapi import Depends, Query

from oncelog_gateway.core.paging import PageRequest

LIMIT_MAX: Final = 10_000


async def _page_request(
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX, description="rows at most")] = 1_000,
    cursor: Annotated[
        str | None,
        Query(
            max_length=50_000, description="`next_cursor` of the page before; none: the first page"
        ),
    ] = None,
) -> PageRequest:
    return PageRequest(limit, cursor)


Paging = Annotated[PageRequest, Depends(_page_request)]
