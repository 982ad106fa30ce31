"""Where a controller's parts are put together."""

import uuid

from oncelog.runtime import Clock, SystemClock
from oncelog_controller.core.machine import MetadataMachine, MetadataRules
from oncelog_controller.core.records import MetadataRecord, Snapshot, decode_record, encode_record
from oncelog_controller.database import Database
from oncelog_controller.metadata_log import MetadataLog
from oncelog_controller.servicer import ControllerServicer
from oncelog_controller.settings import ControllerSettings
from oncelog_controller.sql_journal import SqlJournal
from oncelog_controller.watchers import Watchers


class ControllerRole:
    """A `Role`: `start` opens the database and replays; `servicer` answers the `Controller` service."""

    def __init__(
        self, database: Database, log: MetadataLog, watchers: Watchers, servicer: ControllerServicer
    ) -> None:
        self._database = database
        self._log = log
        self._watchers = watchers
        self.servicer = servicer

    async def start(self) -> None:
        """Raises OncelogError when the database cannot be opened, migrated or read."""
        try:
            await self._database.open()
            await self._log.start()
        except BaseException:
            await self._database.close()
            raise

    async def stop(self) -> None:
        self._watchers.stop()
        await self._log.stop()
        await self._database.close()


def build_controller(settings: ControllerSettings, clock: Clock | None = None) -> ControllerRole:
    """Raises OncelogError for a database URL that cannot be used."""
    clock = clock or SystemClock()
    rules = MetadataRules(
        controller=settings.controller_id,
        incarnation_id=uuid.uuid4().hex,
        transaction_version=settings.transaction_version,
        transaction_shard_count=settings.transaction_shard_count,
        group_shard_count=settings.group_shard_count,
        default_partitions=settings.default_partitions,
        partitions_max=settings.partitions_max,
        bootstrap_storage_nodes=settings.bootstrap_storage_nodes,
        snapshot_interval_records=settings.snapshot_interval_records,
    )
    database = Database(settings.database_url, settings.database_timeout_ms)
    journal: SqlJournal[MetadataRecord] = SqlJournal(
        database,
        clock,
        encode=encode_record,
        decode=decode_record,
        is_snapshot=lambda record: isinstance(record, Snapshot),
    )
    watchers = Watchers(settings.delta_history)
    log = MetadataLog(lambda: MetadataMachine(rules), journal, clock, watchers)
    servicer = ControllerServicer(log, watchers, settings.session_timeout_ms)
    return ControllerRole(database, log, watchers, servicer)
