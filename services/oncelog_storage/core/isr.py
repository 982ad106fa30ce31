"""The ISR that a leader proposes to the controller, and what is done about a damaged copy (KIP-497, KIP-966)."""

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from oncelog.errors import ErrorCode
from oncelog_storage.core.messages import NodeFacts
from oncelog_storage.core.partition import PartitionReplica

NEWER_EPOCHS = frozenset(
    {
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.NEW_LEADER_ELECTED,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
"""Error codes that mean: the controller has newer metadata than this node, perhaps because of this very proposal.

Only the next metadata image settles such a proposal.
"""


def isr_to_propose(
    partition: PartitionReplica,
    now_s: float,
    lag_max_s: float,
    is_eligible: Callable[[int, int], bool],
) -> list[int] | None:
    """Return the ISR that the leader should propose; None if the current one is right.

    Replicas that have not kept up are left out. If there are none, one replica that has caught up is added.
    `is_eligible(node_id, node_epoch)` says that this process is alive and not draining. `now_s` is monotonic.
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
    """True if the node is alive, is not draining, and is still the process that has fetched."""
    return (
        node is not None and not node.fenced and not node.draining and node.node_epoch == node_epoch
    )


class DamageStep(Enum):
    """The next step of this node for its damaged copy of a partition, until the copy is fetched anew from another
    replica.
    """

    WAIT = "wait"
    """Do nothing: there is no other copy to repair from, or a proposal is under way."""
    LEAVE = "leave"
    """Propose an ISR without this node, so that another member of the ISR leads."""
    STOP_FOLLOWING = "stop following"
    """Stop fetching. This copy is still in the ISR, and its leader has to remove it."""
    COPY_AGAIN = "copy again"


class Damage(NamedTuple):
    step: DamageStep
    others: list[int]
    """The ISR without this node, for LEAVE."""


def after_damage(
    partition: PartitionReplica,
    node_id: int,
    replicas: Sequence[int],
    isr: Sequence[int],
    leader: int,
) -> Damage:
    """Return the next step for a damaged copy of a partition.

    A damaged copy first leaves the ISR by its own proposal. Only then is it dropped and fetched again. A leader hands
    over to another in-sync replica. If there is none, the copy stays as it is: there is nothing to repair from.
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
