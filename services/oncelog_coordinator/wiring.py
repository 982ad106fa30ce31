"""Builds the coordinator: the only place where its objects are put together."""

import asyncio
import logging

from oncelog.rpc.directory import Directory
from oncelog.rpc.metadata import MetadataFollower
from oncelog.rpc.transaction_starts import TransactionStarts
from oncelog.runtime import Clock, SystemClock
from oncelog.telemetry.feed import Feed, build_feed
from oncelog_coordinator.group_markers import GroupMarkers
from oncelog_coordinator.group_servicer import GroupCoordinatorServicer
from oncelog_coordinator.group_shards import GroupShards
from oncelog_coordinator.group_transactions import TransactionCheck
from oncelog_coordinator.producer_ids import ProducerIds
from oncelog_coordinator.servicer import TransactionCoordinatorServicer
from oncelog_coordinator.settings import CoordinatorSettings
from oncelog_coordinator.shards import Shards

_log = logging.getLogger(__name__)


class CoordinatorRole:
    """The coordinator as one role of a process (`oncelog.rpc.role.Role`), with its two services for transactions and
    groups.
    """

    def __init__(
        self,
        servicer: TransactionCoordinatorServicer,
        group_servicer: GroupCoordinatorServicer,
        shards: Shards,
        group_shards: GroupShards,
        producer_ids: ProducerIds,
        settings: CoordinatorSettings,
        feed: Feed | None = None,
    ) -> None:
        self.servicer = servicer
        self.group_servicer = group_servicer
        self.shards = shards
        self.group_shards = group_shards
        self._producer_ids = producer_ids
        self._settings = settings
        self._feed = feed

    async def start(self) -> None:
        """Start to load shards and to fetch producer ids; return when all are ready, or after `start_timeout_ms`.

        After that they become ready in the background.
        """
        if self._feed is not None:
            self._feed.start()
        self.shards.start()
        self.group_shards.start()
        try:
            async with asyncio.timeout(self._settings.start_timeout_ms / 1000):
                await self._producer_ids.start()
                await self.shards.wait_until_loaded()
                await self.group_shards.wait_until_loaded()
        except TimeoutError:
            _log.warning(
                "shards or producer ids are not ready after %d ms; still trying",
                self._settings.start_timeout_ms,
            )

    async def stop(self) -> None:
        await self.group_shards.stop()
        await self.shards.stop()
        await self._producer_ids.stop()
        if self._feed is not None:
            await self._feed.stop()


def build_coordinator(
    settings: CoordinatorSettings,
    node_id: int,
    metadata: MetadataFollower,
    directory: Directory,
    clock: Clock | None = None,
    feed: Feed | None = None,
) -> CoordinatorRole:
    """Return the coordinator of this node, not yet started.

    The caller keeps `metadata` up to date; it need not have an image yet. `feed` replaces the one of the settings'
    `redis_url`.
    """
    clock = clock or SystemClock()
    producer_ids = ProducerIds(node_id, metadata, directory)
    feed = feed or build_feed(settings.redis_url, "coordinator", node_id)
    shards = Shards(node_id, metadata, directory, producer_ids, clock, settings, feed)
    group_shards = GroupShards(node_id, metadata, directory, producer_ids, clock, settings)
    return CoordinatorRole(
        TransactionCoordinatorServicer(node_id, metadata, shards, producer_ids, settings),
        GroupCoordinatorServicer(
            group_shards,
            TransactionCheck(metadata, directory),
            GroupMarkers(group_shards, TransactionStarts(metadata, directory)),
            settings,
        ),
        shards,
        group_shards,
        producer_ids,
        settings,
        feed,
    )
