"""Pydantic models that REST's routes share. Times are milliseconds; `null` means "none" or "not known"."""

from collections.abc import Callable, Sequence
from typing import Annotated, Final, Literal, TypedDict, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from oncelog.errors import KafkaError
from oncelog_gateway.core.held_back import HELD_BACK
from oncelog_gateway.core.paging import Key, PageRequest, page_of
from oncelog_gateway.core.topic_configs import JSON_INTEGER_MAX

TransactionState = Literal[
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
]

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
TopicName = Annotated[str, Field(min_length=1, max_length=249, examples=["orders"])]
PartitionIndex = Annotated[int, Field(ge=0, le=INT32_MAX, examples=[0])]
RowT = TypeVar("RowT")


def known_or_none(value: int | None) -> int | None:
    """Return the value, but None for -1, by which Kafka says "not known". REST writes None as null."""
    return value if value is not None and value >= 0 else None


KnownOrNone = Annotated[int | None, BeforeValidator(known_or_none)]
"""A number for which Kafka's -1 becomes null in REST."""


class Resource(BaseModel):
    model_config = ConfigDict(frozen=True, from_attributes=True)


ResourceT = TypeVar("ResourceT", bound=Resource)
_ABSENT: Final = object()


def resource_of(kind: type[ResourceT], source: object, /, **given: object) -> ResourceT:
    """Return a model of this kind, with the `given` fields. The other fields are copied from attributes of the same
    names of `source`, a role's answer.

    A field that is in neither needs a default. Declare it `KnownOrNone` where the answer says -1 for "not known".
    """
    for name in kind.model_fields:
        if name not in given and (found := getattr(source, name, _ABSENT)) is not _ABSENT:
            given[name] = found
    return kind.model_validate(given)


class RequestBody(BaseModel):
    """A body that is read strictly: a misspelt field or a number in quotes is told, not ignored."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _whole_numbers(cls, given: object) -> object:
        """Turn floats without a fraction into integers. To JSON Schema 5.0 is an integer; to Python it is a float."""
        if not isinstance(given, dict):
            return given
        return {
            name: [_whole(one) for one in value] if isinstance(value, list) else _whole(value)
            for name, value in given.items()
        }


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


class Failure(Resource):
    """A part of the answer that could not be read, while the rest could."""

    kafka_error_name: str
    kafka_error_code: int
    detail: str


class Page(Resource):
    """The fields of every list beside its rows."""

    total: int = Field(description="rows that match the filters, over all pages")
    next_cursor: str | None = Field(
        None, description="give it as `cursor` for the next page; null: this is the last"
    )
    incomplete: list[Failure] = Field(
        default_factory=list,
        description="nodes and partitions that did not answer; empty: all did",
    )


def failure_of(error: KafkaError) -> Failure:
    return Failure(
        kafka_error_name=error.error_code.name,
        kafka_error_code=error.error_code.value,
        detail=error.message,
    )


class PageFields(TypedDict):
    total: int
    next_cursor: str | None
    incomplete: list[Failure]


def paged(
    rows: Sequence[RowT],
    key: Callable[[RowT], Key],
    paging: PageRequest,
    failures: Sequence[KafkaError] = (),
) -> tuple[list[RowT], PageFields]:
    """Return the rows of the requested page, and the fields that a `Page` has besides its rows. Raises KafkaError for
    an invalid cursor.
    """
    page, next_cursor = page_of(rows, key, paging)
    incomplete = [failure_of(failure) for failure in failures]
    return page, {"total": len(rows), "next_cursor": next_cursor, "incomplete": incomplete}


class Transaction(Resource):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str = Field(description="Kafka's name of the state at the coordinator")
    age_ms: int | None = Field(
        description="since the open transaction began; null when none is open"
    )
    timeout_ms: int
    is_two_phase: bool = Field(
        description="its application decides it together with another system, and no timeout ends it (KIP-939)"
    )
    prepared: str | None = Field(
        description="the text to compare with what the application stored; null: no two-phase transaction is open",
        examples=["42:7"],
    )
    is_kept: bool = Field(
        description="another producer of this id came, and the open transaction was kept for it: it may only be ended"
    )
    owner_producer_id: int | None = Field(
        description="of the producer that may end the open transaction; null: none is open"
    )
    owner_producer_epoch: int | None
    is_late: bool = Field(description="open for longer than its timeout")
    start_time_ms: int | None
    last_update_time_ms: KnownOrNone
    partition_count: int
    transaction_version: int = Field(
        description="of the client, in its newest transaction: from 2 on each transaction has a producer epoch of its "
        "own (KIP-890), below it many have the same; 0 as well where it has begun none"
    )
    shard: int = Field(description="partition of __transaction_state")
    coordinator: int = Field(description="node id")
    coordinator_epoch: int


class TransactionPage(Page):
    transactions: list[Transaction]


class MarkerQueue(Resource):
    """Markers of decided transactions that wait for one node at one marker sender."""

    marker_sender: int = Field(description="node id")
    node: int | None = Field(description="node id; null: the partitions have no leader now")
    marker_count: int = Field(description="one for each partition, those in flight included")
    oldest_age_ms: int = Field(description="since the decision of the oldest")


class MarkerQueuePage(Page):
    marker_queues: list[MarkerQueue]


class TransactionPartition(Resource):
    topic: str
    partition: int
    start_offset: int | None = Field(
        description="of its first record here; null: nothing written yet, or the leader did not say"
    )
    held_back: int | None = Field(
        description=f"{HELD_BACK}; 0 where another transaction began before it; null: the leader did not say"
    )


_HELD_BACK: Final = Field(description=f"{HELD_BACK}; null: a leader did not say")


class PreparedTransaction(Transaction):
    """A two-phase transaction that is open. Its application's database says whether it is prepared."""

    partitions: list[TransactionPartition]
    held_back: int | None = _HELD_BACK


class PreparedPage(Page):
    transactions: list[PreparedTransaction] = Field(description="the oldest first")


class TransactionDetail(Transaction):
    partitions: list[TransactionPartition]
    held_back: int | None = _HELD_BACK
    trace_id: str | None = Field(
        description="of its newest transaction, kept or not; null: its coordinator records no traces"
    )
    trace_url: str | None = Field(
        description="where the setting trace_url finds it; null: no setting, or no trace"
    )


class LsoHolder(Resource):
    """The open transaction that keeps the last stable offset where it is."""

    transactional_id: str | None = Field(
        description="null when no coordinator knows the producer id"
    )
    producer_id: int
    producer_epoch: int
    start_offset: int
    start_time_ms: int | None = Field(
        None, description="when it began, by its coordinator; null: no coordinator has it open"
    )
    age_ms: int | None = Field(description="since it began, by its coordinator")
    first_timestamp_ms: int | None = Field(
        None,
        description="of one that hangs: the timestamp of its first record in this partition; null: not hanging, or "
        "that record is gone",
    )
    first_record_age_ms: int | None = Field(None, description="since that record")
    idle_ms: int | None = Field(
        description="since its last sign of life: the timestamp of its last record in this partition"
    )
    coordinator_epoch: int = Field(
        description="of the last marker for this producer id here; -1: none yet"
    )
    coordinator_state: str | None = Field(description="of the transactional id at its coordinator")
    hanging: bool | None = Field(
        description="open here and not at its coordinator: nobody will end it. null: the coordinator did not answer"
    )
    advice: str = Field(description="what will end it, and the command for it where there is one")
    next_command: str | None = Field(None, description="that command alone")


class PartitionStatus(Resource):
    topic: str
    partition: int
    leader: int | None
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    under_replicated: bool = Field(description="some replica is not in sync")
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    lso_lag: int | None = Field(
        None,
        description="high watermark less last stable offset: records read_committed cannot reach yet",
    )
    size_bytes: int | None = None
    segment_count: int | None = None
    open_transaction_count: int | None = None
    lso_holder: LsoHolder | None = None
    failure: Failure | None = Field(None, description="why the offsets are missing")

    @property
    def is_troubled(self) -> bool:
        """True if an operator may have to look at the partition."""
        return bool(self.lso_lag) or self.under_replicated or self.failure is not None


class PartitionPage(Page):
    partitions: list[PartitionStatus]


class ActiveProducer(Resource):
    producer_id: int
    producer_epoch: int
    last_sequence: KnownOrNone
    last_timestamp_ms: KnownOrNone
    coordinator_epoch: int
    current_txn_start_offset: KnownOrNone = Field(description="null: no transaction open here")
    transactional_id: str | None = Field(
        description="null: idempotent only, or unknown to every coordinator. Its client.id is not known: leaders keep "
        "none with a producer"
    )


class ProducerPage(Page):
    producers: list[ActiveProducer]


class HangingTransaction(Resource):
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    start_offset: int
    coordinator_epoch: int = Field(
        description="of the last marker this producer id got here; -1: none yet"
    )
    first_timestamp_ms: int | None = Field(
        None, description="of its first record here, by its producer; null: that record is gone"
    )
    last_timestamp_ms: KnownOrNone = Field(description="of its last record here, by its producer")
    idle_ms: int | None = Field(
        description="since that record: what Kafka's find-hanging calls the duration"
    )
    transactional_id: str | None
    coordinator_state: str | None
    coordinator: int | None = Field(
        description="node that coordinates this transactional.id now; null: none, or the id is not known"
    )
    abort: str = Field(description="the command that ends it")


class HangingPage(Page):
    hanging: list[HangingTransaction]
    hidden_count: int = Field(
        description="hanging too, and left out by `min_idle_ms`, `max_transaction_timeout_ms` or `coordinator`"
    )
    checked_partitions: int
    open_transactions: int


class AbortRequest(RequestBody):
    topic: TopicName
    partition: PartitionIndex
    start_offset: int = Field(
        ge=0,
        le=JSON_INTEGER_MAX,
        description="exactly the first offset of the transaction in this partition",
    )
    producer_epoch: int | None = Field(
        None, ge=0, le=32767, description="exactly the producer epoch, as a second lock; optional"
    )
    dry_run: bool = Field(True, description="show what would be written, write nothing")


class AbortResult(Resource):
    dry_run: bool
    aborted: bool
    topic: str
    partition: int
    start_offset: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int = Field(description="that the marker carries")
    transactional_id: str | None
    coordinator_state: str | None
    audit_id: str
    detail: str


class TerminateRequest(RequestBody):
    dry_run: bool = Field(True, description="show what would be ended, end nothing")
    start_time_ms: int | None = Field(
        None,
        ge=0,
        description="as the dry run answered: only the transaction that began then is ended, not the next one",
    )


class TerminateResult(Resource):
    dry_run: bool
    terminated: bool
    transactional_id: str
    producer_id: int
    producer_epoch: int
    state_before: str
    start_time_ms: int | None = Field(description="null: no transaction was open")
    audit_id: str
    detail: str


class CompleteRequest(RequestBody):
    prepared: str = Field(
        pattern=r"^[0-9]{1,19}:[0-9]{1,5}$",
        description="as the application stored it, `producer id:epoch`: only this transaction is ended",
        examples=["42:7"],
    )
    outcome: Literal["commit", "abort"]
    dry_run: bool = Field(True, description="show what would be decided, decide nothing")


class CompleteResult(Resource):
    dry_run: bool
    completed: bool
    transactional_id: str
    prepared: str
    outcome: Literal["commit", "abort"]
    audit_id: str
    detail: str


class SinkBranch(Resource):
    task_partition: int
    task_attempt_id: int
    producer_id: int
    producer_epoch: int
    sealed: bool
    row_count: int


class SinkAttempt(Resource):
    nonce: str = Field(description="hexadecimal")
    batch_id: KnownOrNone
    state: str
    opened_time_ms: int
    deadline_ms: int
    branches: list[SinkBranch]


class SinkDecision(Resource):
    batch_id: int
    nonce: str
    branch_count: int
    row_count: int
    row_checksum: str | None = Field(
        description="hexadecimal; null: decided by an older version, or by tasks that reported none"
    )
    decided_time_ms: int


class Sink(Resource):
    sink: str
    query_id: str
    sink_epoch: int
    last_committed_batch_id: KnownOrNone
    attempts: list[SinkAttempt]
    decisions: list[SinkDecision] = Field(description="the newest last")


class SinkSummary(Resource):
    sink: str
    kind: Literal["stream", "job"] = Field(description="a job's sink expires when it is not used")
    query_id: str
    last_committed_batch_id: KnownOrNone
    last_used_time_ms: KnownOrNone = Field(description="null: unknown")
    attempt_count: int = Field(description="open, or with markers under way")


class SinkPage(Page):
    sinks: list[SinkSummary]


class ClusterNode(Resource):
    node_id: int
    node_epoch: int
    roles: list[str]
    rpc_address: str | None
    kafka_address: str | None
    rack: str | None
    fenced: bool
    draining: bool
    given: bool = Field(
        description="the controller gave it its node id, and forgets it when it ends"
    )
    leader_count: int
    replica_count: int
    transaction_shard_count: int
    group_shard_count: int


class ClusterStatus(Resource):
    cluster_id: str
    controller: int
    controller_epoch: int
    metadata_offset: int
    topic_count: int = Field(description="with Kafka's own, which lists leave out")
    transaction_shard_count: int
    group_shard_count: int
    leaderless_partition_count: int
    unowned_shard_count: int
    features_epoch: int
    features: dict[str, int]
    nodes: list[ClusterNode]


class Health(Resource):
    status: Literal["alive"] = "alive"


class ReadinessCheck(Resource):
    name: str
    ok: bool
    detail: str


class Readiness(Resource):
    ready: bool
    checks: list[ReadinessCheck]
