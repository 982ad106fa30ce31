"""Splits lists into pages by the key of a row, not by its position. So a row that is added or removed between two
requests moves no other row between pages.

A cursor is the key of the last row of the page before. It is in base64 so that nobody takes it for a number to count
up.
"""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from oncelog.errors import ErrorCode, KafkaError

Key = tuple[str | int, ...]
"""The key by which a list is ordered. All keys of one list have the same length and types."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PageRequest:
    limit: int
    cursor: str | None = None


def page_of(
    rows: Sequence[T], key: Callable[[T], Key], paging: PageRequest
) -> tuple[list[T], str | None]:
    """Return the rows behind the cursor in order of key, and the cursor of the next page; None on the last page.

    Raises KafkaError for a cursor that is not of this list.
    """
    assert paging.limit > 0, paging
    ordered = sorted(rows, key=key)
    if paging.cursor is not None and ordered:
        after = _key_in(paging.cursor, key(ordered[0]))
        ordered = [row for row in ordered if key(row) > after]
    page = ordered[: paging.limit]
    return page, cursor_of(key(page[-1])) if len(page) < len(ordered) else None


def cursor_of(position: Sequence[object]) -> str:
    """Return the cursor for a row's key, as text. `position_in` turns it back."""
    # UTF-8 without escapes: the longest transactional id must fit into a request's head.
    content = json.dumps(position, ensure_ascii=False, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(content).decode("ascii").rstrip("=")


def position_in(cursor: str) -> object:
    """Return the key that a cursor holds; None: the text is no cursor."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        return cast("object", json.loads(base64.b64decode(padded, altchars=b"-_", validate=True)))
    except (ValueError, RecursionError):
        return None


def not_a_cursor(cursor: str) -> KafkaError:
    return KafkaError(
        ErrorCode.RESOURCE_NOT_FOUND,
        f"{cursor[:100]!r} is not a cursor of this list; give `next_cursor` of the page before, or none",
    )


def _key_in(cursor: str, pattern: Key) -> Key:
    found = position_in(cursor)
    if isinstance(found, list) and [type(one) for one in found] == [type(one) for one in pattern]:
        return tuple(found)
    raise not_a_cursor(cursor)
