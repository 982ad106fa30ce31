"""The wiring of a storage node: the only place where its parts are built and connected."""

import asyncio
import logging
from collections.abc import Callable, Iterator

from oncelog.errors import OncelogError
from oncelog.ids import Partition
from oncelog.record.bulk import warm_up
from oncelog.record.check import IS_WALK_COMPILED
from oncelog.rpc.directory import Directory
from oncelog.rpc.metadata import MetadataFollower, MetadataImage
from oncelog.rpc.transaction_starts import TransactionStarts
from oncelog.runtime import Clock, SystemClock
from oncelog.telemetry.feed import Feed, build_feed
from oncelog.wording import counted
from oncelog_storage.changed_settings import ChangedSettings
from oncelog_storage.core.topic_counts import CountsOfTopics
from oncelog_storage.feed_events import StorageEvents
from oncelog_storage.fetch import FetchHandler
from oncelog_storage.files import OpenFiles, way_out
from oncelog_storage.hosted_partition import HostedPartition
from oncelog_storage.log_checkpoint import sync_logs
from oncelog_storage.log_directory import LogDirectory
from oncelog_storage.maintenance import Maintenance
from oncelog_storage.markers import MarkerHandler
from oncelog_storage.produce import ProduceHandler, ProduceTimes
from oncelog_storage.replica_manager import ReplicaManager
from oncelog_storage.replication import Replication
from oncelog_storage.segment_reader import SegmentReader
from oncelog_storage.servicer import StorageServicer
from oncelog_storage.settings import StorageSettings
from oncelog_storage.traces import OpenTraces
from oncelog_storage.verifier import Verifier
from oncelog_storage.wants import Wants

_log = logging.getLogger(__name__)


class StorageRole:
    """A storage node as its process starts and stops it (a `Role`).

    `servicer` answers the Storage service once `start` has returned.
    """

    def __init__(
        self,
        settings: StorageSettings,
        node_id: int,
        metadata: MetadataFollower,
        directory: Directory,
        clock: Clock,
        sync: Callable[[list[str]], None],
        node_epoch: Callable[[], int] | None = None,
        feed: Feed | None = None,
    ) -> None:
        self._node_id = node_id
        self._metadata = metadata
        self._log_directory = LogDirectory(settings.data_dir)
        files = OpenFiles(settings.open_files_max)
        self._reader = reader = SegmentReader(files)
        wants = Wants()
        self._replica_manager = ReplicaManager(
            settings, node_id, metadata, clock, self._log_directory, files, wants
        )
        changed = ChangedSettings(settings, node_id, metadata)
        self.maintenance = Maintenance(
            settings, self._replica_manager, self._log_directory, clock, sync, changed, wants
        )
        self.replication = Replication(
            settings,
            node_id,
            metadata,
            directory,
            self._replica_manager,
            self._log_directory,
            clock,
            node_epoch,
            reader,
        )
        self.verifier = Verifier(settings, metadata, directory)
        traces = OpenTraces()
        self._fetch = FetchHandler(settings, self._replica_manager, reader)
        self._warm_up: asyncio.Task[None] | None = None
        self._feed = feed or build_feed(settings.redis_url, "storage", node_id)
        events = None if self._feed is None else StorageEvents(self._feed)
        self.produce_times = ProduceTimes()
        self.servicer = StorageServicer(
            self._replica_manager,
            ProduceHandler(
                settings,
                self._replica_manager,
                self.verifier,
                clock,
                changed,
                traces,
                events,
                self.produce_times,
            ),
            self._fetch,
            self.replication.sessions,
            MarkerHandler(
                self._replica_manager,
                TransactionStarts(metadata, directory),
                changed,
                clock,
                events,
                traces,
            ),
            clock,
            reader,
        )

    async def start(self) -> None:
        """Lock the data folder, recover its partitions, and serve. Raises OncelogError with a one-line reason."""
        image = self._metadata.image
        self._log_directory.open(image.cluster_id, self._node_id)
        try:
            await asyncio.to_thread(self._replica_manager.recover_all)
        except OSError as error:
            self._log_directory.close()
            advice = way_out(error, "check the disk and the folder's permissions")
            raise OncelogError(
                f"cannot read the data folder {self._log_directory.path}: {error.strerror}; {advice}"
            ) from error
        # The image may have moved on while the folder was read.
        self._replica_manager.image_changed(image, self._metadata.image)
        self._metadata.on_change(self._replica_manager.image_changed)
        self._metadata.on_change(self.replication.image_changed)
        self.maintenance.start()
        self.replication.start()
        if self._feed is not None:
            self._feed.start()
        if not IS_WALK_COMPILED:
            self._warm_up = asyncio.create_task(asyncio.to_thread(warm_up), name="storage warm-up")
        _log.info(
            "storage node %d serves %s from %s%s",
            self._node_id,
            counted(len(self._replica_manager), "partition"),
            self._log_directory.path,
            "" if self._log_directory.was_clean else " (no clean shutdown before)",
        )

    def partition(self, partition: Partition) -> HostedPartition:
        """Return a hosted partition, led or followed, for tests and the simulator. Raises KafkaError."""
        return self._replica_manager.hosted(partition)

    def replicas(self) -> Iterator[HostedPartition]:
        """Return every partition hosted so far, led or followed, for tests and the simulator."""
        return iter(self._replica_manager)

    @property
    def counts(self) -> CountsOfTopics:
        """Counts of what clients wrote to and read from the partitions led here, by topic."""
        return self._replica_manager.counts

    @property
    def image(self) -> MetadataImage:
        """The newest metadata this node knows."""
        return self._metadata.image

    @property
    def log_directory(self) -> LogDirectory:
        return self._log_directory

    async def kill(self) -> None:
        """End like a killed process: no checkpoint, no answers, files as they are. The simulator calls this."""
        self._fetch.stop()
        if self._warm_up is not None:
            await self._warm_up
        await self.replication.kill()
        await self.maintenance.kill()
        if self._feed is not None:
            await self._feed.stop()
        self._reader.close()
        self._replica_manager.close()
        self._log_directory.close()

    async def stop(self) -> None:
        """Answer the requests that wait, checkpoint every partition, and release the folder."""
        self._fetch.stop()
        await self.replication.stop()
        if self._warm_up is not None:
            await self._warm_up
        await self.maintenance.stop()
        if self._feed is not None:
            await self._feed.stop()
        self._reader.close()
        self._replica_manager.close()
        self._log_directory.close()


def build_storage(
    settings: StorageSettings,
    node_id: int,
    metadata: MetadataFollower,
    directory: Directory,
    clock: Clock | None = None,
    sync: Callable[[list[str]], None] = sync_logs,
    node_epoch: Callable[[], int] | None = None,
    feed: Feed | None = None,
) -> StorageRole:
    """Return a storage node that is not started yet. `metadata` should hold an image by the time of `start`.

    `node_epoch` returns the epoch that this process got when it registered; without it the image's is taken. `feed`
    replaces the one of the settings' `redis_url`. `clock` and `sync` (called in worker threads with files whose bytes
    must reach the disk) are seams for simulation.
    """
    return StorageRole(
        settings, node_id, metadata, directory, clock or SystemClock(), sync, node_epoch, feed
    )
