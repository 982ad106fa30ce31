"""The role of each partition on this node (leader, follower or none) and the step that follows from it.

```
image ──▶ leads it, has followers: a leader epoch begins at the log's end; its ISR is looked after
      ├─▶ follows it:              fetched from its leader's node, in this leader epoch
      └─▶ no replica any more:     a stray, deleted after a delay
```

A partition whose only replica is here has none of this: its high watermark is its log's end. Times are seconds of a
monotonic clock.
"""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from oncelog.ids import Partition
from oncelog_storage.core.isr import DamageStep, after_damage
from oncelog_storage.core.messages import PartitionFacts, TopicFacts
from oncelog_storage.core.partition import PartitionReplica

HostedT = TypeVar("HostedT", bound=PartitionReplica)


class RoleStep(Enum):
    """The step that this node must take with a partition after new metadata have named it."""

    NOTHING = "nothing"
    COMMIT = "commit"
    """This node has the only replica: what is on its disk is committed."""
    LEAD = "lead"
    FETCH = "fetch"
    """Fetch the partition from its leader's node, in the leader epoch of the image."""


class Role(NamedTuple):
    step: RoleStep
    leaves_fetcher: bool = False
    """True if fetching stops first: the partition is fetched from no node, or from the next leader."""
    begins_leader_epoch: bool = False
    """True if the log must write the new leader epoch down before the step LEAD."""


class DamageRole(NamedTuple):
    """The steps that this node must take with a damaged copy of a partition."""

    leaves_fetcher: bool = False
    isr: list[int] | None = None
    """The ISR without this node, to be proposed; None for no proposal."""
    was_refused: bool = False
    """True if an earlier proposal to leave the ISR was refused, under other metadata."""
    copies_again: bool = False


def missing_replicas(
    old: Mapping[str, TopicFacts], new: Mapping[str, TopicFacts], node_id: int
) -> Iterator[Partition]:
    """Yield the partitions that this node must follow by the new metadata, of topics that changed.

    A partition that it leads is made when it is first used.
    """
    for name, topic in new.items():
        if topic is old.get(name):
            continue
        for index, found in enumerate(topic.partitions):
            if found.leader != node_id and node_id in found.replicas:
                yield Partition(name, index)


class Roles(Generic[HostedT]):
    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._following: dict[HostedT, int] = {}
        """The partitions that are fetched, with the leader epoch of each."""
        self._strays: dict[HostedT, float] = {}
        self._left_at: dict[HostedT, int] = {}
        """The metadata offset at which a damaged leader last proposed to leave the ISR."""
        self._repairing: set[HostedT] = set()

    def assign_role(self, hosted: HostedT, found: PartitionFacts | None, now_s: float) -> Role:
        """Set the partition's role to what the image says of it, and return the step that follows.

        `found` None: the partition does not exist.
        """
        if found is None:
            self._strays.pop(hosted, None)
            self._left_at.pop(hosted, None)
            hosted.replicas = None
            return Role(RoleStep.NOTHING, self._leaves(hosted))
        if self._node_id in found.replicas:
            self._strays.pop(hosted, None)
        else:
            self._strays.setdefault(hosted, now_s)
        if not hosted.leadership.is_here:
            hosted.follow()
            self._left_at.pop(hosted, None)
            return self.follow(hosted, found)
        leaves_fetcher = self._leaves(hosted)
        if len(found.replicas) <= 1:
            hosted.replicas = None
            return Role(RoleStep.COMMIT, leaves_fetcher)
        return Role(RoleStep.LEAD, leaves_fetcher, not hosted.leads_in(found.leader_epoch))

    def follow(self, hosted: HostedT, found: PartitionFacts) -> Role:
        """Return what to do about a partition that this node does not lead: FETCH when its leader epoch is new.

        NOTHING otherwise: it is fetched in that epoch already, has no leader, is offline here, or is assigned to other
        nodes.
        """
        is_replica = self._node_id in found.replicas
        if found.leader < 0 or not is_replica or hosted.offline is not None:
            return Role(RoleStep.NOTHING, self._leaves(hosted))
        if self._following.get(hosted) == found.leader_epoch:
            return Role(RoleStep.NOTHING)
        leaves_fetcher = self._leaves(hosted)
        self._following[hosted] = found.leader_epoch
        return Role(RoleStep.FETCH, leaves_fetcher)

    def _leaves(self, hosted: HostedT) -> bool:
        return self._following.pop(hosted, None) is not None

    def strays(self, now_s: float, delay_s: float) -> list[HostedT]:
        """Return the partitions that have been assigned elsewhere for `delay_s` seconds, so that they are deleted."""
        return [hosted for hosted, since in self._strays.items() if now_s - since >= delay_s]

    # Damage.

    def after_damage(
        self, hosted: HostedT, found: PartitionFacts | None, metadata_offset: int
    ) -> DamageRole:
        """Return the steps for a damaged copy.

        A leader proposes once for each metadata offset: a refused proposal is refused again until the metadata change.
        """
        if found is None:
            return DamageRole()
        damage = after_damage(hosted, self._node_id, found.replicas, found.isr, found.leader)
        match damage.step:
            case DamageStep.LEAVE:
                before = self._left_at.get(hosted)
                if before == metadata_offset:
                    return DamageRole()
                self._left_at[hosted] = metadata_offset
                return DamageRole(isr=damage.others, was_refused=before is not None)
            case DamageStep.STOP_FOLLOWING:
                return DamageRole(leaves_fetcher=self._leaves(hosted))
            case DamageStep.COPY_AGAIN:
                begins = hosted not in self._repairing
                self._repairing.add(hosted)
                return DamageRole(leaves_fetcher=self._leaves(hosted), copies_again=begins)
            case _:
                return DamageRole()

    def repair_ended(self, hosted: HostedT) -> None:
        """Allow the next repair of this copy, because one has ended. The copy is whole again, or is to be tried
        again.
        """
        self._repairing.discard(hosted)

    # High watermarks.

    def high_watermarks(self, all_hosted: Iterable[HostedT]) -> dict[Partition, int]:
        """Return the high watermarks to store for the next start, of partitions that other nodes have too.

        A partition whose only replica is here needs none: its log's end is the high watermark.
        """
        return {
            hosted.partition: hosted.high_watermark
            for hosted in all_hosted
            if hosted.log.exists_on_disk
            # The partition may be about to lose records below its high watermark.
            and not hosted.is_truncating
            and (hosted.replicas is not None or hosted in self._following)
        }


class ReplicationMetrics(NamedTuple):
    """Counts for metrics of the partitions led here: replicas that lag, and transactions that are late."""

    under_replicated_count: int
    under_min_isr_count: int
    late_count: int
    """The number of partitions led here with a late transaction (KIP-664)."""
    follower_lag: dict[tuple[str, int, int], int]
    """The records that each follower lacks, of partitions led here, by (topic, partition, follower's node id)."""


def metrics_of(
    all_hosted: Iterable[PartitionReplica], now: int, late_transaction_ms: int
) -> ReplicationMetrics:
    """Return the counts for metrics. `now` is milliseconds since 1970."""
    led = [hosted for hosted in all_hosted if hosted.leadership.is_here]
    lag = {
        (*hosted.partition, node_id): max(
            0, hosted.log.log_end_offset - max(progress.end_offset, 0)
        )
        for hosted in led
        if hosted.replicas is not None
        for node_id, progress in hosted.replicas.followers.items()
    }
    return ReplicationMetrics(
        sum(hosted.leadership.isr_count < hosted.leadership.replica_count for hosted in led),
        sum(not hosted.has_enough_replicas for hosted in led),
        sum(hosted.log.producers.has_late_transaction(now, late_transaction_ms) for hosted in led),
        lag,
    )
