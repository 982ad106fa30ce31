"""The sink's five calls to the coordinator about an attempt, and what their answers mean for Spark.

An attempt is one try of one micro-batch. The driver opens it before any task runs. Each task joins it with a branch (a
producer id of its own), and seals that branch when all its rows are written. The driver commits the batch by naming the
winning branches: one record at the coordinator decides. Spark repeats every step after failures and may run two drivers
at once; the nonce, new for each try, is what tells tries apart. Each call may be repeated with the same arguments, so a
lost answer is asked for again.
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from oncelog.client.cluster import Cluster
from oncelog.client.connection import PrivateRequest
from oncelog.errors import OncelogError
from oncelog.ids import Partition, is_job_sink
from oncelog.protocol.any_version import AnyMessage
from oncelog.protocol.private_api import KEY_OF_METHOD, PRIVATE_CALLS
from oncelog.sink_answer import SinkAnswer
from oncelog.telemetry import spans

NONCE_BYTES: Final = 16

_STREAM_WAY_OUT: Final = (
    "Usually an older checkpoint was restored, or its newest files are gone: restore the newest checkpoint. "
    "verifyReplay=false skips every batch up to the sink's last, whatever it holds; a query that computes other rows "
    "in each run needs it. To write these rows in addition, use a new transactionalId"
)
_JOB_WAY_OUT: Final = (
    "A job with this jobId is committed: give these rows a jobId of their own, or accept what was committed with "
    "verifyReplay=false"
)


class FencedError(OncelogError):
    """This try of the batch is over: superseded by a newer one, timed out, or decided by another Spark driver. None of
    its records is visible."""


class QueryChangedError(OncelogError):
    """The sink (the target of a stream, by its transactionalId) belongs to another streaming query; writing would skip
    or repeat batches."""


class ReplayRefusedError(OncelogError):
    """The batch was committed before with other rows, so skipping it would lose rows. Nothing was written."""


@dataclass(frozen=True, slots=True)
class AttemptName:
    """The name of one attempt, which is one try of Spark to write a micro-batch: its sink, and the nonce that was drawn
    for it."""

    sink: str
    nonce: bytes
    is_traced: bool = False
    """True if the coordinator records spans. Without its root span, those of Spark would have no place (`traces`)."""


@dataclass(frozen=True, slots=True)
class TaskIdentity:
    """A Spark task that writes: its query, micro-batch and partition, and which try of the task it is."""

    query_id: str
    run_id: str
    batch_id: int
    task_partition: int
    task_attempt_id: int


@dataclass(frozen=True, slots=True)
class JoinedBranch:
    """A task's permission to write within an attempt (one try of a batch): a producer id of its own, which is fenced
    when the attempt ends."""

    producer_id: int
    producer_epoch: int
    transactional_id: str


@dataclass(frozen=True, slots=True)
class BranchOutcome:
    """A task's report to the driver, which commits by it. `skipped`: the batch was committed before, and nothing was
    written.

    Count and checksum are then those of the rows that would have been written. No checksum: the task did not look at
    its rows.
    """

    attempt: AttemptName
    query_id: str
    task_partition: int
    producer_id: int = -1
    producer_epoch: int = -1
    row_count: int = 0
    skipped: bool = False
    row_checksum: int | None = None


def new_nonce() -> bytes:
    return secrets.token_bytes(NONCE_BYTES)


def open_attempt(cluster: Cluster, attempt: AttemptName, timeout_ms: int) -> AttemptName:
    """Open the attempt (one try of a batch) at the coordinator, which aborts any other open one of the sink. Return it,
    with whether it is traced.

    Raises FencedError, KafkaError, OncelogError.
    """
    response = _call(
        cluster, "OpenAttempt", sink=attempt.sink, nonce=attempt.nonce, timeout_ms=timeout_ms
    )
    _expect(response, attempt, "opening it", {SinkAnswer.OK})
    return replace(attempt, is_traced=response.is_traced)


def join_attempt(
    cluster: Cluster, attempt: AttemptName, task: TaskIdentity, adopt_query: bool
) -> JoinedBranch | None:
    """Let one task join the attempt (a try of a batch): return a producer id for it. None: the batch is committed
    already, and the task must write nothing.

    Raises FencedError and QueryChangedError, and what the call raises.
    """
    response = _call(
        cluster,
        "JoinAttempt",
        sink=attempt.sink,
        nonce=attempt.nonce,
        query_id=task.query_id,
        run_id=task.run_id,
        batch_id=task.batch_id,
        task_partition=task.task_partition,
        task_attempt_id=task.task_attempt_id,
        adopt_query=adopt_query,
    )
    what = f"task partition {task.task_partition} of batch {task.batch_id}"
    if _expect(response, attempt, what, {SinkAnswer.OK, SinkAnswer.SKIP}) is SinkAnswer.SKIP:
        return None
    return JoinedBranch(response.producer_id, response.producer_epoch, response.transactional_id)


def seal_branch(
    cluster: Cluster,
    attempt: AttemptName,
    branch: JoinedBranch,
    last_sequences: Mapping[Partition, int],
    row_count: int,
    crc32c: int,
    row_checksum: int | None = None,
) -> None:
    """Tell the coordinator that a task has written everything: all records under its producer id (a branch) are
    acknowledged.

    `last_sequences` and `crc32c` are those of its `ProducePipeline`. Raises FencedError, QueryChangedError, and what
    the call raises.
    """
    response = _call(
        cluster,
        "SealBranch",
        sink=attempt.sink,
        nonce=attempt.nonce,
        producer_id=branch.producer_id,
        producer_epoch=branch.producer_epoch,
        last_sequences=[
            {"topic": key.topic, "partition": key.partition, "last_sequence": sequence}
            for key, sequence in last_sequences.items()
        ],
        row_count=row_count,
        crc32c=crc32c,
        row_checksum=row_checksum,
    )
    _expect(response, attempt, f"sealing producer id {branch.producer_id}", {SinkAnswer.OK})


def commit_batch(
    cluster: Cluster, sink: str, batch_id: int, outcomes: Sequence[BranchOutcome]
) -> SinkAnswer:
    """Commit a batch at the coordinator, with the tasks' producer ids (branches) that count. Return OK, or ALREADY if
    this attempt has committed it before, or skipped it.

    Raises FencedError where nothing was decided and Spark must run the batch again, or where another driver decided it;
    ReplayRefusedError where the batch was decided with other rows; QueryChangedError.
    """
    response = _call(
        cluster,
        "CommitBatch",
        sink=sink,
        batch_id=batch_id,
        messages=[
            {
                "nonce": outcome.attempt.nonce,
                "query_id": outcome.query_id,
                "skipped": outcome.skipped,
                "task_partition": outcome.task_partition,
                "producer_id": outcome.producer_id,
                "producer_epoch": outcome.producer_epoch,
                "row_count": outcome.row_count,
                "row_checksum": outcome.row_checksum if outcome.skipped else None,
            }
            for outcome in outcomes
        ],
    )
    return _expect(
        response,
        outcomes[0].attempt,
        f"committing batch {batch_id}",
        {SinkAnswer.OK, SinkAnswer.ALREADY},
    )


def abort_attempts(cluster: Cluster, sink: str, nonces: Sequence[bytes]) -> int:
    """Abort those attempts (tries of a batch, by nonce) that are still open, and return how many. Committed ones stay
    as they are."""
    response = _call(cluster, "AbortAttempt", sink=sink, nonces=nonces)
    return int(response.aborted)


def last_committed_batch_id(cluster: Cluster, sink: str) -> int:
    """Return the number of the last batch that was committed to this sink; -1: there is none."""
    return int(_call(cluster, "DescribeSink", sink=sink).last_committed_batch_id)


def refused_replay(reason: str, sink: str) -> ReplayRefusedError:
    """Return the error for a batch that was committed before with other rows, with what the user may do about it."""
    way_out = _JOB_WAY_OUT if is_job_sink(sink) else _STREAM_WAY_OUT
    return ReplayRefusedError(
        f"REPLAY_REFUSED: {reason}. A committed batch is never written again, so rows would be lost. {way_out}"
    )


def _call(cluster: Cluster, method: str, **fields: object) -> AnyMessage:
    make_request: Callable[..., PrivateRequest] = PRIVATE_CALLS[KEY_OF_METHOD[method]].request
    request = make_request(**fields)
    with spans.span(method, spans.Kind.CLIENT):
        return cluster.private_call(method, request)


def _expect(
    response: AnyMessage, attempt: AttemptName, what: str, accepted: set[SinkAnswer]
) -> SinkAnswer:
    answer = SinkAnswer(response.answer)
    if answer in accepted:
        return answer
    reason = f"sink {attempt.sink!r}, attempt {attempt.nonce.hex()[:8]}, {what}: {response.error_message}"
    if answer is SinkAnswer.QUERY_CHANGED:
        raise QueryChangedError(
            f"{reason}. Batch numbers of a new checkpoint start again at 0, so the sink cannot tell new batches from "
            "committed ones. If the checkpoint was deleted or changed on purpose, start once with onNewQuery=adopt; "
            "if this is another query, give it a transactionalId of its own"
        )
    if answer is SinkAnswer.REPLAY_REFUSED:
        raise refused_replay(reason, attempt.sink)
    raise FencedError(
        f"{answer.name}: {reason}. Nothing of this attempt is visible. Spark runs the batch again when the query "
        "restarts; if it happens again and again, two drivers use this transactionalId, or attemptTimeout is "
        "shorter than the slowest task"
    )
