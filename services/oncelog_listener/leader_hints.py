"""The leader hint in a response with NOT_LEADER_OR_FOLLOWER (KIP-951): which broker, here a listener, the client should
ask next.

It is the listener that Metadata names as leader, mostly this one. The client repeats at once, without asking for
metadata.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, NamedTuple, Protocol, TypedDict, TypeVar

from oncelog.ids import Partition
from oncelog_listener.brokers import Broker, brokers_for
from oncelog_listener.call import Call
from oncelog_listener.cluster import TopicPartition

LeaderT_co = TypeVar("LeaderT_co", covariant=True)
NodeT_co = TypeVar("NodeT_co", covariant=True)


class LeaderHint(NamedTuple):
    broker: Broker
    leader_epoch: int


def leader_hints(call: Call, keys: Iterable[TopicPartition]) -> dict[TopicPartition, LeaderHint]:
    """Return the hint for each of these partitions that has a leader: the listener to ask, and the leader epoch."""
    hints: dict[TopicPartition, LeaderHint] = {}
    for key in keys:
        found = call.cluster.image.partition(Partition(*key))
        if found is not None and found.leader >= 0:
            broker = brokers_for(call).place(f"{key[0]}-{key[1]}")
            hints[key] = LeaderHint(broker, found.leader_epoch)
    return hints


class Hinted(TypedDict, Generic[LeaderT_co], total=False):
    current_leader: LeaderT_co


class _LeaderTypes(Protocol[LeaderT_co]):
    """The classes of a Produce or Fetch response, of which `LeaderIdAndEpoch` makes a hint."""

    @property
    def LeaderIdAndEpoch(self) -> _LeaderType[LeaderT_co]: ...  # noqa: N802, its name in kio


class _LeaderType(Protocol[LeaderT_co]):
    def __call__(self, *, leader_id: int, leader_epoch: int) -> LeaderT_co: ...


class _NodeTypes(Protocol[NodeT_co]):
    @property
    def NodeEndpoint(self) -> _NodeType[NodeT_co]: ...  # noqa: N802, its name in kio


class _NodeType(Protocol[NodeT_co]):
    def __call__(self, *, node_id: int, host: str, port: int, rack: str | None) -> NodeT_co: ...


def hinted(
    call: Call[object, _LeaderTypes[LeaderT_co]], hint: LeaderHint | None
) -> Hinted[LeaderT_co]:
    """Return the response's field `current_leader` with this hint; without a hint, no fields."""
    if hint is None:
        return {}
    leader = call.types.LeaderIdAndEpoch(
        leader_id=hint.broker.node_id, leader_epoch=hint.leader_epoch
    )
    return {"current_leader": leader}


def node_endpoints(
    call: Call[object, _NodeTypes[NodeT_co]], hints: dict[TopicPartition, LeaderHint]
) -> tuple[NodeT_co, ...]:
    return tuple(
        call.types.NodeEndpoint(node_id=one.node_id, host=one.host, port=one.port, rack=one.rack)
        for one in dict.fromkeys(hint.broker for hint in hints.values())
    )
