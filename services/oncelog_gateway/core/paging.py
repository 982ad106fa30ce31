"""Pages by key, not by position: what is added or ends while somebody reads on moves no row between pages."""

from collections.abc import Sequence
from typing import Protocol, TypeVar


class Named(Protocol):
    @property
    def transactional_id(self) -> str: ...

    @property
    def producer_id(self) -> int: ...


T = TypeVar("T", bound=Named)


def page_after(rows: Sequence[T], cursor: str | None, limit: int) -> tuple[list[T], str | None]:
    """Rows whose transactional id is greater than `cursor`, and the cursor of the next page; None on the last.

    The cursor is the last id of the page before. Rows of one id stay together, so a page has a few more than `limit`
    where several tries of a Spark task share a name.
    """
    assert limit > 0, limit
    ordered = sorted(rows, key=_key)
    if cursor is not None:
        ordered = [row for row in ordered if row.transactional_id > cursor]
    end = min(limit, len(ordered))
    while 0 < end < len(ordered) and _is_same_id(ordered[end - 1], ordered[end]):
        end += 1
    return ordered[:end], ordered[end - 1].transactional_id if end < len(ordered) else None


def _is_same_id(one: Named, other: Named) -> bool:
    return one.transactional_id == other.transactional_id


def _key(row: Named) -> tuple[str, int]:
    return (row.transactional_id, row.producer_id)
