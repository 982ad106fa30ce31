"""Which in-sync replicas a leader asks the controller for, and what becomes of a damaged copy (KIP-497, KIP-966)."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from oncelog.errors import ErrorCode
from oncelog_storage.core.messages import NodeFacts
from oncelog_storage.core.partition import Partition

NEWER_EPOCHS = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
"""The controller is further than the image here, perhaps by this very proposal: only the image settles it."""


def isr_to_propose(
    partition: Partition,
    now_s: float,
    lag_max_s: float,
    is_eligible: Callable[[int, int], bool],
) -> list[int] | None:
    """Without those that have not kept up; else with one that has caught up. None: it is as it should be.

    `is_eligible(node_id, node_epoch)`: that process is alive and wants to stay. `now_s` is monotonic.
    """
    state = partition.replicas
    if state is None:
        return None
    late = state.out_of_sync(now_s, lag_max_s)
    if late:
        return [node for node in state.isr if node not in late]
    for node_id, progress in state.followers.items():
        if state.may_join(node_id, partition.high_watermark) and is_eligible(
            node_id, progress.node_epoch
        ):
            return [*state.isr, node_id]
    return None


def is_eligible(node: NodeFacts | None, node_epoch: int) -> bool:
    """It is alive, wants to stay, and is the process that has fetched."""
    return (
        node is not None and not node.fenced and not node.draining and node.node_epoch == node_epoch
    )


class DamageStep(Enum):
    """What a damaged copy does."""

    WAIT = "wait"
    """There is nothing to repair from, or something is under way."""
    LEAVE = "leave"
    """Hand over to the other members of the ISR."""
    STOP_FOLLOWING = "stop following"
    """Not yet out of the ISR: its leader has to take it out."""
    COPY_AGAIN = "copy again"


class Damage(NamedTuple):
    step: DamageStep
    others: list[int]
    """For LEAVE: the ISR without this node."""


def after_damage(
    partition: Partition, node_id: int, replicas: Sequence[int], isr: Sequence[int], leader: int
) -> Damage:
    """A damaged copy leaves the in-sync replicas, by its own word, before it is dropped and fetched again.

    As a leader it hands over to another in-sync replica; alone it stays as it is: there is nothing to repair from.
    """
    if len(replicas) <= 1 or node_id not in replicas:
        return Damage(DamageStep.WAIT, [])
    state = partition.replicas
    if state is not None:
        others = [node for node in state.isr if node != node_id]
        is_open = bool(others) and state.pending is None
        return Damage(DamageStep.LEAVE if is_open else DamageStep.WAIT, others)
    if node_id in isr or leader < 0:
        return Damage(DamageStep.STOP_FOLLOWING, [])
    return Damage(DamageStep.COPY_AGAIN, [])
