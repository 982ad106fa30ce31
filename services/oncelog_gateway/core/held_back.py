"""What a group has not read yet: what read_committed readers can read now, and what an open transaction holds back.

A read_committed reader stops at the last stable offset (LSO), where the oldest open transaction of the partition began.
What lies between it and the high watermark waits until that transaction has ended, however fast the group reads:

    committed offset ──── readable ────► LSO ──── held back ────► high watermark

A group is *blocked* where something is held back and nothing is left to read before it. One whose offset is beyond the
LSO reads uncommitted records: nothing blocks it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from oncelog_gateway.core.wording import duration, grouped

LONG_MS: Final = 10_000
"""For less, an open transaction is what every partition of a busy topic has at any time."""


@dataclass(frozen=True, slots=True)
class Behind:
    """What comes after a committed offset, as far as it was read."""

    records: int = 0
    """Of committed transactions, or of none."""
    aborted: int = 0
    markers: int = 0
    is_whole: bool = True
    """Everything up to the high watermark was read."""
    read_to: int = -1
    """The offset after what was read."""


class Unread(NamedTuple):
    """Offsets after a committed one; both together are the lag."""

    readable: int
    """Up to the last stable offset, markers and aborted records included."""
    held_back: int
    """From there, or from the committed offset where that is greater, to the high watermark."""


def unread(offset: int, last_stable_offset: int, high_watermark: int) -> Unread:
    stable = min(last_stable_offset, high_watermark)
    return Unread(max(stable - offset, 0), max(high_watermark - max(offset, stable), 0))


def may_be_blocked(offset: int, last_stable_offset: int, high_watermark: int) -> bool:
    """It is, if no record is left before the last stable offset."""
    return offset <= last_stable_offset and bool(
        unread(offset, last_stable_offset, high_watermark).held_back
    )


def is_blocked(offset: int, last_stable_offset: int, high_watermark: int, read: Behind) -> bool:
    """`read`: what is left from the committed offset on. Markers and aborted records are nothing to read.

    Clients that commit the offset after their last record stay before its marker, so a readable offset is not always a
    record.
    """
    return (
        may_be_blocked(offset, last_stable_offset, high_watermark)
        and not read.records
        and read.read_to >= last_stable_offset
    )


@dataclass(frozen=True, slots=True)
class Holder:
    """The open transaction that holds records back, as far as words need it."""

    transactional_id: str | None
    producer_id: int
    age_ms: int | None
    """Since it began, by its coordinator; None: no coordinator has it open."""
    idle_ms: int | None
    """Since its last record in the partition."""
    is_hanging: bool | None
    first_record_age_ms: int | None = None
    """Of one that hangs: since its first record in the partition. None: not known, or no coordinator is missing."""

    @property
    def name(self) -> str:
        return self.transactional_id or f"producer {self.producer_id}"

    @property
    def held_for_ms(self) -> int | None:
        """For so long at least where its begin is not known: that was before its last record."""
        known = (self.age_ms, self.first_record_age_ms, self.idle_ms)
        return next((one for one in known if one is not None), None)

    @property
    def is_begin_known(self) -> bool:
        """By its coordinator, or by its first record in the partition."""
        return self.age_ms is not None or self.first_record_age_ms is not None

    @property
    def holds_for_long(self) -> bool:
        return self.is_hanging is True or (self.held_for_ms or 0) >= LONG_MS

    @property
    def is_young(self) -> bool:
        """It holds records back as every transaction does for a moment: that is no trouble yet."""
        return not self.is_hanging and self.age_ms is not None and self.age_ms < LONG_MS

    @property
    def holding(self) -> str:
        """What it does to a group that has nothing else left to read."""
        return "held" if self.is_young else "blocked"

    @property
    def kind(self) -> str:
        """What stands before its name."""
        return "a hanging transaction of " if self.is_hanging else ""

    @property
    def for_how_long(self) -> str:
        """Empty: not known."""
        if self.held_for_ms is None:
            return ""
        return f"{'' if self.is_begin_known else 'at least '}{duration(self.held_for_ms)}"

    @property
    def since(self) -> str:
        """What stands behind its name."""
        return f" for {self.for_how_long}" if self.for_how_long else ""

    @property
    def words(self) -> str:
        """`pay-7 for 2 min`."""
        return f"{self.kind}{self.name}{self.since}"


def longest(holders: Sequence[Holder]) -> Holder | None:
    """The one that holds back for the longest; a hanging one before others, because nobody will end it."""
    return max(
        holders,
        key=lambda one: (one.is_hanging is True, one.held_for_ms or 0),
        default=None,
    )


def where_it_stands(lag: int | None, blocked_by: Holder | None) -> str:
    """Of a group, or of a group in one partition."""
    if blocked_by is not None:
        return f"{blocked_by.holding} by {blocked_by.words}"
    if lag is None:
        return "not known"
    return f"behind by {grouped(lag)}" if lag else "has read everything"
