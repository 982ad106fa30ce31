"""Places new replicas on storage nodes, and chooses the preferred leader of each partition.

Round robin, continued from topic to topic: the n-th storage node (modulo their number) leads the n-th partition of the
cluster, and the next nodes have its other replicas. So leaders stay spread whatever the sizes of the topics.
"""

from collections.abc import Mapping, Sequence

from oncelog.errors import ErrorCode, KafkaError
from oncelog.wording import counted
from oncelog_controller.core.records import Replicas

DEFAULT_REPLICATION_FACTOR_MAX = 3
"""The default replication factor, which is customary in Kafka. With fewer storage nodes, all of them get a replica."""


def default_replication_factor(storage_node_count: int) -> int:
    return min(DEFAULT_REPLICATION_FACTOR_MAX, storage_node_count)


def round_robin(
    storage_nodes: Sequence[int], *, first: int, partitions: int, replication_factor: int
) -> tuple[Replicas, ...]:
    """Return the replicas of `partitions` new partitions, spread over the storage nodes.

    `first` is how many partitions the cluster has before them, where the round robin continues.
    """
    count = len(storage_nodes)
    assert 0 < replication_factor <= count, (replication_factor, count)
    return tuple(
        tuple(
            storage_nodes[(first + partition + replica) % count]
            for replica in range(replication_factor)
        )
        for partition in range(partitions)
    )


def checked_assignment(
    assignment: Mapping[int, Sequence[int]],
    storage_nodes: Sequence[int],
    *,
    first: int,
    count: int,
    replication_factor: int | None = None,
) -> tuple[Replicas, ...]:
    """Return the replicas of partitions `first` to `first + count - 1` as a request assigns them, in order, once
    checked.

    Raises KafkaError(INVALID_REPLICA_ASSIGNMENT) that names the partition at fault. All partitions of a topic have one
    replication factor: `replication_factor`, or that of the first one named.
    """
    if sorted(assignment) != list(range(first, first + count)):
        raise _refused(
            f"partitions {sorted(assignment)} are assigned by hand; "
            f"expected each of {first} to {first + count - 1} once"
        )
    ordered = []
    for partition in range(first, first + count):
        replicas = tuple(assignment[partition])
        if not replicas or len(set(replicas)) != len(replicas):
            raise _refused(
                f"partition {partition} has replicas {list(replicas)}; name different nodes"
            )
        for node_id in replicas:
            if node_id not in storage_nodes:
                raise _refused(
                    f"partition {partition} names node {node_id}, which is no storage node; "
                    f"known are {list(storage_nodes)}"
                )
        expected = replication_factor or len(assignment[first])
        if len(replicas) != expected:
            raise _refused(
                f"partition {partition} has {counted(len(replicas), 'replica')} instead of {expected}"
            )
        ordered.append(replicas)
    return tuple(ordered)


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
