"""The partitions that a node hosts, decided from its folder and the metadata, and what a new metadata image changes.

The metadata decide what exists and who leads. The folder decides what is stored. This module is pure: the caller opens,
makes, sets aside and removes folders.
"""

from collections.abc import Mapping
from enum import Enum

from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog_storage.core.checkpoint_files import is_same_topic
from oncelog_storage.core.log_state import LogState
from oncelog_storage.core.messages import PartitionFacts, TopicFacts
from oncelog_storage.core.partition import PartitionReplica
from oncelog_storage.core.partition_values import Leadership


class Found(Enum):
    """The choices of a starting node for a partition's folder that it finds on its disk: load it, leave it as it is, or
    set it aside under another name.
    """

    LOAD = "load"
    LEAVE = "leave"
    """The folder stays as it is: the metadata are not known yet."""
    SET_ASIDE = "set aside"
    """The folder is renamed, and nobody uses it: most likely its topic was deleted while this node was away.

    But metadata that was lost, or restored from an older backup, looks the same. Then this folder is the only copy of
    the data, and the node may not remove it.
    """


def folder_found(
    found: PartitionFacts | None, stored_topic_id: str, topic_id: bytes | None, *, has_image: bool
) -> Found:
    """Return what a starting node does with a partition's folder. `found` is the partition in the metadata.

    `topic_id` None: there is no such topic. `has_image` False: the metadata are not known yet.
    """
    is_known = found is not None and is_same_topic(stored_topic_id, topic_id or b"")
    if has_image and not is_known:
        return Found.SET_ASIDE
    return Found.LEAVE if topic_id is None else Found.LOAD


def is_lost(found: PartitionFacts | None, node_id: int) -> bool:
    """True if a partition that has no folder here was stored on this node, as the metadata say.

    Otherwise its topic was deleted, or the partition was assigned to other nodes, before its folder was removed.
    """
    return found is not None and node_id in (found.leader, *found.replicas)


class Making(Enum):
    """The way in which a partition comes to be hosted here: from its folder, as a new one, or not yet, because of
    another folder.

    It is LOST if its folder should be here and is gone.
    """

    LOAD = "load"
    """The partition is loaded from its folder, which was there before the topic was known: the metadata came late."""
    RETIRE = "retire"
    """The folder of a deleted topic of the same name is in the way, and must be retired first."""
    LOST = "lost"
    """The partition was stored here, and its folder is gone."""
    NEW = "new"


def require_host(
    partition: Partition, found: PartitionFacts | None, node_id: int, *, is_retiring: bool
) -> None:
    """Check that this node may host the partition. `found` is the partition in the metadata.

    Raises KafkaError if the partition is unknown, or belongs to other nodes. It raises too if `is_retiring`: the folder
    of a deleted partition of this name must go first.
    """
    if found is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {partition}")
    if is_retiring:
        # The folder of the deleted topic of this name is about to go; the client asks again.
        raise KafkaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} is being deleted and made again"
        )
    if found.leader != node_id and node_id not in found.replicas:
        raise KafkaError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{partition} is led by node {found.leader}"
        )


def making_from(stored_topic_id: str | None, topic_id: bytes, *, was_hosted: bool) -> Making:
    """Return how to host a partition. `stored_topic_id` is the id in its folder; None: there is no folder.

    `was_hosted`: the data folder's checkpoint files say that the partition had a folder.
    """
    if stored_topic_id is None:
        return Making.LOST if was_hosted else Making.NEW
    return Making.LOAD if is_same_topic(stored_topic_id, topic_id) else Making.RETIRE


def high_watermark_at_load(log: LogState) -> int:
    return max(min(log.committed_at_load, log.log_end_offset), log.log_start_offset)


def has_followers(found: PartitionFacts | None) -> bool:
    """True if other nodes have the partition too. Then the log's end alone does not say what is committed."""
    return found is not None and len(found.replicas) > 1


def leadership_of(found: PartitionFacts, node_id: int) -> Leadership:
    is_here = found.leader == node_id
    return Leadership(
        found.leader, found.leader_epoch, is_here, len(found.isr), len(found.replicas)
    )


class Change(Enum):
    """The change that a new metadata image makes to a partition that is hosted here."""

    NOTHING = "nothing"
    CONFIG = "config"
    """The topic is the same, but settings of the node or of the cluster may have changed."""
    DROP = "drop"
    TOPIC = "topic"
    """The topic changed: its config, leadership and replicas may be others."""


def change_of(
    log: LogState,
    old: TopicFacts | None,
    new: TopicFacts | None,
    *,
    has_other_configs: bool,
) -> Change:
    if new is not None and new is old:
        return Change.CONFIG if has_other_configs else Change.NOTHING
    if new is None or new.topic_id != log.topic_id:
        return Change.DROP
    if log.partition.partition >= len(new.partitions):
        return Change.DROP
    return Change.TOPIC


# Coordinator epochs (ADR 0016).


def require_newest_coordinator(
    led: PartitionReplica, coordinator_epoch: int, epoch_of_image: int | None
) -> None:
    """Refuse a coordinator that is not the newest.

    Raises KafkaError if the metadata image, or the partition, knows a higher coordinator epoch.
    """
    newest = max(led.coordinator_epoch, -1 if epoch_of_image is None else epoch_of_image)
    if coordinator_epoch < newest:
        raise KafkaError(
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            f"coordinator epoch {coordinator_epoch} of {led.partition} is older than {newest}",
        )


def merged_epochs(*known: Mapping[Partition, int]) -> dict[Partition, int]:
    """Merge what several sources know of the newest coordinator of each shard: return the highest coordinator epoch of
    each partition.
    """
    merged: dict[Partition, int] = {}
    for epochs in known:
        for partition, coordinator_epoch in epochs.items():
            merged[partition] = max(merged.get(partition, -1), coordinator_epoch)
    return merged
