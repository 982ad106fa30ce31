"""A journal in memory: it survives a dropped machine, not the process."""

from collections.abc import AsyncIterator, Sequence
from typing import Generic, TypeVar

from oncelog.ids import Offset

RecordT = TypeVar("RecordT")


class MemoryJournal(Generic[RecordT]):
    def __init__(self, records: Sequence[RecordT] = ()) -> None:
        self.records: list[RecordT] = list(records)

    async def replay(self) -> AsyncIterator[tuple[Offset, RecordT]]:
        for offset, record in enumerate(tuple(self.records)):
            yield Offset(offset), record

    async def append(self, records: Sequence[RecordT]) -> Offset:
        first = self.next_offset
        self.records.extend(records)
        return first

    @property
    def next_offset(self) -> Offset:
        return Offset(len(self.records))
