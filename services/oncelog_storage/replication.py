"""The replication of a node: it makes each partition a leader, a follower or neither, as the metadata image says.

`core.roles` decides. This module has the fetchers, one for each leading node, and the tasks: in-sync replicas, repairs,
scrubbing, and high watermarks on disk.
"""

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import Final

from oncelog.api.v1 import controller_pb2
from oncelog.errors import KafkaError
from oncelog.rpc.directory import Directory
from oncelog.rpc.metadata import MetadataFollower, MetadataImage
from oncelog.runtime import Clock
from oncelog_storage import scrub
from oncelog_storage.core.in_sync import first_lacking, is_in_sync
from oncelog_storage.core.isr import isr_to_propose
from oncelog_storage.core.roles import (
    ReplicationMetrics,
    Role,
    Roles,
    RoleStep,
    metrics_of,
    missing_replicas,
)
from oncelog_storage.core.scrubbing import Place, look_on, places
from oncelog_storage.follower import FollowerReplica
from oncelog_storage.hosted_partition import HostedPartition
from oncelog_storage.isr_proposals import IsrProposals
from oncelog_storage.log_directory import LogDirectory
from oncelog_storage.replica_fetcher import ReplicaFetcher
from oncelog_storage.replica_manager import ReplicaManager
from oncelog_storage.replica_sessions import ReplicaSessions
from oncelog_storage.segment import Segment
from oncelog_storage.segment_reader import SegmentReader
from oncelog_storage.settings import StorageSettings

_log = logging.getLogger(__name__)

_LOOKS_PER_LAG: Final = 4
_LOOK_S_MAX: Final = 1.0
_SCRUB_PAUSE_S: Final = 60.0
_SCRUB_BYTES_MAX: Final = 1 << 20

LATE_AFTER_TIMEOUT_MS: Final = 300_000
"""The time, in ms, that Kafka gives a coordinator that was just replaced to end transactions that are too old."""


def late_transaction_ms(settings: StorageSettings, image: MetadataImage) -> int:
    """Return the silence in ms after which a transaction is late (KIP-664).

    No coordinator lets one be open for so long.
    """
    if settings.late_transaction_ms is not None:
        return settings.late_transaction_ms
    return image.transaction_max_timeout_ms + LATE_AFTER_TIMEOUT_MS


class Replication:
    def __init__(
        self,
        settings: StorageSettings,
        node_id: int,
        metadata: MetadataFollower,
        directory: Directory,
        replica_manager: ReplicaManager,
        log_directory: LogDirectory,
        clock: Clock,
        node_epoch: Callable[[], int] | None,
        reader: SegmentReader,
    ) -> None:
        self._settings = settings
        self._node_id = node_id
        self._metadata = metadata
        self._directory = directory
        self._replica_manager = replica_manager
        self._log_directory = log_directory
        self._clock = clock
        self._node_epoch = node_epoch or self._node_epoch_of_image
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._roles = Roles[HostedPartition](node_id)
        self._repairs: set[asyncio.Task[None]] = set()
        self.repair_count = 0
        self._is_incomplete = False
        self._tasks: list[asyncio.Task[None]] = []
        self.proposals = IsrProposals(
            node_id, directory, self._node_epoch, lambda: metadata.image.position
        )
        self.sessions = ReplicaSessions(settings, replica_manager, metadata, self.proposals, reader)

    def start(self) -> None:
        """Give each partition its role by the metadata image, and follow the image from now on."""
        self._replica_manager.follow_image = self._follow_image
        for hosted in self._replica_manager:
            self._follow_image(hosted, self._metadata.image.partition(hosted.partition))
        self.image_changed(MetadataImage(), self._metadata.image)
        for name, loop in (
            ("in-sync replicas", self._look_loop),
            ("proposals", self.proposals.run),
            ("high watermarks", self._checkpoint_loop),
            ("scrubbing", self._scrub_loop),
        ):
            self._tasks.append(asyncio.create_task(loop(), name=f"storage {name}"))

    async def stop(self) -> None:
        """Stop fetching from leaders and answering followers, and write down the high watermarks."""
        await self.kill()
        await self.write_high_watermarks()

    async def kill(self) -> None:
        """Stop fetching from leaders and answering followers. The high watermarks are not written, as in a crash."""
        self.sessions.stop()
        ending = [*self._tasks, *self._repairs]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        self._tasks.clear()
        await asyncio.gather(*(fetcher.stop() for fetcher in self._fetchers.values()))
        self._fetchers.clear()

    async def in_sync(self) -> None:
        """Return once every replica here that can be in sync is, or after `in_sync_wait_max_ms`.

        Before that nobody should rely on this node: if another node stops, too few replicas may be left for a write.
        """
        wait_max_ms = self._settings.in_sync_wait_max_ms
        try:
            await self._metadata.wait_for(self._is_in_sync, wait_max_ms / 1000)
        except TimeoutError:
            image = self._metadata.image
            _log.warning(
                "ready after %d ms although %s is not in sync yet",
                wait_max_ms,
                first_lacking(image.nodes, image.topics, self._node_id) or "this node",
            )

    def _is_in_sync(self, image: MetadataImage) -> bool:
        return is_in_sync(image.nodes, image.topics, self._node_id, self._node_epoch())

    def _node_epoch_of_image(self) -> int:
        node = self._metadata.image.nodes.get(self._node_id)
        return -1 if node is None else node.node_epoch

    # Roles.

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Begin to host the partitions that the new metadata make this node follow.

        `_follow_image` gets changes of partitions that are hosted already.
        """
        for partition in missing_replicas(old.topics, new.topics, self._node_id):
            try:
                self._replica_manager.hosted(partition)
            except KafkaError:
                # A folder of a deleted namesake is in the way; the next look tries again.
                self._is_incomplete = True

    def _follow_image(
        self, hosted: HostedPartition, found: controller_pb2.Partition | None
    ) -> None:
        now = asyncio.get_running_loop().time()
        self._take_role(hosted, found, self._roles.assign_role(hosted, found, now))
        hosted.notify_replicas()

    def _take_role(
        self, hosted: HostedPartition, found: controller_pb2.Partition | None, role: Role
    ) -> None:
        if role.leaves_fetcher:
            self._leave_fetcher(hosted)
        match role.step:
            case RoleStep.COMMIT:
                hosted.local_end_moved(hosted.local_end)
            case RoleStep.LEAD:
                assert found is not None, role
                if role.begins_leader_epoch:
                    hosted.log.assign_leader_epoch(found.leader_epoch, hosted.log.log_end_offset)
                hosted.lead(
                    self._node_id,
                    found.leader_epoch,
                    found.replicas,
                    found.isr,
                    found.partition_epoch,
                    asyncio.get_running_loop().time(),
                )
                hosted.isr_changed()
            case RoleStep.FETCH:
                assert found is not None, role
                self._fetcher_from(found.leader).follow(hosted)

    def _fetcher_from(self, leader: int) -> ReplicaFetcher:
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = ReplicaFetcher(
                leader,
                self._node_id,
                self._node_epoch,
                self._settings,
                self._directory,
                self._open_log,
            )
            fetcher.start()
        return fetcher

    def _open_log(self, hosted: HostedPartition) -> FollowerReplica:
        return FollowerReplica(hosted, self._replica_manager, self._clock)

    def _leave_fetcher(self, hosted: HostedPartition) -> None:
        for fetcher in self._fetchers.values():
            fetcher.unfollow(hosted.partition)

    # Looking after the in-sync replicas.

    async def _look_loop(self) -> None:
        lag_max_s = self._settings.replica_lag_time_max_ms / 1000
        while True:
            await asyncio.sleep(min(lag_max_s / _LOOKS_PER_LAG, _LOOK_S_MAX))
            self.look()

    def look(self) -> None:
        """Propose the ISRs that should change, host what is still missing, and remove replicas assigned elsewhere long
        ago.
        """
        now = asyncio.get_running_loop().time()
        lag_max_s = self._settings.replica_lag_time_max_ms / 1000
        for hosted in self._replica_manager:
            if hosted.offline is not None:
                self._look_after_damage(hosted)
                continue
            isr = isr_to_propose(hosted, now, lag_max_s, self.sessions.is_eligible)
            if isr is not None:
                self.proposals.propose(hosted, isr)
        delay_s = self._settings.replica_removal_delay_ms / 1000
        for hosted in self._roles.strays(now, delay_s):
            _log.info("%s is no longer assigned to this node; it is deleted", hosted.partition)
            self._replica_manager.drop(hosted)
        if self._is_incomplete:
            self._is_incomplete = False
            self.image_changed(MetadataImage(), self._metadata.image)

    def _look_after_damage(self, hosted: HostedPartition) -> None:
        image = self._metadata.image
        found = image.partition(hosted.partition)
        role = self._roles.after_damage(hosted, found, image.metadata_offset)
        if role.leaves_fetcher:
            self._leave_fetcher(hosted)
        if role.isr is not None:
            if role.was_refused:
                _log.error(
                    "%s stays offline: it is damaged here, and no other in-sync replica was allowed to lead; bring back"
                    " node %s, or restore the partition from a backup",
                    hosted.partition,
                    " or ".join(map(str, role.isr)),
                )
            self.proposals.propose(hosted, role.isr)
        if role.copies_again:
            assert found is not None, role
            _log.warning(
                "%s is damaged; it is dropped and copied again from node %d",
                hosted.partition,
                found.leader,
            )
            task = asyncio.create_task(self._repair(hosted), name=f"repair of {hosted.partition}")
            self._repairs.add(task)
            task.add_done_callback(functools.partial(self._repair_ended, hosted))

    def _repair_ended(self, hosted: HostedPartition, task: "asyncio.Task[None]") -> None:
        self._repairs.discard(task)
        self._roles.repair_ended(hosted)

    async def _repair(self, hosted: HostedPartition) -> None:
        try:
            await self._open_log(hosted).restore()
        except KafkaError as error:
            _log.warning("%s cannot be repaired: %s; it is tried again", hosted.partition, error)
            return
        self.repair_count += 1
        found = self._metadata.image.partition(hosted.partition)
        if found is not None and not hosted.leadership.is_here:
            self._take_role(hosted, found, self._roles.follow(hosted, found))

    # Scrubbing.

    async def _scrub_loop(self) -> None:
        """Check all sealed segments for damage (scrub them), round after round, at a fixed pace."""
        while True:
            await asyncio.sleep(_SCRUB_PAUSE_S)
            await self.scrub_all(self._settings.scrub_bytes_per_s)

    async def scrub_all(self, bytes_per_s: int) -> None:
        """Check once for damage all sealed segments of partitions that other nodes have too.

        A damaged partition is taken offline.
        """
        for place in places((hosted, hosted.log.segments) for hosted in self._replica_manager):
            await self._scrub(place, bytes_per_s)

    async def _scrub(self, place: Place[HostedPartition, Segment], pace: int) -> None:
        while place.is_current and not place.is_at_end:
            walk = look_on(place, min(pace, _SCRUB_BYTES_MAX))
            try:
                found = await asyncio.to_thread(scrub.looked, place.segment.log_path, walk)
            except OSError as error:
                _log.info("scrubbing %s: %s", place.segment.log_path, error)
                return
            hosted = place.hosted
            if (
                found.finding is not None
                and place.is_current
                and self._replica_manager.still_hosts(hosted)
            ):
                hosted.take_offline(place.segment.corrupt(*found.finding))
                return
            await asyncio.sleep((found.position - place.position) / pace)
            place = place.behind(found)

    # High watermarks.

    async def _checkpoint_loop(self) -> None:
        while True:
            await asyncio.sleep(self._settings.high_watermark_checkpoint_interval_ms / 1000)
            await self.write_high_watermarks()

    async def write_high_watermarks(self) -> None:
        known = self._roles.high_watermarks(self._replica_manager)
        checkpoint = self._log_directory.high_watermarks
        if known == checkpoint:
            return
        before = checkpoint.replace(known)
        try:
            await self._replica_manager.keep(checkpoint, sync=False)
        except OSError as error:
            _log.warning("cannot write %s: %s; it is tried again", checkpoint.path.name, error)
            # What the file says decides which producer snapshots and segments the next start needs.
            # What was forgotten meanwhile stays forgotten: another topic may get its name.
            checkpoint.replace({each: before[each] for each in before if each in checkpoint})

    # Metrics.

    def metrics(self) -> ReplicationMetrics:
        late_ms = late_transaction_ms(self._settings, self._metadata.image)
        return metrics_of(self._replica_manager, self._clock.now(), late_ms)

    @property
    def leader_count(self) -> int:
        """The number of partitions that this node leads, including those without data."""
        return len(self._replica_manager.led_here())
