"""The events of Spark sinks, and their answers. The fields mirror `coordinator.proto`; its comments explain them.

An attempt is one try to write a micro-batch; a branch is one task's share of it, with a producer id of its own.

Every event with a `request_id` is answered once. An answer has two halves. `error_code` says that the call itself
failed: a bad argument, no producer id at hand, a bound reached. `answer` says whether the attempt, branch or batch was
accepted, skipped or fenced; each of these is expected. `error_message` is for people in both cases.
"""

from dataclasses import dataclass
from typing import NamedTuple

from oncelog.errors import ErrorCode
from oncelog.ids import Millis, Partition, ProducerEpoch, ProducerId, Sequence
from oncelog.sink_answer import SinkAnswer
from oncelog_coordinator.core.sink_records import UNKNOWN
from oncelog_coordinator.core.txn_events import AddPartitions, VerifyPartitions
from oncelog_coordinator.core.txn_state import TxnMetadata


@dataclass(frozen=True, slots=True)
class OpenAttempt:
    request_id: int
    sink: str
    nonce: bytes
    timeout_ms: Millis
    """The timeout of the attempt in milliseconds; 0: the machine's default."""


@dataclass(frozen=True, slots=True)
class JoinAttempt:
    request_id: int
    sink: str
    nonce: bytes
    query_id: str
    run_id: str
    """The id of the query's run. It is empty for a batch job, which has none: such a run is never refused as
    superseded."""
    batch_id: int
    task_partition: int
    task_attempt_id: int
    adopt_query: bool = False
    producer_id: ProducerId | None = None
    """A fresh producer id, added by the shell when `wants_producer_id` says so; None when the shell has none."""


@dataclass(frozen=True, slots=True)
class SealBranch:
    request_id: int
    sink: str
    nonce: bytes
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    last_sequences: tuple[tuple[Partition, Sequence], ...]
    row_count: int
    crc32c: int
    row_checksum: int = UNKNOWN


@dataclass(frozen=True, slots=True)
class BranchMessage:
    """The message that one Spark task returned to its driver: with which branch (its producer id) it wrote, or that it
    skipped the batch.
    """

    nonce: bytes
    query_id: str
    skipped: bool
    task_partition: int = -1
    producer_id: ProducerId = ProducerId(-1)
    producer_epoch: ProducerEpoch = ProducerEpoch(-1)
    row_count: int = 0
    """The number of rows that the task wrote; of a skipped task, the number that it would have written."""
    row_checksum: int = UNKNOWN
    """The checksum of those rows, stated only by a skipped task. UNKNOWN: the task did not look at its rows
    (`verifyReplay=false`)."""


@dataclass(frozen=True, slots=True)
class CommitBatch:
    request_id: int
    sink: str
    batch_id: int
    messages: tuple[BranchMessage, ...]


@dataclass(frozen=True, slots=True)
class AbortAttempt:
    request_id: int
    sink: str
    nonces: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class DescribeSink:
    request_id: int
    sink: str


@dataclass(frozen=True, slots=True)
class ListSinks:
    request_id: int


@dataclass(frozen=True, slots=True)
class DeleteSink:
    """An operator's request to remove a Spark sink, and with it the knowledge which batches were committed."""

    request_id: int
    sink: str


AnsweredEvent = (
    OpenAttempt
    | JoinAttempt
    | SealBranch
    | CommitBatch
    | AbortAttempt
    | AddPartitions
    | VerifyPartitions
    | DescribeSink
    | ListSinks
    | DeleteSink
)


@dataclass(frozen=True, slots=True)
class AttemptTimedOut:
    """A timer's event: an attempt (one try to write a Spark micro-batch) may have passed its deadline, and is then
    aborted.

    The wall clock may have been set back. `waited_for` is set once the timer has waited the attempt's whole timeout.
    The attempt with this deadline is then aborted, even if the clock shows an earlier time.
    """

    sink: str
    nonce: bytes
    waited_for: Millis | None = None


@dataclass(frozen=True, slots=True)
class MarkersOverdue:
    """A timer's event: the markers of an attempt (a try to write a Spark micro-batch) could not be delivered. They are
    sent again.
    """

    sink: str
    nonce: bytes


@dataclass(frozen=True, slots=True)
class ExpireSinks:
    """A timer's event: remove the sinks of Spark batch jobs that were not used for long."""


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """The base of all answers to calls about a Spark sink, and the whole answer to DeleteSink. Its error says that the
    call failed, such as a bad argument; whether a sink's write was accepted is told by `answer` of its subclasses.
    """

    error_code: ErrorCode = ErrorCode.NONE
    error_message: str = ""


@dataclass(frozen=True, slots=True)
class AbortAnswer(CallAnswer):
    aborted: int = 0


@dataclass(frozen=True, slots=True)
class AttemptAnswer(CallAnswer):
    """The answer to SealBranch and CommitBatch, and the base of those to OpenAttempt and JoinAttempt.

    `answer` says whether the request was accepted, skipped or fenced.
    """

    answer: SinkAnswer = SinkAnswer.OK


@dataclass(frozen=True, slots=True)
class OpenAnswer(AttemptAnswer):
    sink_epoch: int = 0


@dataclass(frozen=True, slots=True)
class JoinAnswer(AttemptAnswer):
    producer_id: ProducerId = ProducerId(-1)
    producer_epoch: ProducerEpoch = ProducerEpoch(-1)
    transactional_id: str = ""


@dataclass(frozen=True, slots=True)
class BranchDescription:
    task_partition: int
    task_attempt_id: int
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    sealed: bool
    row_count: int


@dataclass(frozen=True, slots=True)
class AttemptDescription:
    nonce: bytes
    batch_id: int
    """The id of the attempt's batch; -1 before the first join."""
    state: str
    """The state of the attempt: Open, Committing or Aborting."""
    opened_time_ms: Millis
    """The time at which the attempt was opened, in milliseconds; -1: unknown, the attempt is being removed."""
    deadline_ms: Millis
    """The time at which the attempt times out, in milliseconds; -1: it is decided and has no deadline."""
    branches: tuple[BranchDescription, ...]


@dataclass(frozen=True, slots=True)
class DecisionDescription:
    batch_id: int
    nonce: bytes
    branch_count: int
    row_count: int
    decided_time_ms: Millis
    row_checksum: int | None
    """The checksum of the committed rows; None: unknown."""


@dataclass(frozen=True, slots=True)
class SinkDescription:
    error_code: ErrorCode
    sink: str
    query_id: str = ""
    last_committed_batch_id: int = -1
    sink_epoch: int = 0
    attempts: tuple[AttemptDescription, ...] = ()
    decisions: tuple[DecisionDescription, ...] = ()
    """The decisions that the sink remembers, the newest last."""


@dataclass(frozen=True, slots=True)
class SinkListing:
    sink: str
    query_id: str
    is_job: bool
    """True for the sink of a batch job, which expires."""
    last_committed_batch_id: int
    last_used_ms: Millis
    """The time at which the sink was last used, in milliseconds; -1: unknown."""
    attempt_count: int
    """The number of attempts that are open or whose markers are under way."""


@dataclass(frozen=True, slots=True)
class ListSinksAnswer:
    error_code: ErrorCode
    sinks: tuple[SinkListing, ...]


class LiveBranch(NamedTuple):
    """One Spark task's branch (its producer id and transaction) whose markers are not all written yet."""

    sink: str
    nonce: bytes
    """The nonce of the attempt that an operator's abort has to end: branches end only together."""
    transaction: TxnMetadata
    """The branch as a transaction, for Kafka's DescribeTransactions and ListTransactions: the audit of hanging ones
    must see it."""
