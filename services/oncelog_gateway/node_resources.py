"""Pydantic models of nodes, the controller and reassignments in REST: what answers contain, and the bodies
of requests.
"""

from typing import Annotated

from pydantic import AfterValidator, Field

from oncelog.errors import KafkaError
from oncelog.ids import Partition
from oncelog_gateway.resources import (
    INT32_MAX,
    ClusterNode,
    Failure,
    KnownOrNone,
    Page,
    PartitionIndex,
    RequestBody,
    Resource,
    TopicName,
    failure_of,
)

REPLICAS_MAX = 32
NODES_MAX = 1000
IN_MOTION_DEFAULT = 10
MOVES_SHOWN_MAX = 1000


def _different(node_ids: list[int]) -> list[int]:
    if len(frozenset(node_ids)) != len(node_ids):
        raise ValueError("a node is named twice")
    return node_ids


ReplicaIds = Annotated[
    list[Annotated[int, Field(ge=1, le=INT32_MAX)]],
    AfterValidator(_different),
    Field(
        min_length=1,
        max_length=REPLICAS_MAX,
        json_schema_extra={"uniqueItems": True},
        examples=[[1]],
    ),
]


class NodeStatus(ClusterNode):
    drained: bool = Field(
        description="it is draining, and has nothing left that another node could take over"
    )


class ControllerStatus(Resource):
    """The active controller, as it describes itself."""

    controller_id: int
    rpc_address: str | None = Field(description="null: it is part of this process")
    controller_epoch: int
    metadata_offset: int
    lease_remaining_ms: int | None = Field(description="null: the only controller needs no lease")


class NodePage(Page):
    controller: ControllerStatus | None = Field(
        description="null: no controller answers now; `incomplete` says why"
    )
    nodes: list[NodeStatus]


class NodeChange(Resource):
    node: NodeStatus
    audit_id: str


NodeIds = Annotated[
    list[Annotated[int, Field(ge=1, le=INT32_MAX)]],
    AfterValidator(_different),
    Field(
        min_length=1,
        max_length=NODES_MAX,
        json_schema_extra={"uniqueItems": True},
        examples=[[104]],
    ),
]


class BalanceRequest(RequestBody):
    dry_run: bool = Field(True, description="show what would move, move nothing")
    in_motion_max: int = Field(
        IN_MOTION_DEFAULT,
        ge=1,
        le=1000,
        description="partitions of the cluster that copy replicas at once; the rest waits for the next request",
    )


class EvacuateRequest(BalanceRequest):
    node_ids: NodeIds = Field(description="storage nodes that are to have no replica")


class ReplicaMove(Resource):
    topic: str
    partition: int
    replicas: list[int] = Field(
        description="as they are, or will be when what is under way is done"
    )
    target_replicas: list[int]
    copy_count: int = Field(description="replicas that are copied; 0: only the order changes")


class MoveStep(Resource):
    """A plan of moves, and how much of it this request began."""

    dry_run: bool
    moves: list[ReplicaMove] = Field(
        description=f"what this request began; with dry_run the first {MOVES_SHOWN_MAX} of all"
    )
    move_count: int = Field(description="partitions that were still to be moved before it")
    copy_count: int = Field(description="replicas that were still to be copied before it")
    left_count: int = Field(
        description="partitions that are not where they should be, those under way among them; 0: it is done"
    )
    under_way_count: int = Field(description="partitions of the cluster that copy replicas now")
    failures: list["ReassignmentFailure"]
    audit_id: str | None = Field(description="null with dry_run")


class ReassignRequest(RequestBody):
    topic: TopicName
    partition: PartitionIndex | None = Field(None, description="null: every partition")
    replicas: ReplicaIds = Field(
        description="all of them, the preferred leader first; for a whole topic each partition "
        "begins one further, so that leaders spread"
    )


class Reassignment(Resource):
    topic: str
    partition: int
    leader: KnownOrNone
    replicas: list[int] = Field(description="those to be removed are still among them")
    isr: list[int]
    adding_replicas: list[int]
    removing_replicas: list[int]


class ReassignmentPage(Page):
    reassignments: list[Reassignment]


class ReassignmentFailure(Failure):
    topic: str
    partition: int


def reassignment_failure(partition: Partition, error: KafkaError) -> ReassignmentFailure:
    return ReassignmentFailure(
        topic=partition.topic,
        partition=partition.partition,
        **failure_of(error).model_dump(),
    )


class ReassignResult(Resource):
    partitions: list[Reassignment] = Field(
        description="what was accepted; with nothing to add or remove, it is done"
    )
    failures: list[ReassignmentFailure]
    audit_id: str
