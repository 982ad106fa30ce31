"""The access of a client to topics and the cluster, checked as Kafka checks it."""

from collections.abc import Iterable
from typing import Final, TypeVar

from oncelog.errors import ErrorCode
from oncelog.security.acl import Operation, ResourceType
from oncelog_listener.call import Call
from oncelog_listener.cluster import ApiError, TopicPartition
from oncelog_listener.core.authorized_operations import ON_CLUSTER, ON_TOPIC
from oncelog_listener.turns import TURN_ELEMENTS

ItemT = TypeVar("ItemT")

TOPIC_REFUSED: Final = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
CLUSTER_REFUSED: Final = ApiError(
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."
)
GROUP_REFUSED: Final = ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed.")

_ON_TOPIC: Final = tuple(one for one in Operation if ON_TOPIC >> one & 1)
_ON_CLUSTER: Final = tuple(one for one in Operation if ON_CLUSTER >> one & 1)


def refused_topics(
    call: Call, operation: Operation, names: Iterable[str], *, is_logged: bool = True
) -> frozenset[str]:
    """Return those of the topics on which ACLs forbid the client this operation; each is checked once."""
    if not call.cluster.access.is_checked:
        return frozenset()
    return frozenset(
        name
        for name in dict.fromkeys(names)
        if not call.may(operation, ResourceType.TOPIC, name, is_logged=is_logged)
    )


async def refused_in_turns(
    call: Call, operation: Operation, names: Iterable[str], *, is_logged: bool = True
) -> frozenset[str]:
    """Do as `refused_topics`, in short turns, so that other tasks run in between. For requests that may name very many
    topics."""
    if not call.cluster.access.is_checked:
        return frozenset()
    once = list(dict.fromkeys(names))
    refused: set[str] = set()
    for start in range(0, len(once), TURN_ELEMENTS):
        if start:
            await call.next_turn()
        some = once[start : start + TURN_ELEMENTS]
        refused |= refused_topics(call, operation, some, is_logged=is_logged)
    return frozenset(refused)


def take_refused(
    call: Call, operation: Operation, items: dict[TopicPartition, ItemT]
) -> dict[TopicPartition, ApiError]:
    """Remove from `items` the partitions whose topics the client may not use in this way. Return the error for each of
    them."""
    refused = refused_topics(call, operation, (topic for topic, _ in items))
    if not refused:
        return {}
    found = {key: TOPIC_REFUSED for key in items if key[0] in refused}
    for key in found:
        del items[key]
    return found


def refused_creations(call: Call, names: Iterable[str]) -> frozenset[str]:
    """Return the topics that the client may not create: it needs CREATE on the cluster, or on the topic."""
    if call.may_cluster(Operation.CREATE, is_logged=False):
        return frozenset()
    return refused_topics(call, Operation.CREATE, names)


def cluster_refusal(call: Call, operation: Operation) -> ApiError | None:
    """Return the refusal if the client may not perform the operation on the cluster; None: it may."""
    return None if call.may_cluster(operation) else CLUSTER_REFUSED


def operations_on_topic(call: Call, name: str) -> int:
    """Return the operations that the client may do with the topic, as the bits of KIP-430."""
    return sum(
        1 << operation
        for operation in _ON_TOPIC
        if call.may(operation, ResourceType.TOPIC, name, is_logged=False)
    )


def operations_on_cluster(call: Call) -> int:
    """Return the operations that the client may do with the cluster, as the bits of KIP-430; 0 if it may not describe
    the cluster, as in Kafka."""
    if not call.may_cluster(Operation.DESCRIBE):
        return 0
    return sum(
        1 << operation for operation in _ON_CLUSTER if call.may_cluster(operation, is_logged=False)
    )
