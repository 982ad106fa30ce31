"""Reads points in time as people type them. Without a zone they are UTC, as everywhere in oncelog."""

from datetime import UTC, datetime

INT64_MAX = 2**63 - 1


def milliseconds_of(text: str) -> int:
    """Return the milliseconds since 1970 of a time that a person typed: ISO 8601, or such a number.

    Raises ValueError that shows both forms.
    """
    if text.isascii() and text.isdigit() and int(text) <= INT64_MAX:
        return int(text)
    try:
        given = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is no time; give one like 2026-01-31T14:00:00Z, or milliseconds since 1970"
        ) from None
    zoned = given if given.tzinfo is not None else given.replace(tzinfo=UTC)
    return round(zoned.timestamp() * 1000)
