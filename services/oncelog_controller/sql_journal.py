"""The metadata journal in a database table: row n is record n.

The writer assigns the offsets. An append is one transaction. It first locks the one row of `controller_state`, which
puts all writers in order, and then checks two things under that lock. The row must still name the controller epoch that
this writer holds: a controller that was deposed writes nothing more, however late its statement arrives. And the table
must still end where the writer believes it does: of two writers without a lease, one is told that it lost and must
replay.

Blocks of producer ids are the records that may never be decided twice. So that row keeps the first id after them too,
in the same transaction. A journal that was restored from an older copy disagrees with it, and is refused.

A snapshot record makes the rows before it needless, and its append removes them.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from oncelog.errors import ErrorCode, OncelogError
from oncelog.ids import Offset
from oncelog.journal import AppendFailed
from oncelog.runtime.clock import Clock
from oncelog_controller.database import Database, failure_of, reason_of
from oncelog_controller.metadata_store import NO_BLOCK_YET
from oncelog_controller.schema import STATE_ID, controller_state, metadata_journal

RecordT = TypeVar("RecordT")

REPLAY_PAGE_ROWS = 1000


class SqlJournal(Generic[RecordT]):
    """The metadata journal in a table of an open `Database`. It implements `oncelog.journal.Journal`, and
    `MetadataJournal`.

    `encode` returns (record type, text) of a record, and `decode` makes the record of these two. `is_snapshot` is True
    for a record at which replay may begin. `block` returns the producer ids that a record gives away, as (first, first
    after them); None: it gives none. `controller_epoch` is that of the lease this writer holds, or None without one.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        *,
        encode: Callable[[RecordT], tuple[str, str]],
        decode: Callable[[str, str], RecordT],
        is_snapshot: Callable[[RecordT], bool] = lambda _record: False,
        block: Callable[[RecordT], tuple[int, int] | None] = lambda _record: None,
        controller_epoch: int | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._encode = encode
        self._decode = decode
        self._is_snapshot = is_snapshot
        self._block = block
        self._controller_epoch = controller_epoch
        self._next_offset = Offset(0)
        self.kept_producer_id = NO_BLOCK_YET
        """The first producer id after every block given away, as the last replay found it in the row beside the
        journal.
        """

    @property
    def next_offset(self) -> Offset:
        return self._next_offset

    async def replay(self) -> AsyncIterator[tuple[Offset, RecordT]]:
        """Yield every record from the newest snapshot on. Raises OncelogError when it cannot be read or has a gap."""
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

        blocks = [block for block in map(self._block, records) if block is not None]

        def write(connection: Connection) -> None:
            next_producer_id = self._checked_state(connection, first)
            connection.execute(insert(metadata_journal), rows)
            if snapshot_offset >= 0:
                needless = metadata_journal.c.metadata_offset < snapshot_offset
                connection.execute(delete(metadata_journal).where(needless))
            if blocks:
                _give_away(connection, next_producer_id, blocks)

        try:
            await self._database.run(write)
        except IntegrityError as error:
            raise _lost_race(first) from error
        except SQLAlchemyError as error:
            # The commit may have happened: only a replay can tell, so the outcome is unknown to the caller.
            raise AppendFailed(ErrorCode.REQUEST_TIMED_OUT, reason_of(error)) from error
        self._next_offset = Offset(first + len(rows))
        return first

    def _checked_state(self, connection: Connection, first: Offset) -> int:
        """Lock the row that all writers need, check that this writer may write, and return the next producer id.

        `first` is the offset of the first record to append. Raises AppendFailed if another controller has taken the
        lease, or if the journal does not end just before `first`.
        """
        state = _locked_state(connection)
        if self._controller_epoch not in (None, state.controller_epoch):
            raise AppendFailed(
                ErrorCode.NOT_CONTROLLER,
                f"controller epoch {self._controller_epoch} is over; it is {state.controller_epoch}",
            )
        last = connection.execute(select(func.max(metadata_journal.c.metadata_offset))).scalar()
        if (-1 if last is None else last) != first - 1:
            raise _lost_race(first)
        return int(state.next_producer_id)

    async def may_append(self) -> bool:
        try:
            state = await self._database.run(_locked_state)
        except SQLAlchemyError:
            return False
        return self._controller_epoch in (None, state.controller_epoch)

    async def _page(self, after: int) -> list[tuple[int, str, str]]:
        """Return the rows after offset `after`, at most a page, and store the next producer id in `kept_producer_id`.

        Both are read under the writers' lock, so they belong together.
        """
        columns = metadata_journal.c
        query = (
            select(columns.metadata_offset, columns.record_type, columns.body)
            .where(columns.metadata_offset > after)
            .order_by(columns.metadata_offset)
            .limit(REPLAY_PAGE_ROWS)
        )

        def read(connection: Connection) -> list[tuple[int, str, str]]:
            self.kept_producer_id = int(_locked_state(connection).next_producer_id)
            return [tuple(row) for row in connection.execute(query)]

        try:
            return await self._database.run(read)
        except SQLAlchemyError as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: SQLAlchemyError) -> OncelogError:
        return failure_of(
            error,
            f"cannot read the metadata journal in {self._database.shown_url}",
            "check the database",
        )


class _State(NamedTuple):
    """The row of `controller_state`: the controller epoch that may write, and the next producer id."""

    controller_epoch: int
    next_producer_id: int


def _locked_state(connection: Connection) -> _State:
    """Return the row of `controller_state`, locked. SQLite has locked the whole file with BEGIN IMMEDIATE."""
    row = connection.execute(
        select(controller_state.c.controller_epoch, controller_state.c.next_producer_id)
        .where(controller_state.c.state_id == STATE_ID)
        .with_for_update()
    ).one()
    return _State(*row)


def _give_away(
    connection: Connection, next_producer_id: int, blocks: Sequence[tuple[int, int]]
) -> None:
    for first_producer_id, after_block in blocks:
        if next_producer_id not in (NO_BLOCK_YET, first_producer_id):
            raise AppendFailed(
                ErrorCode.UNKNOWN_SERVER_ERROR,
                f"producer ids up to {next_producer_id} are given away, "
                f"and the journal would give {first_producer_id} again",
            )
        next_producer_id = after_block
    connection.execute(
        update(controller_state)
        .where(controller_state.c.state_id == STATE_ID)
        .values(next_producer_id=next_producer_id)
    )


def _lost_race(first: Offset) -> AppendFailed:
    return AppendFailed(
        ErrorCode.NOT_CONTROLLER,
        f"another controller has written metadata_offset {first}",
    )
