"""The partitions of this node: found on disk at start, made on first use, dropped with their topic.

The metadata image decides what exists and who leads; the folder decides what is stored. A partition without appends has
no folder: with some hundred internal partitions that keeps the first start short.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from oncelog.api.v1 import controller_pb2
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import (
    Partition,
)
from oncelog.rpc.metadata import (
    KIND_OF_TOPIC,
    TOPIC_OF_KIND,
    MetadataFollower,
    MetadataImage,
)
from oncelog.runtime import Clock
from oncelog.topic_config import FLUSH_NEVER
from oncelog_storage import log_checkpoint, log_recovery
from oncelog_storage.core.checkpoint_files import encode_topic_id, topic_number
from oncelog_storage.core.hosting import (
    Change,
    Found,
    Making,
    change_of,
    folder_found,
    has_followers,
    high_watermark_at_load,
    is_lost,
    leadership_of,
    making_from,
    merged_epochs,
    require_host,
    require_newest_coordinator,
)
from oncelog_storage.core.partition import UNKNOWN_LEADERSHIP
from oncelog_storage.core.recovery import UNKNOWN_LOG_START
from oncelog_storage.core.topic_counts import CountsOfTopics
from oncelog_storage.files import OpenFiles, StorageFailed, way_out_of_damage
from oncelog_storage.hosted_partition import HostedPartition
from oncelog_storage.log import PartitionLog
from oncelog_storage.log_directory import CheckpointFile, LogDirectory, write_checkpoints
from oncelog_storage.settings import FlushPolicy, StorageSettings
from oncelog_storage.wants import Wants

_log = logging.getLogger(__name__)


FollowsImage = Callable[[HostedPartition, controller_pb2.Partition | None], None]


class _Loaded(NamedTuple):
    log: PartitionLog
    failure: StorageFailed | None
    """The reason why the log cannot be opened; None: it is open."""


class ReplicaManager:
    def __init__(
        self,
        settings: StorageSettings,
        node_id: int,
        metadata: MetadataFollower,
        clock: Clock,
        log_directory: LogDirectory,
        files: OpenFiles,
        wants: Wants,
    ) -> None:
        self._settings = settings
        self._node_id = node_id
        self._metadata = metadata
        self._clock = clock
        self._log_directory = log_directory
        self._files = files
        self._wants = wants
        self._partitions: dict[tuple[str, int], HostedPartition] = {}
        self.counts = CountsOfTopics()
        self._retiring: set[Partition] = set()
        self.follow_image: FollowsImage = _ignore
        """The callback for a partition whose replicas, leader or ISR may have changed. `Replication` sets it."""

    def __iter__(self) -> Iterator[HostedPartition]:
        return iter(tuple(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    # Opening.

    def recover_all(self) -> None:
        """Open every partition on disk. A worker thread calls this before anything else runs.

        A partition that cannot be opened is taken offline and answers KAFKA_STORAGE_ERROR; the others are served.
        Raises OSError when the folder itself cannot be read.
        """
        image = self._metadata.image
        loaded = []
        for partition, stored_topic_id in self._log_directory.partitions():
            topic = image.topics.get(partition.topic)
            topic_id = None if topic is None else topic.topic_id
            found = folder_found(
                image.partition(partition),
                stored_topic_id,
                topic_id,
                has_image=bool(image.cluster_id),
            )
            if found is Found.SET_ASIDE:
                self._set_aside(partition, topic_id)
            elif topic_id is not None:
                loaded.append(self._load(partition, topic_id, stored_topic_id, image))
        self._add_recovered(loaded, image)
        if image.cluster_id:
            self._look_for_lost_folders(image)
            self._look_for_strays(image)
            self._log_directory.mark_recovered()

    def _set_aside(self, partition: Partition, topic_id: bytes | None) -> None:
        """Rename a folder that belongs to no known topic, and log that. Raises OSError."""
        aside = self._log_directory.set_aside(partition, topic_id)
        if self._log_directory.has_hosted(partition):
            _log.warning("%s is kept as %s: it is another topic's folder", partition, aside)
            return
        _log.error(
            "%s is in no topic that the metadata knows; kept as %s: remove it if the topic was deleted,"
            " or restore the metadata and rename it back",
            partition,
            aside,
        )

    def _look_for_lost_folders(self, image: MetadataImage) -> None:
        """Take partitions offline whose folders are gone although their topics exist. Raises OSError."""
        directory = self._log_directory
        for partition in directory.hosted_without_folder():
            if is_lost(image.partition(partition), self._node_id):
                self._add_lost(partition, image)
            else:
                write_checkpoints(directory.forget(partition))

    def _look_for_strays(self, image: MetadataImage) -> None:
        """Take partitions offline whose folders were set aside when an earlier start did not know their topics.

        Raises OSError.
        """
        names = {encode_topic_id(topic.topic_id): name for name, topic in image.topics.items()}
        for topic_id, number in self._log_directory.strays():
            partition = Partition(names.get(topic_id, ""), number)
            is_missing = self._log_directory.stored_topic_id(partition) is None
            is_told = (partition.topic, number) in self._partitions
            if is_missing and not is_told and is_lost(image.partition(partition), self._node_id):
                self._add_lost(partition, image)

    def _add_lost(self, partition: Partition, image: MetadataImage) -> HostedPartition:
        """Add a partition whose folder is gone as offline: an empty log in its place would hide the loss. Raises
        OSError.
        """
        log = self._new_log(partition, image.topics[partition.topic].topic_id, image)
        directory = self._log_directory
        end = directory.recovery_points.get(partition, 0)
        contents = f" with its records up to {end - 1}" if end else ""
        way_out = way_out_of_damage(str(directory.path))
        stray = directory.strays().get((encode_topic_id(log.topic_id), partition.partition))
        if stray is not None:
            way_out = (
                f"it was set aside as {stray}: stop the node and rename that back, restore it from a backup,"
                " or remove that to begin empty"
            )
        hosted = self._add(log, image)
        hosted.take_offline(
            StorageFailed(f"the folder {log.directory} is gone{contents}; {way_out}")
        )
        return hosted

    def _load(
        self, partition: Partition, topic_id: bytes, stored_topic_id: str, image: MetadataImage
    ) -> _Loaded:
        log = self._new_log(partition, topic_id, image)
        directory = self._log_directory
        directory.topic_ids[partition] = topic_number(topic_id)
        if stored_topic_id != encode_topic_id(topic_id):
            _log.warning("%s: its topic id was lost and is written again", log.directory)
            _write_topic_id(log)
        if has_followers(image.partition(partition)):
            log.committed_at_load = directory.high_watermarks.get(partition, 0)
            if not directory.may_have_lost_power:
                log.proven_end = log.committed_at_load
        try:
            # A reader may be who first needs this log, and a recovery does not end half-way.
            with self._files.waiting():
                log_recovery.recover(
                    log,
                    directory.recovery_points.get(partition),
                    directory.log_start_offsets.get(partition, UNKNOWN_LOG_START),
                    self._clock.now(),
                    may_have_lost_power=directory.may_have_lost_power,
                    may_be_of_older_version=directory.may_be_of_older_version,
                    keeps_checks=directory.keeps_checks,
                    was_cleaned=partition in directory.cleaner_offsets,
                )
        except StorageFailed as error:
            return _Loaded(log, error)
        directory.log_start_offsets.setdefault(partition, log.log_start_offset)
        return _Loaded(log, None)

    def _add_recovered(self, loaded: Sequence[_Loaded], image: MetadataImage) -> None:
        is_always = self._settings.flush_policy is FlushPolicy.ALWAYS
        failures = log_checkpoint.sync_recovered(
            self._log_directory.path,
            [
                log
                for log, failure in loaded
                if failure is None and (is_always or log.config.flush_messages < FLUSH_NEVER)
            ],
        )
        for log, failure in loaded:
            hosted = self._add(log, image)
            failed = failure or failures.get(log.partition)
            if failed is not None:
                hosted.take_offline(failed)

    def still_hosts(self, hosted: HostedPartition) -> bool:
        """True if this node still hosts this partition, which may have been dropped while the caller waited."""
        return self._partitions.get((hosted.partition.topic, hosted.partition.partition)) is hosted

    def led(self, topic: str, partition: int) -> HostedPartition:
        """Return the partition, which this node leads now. `hosted` finds those that it follows too.

        Raises KafkaError: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, or KAFKA_STORAGE_ERROR if it is offline.
        """
        hosted = self._partitions.get((topic, partition))
        if hosted is None:
            hosted = self._make(Partition(topic, partition))
        if not hosted.leadership.is_here or hosted.offline is not None:
            hosted.require_leader()
        return hosted

    def hosted(self, partition: Partition) -> HostedPartition:
        """Return the partition, led here or followed. It is made or loaded if this node does not host it yet.

        Raises KafkaError if it is unknown, or of other nodes.
        """
        hosted = self._partitions.get((partition.topic, partition.partition))
        return hosted if hosted is not None else self._make(partition)

    def leader_of(self, partition: Partition) -> tuple[int, int]:
        """Return (leading node, leader epoch) as the image has it; (-1, -1) if the partition is unknown."""
        found = self._metadata.image.partition(partition)
        return (-1, -1) if found is None else (found.leader, found.leader_epoch)

    def led_here(self) -> list[Partition]:
        """Return every partition that this node leads, with or without data."""
        return [
            Partition(topic.name, index)
            for topic in self._metadata.image.topics.values()
            for index, found in enumerate(topic.partitions)
            if found.leader == self._node_id
        ]

    async def keep(self, *checkpoints: CheckpointFile, sync: bool = True) -> None:
        """Write these checkpoint files as they are now. Raises OSError.

        The one worker thread takes the writes in order. So no older content replaces a newer one, and no two writers
        meet in the temporary file.
        """
        writes = [checkpoint.encoded() for checkpoint in checkpoints]
        await self._wants.in_worker(lambda: write_checkpoints(writes, sync=sync))

    async def lower_recovery_point(self, hosted: HostedPartition, offset: int) -> None:
        """Lower a partition's stored recovery point, high watermark and cleaned offset, before its records from
        `offset` on go.

        Raises OSError. Afterwards no start expects these records, and the records in their place do not count as
        cleaned.
        """
        if not self.still_hosts(hosted):
            return
        directory, partition = self._log_directory, hosted.partition
        points = directory.recovery_points
        points[partition] = min(points.get(partition, 0), offset)
        lower = [
            checkpoint
            for checkpoint in (directory.cleaner_offsets, directory.high_watermarks)
            if checkpoint.get(partition, 0) > offset
        ]
        for checkpoint in lower:
            checkpoint[partition] = offset
        await self.keep(points, *lower)

    async def keep_log_start(self, hosted: HostedPartition, offset: int) -> None:
        """Store the log start of a partition before its log begins again at `offset`. Raises OSError."""
        if not self.still_hosts(hosted):
            return
        self._log_directory.log_start_offsets[hosted.partition] = offset
        await self.keep(self._log_directory.log_start_offsets)

    async def keep_log_starts(self, moved: list[HostedPartition]) -> None:
        """Write the start offsets of these partitions' logs to the disk, after they moved. Raises
        KafkaError(KAFKA_STORAGE_ERROR).
        """
        starts = self._log_directory.log_start_offsets
        for hosted in moved:
            hosted.notify_replicas()
            # A log start that is stored for a deleted topic would make the next topic of its name look lost.
            if hosted.log.exists_on_disk and self.still_hosts(hosted):
                starts[hosted.partition] = hosted.log.log_start_offset
        try:
            await self.keep(starts)
        except OSError as error:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"cannot write the log starts in {self._log_directory.path}: {error.strerror}",
            ) from error

    def _make(self, partition: Partition) -> HostedPartition:
        image = self._metadata.image
        is_retiring = partition in self._retiring
        require_host(partition, image.partition(partition), self._node_id, is_retiring=is_retiring)
        topic_id, directory = image.topics[partition.topic].topic_id, self._log_directory
        stored_topic_id = directory.stored_topic_id(partition)
        was_hosted = stored_topic_id is None and directory.has_hosted(partition)
        match making_from(stored_topic_id, topic_id, was_hosted=was_hosted):
            case Making.LOAD:
                assert stored_topic_id is not None
                loaded = self._load(partition, topic_id, stored_topic_id, image)
                self._add_recovered([loaded], image)
                return self._partitions[(partition.topic, partition.partition)]
            case Making.RETIRE:
                self._retiring.add(partition)
                self._wants.retirement(partition)
                return self._make(partition)
            case Making.LOST:
                return self._add_lost(partition, image)
            case Making.NEW:
                return self._add(self._new_log(partition, topic_id, image), image)

    def _new_log(self, partition: Partition, topic_id: bytes, image: MetadataImage) -> PartitionLog:
        log = PartitionLog(
            self._log_directory.partition_path(partition),
            partition,
            topic_id,
            image.topic_config(partition.topic, self._node_id),
            self._files,
        )
        log.folder_made = self._note
        return log

    def _note(self, log: PartitionLog) -> None:
        """Write down that the partition has a folder. From now on the node notices at its start if the folder is
        missing.
        """
        directory, partition = self._log_directory, log.partition
        directory.topic_ids[partition] = topic_number(log.topic_id)
        if partition not in directory.log_start_offsets:
            directory.log_start_offsets[partition] = log.log_start_offset
            self._wants.note_wanted.set()

    def _add(self, log: PartitionLog, image: MetadataImage) -> HostedPartition:
        hosted = HostedPartition(
            log,
            flushes_always=self._settings.flush_policy is FlushPolicy.ALWAYS,
            request_flush=self._wants.flush,
            request_checkpoint=self._wants.checkpoint,
            checkpoint_bytes=self._settings.checkpoint_bytes,
            high_watermark=high_watermark_at_load(log),
        )
        hosted.counts = self.counts.of(log.partition.topic)
        hosted.coordinator_epoch = self._log_directory.coordinator_epochs.get(log.partition, -1)
        self._partitions[(log.partition.topic, log.partition.partition)] = hosted
        self._set_leadership(hosted, image)
        return hosted

    # Following the metadata.

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Apply a new metadata image to each hosted partition: its leadership, its config, or its deletion."""
        has_other_configs = new.configs is not old.configs
        for hosted in self:
            name = hosted.partition.topic
            change = change_of(
                hosted.log,
                old.topics.get(name),
                new.topics.get(name),
                has_other_configs=has_other_configs,
            )
            if change is Change.DROP:
                self.drop(hosted)
                if name not in new.topics:
                    self.counts.forget(name)
            elif change is not Change.NOTHING:
                hosted.log.config = new.topic_config(name, self._node_id)
            if change is Change.TOPIC:
                self._set_leadership(hosted, new)

    def _set_leadership(self, hosted: HostedPartition, image: MetadataImage) -> None:
        found = image.partition(hosted.partition)
        if found is None:
            return
        was_here = hosted.leadership.is_here
        hosted.leadership = leadership_of(found, self._node_id)
        if was_here and not hosted.leadership.is_here:
            hosted.release_waiters()
        self.follow_image(hosted, found)

    def drop(self, hosted: HostedPartition) -> None:
        """Stop hosting the partition: nothing more of it is served, and its folder is removed."""
        partition = hosted.partition
        del self._partitions[(partition.topic, partition.partition)]
        hosted.leadership = UNKNOWN_LEADERSHIP
        hosted.release_waiters()
        self.follow_image(hosted, None)
        hosted.log.close()
        if hosted.log.exists_on_disk or self._log_directory.has_hosted(partition):
            self._retiring.add(partition)
            self._wants.retirement(partition)

    def retired(self, partition: Partition) -> None:
        """Allow a partition of this name to be made again, because the folder of the deleted one is renamed."""
        self._retiring.discard(partition)

    # Coordinator epochs.

    def admit_coordinator(self, led: HostedPartition, coordinator_epoch: int) -> None:
        """Fence coordinators that are older than this epoch, and store that, before this one appends anything to its
        shard.

        Raises KafkaError: INVALID_TOPIC_EXCEPTION when the partition is no shard, TRANSACTION_COORDINATOR_FENCED when
        the image or the folder knows a newer one, KAFKA_STORAGE_ERROR when the folder takes no write.
        """
        partition = led.partition
        kind = KIND_OF_TOPIC.get(partition.topic)
        if kind is None:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION, f"{partition} is no shard of a coordinator"
            )
        shard = self._metadata.image.shards.get((kind, partition.partition))
        epoch_of_image = None if shard is None else shard.coordinator_epoch
        require_newest_coordinator(led, coordinator_epoch, epoch_of_image)
        self._remember_coordinator(led, coordinator_epoch)

    def admit_loader(self, led: HostedPartition, coordinator_epoch: int) -> None:
        """Fence coordinators older than this epoch, because the one of this epoch now reads its whole shard. From then
        on the older ones may neither append nor read.

        Otherwise one that has been succeeded would answer from what it has read, and never learn what its successor
        writes. A partition that is no shard is left as it is. Raises KafkaError: TRANSACTION_COORDINATOR_FENCED if a
        newer coordinator is known, KAFKA_STORAGE_ERROR.
        """
        if led.partition.topic in KIND_OF_TOPIC:
            self.admit_coordinator(led, coordinator_epoch)

    def _remember_coordinator(self, led: HostedPartition, coordinator_epoch: int) -> None:
        if coordinator_epoch <= led.coordinator_epoch:
            return
        if coordinator_epoch > self._log_directory.coordinator_epochs.get(led.partition, -1):
            self._write_coordinator_epochs(led.partition, coordinator_epoch)
        led.coordinator_epoch = coordinator_epoch

    def _write_coordinator_epochs(self, partition: Partition, coordinator_epoch: int) -> None:
        """Write the epoch together with those of all other shards in the image. Raises KafkaError(KAFKA_STORAGE_ERROR).

        A coordinator that starts loads all of its shards, and the image already fences by these epochs.
        """
        epochs = self._log_directory.coordinator_epochs
        of_image = {
            Partition(TOPIC_OF_KIND[kind], number): shard.coordinator_epoch
            for (kind, number), shard in self._metadata.image.shards.items()
        }
        merged = merged_epochs(epochs, of_image, {partition: coordinator_epoch})
        before = epochs.replace(merged)
        try:
            is_always = self._settings.flush_policy is FlushPolicy.ALWAYS
            write_checkpoints([epochs.encoded()], sync=is_always)
        except OSError as error:
            epochs.replace(before)
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"cannot write the coordinator epochs in {self._log_directory.path}: {error.strerror}",
            ) from error

    def close(self) -> None:
        for hosted in self:
            hosted.release_waiters()
        self._files.close_all()


def _write_topic_id(log: PartitionLog) -> None:
    try:
        log.write_topic_id()
    except OSError as error:
        _log.warning("cannot write the topic id in %s: %s", log.directory, error.strerror)


def _ignore(_hosted: HostedPartition, _found: controller_pb2.Partition | None) -> None:
    pass
