"""Makes of each partition hosted here a leader, a follower or nothing, as the metadata image says.

```
image ──▶ leads it, has followers: LeaderState (epoch at the log's end, HW from fetch offsets, ISR proposals)
      ├─▶ follows it:              the ReplicaFetcher of its leader's node
      └─▶ no replica any more:     a stray, deleted after replica_removal_delay_ms
```

A partition whose only replica is here has none of this: its high watermark is its log's end.
"""

import asyncio
import functools
import logging
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from oncelog.errors import KafkaError
from oncelog.ids import Partition
from oncelog.rpc.directory import Directory
from oncelog.rpc.metadata import MetadataFollower, MetadataImage
from oncelog.runtime import Clock
from oncelog_storage import scrub
from oncelog_storage.core.isr import DamageStep, after_damage, isr_to_propose
from oncelog_storage.follower import FollowerReplica
from oncelog_storage.hosted_partition import HostedPartition
from oncelog_storage.isr_proposals import IsrProposals
from oncelog_storage.log_directory import HIGH_WATERMARKS, LogDirectory, write_checkpoints
from oncelog_storage.replica_fetcher import ReplicaFetcher
from oncelog_storage.replica_manager import ReplicaManager
from oncelog_storage.replica_sessions import ReplicaSessions
from oncelog_storage.settings import StorageSettings

_log = logging.getLogger(__name__)

_LOOKS_PER_LAG: Final = 4
_LOOK_S_MAX: Final = 1.0
_SCRUB_PAUSE_S: Final = 60.0
_SCRUB_BYTES_MAX: Final = 1 << 20


class ReplicationMetrics(NamedTuple):
    """For metrics: what this node leads, and how its followers and it keep up."""

    leader_count: int
    under_replicated_count: int
    under_min_isr_count: int
    isr_shrink_count: int
    isr_expand_count: int
    repair_count: int
    late_count: int
    """Partitions led here with a late transaction (KIP-664)."""
    follower_lag: dict[tuple[str, int, int], int]
    """(topic, partition, follower's node id) → records it has not yet, of partitions led here."""


class Replication:
    def __init__(
        self,
        settings: StorageSettings,
        node_id: int,
        metadata: MetadataFollower,
        directory: Directory,
        manager: ReplicaManager,
        log_directory: LogDirectory,
        clock: Clock,
        node_epoch: Callable[[], int] | None,
    ) -> None:
        self._settings = settings
        self._node_id = node_id
        self._metadata = metadata
        self._directory = directory
        self._manager = manager
        self._log_directory = log_directory
        self._clock = clock
        self._node_epoch = node_epoch or self._node_epoch_of_image
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._following: dict[HostedPartition, int] = {}
        self._repairs: dict[HostedPartition, asyncio.Task[None]] = {}
        self.repair_count = 0
        self._left_at: dict[HostedPartition, int] = {}
        """The metadata offset at which a damaged leader last proposed to leave."""
        self._is_incomplete = False
        self._strays: dict[HostedPartition, float] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.proposals = IsrProposals(node_id, directory, self._node_epoch)
        self.sessions = ReplicaSessions(settings, manager, metadata, self.proposals)

    def start(self) -> None:
        """Take the roles of the image, and follow it from here on."""
        self._manager.follow_image = self._follow_image
        for hosted in self._manager:
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
        """No more is fetched or told; high watermarks are written down."""
        await self.kill()
        await self.write_high_watermarks()

    async def kill(self) -> None:
        """No more is fetched or told."""
        self.sessions.stop()
        ending = [*self._tasks, *self._repairs.values()]
        for task in ending:
            task.cancel()
        await asyncio.gather(*ending, return_exceptions=True)
        self._tasks.clear()
        await asyncio.gather(*(fetcher.stop() for fetcher in self._fetchers.values()))
        self._fetchers.clear()

    def _node_epoch_of_image(self) -> int:
        node = self._metadata.image.nodes.get(self._node_id)
        return -1 if node is None else node.node_epoch

    # Roles.

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """A replica begins to exist here when the image names it; the leader ones were told already."""
        for name, topic in new.topics.items():
            if topic is old.topics.get(name):
                continue
            for index, found in enumerate(topic.partitions):
                if found.leader == self._node_id or self._node_id not in found.replicas:
                    continue
                try:
                    self._manager.ensure(Partition(name, index))
                except KafkaError:
                    # A folder of a deleted namesake is in the way; the next look tries again.
                    self._is_incomplete = True

    def _follow_image(self, hosted: HostedPartition, found: Any) -> None:
        if found is None:
            self._leave(hosted)
            self._strays.pop(hosted, None)
            self._left_at.pop(hosted, None)
            return
        if self._node_id in found.replicas:
            self._strays.pop(hosted, None)
        elif hosted not in self._strays:
            self._strays[hosted] = asyncio.get_running_loop().time()
        if hosted.leadership.is_here:
            self._leave_fetcher(hosted)
            self._lead(hosted, found)
        else:
            hosted.follow()
            self._left_at.pop(hosted, None)
            self._follow(hosted, found)
        hosted.tell_replicas()

    def _lead(self, hosted: HostedPartition, found: Any) -> None:
        if len(found.replicas) <= 1:
            hosted.replicas = None
            hosted.local_end_moved(hosted.local_end)
            return
        if not hosted.leads_in(found.leader_epoch):
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

    def _follow(self, hosted: HostedPartition, found: Any) -> None:
        if found.leader < 0 or self._node_id not in found.replicas or hosted.offline is not None:
            self._leave_fetcher(hosted)
            return
        if self._following.get(hosted) == found.leader_epoch:
            return
        self._leave_fetcher(hosted)
        self._following[hosted] = found.leader_epoch
        fetcher = self._fetchers.get(found.leader)
        if fetcher is None:
            fetcher = self._fetchers[found.leader] = ReplicaFetcher(
                found.leader,
                self._node_id,
                self._node_epoch,
                self._settings,
                self._directory,
                self._open_log,
            )
            fetcher.start()
        fetcher.follow(hosted)

    def _open_log(self, hosted: HostedPartition) -> FollowerReplica:
        return FollowerReplica(hosted, self._manager, self._clock)

    def _leave_fetcher(self, hosted: HostedPartition) -> None:
        if self._following.pop(hosted, None) is not None:
            for fetcher in self._fetchers.values():
                fetcher.unfollow(hosted.partition)

    def _leave(self, hosted: HostedPartition) -> None:
        self._leave_fetcher(hosted)
        hosted.replicas = None
        hosted.tell_replicas()

    # Looking after the in-sync replicas.

    async def _look_loop(self) -> None:
        lag_max_s = self._settings.replica_lag_time_max_ms / 1000
        while True:
            await asyncio.sleep(min(lag_max_s / _LOOKS_PER_LAG, _LOOK_S_MAX))
            self.look()

    def look(self) -> None:
        """Propose what the in-sync replicas should be; create and remove replicas that are due."""
        now = asyncio.get_running_loop().time()
        lag_max_s = self._settings.replica_lag_time_max_ms / 1000
        for hosted in self._manager:
            if hosted.offline is not None:
                self._look_after_damage(hosted)
                continue
            isr = isr_to_propose(hosted, now, lag_max_s, self.sessions.is_eligible)
            if isr is not None:
                self.proposals.propose(hosted, isr)
        delay_s = self._settings.replica_removal_delay_ms / 1000
        for hosted, since in list(self._strays.items()):
            if now - since >= delay_s:
                _log.info("%s is no longer assigned to this node; it is deleted", hosted.partition)
                self._manager.drop(hosted)
        if self._is_incomplete:
            self._is_incomplete = False
            self.image_changed(MetadataImage(), self._metadata.image)

    def _look_after_damage(self, hosted: HostedPartition) -> None:
        found: Any = self._metadata.image.partition(hosted.partition)
        if found is None:
            return
        damage = after_damage(hosted, self._node_id, found.replicas, found.isr, found.leader)
        if damage.step is DamageStep.LEAVE:
            self._propose_to_leave(hosted, damage.others)
        if damage.step in (DamageStep.STOP_FOLLOWING, DamageStep.COPY_AGAIN):
            self._leave_fetcher(hosted)
        if damage.step is DamageStep.COPY_AGAIN and hosted not in self._repairs:
            _log.warning(
                "%s is damaged; it is dropped and copied again from node %d",
                hosted.partition,
                found.leader,
            )
            task = asyncio.create_task(self._repair(hosted), name=f"repair of {hosted.partition}")
            self._repairs[hosted] = task
            task.add_done_callback(lambda _: self._repairs.pop(hosted, None))

    def _propose_to_leave(self, hosted: HostedPartition, others: list[int]) -> None:
        """Once for each state of the metadata: what was refused is refused again until that changes."""
        metadata_offset = self._metadata.image.metadata_offset
        if self._left_at.get(hosted) == metadata_offset:
            return
        if hosted in self._left_at:
            _log.error(
                "%s stays offline: it is damaged here, and no other in-sync replica was allowed to lead; bring back"
                " node %s, or restore the partition from a backup",
                hosted.partition,
                " or ".join(map(str, others)),
            )
        self._left_at[hosted] = metadata_offset
        self.proposals.propose(hosted, others)

    async def _repair(self, hosted: HostedPartition) -> None:
        try:
            await self._open_log(hosted).restore()
        except KafkaError as error:
            _log.warning("%s cannot be repaired: %s; it is tried again", hosted.partition, error)
            return
        self.repair_count += 1
        found = self._metadata.image.partition(hosted.partition)
        if found is not None and not hosted.leadership.is_here:
            self._follow(hosted, found)

    # Scrubbing.

    async def _scrub_loop(self) -> None:
        """Round after round over all sealed segments, at a fixed pace."""
        while True:
            await asyncio.sleep(_SCRUB_PAUSE_S)
            await self.scrub_all(self._settings.scrub_bytes_per_s)

    async def scrub_all(self, bytes_per_s: int) -> None:
        """One round. Damage takes its partition offline."""
        for place in scrub.places(iter(self._manager)):
            await self._scrub(place, bytes_per_s)

    async def _scrub(self, place: scrub.Place, pace: int) -> None:
        while place.is_current and place.position < place.size_bytes:
            read_on = functools.partial(scrub.read_on, place, min(pace, _SCRUB_BYTES_MAX))
            try:
                position, expected, finding = await asyncio.to_thread(read_on)
            except OSError as error:
                _log.info("scrubbing %s: %s", place.segment.log_path, error)
                return
            hosted = place.leader
            if finding is not None and place.is_current and self._manager.holds(hosted):
                hosted.take_offline(place.segment.corrupt(*finding))
                return
            await asyncio.sleep((position - place.position) / pace)
            place = place._replace(position=position, expected_offset=expected)

    # High watermarks.

    async def _checkpoint_loop(self) -> None:
        while True:
            await asyncio.sleep(self._settings.high_watermark_checkpoint_interval_ms / 1000)
            await self.write_high_watermarks()

    async def write_high_watermarks(self) -> None:
        known = {
            hosted.partition: hosted.high_watermark
            for hosted in self._manager
            if hosted.log.exists_on_disk
            and (hosted.replicas is not None or hosted in self._following)
        }
        if known == self._log_directory.high_watermarks:
            return
        before, self._log_directory.high_watermarks = self._log_directory.high_watermarks, known
        encoded = self._log_directory.encoded(HIGH_WATERMARKS)
        try:
            await self._manager.in_worker(lambda: write_checkpoints([encoded], sync=False))
        except OSError as error:
            _log.warning("cannot write %s: %s; it is tried again", HIGH_WATERMARKS, error)
            # What the file says decides which producer snapshots and segments the next start needs.
            self._log_directory.high_watermarks = {
                partition: offset for partition, offset in before.items() if partition in known
            }

    # Metrics.

    def metrics(self) -> ReplicationMetrics:
        led = [hosted for hosted in self._manager if hosted.leadership.is_here]
        lag = {
            (*hosted.partition, node_id): max(
                0, hosted.log.log_end_offset - max(progress.end_offset, 0)
            )
            for hosted in led
            if hosted.replicas is not None
            for node_id, progress in hosted.replicas.followers.items()
        }
        return ReplicationMetrics(
            len(self._manager.led_here()),
            sum(hosted.leadership.isr_count < hosted.leadership.replica_count for hosted in led),
            sum(not hosted.has_enough_replicas for hosted in led),
            self.proposals.shrink_count,
            self.proposals.expand_count,
            self.repair_count,
            sum(
                hosted.log.producers.has_late_transaction(
                    self._clock.now(), self._settings.late_transaction_ms
                )
                for hosted in led
            ),
            lag,
        )
