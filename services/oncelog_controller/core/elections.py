"""Elections that a request asks for (KIP-460): of the preferred replica, or of one that may have lost records."""

from dataclasses import replace

from oncelog.errors import ErrorCode, KafkaError
from oncelog_controller.core.events import ElectLeaders, PartitionResult
from oncelog_controller.core.image import NO_LEADER, STORAGE, ClusterImage, PartitionRegistration
from oncelog_controller.core.leadership import partitions_changed
from oncelog_controller.core.records import MetadataRecord


def elected_leaders(
    image: ClusterImage, event: ElectLeaders
) -> tuple[list[PartitionResult], list[MetadataRecord]]:
    """Elect the leaders that an ElectLeaders request asks for. Return an error code for each partition (3, 80, 83 or 84
    where it failed), and the records of the changes.
    """
    staying = frozenset(image.staying_with(STORAGE))
    live = frozenset(image.live_with(STORAGE))
    results = []
    changed: dict[tuple[str, int], PartitionRegistration] = {}
    for name, number in dict.fromkeys(event.partitions):
        topic = image.topics.get(name)
        try:
            if topic is None or not 0 <= number < len(topic.partitions):
                raise KafkaError(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{number}"
                )
            partition = topic.partitions[number]
            if event.unclean:
                changed[name, number] = _unclean(partition, live)
            else:
                changed[name, number] = _preferred(partition, staying)
        except KafkaError as error:
            results.append(PartitionResult(name, number, error.error_code, error.message))
            continue
        results.append(PartitionResult(name, number))
    return results, partitions_changed(changed)


def _preferred(partition: PartitionRegistration, staying: frozenset[int]) -> PartitionRegistration:
    preferred = partition.replicas[0]
    if partition.leader == preferred:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"node {preferred} leads already")
    if preferred not in partition.isr or preferred not in staying:
        raise KafkaError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            f"node {preferred} is not in sync, or about to stop; in sync are {list(partition.isr)}",
        )
    return replace(partition, leader=preferred)


def _unclean(partition: PartitionRegistration, live: frozenset[int]) -> PartitionRegistration:
    if partition.leader != NO_LEADER:
        raise KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"node {partition.leader} leads")
    for node_id in partition.replicas:
        if node_id in live:
            isr = partition.isr if node_id in partition.isr else (node_id,)
            return replace(partition, leader=node_id, isr=isr)
    raise KafkaError(
        ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        f"none of the replicas {list(partition.replicas)} is running",
    )
