"""The leader that a request which met none should try next (KIP-951): the listener that Metadata names now, mostly
this one.

A client that has an older leader epoch repeats at once, without asking for metadata.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from oncelog.ids import Partition
from oncelog_listener.brokers import Broker, brokers_for
from oncelog_listener.call import Call
from oncelog_listener.cluster import TopicPartition


class LeaderHint(NamedTuple):
    broker: Broker
    leader_epoch: int


def leader_hints(call: Call, keys: Iterable[TopicPartition]) -> dict[TopicPartition, LeaderHint]:
    """Return the hints for those partitions that have a leader."""
    hints: dict[TopicPartition, LeaderHint] = {}
    for key in keys:
        found = call.cluster.image.partition(Partition(*key))
        if found is not None and found.leader >= 0:
            broker = brokers_for(call).place(f"{key[0]}-{key[1]}")
            hints[key] = LeaderHint(broker, found.leader_epoch)
    return hints


def hinted(call: Call, hint: LeaderHint | None) -> dict[str, Any]:
    """Return the fields with this hint for the answer about a partition; without a hint there are none."""
    if hint is None:
        return {}
    leader = call.types.LeaderIdAndEpoch(
        leader_id=hint.broker.node_id, leader_epoch=hint.leader_epoch
    )
    return {"current_leader": leader}


def node_endpoints(call: Call, hints: dict[TopicPartition, LeaderHint]) -> tuple[Any, ...]:
    return tuple(
        call.types.NodeEndpoint(node_id=one.node_id, host=one.host, port=one.port, rack=one.rack)
        for one in dict.fromkeys(hint.broker for hint in hints.values())
    )
