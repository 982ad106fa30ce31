"""Types of the gateway's REST answers about transactions, producers and sinks, as the commands read them.

As in `cluster_answers`, each type has the fields of the gateway's model with the same name.
"""

from typing import TypedDict

from oncelog_server.cli.cluster_answers import Page


class Transaction(TypedDict):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: str
    age_ms: int | None
    timeout_ms: int
    is_two_phase: bool
    prepared: str | None
    is_kept: bool
    owner_producer_id: int | None
    owner_producer_epoch: int | None
    is_late: bool
    start_time_ms: int | None
    last_update_time_ms: int | None
    partition_count: int
    transaction_version: int
    shard: int
    coordinator: int
    coordinator_epoch: int


class TransactionPartition(TypedDict):
    topic: str
    partition: int
    start_offset: int | None
    held_back: int | None


class PreparedTransaction(Transaction):
    partitions: list[TransactionPartition]
    held_back: int | None


class PreparedPage(Page):
    transactions: list[PreparedTransaction]


class CompleteResult(TypedDict):
    dry_run: bool
    completed: bool
    transactional_id: str
    prepared: str
    outcome: str
    audit_id: str
    detail: str


class TransactionPage(Page):
    transactions: list[Transaction]


class TransactionDetail(Transaction):
    partitions: list[TransactionPartition]
    held_back: int | None
    trace_id: str | None
    trace_url: str | None


class HangingTransaction(TypedDict):
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    start_offset: int
    coordinator_epoch: int
    first_timestamp_ms: int | None
    last_timestamp_ms: int | None
    idle_ms: int | None
    transactional_id: str | None
    coordinator_state: str | None
    coordinator: int | None
    abort: str


class HangingPage(Page):
    hanging: list[HangingTransaction]
    hidden_count: int
    checked_partitions: int
    open_transactions: int


class AbortResult(TypedDict):
    dry_run: bool
    aborted: bool
    topic: str
    partition: int
    start_offset: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    transactional_id: str | None
    coordinator_state: str | None
    audit_id: str
    detail: str


class TerminateResult(TypedDict):
    dry_run: bool
    terminated: bool
    transactional_id: str
    producer_id: int
    producer_epoch: int
    state_before: str
    start_time_ms: int | None
    audit_id: str
    detail: str


class TimelineEvent(TypedDict):
    id: str
    time_ms: int
    role: str
    node: int
    kind: str
    text: str
    fields: dict[str, str | int]


class EventPage(TypedDict):
    events: list[TimelineEvent]
    since_ms: int | None
    missing: str


class Timeline(EventPage):
    transactional_id: str
    producer_id: int | None
    producer_epoch: int | None
    state: str | None


class ActiveProducer(TypedDict):
    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp_ms: int | None
    coordinator_epoch: int
    current_txn_start_offset: int | None
    transactional_id: str | None


class ProducerPage(Page):
    producers: list[ActiveProducer]


class EvidenceRow(TypedDict):
    name: str
    value: str
    source: str


class CommandRow(TypedDict):
    command: str
    does: str
    is_safe: bool


class Explanation(TypedDict):
    subject: str
    kind: str
    incident: str
    verdict: str
    findings: list[str]
    evidence: list[EvidenceRow]
    next_commands: list[CommandRow]
    unknown: list[str]


class SinkSummary(TypedDict):
    sink: str
    kind: str
    query_id: str
    last_committed_batch_id: int | None
    last_used_time_ms: int | None
    attempt_count: int


class SinkPage(Page):
    sinks: list[SinkSummary]


class SinkBranch(TypedDict):
    task_partition: int
    task_attempt_id: int
    producer_id: int
    producer_epoch: int
    sealed: bool
    row_count: int


class SinkAttempt(TypedDict):
    nonce: str
    batch_id: int | None
    state: str
    opened_time_ms: int
    deadline_ms: int
    branches: list[SinkBranch]


class SinkDecision(TypedDict):
    batch_id: int
    nonce: str
    branch_count: int
    row_count: int
    row_checksum: str | None
    decided_time_ms: int


class Sink(TypedDict):
    sink: str
    query_id: str
    sink_epoch: int
    last_committed_batch_id: int | None
    attempts: list[SinkAttempt]
    decisions: list[SinkDecision]
