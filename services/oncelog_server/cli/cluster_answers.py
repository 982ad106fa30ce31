"""Types of the gateway's REST answers about nodes, topics, partitions, groups and tokens, as the commands read them.

Each type has the fields of the gateway's model with the same name; `tests/unit/cli/test_answers_of_rest.py` compares
them. The commands do not use the models themselves, because those need pydantic, which takes longer to load than a
command takes.
"""

from typing import TypedDict


class InPartition(TypedDict):
    """Any row of an answer that names a topic and a partition."""

    topic: str
    partition: int


class Failure(TypedDict):
    kafka_error_name: str
    kafka_error_code: int
    detail: str


class Page(TypedDict):
    total: int
    next_cursor: str | None
    incomplete: list[Failure]


class LsoHolder(TypedDict):
    transactional_id: str | None
    producer_id: int
    producer_epoch: int
    start_offset: int
    start_time_ms: int | None
    age_ms: int | None
    first_timestamp_ms: int | None
    first_record_age_ms: int | None
    idle_ms: int | None
    coordinator_epoch: int
    coordinator_state: str | None
    hanging: bool | None
    advice: str
    next_command: str | None


class ReassignmentFailure(Failure):
    topic: str
    partition: int


class RecordStatus(TypedDict):
    topic: str
    partition: int
    offset: int
    status: str
    read_committed: bool
    marker: str | None
    producer_id: int | None
    producer_epoch: int | None
    transactional_id: str | None
    transaction_start_offset: int | None
    marker_offset: int | None
    open_transaction: LsoHolder | None
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    last_stable_offset: int
    detail: str


class Token(TypedDict):
    name: str
    role: str
    created_time_ms: int
    created_by: str
    expires_time_ms: int
    is_expired: bool
    last_used_time_ms: int | None


class TokenPage(Page):
    tokens: list[Token]


class CreatedToken(Token):
    token: str


class PartitionStatus(TypedDict):
    topic: str
    partition: int
    leader: int | None
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    under_replicated: bool
    log_start_offset: int | None
    log_end_offset: int | None
    high_watermark: int | None
    last_stable_offset: int | None
    lso_lag: int | None
    size_bytes: int | None
    segment_count: int | None
    open_transaction_count: int | None
    lso_holder: LsoHolder | None
    failure: Failure | None


class PartitionPage(Page):
    partitions: list[PartitionStatus]


class ControllerStatus(TypedDict):
    controller_id: int
    rpc_address: str | None
    controller_epoch: int
    metadata_offset: int
    lease_remaining_ms: int | None


class ClusterNode(TypedDict):
    node_id: int
    node_epoch: int
    roles: list[str]
    rpc_address: str | None
    kafka_address: str | None
    rack: str | None
    fenced: bool
    draining: bool
    given: bool
    leader_count: int
    replica_count: int
    transaction_shard_count: int
    group_shard_count: int


class NodeStatus(ClusterNode):
    drained: bool


class NodePage(Page):
    controller: ControllerStatus | None
    nodes: list[NodeStatus]


class NodeChange(TypedDict):
    node: NodeStatus
    audit_id: str


class ReplicaMove(TypedDict):
    topic: str
    partition: int
    replicas: list[int]
    target_replicas: list[int]
    copy_count: int


class MoveStep(TypedDict):
    dry_run: bool
    moves: list[ReplicaMove]
    move_count: int
    copy_count: int
    left_count: int
    under_way_count: int
    failures: list[ReassignmentFailure]
    audit_id: str | None


class Reassignment(TypedDict):
    topic: str
    partition: int
    leader: int | None
    replicas: list[int]
    isr: list[int]
    adding_replicas: list[int]
    removing_replicas: list[int]


class ReassignmentPage(Page):
    reassignments: list[Reassignment]


class ReassignResult(TypedDict):
    partitions: list[Reassignment]
    failures: list[ReassignmentFailure]
    audit_id: str


class TopicSummary(TypedDict):
    name: str
    topic_id: str
    internal: bool
    partition_count: int
    replication_factor: int
    configs: dict[str, object]


class TopicRates(TypedDict):
    records_in: float
    bytes_in: float
    records_out: float
    bytes_out: float
    span_ms: int


class ListedTopic(TopicSummary):
    rates: TopicRates | None


class TopicPage(Page):
    topics: list[ListedTopic]


class FeatureLevel(TypedDict):
    feature: str
    level: int


class FeatureList(TypedDict):
    features_epoch: int
    features: list[FeatureLevel]


class ClusterTrouble(TypedDict):
    check: str
    severity: str
    subject: str
    what: str
    since_ms: int | None
    age_ms: int | None
    is_at_least: bool
    to_do: str
    command: str
    groups: list[str]
    page: str


class ClusterHealth(TypedDict):
    healthy: bool
    verdict: str
    troubles: list[ClusterTrouble]
    looked_at: dict[str, str]


class MarkerQueue(TypedDict):
    marker_sender: int
    node: int | None
    marker_count: int
    oldest_age_ms: int


class MarkerQueuePage(Page):
    marker_queues: list[MarkerQueue]


class Group(TypedDict):
    group_id: str
    state: str
    protocol_type: str
    group_type: str


class GroupPage(Page):
    groups: list[Group]


class GroupAssignment(TypedDict):
    topic: str
    partitions: list[int]


class GroupMember(TypedDict):
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    assignments: list[GroupAssignment] | None


class GroupDetail(Group):
    protocol_name: str
    coordinator: int
    members: list[GroupMember]


class RecordsAfter(TypedDict):
    records: int
    aborted: int
    markers: int
    is_whole: bool


class UnstableOffset(TypedDict):
    transactional_id: str | None
    producer_id: int
    coordinator_state: str | None
    age_ms: int | None


class GroupOffset(TypedDict):
    topic: str
    partition: int
    offset: int | None
    metadata: str
    log_end_offset: int | None
    lag: int | None
    readable: int | None
    held_back: int | None
    held_by: LsoHolder | None
    is_blocked: bool
    behind: RecordsAfter | None
    unstable_by: list[UnstableOffset]


class GroupOffsetPage(Page):
    group_id: str
    offsets: list[GroupOffset]
    total_lag: int
    total_readable: int
    total_held_back: int
    blocked_by: LsoHolder | None
    stands: str
