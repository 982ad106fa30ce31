"""The leaders of partitions and the owners of shards, as they follow from which nodes are alive.

Every function reads an image and returns the records that correct it; one that is right already gets none. So the same
few lines serve a fenced node, a returning one, a drained one, a new topic and a changed ISR. To apply them twice
changes nothing.

A partition's leader comes from its in-sync replicas. Those that are fenced leave the ISR, but the last ones stay in it
even so: they alone are known to have every acknowledged record. The partition waits for one of them, without a leader,
unless its topic allows an unclean election.

A shard goes to a coordinator that is neither fenced nor draining. Shards move only when their coordinator cannot keep
them, or as far as is needed to even out; each move raises the shard's coordinator epoch.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from oncelog.ids import SHARD_TOPICS
from oncelog_controller.core.image import (
    COORDINATOR,
    NO_COORDINATOR,
    NO_LEADER,
    STORAGE,
    ClusterImage,
    PartitionRegistration,
    Topic,
)
from oncelog_controller.core.records import (
    MetadataRecord,
    PartitionsChanged,
    PartitionState,
    ShardsAssigned,
)


class Elections:
    """Elects the leaders of partitions within one decision.

    Partitions are taken one after another. The leaders of each node are counted, so that leadership stays spread.
    """

    def __init__(self, image: ClusterImage) -> None:
        self._live = frozenset(image.live_with(STORAGE))
        self._staying = frozenset(image.staying_with(STORAGE))
        self._leading = Counter(
            partition.leader for topic in image.topics.values() for partition in topic.partitions
        )

    def judged(self, topic: Topic, partition: PartitionRegistration) -> PartitionRegistration:
        """Return the partition with the ISR and leader that it should have now: dead nodes leave the ISR, and the
        leader is a live one of it, or NO_LEADER. Its epochs are raised when the partition's new record is applied.
        """
        isr = tuple(node_id for node_id in partition.isr if node_id in self._live) or partition.isr
        leader = self._leader(partition, isr)
        if leader == NO_LEADER and topic.configs.get("unclean.leader.election.enable") == "true":
            leader = next((node for node in partition.replicas if node in self._live), NO_LEADER)
            isr = isr if leader == NO_LEADER else (leader,)
        self._leading[partition.leader] -= 1
        self._leading[leader] += 1
        return replace(partition, leader=leader, isr=isr)

    def _leader(self, partition: PartitionRegistration, isr: Sequence[int]) -> int:
        live = [
            node_id for node_id in partition.replicas if node_id in isr and node_id in self._live
        ]
        staying = [node_id for node_id in live if node_id in self._staying]
        if partition.leader in staying:
            return partition.leader
        lasting = [node_id for node_id in staying if node_id not in partition.removing] or staying
        if lasting:
            preferred = partition.replicas[0]
            # min is stable: among equals, the one the placement prefers.
            return (
                preferred if preferred in lasting else min(lasting, key=self._leading.__getitem__)
            )
        if partition.leader in live:
            return partition.leader
        return live[0] if live else NO_LEADER


def consequences(image: ClusterImage, topics: Iterable[str] | None = None) -> list[MetadataRecord]:
    """Return the records that correct leaders, ISRs and shards after nodes came, went or drain.

    If `topics` is given, only their partitions are looked at.
    """
    elections = Elections(image)
    names = image.topics if topics is None else topics
    changed = {}
    for name in names:
        topic = image.topics[name]
        for number, partition in enumerate(topic.partitions):
            judged = elections.judged(topic, partition)
            if judged != partition:
                changed[name, number] = judged
    return [*partitions_changed(changed), *_shards_assigned(image)]


def balanced_leaders(image: ClusterImage, moves_max: int) -> list[MetadataRecord]:
    """Return the records that give leadership back to preferred replicas that are in sync; at most `moves_max` at
    once.
    """
    staying = frozenset(image.staying_with(STORAGE))
    changed: dict[tuple[str, int], PartitionRegistration] = {}
    for name, topic in image.topics.items():
        for number, partition in enumerate(topic.partitions):
            preferred = partition.replicas[0]
            if (
                partition.leader not in (preferred, NO_LEADER)
                and preferred in partition.isr
                and preferred in staying
                and len(changed) < moves_max
            ):
                changed[name, number] = replace(partition, leader=preferred)
    return partitions_changed(changed)


def partitions_changed(
    changed: dict[tuple[str, int], PartitionRegistration],
) -> list[MetadataRecord]:
    """Return one record with the new state of all these partitions, or none if there are none."""
    topics: dict[str, list[PartitionState]] = {}
    for (name, number), partition in changed.items():
        topics.setdefault(name, []).append(
            (
                number,
                partition.leader,
                partition.replicas,
                partition.isr,
                partition.adding,
                partition.removing,
            )
        )
    if not topics:
        return []
    return [PartitionsChanged(tuple((name, tuple(states)) for name, states in topics.items()))]


def _shards_assigned(image: ClusterImage) -> list[MetadataRecord]:
    staying = image.staying_with(COORDINATOR)
    live = image.live_with(COORDINATOR)
    records: list[MetadataRecord] = []
    for kind in SHARD_TOPICS:
        owners = {
            number: shard.coordinator
            for (shard_kind, number), shard in sorted(image.shards.items())
            if shard_kind == kind
        }
        if staying:
            moved = _dealt(owners, staying)
        else:
            # A coordinator that drains keeps its shards as long as nobody else can take them.
            moved = {
                number: NO_COORDINATOR
                for number, owner in owners.items()
                if owner != NO_COORDINATOR and owner not in live
            }
        if moved:
            records.append(ShardsAssigned(kind, tuple(sorted(moved.items()))))
    return records


def _dealt(owners: dict[int, int], coordinators: Sequence[int]) -> dict[int, int]:
    """Return the new owners of shards that must move, by shard number.

    A shard moves if none of `coordinators` owns it, or if that is needed to give each about the same number.
    """
    owned: dict[int, list[int]] = {node_id: [] for node_id in coordinators}
    homeless: list[int] = []
    for number, owner in owners.items():
        owned.get(owner, homeless).append(number)
    moved = {}
    for number in homeless:
        least = min(coordinators, key=lambda node_id: len(owned[node_id]))
        owned[least].append(number)
        moved[number] = least
    while True:
        least = min(coordinators, key=lambda node_id: len(owned[node_id]))
        most = max(coordinators, key=lambda node_id: len(owned[node_id]))
        if len(owned[most]) - len(owned[least]) <= 1:
            return moved
        number = owned[most].pop()
        owned[least].append(number)
        moved[number] = least
