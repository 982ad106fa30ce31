"""Builds the controller: the only place where its objects are put together."""

import asyncio
import logging
import uuid
from collections import Counter

from oncelog.errors import OncelogError
from oncelog.runtime import Clock, SystemClock
from oncelog_controller.core.events import BeginTerm
from oncelog_controller.core.machine import MetadataMachine, MetadataRules
from oncelog_controller.core.rules import InternalTopicRules
from oncelog_controller.core.sessions import Sessions
from oncelog_controller.database_retries import DatabaseRetries
from oncelog_controller.election import Election, Standing
from oncelog_controller.metadata_log import MetadataLog
from oncelog_controller.metadata_store import MetadataStore, MetadataWentBack
from oncelog_controller.servicer import ControllerServicer
from oncelog_controller.session_watch import SessionWatch
from oncelog_controller.settings import ControllerSettings
from oncelog_controller.sql_store import SqlStore
from oncelog_controller.watchers import Watchers

_log = logging.getLogger(__name__)


class ControllerRole:
    """The controller as one role of a process. `start` returns once it serves, as the active one or as a standby.

    `servicer` answers the `Controller` service from its construction on: NOT_CONTROLLER while it is not active. With
    `rpc_address` set, let the server listen there before `start`: others watch that port to see this one end.
    """

    def __init__(self, settings: ControllerSettings, clock: Clock) -> None:
        self._controller_id = settings.controller_id
        self._store = store_at(settings.database_url, settings.database_timeout_ms, clock)
        self._start_timeout_s = settings.database_start_timeout_ms / 1000
        self._watchers = Watchers(settings.delta_history)
        incarnation_id = uuid.uuid4().hex
        self._log = MetadataLog(
            lambda controller_epoch: MetadataMachine(
                _rules(settings, incarnation_id, controller_epoch)
            ),
            self._store.journal,
            clock,
            self._watchers,
            self._ended,
        )
        sessions = Sessions(settings.session_timeout_ms, settings.session_grace_ms)
        self._sessions = SessionWatch(sessions, self._log, self._ended)
        self._failed = asyncio.Event()
        self._failure: BaseException | None = None
        self._election: Election | None = None
        if settings.rpc_address:
            lease = self._store.lease(
                settings.controller_id, settings.rpc_address, settings.lease_ms
            )
            self._election = Election(
                lease,
                settings.controller_id,
                settings.rpc_address,
                settings.lease_ms,
                settings.database_silence_ms,
                self._begin_term,
                self._end_term,
                self._ended,
            )
            self._log.on_lost_race = self._election.suspect
        self.servicer = ControllerServicer(
            self._log,
            self._watchers,
            self._sessions,
            self._standing,
            settings.controller_id,
            settings.session_timeout_ms,
        )

    @property
    def labels(self) -> Counter[str]:
        """The number of decisions of each kind that this process took."""
        return self._log.labels

    @property
    def is_active(self) -> bool:
        return self._standing().is_active

    async def start(self) -> None:
        """Start the controller.

        Raises OncelogError when the database cannot be opened, migrated or read, even after retries.
        """
        retries = DatabaseRetries(self._start_timeout_s)
        try:
            await retries.with_database(self._store.open)
            if self._election is not None:
                await retries.with_database(self._election.start)
            else:
                await retries.with_database(self._log.begin)
                self._sessions.begin()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop the controller, and release the lease, so that a standby need not wait for its end."""
        if self._election is not None:
            await self._election.stop()
        await self._end_term()
        await self._store.close()

    async def failure(self) -> BaseException:
        """Wait for an error that this controller cannot recover from, and return it. Its process should then end.

        The error is a bug, or a database in whose place an older copy was put.
        """
        await self._failed.wait()
        assert self._failure is not None
        return self._failure

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Report the error of a task that the controller cannot do without, such as the renewal of the lease, to
        `failure`.
        """
        error = None if task.cancelled() else task.exception()
        if isinstance(error, MetadataWentBack):
            # No bug of ours, and one line says all.
            self._failure = OncelogError(f"the controller cannot go on: {error}")
            self._failed.set()
        elif error is not None:
            _log.error("the controller cannot go on: %s ended", task.get_name(), exc_info=error)
            self._failure = error
            self._failed.set()

    def _standing(self) -> Standing:
        if self._election is not None:
            return self._election.standing
        # Without a lease there is nobody else.
        controller_epoch = self._log.image.controller_epoch
        return Standing(
            self._log.is_serving, self._controller_id, "", controller_epoch, 0, has_lease=False
        )

    async def _begin_term(self, controller_epoch: int) -> int:
        await self._log.begin(controller_epoch)
        last_epoch = self._log.image.controller_epoch
        if last_epoch < controller_epoch:
            self._sessions.begin()
            self._log.submit(BeginTerm())
        return last_epoch

    async def _end_term(self) -> None:
        await self._sessions.end()
        await self._log.end()


def store_at(url: str, timeout_ms: int, clock: Clock | None = None) -> MetadataStore:
    """Return the metadata store of this URL, which is not open yet. Raises OncelogError for a URL of none.

    Every store is on SQL today; one of another kind would be chosen here, by the URL's scheme.
    """
    return SqlStore(url, timeout_ms, clock or SystemClock())


def build_controller(settings: ControllerSettings, clock: Clock | None = None) -> ControllerRole:
    """Return a controller that is not started yet. Raises OncelogError for a database URL that cannot be used."""
    return ControllerRole(settings, clock or SystemClock())


def _rules(
    settings: ControllerSettings, incarnation_id: str, controller_epoch: int | None
) -> MetadataRules:
    return MetadataRules(
        controller=settings.controller_id,
        # Each term claims anew, also when one process has two.
        incarnation_id=f"{incarnation_id}-{controller_epoch or 0}",
        controller_epoch=controller_epoch or 0,
        transaction_version=settings.transaction_version,
        transaction_shard_count=settings.transaction_shard_count,
        group_shard_count=settings.group_shard_count,
        transaction_topic=InternalTopicRules(
            settings.transaction_topic_replication_factor,
            settings.transaction_topic_min_isr,
            settings.transaction_topic_segment_bytes,
        ),
        group_topic=InternalTopicRules(
            settings.group_topic_replication_factor,
            settings.group_topic_min_isr,
            settings.group_topic_segment_bytes,
        ),
        default_partitions=settings.default_partitions,
        partitions_max=settings.partitions_max,
        bootstrap_storage_nodes=settings.bootstrap_storage_nodes,
        snapshot_interval_records=settings.snapshot_interval_records,
        leader_balance_interval_ms=settings.leader_balance_interval_ms,
    )
