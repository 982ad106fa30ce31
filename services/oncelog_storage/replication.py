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
from oncelog.ids import INTERNAL_TOPICS, Partition
from oncelog.rpc.directory import Directory
from oncelog.rpc.metadata import MetadataFollower, MetadataImage
from oncelog.runtime import Clock
from oncelog_storage import scrub
from oncelog_storage.core.leader_state import LeaderState
from oncelog_storage.core.verification import Verifications
from oncelog_storage.follower import FollowedLog
from oncelog_storage.hosted import HostedPartitions
from oncelog_storage.isr_proposals import IsrProposals
from oncelog_storage.log_directory import HIGH_WATERMARKS, LogDirectory, write_checkpoints
from oncelog_storage.partition import PartitionLeader
from oncelog_storage.replica_fetcher import ReplicaFetcher
from oncelog_storage.replica_sessions import ReplicaSessions
from oncelog_storage.settings import StorageSettings

_log = logging.getLogger(__name__)

_LOOKS_PER_LAG: Final = 4
_LOOK_S_MAX: Final = 1.0
_SCRUB_PAUSE_S: Final = 60.0
_SCRUB_BYTES_MAX: Final = 1 << 20


class ReplicationFigures(NamedTuple):
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
        hosted: HostedPartitions,
        log_directory: LogDirectory,
        clock: Clock,
        node_epoch: Callable[[], int] | None,
    ) -> None:
        self._settings = settings
        self._node_id = node_id
        self._metadata = metadata
        self._directory = directory
        self._hosted = hosted
        self._log_directory = log_directory
        self._clock = clock
        self._node_epoch = node_epoch or self._node_epoch_of_image
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._following: dict[PartitionLeader, int] = {}
        self._repairs: dict[PartitionLeader, asyncio.Task[None]] = {}
        self.repair_count = 0
        self._left_at: dict[PartitionLeader, int] = {}
        """The metadata offset at which a damaged leader last proposed to leave."""
        self._is_incomplete = False
        self._strays: dict[PartitionLeader, float] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.proposals = IsrProposals(node_id, directory, self._node_epoch)
        self.sessions = ReplicaSessions(settings, hosted, metadata, self.proposals)

    def start(self) -> None:
        """Take the roles of the image, and follow it from here on."""
        self._hosted.follow_image = self._follow_image
        for leader in self._hosted:
            self._follow_image(leader, self._metadata.image.partition(leader.partition))
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
        """A replica begins to exist here when the image names it; the hosted ones were told already."""
        for name, topic in new.topics.items():
            if topic is old.topics.get(name):
                continue
            for index, found in enumerate(topic.partitions):
                if found.leader == self._node_id or self._node_id not in found.replicas:
                    continue
                try:
                    self._hosted.ensure(Partition(name, index))
                except KafkaError:
                    # A folder of a deleted namesake is in the way; the next look tries again.
                    self._is_incomplete = True

    def _follow_image(self, leader: PartitionLeader, found: Any) -> None:
        if found is None:
            self._leave(leader)
            self._strays.pop(leader, None)
            self._left_at.pop(leader, None)
            return
        if self._node_id in found.replicas:
            self._strays.pop(leader, None)
        elif leader not in self._strays:
            self._strays[leader] = asyncio.get_running_loop().time()
        if leader.leadership.is_here:
            self._leave_fetcher(leader)
            self._lead(leader, found)
        else:
            leader.replicas = None
            self._left_at.pop(leader, None)
            _forget_verifications(leader)
            self._follow(leader, found)
        leader.tell_replicas()

    def _lead(self, leader: PartitionLeader, found: Any) -> None:
        if len(found.replicas) <= 1:
            leader.replicas = None
            leader.local_end_moved(leader.local_end)
            return
        now = asyncio.get_running_loop().time()
        state, log = leader.replicas, leader.log
        if state is not None and state.leader_epoch == found.leader_epoch:
            state.image_moved(found.replicas, found.isr, found.partition_epoch, now)
        else:
            log.assign_leader_epoch(found.leader_epoch, log.log_end_offset)
            _forget_verifications(leader)
            _learn_coordinator_epoch(leader)
            leader.replicas = LeaderState(
                self._node_id,
                found.leader_epoch,
                log.log_end_offset,
                found.replicas,
                found.isr,
                found.partition_epoch,
                now,
            )
        leader.isr_changed()

    def _follow(self, leader: PartitionLeader, found: Any) -> None:
        if found.leader < 0 or self._node_id not in found.replicas or leader.offline is not None:
            self._leave_fetcher(leader)
            return
        if self._following.get(leader) == found.leader_epoch:
            return
        self._leave_fetcher(leader)
        self._following[leader] = found.leader_epoch
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
        fetcher.follow(leader)

    def _open_log(self, leader: PartitionLeader) -> FollowedLog:
        return FollowedLog(leader, self._hosted, self._clock)

    def _leave_fetcher(self, leader: PartitionLeader) -> None:
        if self._following.pop(leader, None) is not None:
            for fetcher in self._fetchers.values():
                fetcher.unfollow(leader.partition)

    def _leave(self, leader: PartitionLeader) -> None:
        self._leave_fetcher(leader)
        leader.replicas = None
        leader.tell_replicas()

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
        for leader in self._hosted:
            state = leader.replicas
            if leader.offline is not None:
                self._look_after_damage(leader)
                continue
            if state is None:
                continue
            late = state.out_of_sync(now, lag_max_s)
            if late:
                self.proposals.propose(leader, [node for node in state.isr if node not in late])
                continue
            for node_id, progress in state.followers.items():
                if state.may_join(node_id, leader.high_watermark) and self.sessions.is_eligible(
                    node_id, progress.node_epoch
                ):
                    self.proposals.propose(leader, [*state.isr, node_id])
        delay_s = self._settings.replica_removal_delay_ms / 1000
        for leader, since in list(self._strays.items()):
            if now - since >= delay_s:
                _log.info("%s is no longer assigned to this node; it is deleted", leader.partition)
                self._hosted.drop(leader)
        if self._is_incomplete:
            self._is_incomplete = False
            self.image_changed(MetadataImage(), self._metadata.image)

    def _look_after_damage(self, leader: PartitionLeader) -> None:
        """A damaged copy leaves the in-sync replicas, by its own word, before it is dropped and fetched again.

        As a leader it hands over to another in-sync replica; alone it stays as it is: there is nothing to repair from.
        """
        found: Any = self._metadata.image.partition(leader.partition)
        if found is None or len(found.replicas) <= 1 or self._node_id not in found.replicas:
            return
        state = leader.replicas
        if state is not None:
            others = [node for node in state.isr if node != self._node_id]
            if others and state.pending is None:
                self._propose_to_leave(leader, others)
            return
        self._leave_fetcher(leader)
        if self._node_id not in found.isr and found.leader >= 0 and leader not in self._repairs:
            _log.warning(
                "%s is damaged; it is dropped and copied again from node %d",
                leader.partition,
                found.leader,
            )
            task = asyncio.create_task(self._repair(leader), name=f"repair of {leader.partition}")
            self._repairs[leader] = task
            task.add_done_callback(lambda _: self._repairs.pop(leader, None))

    def _propose_to_leave(self, leader: PartitionLeader, others: list[int]) -> None:
        """Once for each state of the metadata: what was refused is refused again until that changes."""
        metadata_offset = self._metadata.image.metadata_offset
        if self._left_at.get(leader) == metadata_offset:
            return
        if leader in self._left_at:
            _log.error(
                "%s stays offline: it is damaged here, and no other in-sync replica was allowed to lead; bring back"
                " node %s, or restore the partition from a backup",
                leader.partition,
                " or ".join(map(str, others)),
            )
        self._left_at[leader] = metadata_offset
        self.proposals.propose(leader, others)

    async def _repair(self, leader: PartitionLeader) -> None:
        try:
            await self._open_log(leader).restore()
        except KafkaError as error:
            _log.warning("%s cannot be repaired: %s; it is tried again", leader.partition, error)
            return
        self.repair_count += 1
        found = self._metadata.image.partition(leader.partition)
        if found is not None and not leader.leadership.is_here:
            self._follow(leader, found)

    # Scrubbing.

    async def _scrub_loop(self) -> None:
        """Round after round over all sealed segments, at a fixed pace."""
        while True:
            await asyncio.sleep(_SCRUB_PAUSE_S)
            await self.scrub_all(self._settings.scrub_bytes_per_s)

    async def scrub_all(self, bytes_per_s: int) -> None:
        """One round. Damage takes its partition offline."""
        for place in scrub.places(iter(self._hosted)):
            await self._scrub(place, bytes_per_s)

    async def _scrub(self, place: scrub.Place, pace: int) -> None:
        while place.is_current and place.position < place.size_bytes:
            read_on = functools.partial(scrub.read_on, place, min(pace, _SCRUB_BYTES_MAX))
            try:
                position, expected, finding = await asyncio.to_thread(read_on)
            except OSError as error:
                _log.info("scrubbing %s: %s", place.segment.log_path, error)
                return
            leader = place.leader
            if finding is not None and place.is_current and self._hosted.holds(leader):
                leader.take_offline(place.segment.corrupt(*finding))
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
            leader.partition: leader.high_watermark
            for leader in self._hosted
            if leader.log.exists_on_disk
            and (leader.replicas is not None or leader in self._following)
        }
        if known == self._log_directory.high_watermarks:
            return
        before, self._log_directory.high_watermarks = self._log_directory.high_watermarks, known
        encoded = self._log_directory.encoded(HIGH_WATERMARKS)
        try:
            await self._hosted.in_worker(lambda: write_checkpoints([encoded], sync=False))
        except OSError as error:
            _log.warning("cannot write %s: %s; it is tried again", HIGH_WATERMARKS, error)
            # What the file says decides which producer snapshots and segments the next start needs.
            self._log_directory.high_watermarks = {
                partition: offset for partition, offset in before.items() if partition in known
            }

    # Figures.

    def figures(self) -> ReplicationFigures:
        led = [leader for leader in self._hosted if leader.leadership.is_here]
        lag = {
            (*leader.partition, node_id): max(
                0, leader.log.log_end_offset - max(progress.end_offset, 0)
            )
            for leader in led
            if leader.replicas is not None
            for node_id, progress in leader.replicas.followers.items()
        }
        return ReplicationFigures(
            len(self._hosted.led_here()),
            sum(leader.leadership.isr_count < leader.leadership.replica_count for leader in led),
            sum(not leader.has_enough_replicas for leader in led),
            self.proposals.shrink_count,
            self.proposals.expand_count,
            self.repair_count,
            sum(
                leader.log.producers.has_late_transaction(
                    self._clock.now(), self._settings.late_transaction_ms
                )
                for leader in led
            ),
            lag,
        )


def _learn_coordinator_epoch(leader: PartitionLeader) -> None:
    """A new leader of a shard takes the greatest coordinator epoch from the log (ADR 0016).

    A coordinator's own batches carry it as producer epoch; a client's entry shows a transaction, open or ended.
    """
    if leader.partition.topic not in INTERNAL_TOPICS:
        return
    for entry in leader.log.producers.entries():
        if entry.coordinator_epoch < 0 and entry.current_txn_first_offset < 0:
            leader.coordinator_epoch = max(leader.coordinator_epoch, entry.producer_epoch)


def _forget_verifications(leader: PartitionLeader) -> None:
    """Leadership was elsewhere meanwhile, and with it the marker that would have taken a guard away."""
    leader.verifications = Verifications()
