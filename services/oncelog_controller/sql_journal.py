"""The journal in a table: row n is record n.

The writer assigns the offsets. An append commits only if the table still ends where the writer believes it does, so
of two controllers that race, one is told that it lost and must replay: that is what keeps a block of producer ids from
being handed out twice. Two guards see to it. The primary key stops writers that are level; the check of the last row,
made under a lock, stops one so far behind that the rows it would collide with are gone.

A snapshot record makes the rows before it needless, and its append removes them.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Generic, TypeVar

from sqlalchemy import Connection, delete, func, insert, select, text
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from oncelog.errors import ErrorCode, OncelogError
from oncelog.ids import Offset
from oncelog.journal import AppendFailed
from oncelog.runtime.clock import Clock
from oncelog_controller.database import Database, reason_of
from oncelog_controller.schema import metadata_journal

RecordT = TypeVar("RecordT")

REPLAY_PAGE_ROWS = 1000


class SqlJournal(Generic[RecordT]):
    """Implements `oncelog.journal.Journal` on an open `Database`.

    `encode` gives (record type, text), `decode` takes them back; `is_snapshot` tells which records replay may begin at.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        encode: Callable[[RecordT], tuple[str, str]],
        decode: Callable[[str, str], RecordT],
        is_snapshot: Callable[[RecordT], bool] = lambda _record: False,
    ) -> None:
        self._database = database
        self._clock = clock
        self._encode = encode
        self._decode = decode
        self._is_snapshot = is_snapshot
        self._next_offset = Offset(0)

    @property
    def next_offset(self) -> Offset:
        return self._next_offset

    async def replay(self) -> AsyncIterator[tuple[Offset, RecordT]]:
        """Every record from the newest snapshot on. Raises OncelogError when it cannot be read or has a gap."""
        after = -1
        while True:
            rows = await self._page(after)
            for metadata_offset, record_type, body in rows:
                record = self._decode(record_type, body)
                if metadata_offset != after + 1 and not self._is_snapshot(record):
                    raise OncelogError(
                        f"the metadata journal in {self._database.shown_url} has no row {after + 1}: "
                        "restore it from a backup"
                    )
                after = metadata_offset
                yield Offset(metadata_offset), record
            if len(rows) < REPLAY_PAGE_ROWS:
                self._next_offset = Offset(after + 1)
                return

    async def append(self, records: Sequence[RecordT]) -> Offset:
        first = self._next_offset
        written_at_ms = self._clock.now()
        rows = []
        snapshot_offset = -1
        for metadata_offset, record in enumerate(records, first):
            record_type, body = self._encode(record)
            if self._is_snapshot(record):
                snapshot_offset = metadata_offset
            rows.append(
                {
                    "metadata_offset": metadata_offset,
                    "record_type": record_type,
                    "body": body,
                    "written_at_ms": written_at_ms,
                }
            )

        def write(connection: Connection) -> None:
            _check_end(connection, first)
            connection.execute(insert(metadata_journal), rows)
            if snapshot_offset >= 0:
                needless = metadata_journal.c.metadata_offset < snapshot_offset
                connection.execute(delete(metadata_journal).where(needless))

        try:
            await self._database.run(write)
        except IntegrityError as error:
            raise _lost_race(first) from error
        except SQLAlchemyError as error:
            # The commit may have happened: only a replay can tell, so the outcome is unknown to the caller.
            raise AppendFailed(ErrorCode.REQUEST_TIMED_OUT, reason_of(error)) from error
        self._next_offset = Offset(first + len(rows))
        return first

    async def _page(self, after: int) -> list[tuple[int, str, str]]:
        columns = metadata_journal.c
        query = (
            select(columns.metadata_offset, columns.record_type, columns.body)
            .where(columns.metadata_offset > after)
            .order_by(columns.metadata_offset)
            .limit(REPLAY_PAGE_ROWS)
        )
        try:
            return await self._database.run(
                lambda connection: [tuple(row) for row in connection.execute(query)]
            )
        except SQLAlchemyError as error:
            raise OncelogError(
                f"cannot read the metadata journal in {self._database.shown_url}: {reason_of(error)}; "
                "check the database"
            ) from error


def _check_end(connection: Connection, first: Offset) -> None:
    if connection.dialect.name == "postgresql":
        # Among writers only; readers pass. SQLite's BEGIN IMMEDIATE does the same.
        connection.execute(text("LOCK TABLE metadata_journal IN SHARE ROW EXCLUSIVE MODE"))
    last = connection.execute(select(func.max(metadata_journal.c.metadata_offset))).scalar()
    if (-1 if last is None else last) != first - 1:
        raise _lost_race(first)


def _lost_race(first: Offset) -> AppendFailed:
    return AppendFailed(
        ErrorCode.NOT_CONTROLLER,
        f"another controller has written metadata_offset {first}",
    )
