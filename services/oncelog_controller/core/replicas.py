"""The replicas of a partition: the ISR that its leader proposes, and the placement that an operator wants.

A leader's proposal names the epochs under which it was made. The leader epoch tells whether the proposer still leads,
the partition epoch whether it knew the partition as it is. A proposal that crossed with another change is refused with
INVALID_UPDATE_VERSION, and the leader proposes again from newer metadata. A leader that leaves itself out says that its
own log is damaged; another in-sync replica leads from then on.

A reassignment adds the wanted replicas first, and waits until leaders have proposed all of them into the ISR. Only then
it removes the others, so a partition never has fewer good copies than before.
"""

from collections.abc import Sequence
from dataclasses import replace

from oncelog.errors import ErrorCode, KafkaError
from oncelog_controller.core.events import (
    AlterPartition,
    PartitionResult,
    ProposedIsr,
    Reassignment,
    ReassignPartitions,
)
from oncelog_controller.core.image import STORAGE, ClusterImage, PartitionRegistration, Topic
from oncelog_controller.core.leadership import Elections, partitions_changed
from oncelog_controller.core.records import MetadataRecord


def altered_partitions(
    image: ClusterImage, event: AlterPartition
) -> tuple[list[PartitionResult], list[MetadataRecord]]:
    """Accept or refuse the ISRs that a leader proposes for its partitions.

    Returns a result for each partition (codes 3, 42, 74, 75, 95, 107), and the records of the changes.
    """
    elections = Elections(image)
    staying, live = image.staying_with(STORAGE), image.live_with(STORAGE)
    results = []
    changed: dict[tuple[str, int], PartitionRegistration] = {}
    for proposal in event.proposals:
        name, number = proposal.topic, proposal.partition
        try:
            topic, partition = _found(image, name, number)
            if (name, number) in changed:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "named twice in one request")
            isr = _checked_isr(event.node_id, partition, proposal, staying, live)
        except KafkaError as error:
            results.append(PartitionResult(name, number, error.error_code, error.message))
            continue
        results.append(PartitionResult(name, number))
        judged = elections.judged(topic, _completed(replace(partition, isr=isr)))
        if judged != partition:
            changed[name, number] = judged
    return results, partitions_changed(changed)


def _found(image: ClusterImage, name: str, number: int) -> tuple[Topic, PartitionRegistration]:
    topic = image.topics.get(name)
    if topic is None or not 0 <= number < len(topic.partitions):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{name}-{number} does not exist")
    return topic, topic.partitions[number]


def _checked_isr(
    node_id: int,
    partition: PartitionRegistration,
    proposal: ProposedIsr,
    staying: Sequence[int],
    live: Sequence[int],
) -> tuple[int, ...]:
    """Return the proposed ISR, in the order of the partition's replicas. Raises KafkaError if it is refused.

    A leader may leave itself out, if its log is damaged. A draining replica may stay in the ISR, but none may join it.
    `live` are the storage nodes that are not fenced; `staying` are those of them that do not drain.
    """
    if proposal.leader_epoch < partition.leader_epoch:
        raise KafkaError(
            ErrorCode.FENCED_LEADER_EPOCH,
            f"leader epoch {proposal.leader_epoch} is over; it is {partition.leader_epoch}",
        )
    if proposal.leader_epoch > partition.leader_epoch:
        raise KafkaError(
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            f"leader epoch {proposal.leader_epoch} has not begun; it is {partition.leader_epoch}",
        )
    if partition.leader != node_id:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"node {node_id} does not lead; {partition.leader} does"
        )
    if proposal.partition_epoch != partition.partition_epoch:
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"partition epoch {proposal.partition_epoch} is not the current {partition.partition_epoch}",
        )
    wanted = frozenset(proposal.isr)
    isr = tuple(replica for replica in partition.replicas if replica in wanted)
    if len(isr) != len(proposal.isr):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"ISR {list(proposal.isr)} names other nodes than the replicas {list(partition.replicas)}",
        )
    for replica in isr:
        if replica not in partition.isr and replica not in staying:
            raise KafkaError(
                ErrorCode.INELIGIBLE_REPLICA, f"node {replica} is not there, fenced or draining"
            )
    if node_id not in isr and not any(replica in live for replica in isr):
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"ISR {list(isr)} has no replica that could lead, and the last one cannot leave",
        )
    return isr


def _completed(partition: PartitionRegistration) -> PartitionRegistration:
    """Return the partition without the replicas that its reassignment removes, once all added ones are in sync.

    Before that it is returned unchanged.
    """
    kept = tuple(node_id for node_id in partition.replicas if node_id not in partition.removing)
    isr = tuple(node_id for node_id in partition.isr if node_id in kept)
    if not isr or any(node_id not in partition.isr for node_id in partition.adding):
        return partition
    return replace(partition, replicas=kept, isr=isr, adding=(), removing=())


def reassigned_partitions(
    image: ClusterImage, event: ReassignPartitions
) -> tuple[list[PartitionResult], list[MetadataRecord]]:
    """Begin, replace or cancel reassignments of partitions to other replicas. Return an error code for each partition
    (3, 39, 42 or 85 where it failed), and the records of the changes.
    """
    elections = Elections(image)
    results = []
    changed: dict[tuple[str, int], PartitionRegistration] = {}
    for wanted in event.assignments:
        name, number = wanted.topic, wanted.partition
        try:
            topic, partition = _found(image, name, number)
            if (name, number) in changed:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "named twice in one request")
            begun = _reassigned(image, partition, wanted)
        except KafkaError as error:
            results.append(PartitionResult(name, number, error.error_code, error.message))
            continue
        results.append(PartitionResult(name, number))
        judged = elections.judged(topic, _completed(begun))
        if judged != partition:
            changed[name, number] = judged
    return results, partitions_changed(changed)


def _reassigned(
    image: ClusterImage, partition: PartitionRegistration, wanted: Reassignment
) -> PartitionRegistration:
    # A reassignment under way is taken back first: what it was adding does not count as a replica yet.
    settled = tuple(node_id for node_id in partition.replicas if node_id not in partition.adding)
    if not wanted.replicas:
        if not partition.adding and not partition.removing:
            raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "nothing is under way")
        target = settled
    else:
        target = tuple(wanted.replicas)
        storage_nodes = image.nodes_with(STORAGE)
        strangers = [node_id for node_id in target if node_id not in storage_nodes]
        if strangers or len(frozenset(target)) != len(target):
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"replicas {list(target)} must be different storage nodes; known are {storage_nodes}",
            )
    adding = tuple(node_id for node_id in target if node_id not in settled)
    removing = tuple(node_id for node_id in settled if node_id not in target)
    replicas = target + removing
    isr = tuple(node_id for node_id in partition.isr if node_id in replicas)
    if not isr:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"only {list(partition.isr)} is in sync, and none of the replicas asked for; keep one of them",
        )
    return replace(partition, replicas=replicas, isr=isr, adding=adding, removing=removing)
