"""The durable log under a machine.

A journal has one writer, so the offset of the next record is known before it is written: the machine may apply a
record at once and the commit gate holds its effects until the append is answered. Implementations: a shard of an
internal topic (`oncelog_coordinator.shard_log`), the controller's SQL table (`oncelog_controller.sql_journal`). All
pass `tests/contracts/journal.py`.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Protocol, TypeVar

from oncelog.errors import ErrorCode, OncelogError
from oncelog.ids import Offset

RecordT = TypeVar("RecordT")


class AppendFailed(OncelogError):
    """The journal did not take the records, or it is unknown whether it did. The machine must be dropped and replayed.

    `error_code` is what a client is told meanwhile.
    """

    def __init__(self, error_code: ErrorCode, message: str = "") -> None:
        super().__init__(f"journal append failed: {error_code.name} {message}")
        self.error_code = error_code


class Journal(Protocol[RecordT]):
    def replay(self) -> AsyncIterator[tuple[Offset, RecordT]]:
        """Return every record in order, with its offset. It must be read to its end before the first append."""

    async def append(self, records: Sequence[RecordT]) -> Offset:
        """Append the records, and return the first one's offset once all are committed. One call at a time.
        Raises AppendFailed."""

    @property
    def next_offset(self) -> Offset:
        """The offset of the next append, given that replay was read to its end."""
