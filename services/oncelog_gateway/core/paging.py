"""Pages by key, not by position: what is added or ends while somebody reads on moves no row between pages."""

import base64
from collections.abc import Sequence
from typing import Protocol, TypeVar


class Named(Protocol):
    @property
    def transactional_id(self) -> str: ...


T = TypeVar("T", bound=Named)


def page_after(rows: Sequence[T], last_seen: str | None, limit: int) -> tuple[list[T], str | None]:
    """At most `limit` rows with a greater transactional id than `last_seen`, and the cursor of the next page."""
    assert limit > 0, limit
    ordered = sorted(rows, key=_key)
    if last_seen is not None:
        ordered = [row for row in ordered if row.transactional_id > last_seen]
    page = ordered[:limit]
    return page, cursor_of(page[-1].transactional_id) if len(ordered) > limit else None


def cursor_of(last_seen: str) -> str:
    """Opaque and safe in a URL."""
    return base64.urlsafe_b64encode(last_seen.encode()).decode("ascii").rstrip("=")


def last_seen_of(cursor: str) -> str:
    """The inverse of `cursor_of`. Raises ValueError for anything else."""
    padded = cursor + "=" * (-len(cursor) % 4)
    try:
        return base64.b64decode(padded, altchars=b"-_", validate=True).decode()
    except ValueError as error:
        raise ValueError(f"cursor {cursor!r} is not one that this gateway gave") from error


def _key(row: Named) -> str:
    return row.transactional_id
