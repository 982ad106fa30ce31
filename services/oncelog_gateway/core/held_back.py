"""The records that a group has not read yet: those that read_committed readers can read now, and those that an open
transaction holds back.

A read_committed reader stops at the last stable offset (LSO), where the oldest open transaction of the partition began.
What lies between it and the high watermark waits until that transaction has ended, however fast the group reads:

    committed offset ──── readable ────► LSO ──── held back ────► high watermark

A group is *blocked* where something is held back and nothing is left to read before it. One whose offset is beyond the
LSO reads uncommitted records: nothing blocks it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from oncelog.wording import counted
from oncelog_gateway.core.wording import duration

LONG_MS: Final = 10_000
"""Age in milliseconds from which an open transaction counts as long. Every partition of a busy topic has a younger one
at any time.
"""
HELD_BACK: Final = (
    "offsets held back: what no read_committed reader gets before an open transaction ends"
)
"""The meaning of `held_back`, for the descriptions of fields and metrics."""


@dataclass(frozen=True, slots=True)
class Behind:
    """The numbers of records between a group's committed offset and `read_to`, by kind."""

    records: int = 0
    """Number of records that a read_committed consumer gets: those of committed transactions and of no transaction."""
    aborted: int = 0
    markers: int = 0
    is_whole: bool = True
    """True if the partition was read up to the wanted end: its high watermark or its last stable offset."""
    read_to: int = -1
    """The offset after the last one that was read."""


class Unread(NamedTuple):
    """The lag of a group in one partition, as two numbers of offsets: those that it can read now, and those that an
    open transaction holds back.
    """

    readable: int
    """Number of offsets from the group's committed offset to the last stable offset. Markers and aborted records count.
    """
    held_back: int
    """Number of offsets from the last stable offset, or from the committed offset where that is greater, to the high
    watermark.
    """


def holds_back(offsets: int, partitions: Sequence[str]) -> str:
    """Return in words what a transaction holds back: `holds back 58 offsets in orders-0`."""
    return f"holds back {counted(offsets, 'offset')} in {', '.join(partitions)}"


def unread(offset: int, last_stable_offset: int, high_watermark: int) -> Unread:
    stable = min(last_stable_offset, high_watermark)
    return Unread(max(stable - offset, 0), max(high_watermark - max(offset, stable), 0))


def may_be_blocked(offset: int, last_stable_offset: int, high_watermark: int) -> bool:
    """True if an open transaction holds something back and the group's committed offset (`offset`) is not beyond the
    last stable offset. Then the group is blocked unless it has records left to read, which the offsets alone do not
    tell.
    """
    return offset <= last_stable_offset and bool(
        unread(offset, last_stable_offset, high_watermark).held_back
    )


def is_blocked(offset: int, last_stable_offset: int, high_watermark: int, read: Behind) -> bool:
    """True if the group is blocked: an open transaction holds something back, and no record is left to read before it.
    `read` counts what is there from the committed offset on. Markers and aborted records are nothing to read.

    A client that commits the offset after its last record stays before the transaction's marker. So an offset that is
    left is not always a record.
    """
    return (
        may_be_blocked(offset, last_stable_offset, high_watermark)
        and not read.records
        and read.read_to >= last_stable_offset
    )


@dataclass(frozen=True, slots=True)
class Holder:
    """The open transaction at a partition's last stable offset, which holds back the records behind it. It has what
    texts about the transaction need.
    """

    transactional_id: str | None
    producer_id: int
    age_ms: int | None
    """Time since the transaction began, by its coordinator; None: no coordinator has it open."""
    idle_ms: int | None
    """Time since the transaction's last record in the partition."""
    is_hanging: bool | None
    first_record_age_ms: int | None = None
    """Time since the first record of a hanging transaction in the partition; None: not known, or the transaction has
    a coordinator.
    """

    @property
    def name(self) -> str:
        return self.transactional_id or f"producer {self.producer_id}"

    @property
    def held_for_ms(self) -> int | None:
        """The time in milliseconds for which the transaction has held records back. Where its begin is not known, this
        is the time since its last record, and so a lower bound. None: neither is known.
        """
        known = (self.age_ms, self.first_record_age_ms, self.idle_ms)
        return next((one for one in known if one is not None), None)

    @property
    def is_begin_known(self) -> bool:
        """True if the transaction's begin is known, by its coordinator or by its first record in the partition."""
        return self.age_ms is not None or self.first_record_age_ms is not None

    @property
    def holds_for_long(self) -> bool:
        return self.is_hanging is True or (self.held_for_ms or 0) >= LONG_MS

    @property
    def is_young(self) -> bool:
        """True if the transaction is less than ten seconds old and does not hang. Each transaction holds records back
        for a moment, so this is no trouble.
        """
        return not self.is_hanging and self.age_ms is not None and self.age_ms < LONG_MS

    @property
    def holding(self) -> str:
        """The word for what the transaction does to a group that has nothing else left to read: `held` if the
        transaction is young, else `blocked`.
        """
        return "held" if self.is_young else "blocked"

    @property
    def kind(self) -> str:
        """Words before the transaction's name that say that it hangs; empty if it does not."""
        return "a hanging transaction of " if self.is_hanging else ""

    @property
    def for_how_long(self) -> str:
        """The time for which the transaction has held records back, as text, such as `at least 2 min`; empty: not
        known.
        """
        if self.held_for_ms is None:
            return ""
        return f"{'' if self.is_begin_known else 'at least '}{duration(self.held_for_ms)}"

    @property
    def since(self) -> str:
        """The time for which the transaction has held records back, as ` for 2 min` after its name; empty:
        not known.
        """
        return f" for {self.for_how_long}" if self.for_how_long else ""

    @property
    def words(self) -> str:
        """The name of the transaction that holds records back, and for how long it does: `pay-7 for 2 min`."""
        return f"{self.kind}{self.name}{self.since}"


def longest(holders: Sequence[Holder]) -> Holder | None:
    """Return the transaction that has held records back for the longest; None if there are none. One that hangs comes
    before others, because nobody will end it.
    """
    return max(
        holders,
        key=lambda one: (one.is_hanging is True, one.held_for_ms or 0),
        default=None,
    )


def where_it_stands(lag: int | None, blocked_by: Holder | None) -> str:
    """Return in words how far a group has read, in all its partitions or in one: the transaction that blocks it, its
    lag, or that it has read everything.
    """
    if blocked_by is not None:
        return f"{blocked_by.holding} by {blocked_by.words}"
    if lag is None:
        return "not known"
    return f"behind by {lag}" if lag else "has read everything"
