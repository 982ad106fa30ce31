"""The metadata store on SQL: one `Database`, and the journal and the lease on it."""

from oncelog.runtime import Clock
from oncelog_controller.core.records import (
    MetadataRecord,
    ProducerIdsAllocated,
    Snapshot,
    decode_record,
    encode_record,
)
from oncelog_controller.database import Database
from oncelog_controller.lease import Lease
from oncelog_controller.sql_journal import SqlJournal


class SqlStore:
    """The metadata in SQLite or Postgres. It implements `MetadataStore`."""

    def __init__(self, url: str, timeout_ms: int, clock: Clock) -> None:
        """Check the URL. Raises OncelogError for one that names neither SQLite nor Postgres with psycopg 3."""
        self._database = Database(url, timeout_ms)
        self._clock = clock
        self.shown_url = self._database.shown_url

    async def open(self) -> None:
        await self._database.open()

    async def close(self) -> None:
        await self._database.close()

    def journal(self, controller_epoch: int | None) -> SqlJournal[MetadataRecord]:
        return SqlJournal(
            self._database,
            self._clock,
            encode=encode_record,
            decode=decode_record,
            is_snapshot=lambda record: isinstance(record, Snapshot),
            block=_block,
            controller_epoch=controller_epoch,
        )

    def lease(self, controller_id: int, rpc_address: str, lease_ms: int) -> Lease:
        return Lease(self._database, controller_id, rpc_address, lease_ms)


def _block(record: MetadataRecord) -> tuple[int, int] | None:
    if isinstance(record, ProducerIdsAllocated):
        return record.first_producer_id, record.first_producer_id + record.count
    return None
