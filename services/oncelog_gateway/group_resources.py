"""Pydantic models of consumer groups in REST: what answers contain, and the bodies of requests."""

from typing import Literal

from pydantic import Field

from oncelog_gateway.core.held_back import HELD_BACK
from oncelog_gateway.core.topic_configs import JSON_INTEGER_MAX
from oncelog_gateway.resources import (
    LsoHolder,
    Page,
    PartitionIndex,
    RequestBody,
    Resource,
    TopicName,
)


class Group(Resource):
    group_id: str
    state: str = Field(description="Kafka's name: Empty, PreparingRebalance, Stable …")
    protocol_type: str = Field(description="`consumer` for consumers; empty: offsets only")
    group_type: str


class GroupPage(Page):
    groups: list[Group]


class GroupAssignment(Resource):
    topic: str
    partitions: list[int]


class GroupMember(Resource):
    member_id: str
    group_instance_id: str | None = Field(description="null: not a static member")
    client_id: str
    client_host: str
    assignments: list[GroupAssignment] | None = Field(
        description="null: the leader assigned in a language of its own"
    )


class GroupDetail(Group):
    protocol_name: str = Field(description="the assignor the members agreed on")
    coordinator: int = Field(description="node id")
    members: list[GroupMember]


class UnstableOffset(Resource):
    """The open transaction that is about to commit this offset. Clients that want stable offsets wait until it ends."""

    transactional_id: str | None = Field(
        description="null when no coordinator knows the producer id, or one did not answer"
    )
    producer_id: int
    coordinator_state: str | None
    age_ms: int | None = Field(description="since it began, by its coordinator")


class RecordsAfter(Resource):
    """The records after an offset, counted batch by batch: an offset is not always a record that a reader gets."""

    records: int = Field(description="that a read_committed reader gets")
    aborted: int
    markers: int
    is_whole: bool = Field(
        description="false: counted up to an open transaction, or the first MiB; more follows"
    )


class GroupOffset(Resource):
    topic: str
    partition: int
    offset: int | None = Field(
        description="the next to be read; null: nothing is committed but by an open transaction"
    )
    metadata: str
    log_end_offset: int | None = Field(description="null: the leader did not say, or it is deleted")
    lag: int | None = Field(
        description="offsets not read yet, markers and what is open or aborted included: `readable` and `held_back` "
        "together"
    )
    readable: int | None = Field(
        description="of the lag, offsets up to the last stable offset: what read_committed can pass now"
    )
    held_back: int | None = Field(description=f"of the lag, {HELD_BACK}")
    held_by: LsoHolder | None = Field(
        description="the transaction that holds them back; null: none is held back"
    )
    is_blocked: bool = Field(
        description="something is held back, and no record is left to read before it"
    )
    behind: RecordsAfter | None = Field(
        None, description="with `count_records`; null: nothing is behind, or it was not counted"
    )
    unstable_by: list[UnstableOffset] = Field(
        default_factory=list, description="transactions that are about to change it"
    )


class GroupOffsetPage(Page):
    group_id: str
    offsets: list[GroupOffset]
    total_lag: int = Field(description="of all pages")
    total_readable: int = Field(description="of all pages")
    total_held_back: int = Field(description="of all pages")
    blocked_by: LsoHolder | None = Field(
        description="of the transactions that block the group, the one that does for the longest; null: none does"
    )
    stands: str = Field(
        description="in words, where it stands",
        examples=["blocked by pay-7 for 2 min", "behind by 12"],
    )


class ToOffset(RequestBody):
    offset: int = Field(
        ge=0, le=JSON_INTEGER_MAX, description="one outside the log becomes its nearer end"
    )


class ToTimestamp(RequestBody):
    timestamp_ms: int = Field(
        ge=0,
        le=JSON_INTEGER_MAX,
        description="the first record that is not older; without one, the end",
    )


class ResetOffsetsRequest(RequestBody):
    topic: TopicName
    partitions: list[PartitionIndex] | None = Field(
        None, min_length=1, max_length=10_000, description="null: every partition"
    )
    to: Literal["earliest", "latest"] | ToOffset | ToTimestamp = Field(examples=["earliest"])
    dry_run: bool = Field(True, description="show where it would go, move nothing")


class OffsetMove(Resource):
    topic: str
    partition: int
    offset_before: int | None = Field(description="null: nothing was committed")
    offset: int = Field(description="the next to be read, after the move")


class ResetOffsets(Resource):
    group_id: str
    offsets: list[OffsetMove]
    dry_run: bool
    audit_id: str
