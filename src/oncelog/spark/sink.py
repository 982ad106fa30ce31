"""The sink: streaming writes that are exactly once, and batch writes that are atomic.

```
write planner (driver)     __getstate__ ── OpenAttempt          once per micro-batch, before its tasks
tasks (executors)          write ── JoinAttempt, Produce …, SealBranch ──▶ BranchMessage
commit worker (driver)     commit(messages) ── CommitBatch      abort(messages) ── AbortAttempt
```

On Apache Kafka there are no such calls. There the tasks return their rows, and the driver writes them in its commit
(`kafka_commit`); nothing is opened, so nothing is aborted.

Spark calls commit again for a batch after a crash, and calls abort after a commit that took effect. It lets tasks
finish after the commit, and can run two drivers on one checkpoint. None of that shows, because the coordinator decides
each batch once (`attempt.py`); nothing here or in the checkpoint is needed for recovery.

The driver opens the attempt (one try of a micro-batch) while the writer is pickled for the tasks. Only the write
planner pickles it, after the writer was made for this micro-batch and before a task starts. There is no other call of
Spark's at that point.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from oncelog.client.cluster import Cluster
from oncelog.errors import OncelogError
from oncelog.ids import ProducerEpoch, ProducerId, job_sink_name
from oncelog.spark.attempt import (
    AttemptName,
    BranchOutcome,
    FencedError,
    JoinedBranch,
    TaskIdentity,
    abort_attempts,
    commit_batch,
    join_attempt,
    last_committed_batch_id,
    new_nonce,
    open_attempt,
    seal_branch,
)
from oncelog.spark.commit_token import TokenPlace, place_of_job, place_of_stream
from oncelog.spark.connecting import cluster_of
from oncelog.spark.kafka_sink import CollectedRows, collect_rows, is_prepared, prepare
from oncelog.spark.message_first import message_first
from oncelog.spark.options import OnNewQuery, SinkOptions
from oncelog.spark.traces import ending_span, opened, opening_span, task_span
from oncelog.telemetry import spans

if TYPE_CHECKING:
    import pyarrow as pa

    from oncelog.client.produce_pipeline import ProducePipeline
    from oncelog.spark.row_checksum import RowChecksum

QUERY_ID_PROPERTY: Final = "sql.streaming.queryId"
RUN_ID_PROPERTY: Final = "spark.jobGroup.id"
BATCH_ID_PROPERTY: Final = "streaming.sql.batchId"

JOB_BATCH_ID: Final = 0
_UNNAMED_JOBS: Final = "unnamed-jobs"
_NUMBERED_BATCHES: Final = "batchId"
"""The query id of a sink that foreachBatch writes through: Spark does not always say which query runs the function."""


class BranchMessage(WriterCommitMessage):
    """The message that a task returns to the driver: what it wrote under its own producer id."""

    def __init__(self, outcome: BranchOutcome) -> None:
        self.outcome = outcome


class RowsMessage(WriterCommitMessage):
    """The message that a task returns to the driver on Apache Kafka: its rows, encoded."""

    def __init__(self, rows: CollectedRows) -> None:
        self.rows = rows


class StreamWriter(DataSourceStreamArrowWriter):
    """Spark's writer of one try of one micro-batch: it is pickled on the planner and writes in tasks. For the commit
    Spark makes a fresh object, whose own attempt is never opened."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._place = place_of_stream(options.transactional_id)
        self._attempt = AttemptName(options.transactional_id, new_nonce())
        self._is_open = False
        self._is_on_kafka = False

    @message_first
    def __getstate__(self) -> dict[str, object]:
        """Open this try of the batch at the coordinator, and return the state to pickle. Spark pickles the writer
        twice; the second time it is open already."""
        if not self._is_open:
            opened_attempt = _open(self._options, self._attempt, self._place)
            self._attempt = opened_attempt or self._attempt
            self._is_on_kafka = opened_attempt is None
            self._is_open = True
        return dict(self.__dict__)

    @message_first
    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        task = _streaming_task()
        if self._is_on_kafka:
            return _rows_message(self._options, self._attempt, task, task.batch_id, iterator)
        adopt_query = self._options.on_new_query is OnNewQuery.ADOPT
        return BranchMessage(
            write_branch(self._options, self._attempt, task, adopt_query, iterator)
        )

    @message_first
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit the batch at the coordinator, and return once that is durable. The transaction markers follow
        later."""
        _commit(self._options, self._options.transactional_id, self._place, batchId, messages)

    @message_first
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Abort the attempts (tries of the batch) that the messages name. Spark also aborts after a commit whose answer
        was lost: a committed one stays committed."""
        _abort(self._options, self._options.transactional_id, messages)


class BatchWriter(DataSourceArrowWriter):
    """The writer of a batch job, which writes one batch to a sink (a target with exactly-once). The user's options
    choose both:

    | option | sink | batch | running it again |
    |---|---|---|---|
    | jobId | one for each pair of transactionalId and jobId | 0 | adds nothing |
    | batchId (in foreachBatch) | the transactionalId, as a stream's | the batchId | adds nothing |
    | neither | one for all such jobs of the transactionalId | the next | writes again |
    """

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        name, job_id = options.transactional_id, options.job_id
        is_numbered = options.batch_id is not None
        sink = name if is_numbered else job_sink_name(name, job_id)
        self._place = place_of_stream(name) if is_numbered else place_of_job(name, job_id)
        self._query_id = _NUMBERED_BATCHES if is_numbered else job_id or _UNNAMED_JOBS
        self._is_named = is_numbered or job_id is not None
        self._attempt = AttemptName(sink, new_nonce())
        self._is_open = False
        self._is_on_kafka = False
        self._batch_id = JOB_BATCH_ID if options.batch_id is None else options.batch_id

    @message_first
    def __getstate__(self) -> dict[str, object]:
        if not self._is_open:
            opened_attempt = _open(self._options, self._attempt, self._place)
            self._attempt = opened_attempt or self._attempt
            self._is_on_kafka = opened_attempt is None
            if not self._is_named and not self._is_on_kafka:
                # Our attempt is the open one now, so no other can commit without fencing it first.
                with cluster_of(self._options) as cluster:
                    self._batch_id = last_committed_batch_id(cluster, self._attempt.sink) + 1
            self._is_open = True
        return dict(self.__dict__)

    @message_first
    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        context = _context()
        task = TaskIdentity(
            query_id=self._query_id,
            run_id=self._attempt.nonce.hex(),
            batch_id=self._batch_id,
            task_partition=context.partitionId(),
            task_attempt_id=context.taskAttemptId(),
        )
        if self._is_on_kafka:
            batch_id = self._batch_id if self._is_named else None
            return _rows_message(self._options, self._attempt, task, batch_id, iterator)
        adopt_query = self._options.on_new_query is OnNewQuery.ADOPT
        outcome = write_branch(self._options, self._attempt, task, adopt_query, iterator)
        if outcome.skipped and not self._is_named:
            raise FencedError(
                f"another batch job wrote through transactionalId {self._options.transactional_id!r} at the same time; "
                "give the jobs different ones, or a jobId each"
            )
        return BranchMessage(outcome)

    @message_first
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        batch_id = self._batch_id if self._is_named or not self._is_on_kafka else None
        _commit(self._options, self._attempt.sink, self._place, batch_id, messages)

    @message_first
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _abort(self._options, self._attempt.sink, messages)


def _open(options: SinkOptions, attempt: AttemptName, place: TokenPlace) -> AttemptName | None:
    """Open this attempt (try of a batch) at the coordinator, and return it. None on Apache Kafka, where nothing is
    opened before the commit."""
    if is_prepared(options, place):
        return None
    with opening_span(attempt) as span, cluster_of(options) as cluster:
        if not cluster.offers("OpenAttempt"):
            prepare(cluster, options, place)
            return None
        attempt = open_attempt(cluster, attempt, options.attempt_timeout_ms)
        opened(span, attempt)
        return attempt


def _rows_message(
    options: SinkOptions,
    attempt: AttemptName,
    task: TaskIdentity,
    batch_id: int | None,
    iterator: Iterator["pa.RecordBatch"],
) -> RowsMessage:
    with cluster_of(options) as cluster:
        return RowsMessage(collect_rows(options, cluster, attempt.nonce, task, batch_id, iterator))


def write_branch(
    options: SinkOptions,
    attempt: AttemptName,
    task: TaskIdentity,
    adopt_query: bool,
    iterator: Iterator["pa.RecordBatch"],
) -> BranchOutcome:
    """Write a task's rows under a producer id of its own (a branch), and report it as complete. If the batch is
    committed already, only count the rows.

    Raises FencedError, QueryChangedError, OncelogError for rows that cannot be written, KafkaError.
    """
    # numpy and pyarrow load here, in the task: opening and committing an attempt does without.
    from oncelog.client.produce_pipeline import ProducePipeline

    with task_span(attempt, task) as span, cluster_of(options) as cluster:
        branch = join_attempt(cluster, attempt, task, adopt_query)
        if branch is None:
            outcome = _skipped(options, attempt, task, iterator)
            span.set(**{"oncelog.skipped": True, "oncelog.rows": outcome.row_count})
            return outcome
        span.set(**{"oncelog.producer_id": branch.producer_id})
        pipeline = ProducePipeline(cluster, branch.transactional_id)
        try:
            with spans.span("write rows"):
                rows = _produce(options, cluster, branch, pipeline, task.task_partition, iterator)
        finally:
            pipeline.close()
        span.set(**{"oncelog.rows": rows.row_count})
        seal_branch(
            cluster,
            attempt,
            branch,
            pipeline.last_sequences,
            rows.row_count,
            pipeline.crc32c,
            rows.value,
        )
    return BranchOutcome(
        attempt,
        task.query_id,
        task.task_partition,
        branch.producer_id,
        branch.producer_epoch,
        rows.row_count,
    )


def _skipped(
    options: SinkOptions,
    attempt: AttemptName,
    task: TaskIdentity,
    iterator: Iterator["pa.RecordBatch"],
) -> BranchOutcome:
    """Report a task whose batch is committed already: nothing is written. The rows are counted and hashed, so that the
    commit can compare them with what was committed."""
    from oncelog.spark.row_checksum import RowChecksum

    if not options.verify_replay:
        return BranchOutcome(attempt, task.query_id, task.task_partition, skipped=True)
    rows = RowChecksum()
    for batch in iterator:
        rows.add(batch)
    return BranchOutcome(
        attempt,
        task.query_id,
        task.task_partition,
        row_count=rows.row_count,
        skipped=True,
        row_checksum=rows.value,
    )


def _produce(
    options: SinkOptions,
    cluster: Cluster,
    branch: JoinedBranch,
    pipeline: "ProducePipeline",
    task_partition: int,
    iterator: Iterator["pa.RecordBatch"],
) -> "RowChecksum":
    """Send every row and wait until all are acknowledged; return their number and checksum."""
    from oncelog.client.core.encode import BATCH_BYTES, BatchAccumulator, ProducerIdentity
    from oncelog.spark.row_checksum import RowChecksum
    from oncelog.spark.rows import RowRouter, records_of

    identity = ProducerIdentity(
        ProducerId(branch.producer_id), ProducerEpoch(branch.producer_epoch)
    )
    accumulator = BatchAccumulator(identity, options.codec, options.batch_bytes or BATCH_BYTES)
    router = RowRouter(options.topic, options.partitioner, {}, task_partition)
    sent = RowChecksum()
    for batch in iterator:
        if not batch.num_rows:
            continue
        if missing := router.missing_topics(batch):
            router.learn(cluster.partition_counts(missing))
        for partition, rows in router.routed(batch):
            for closed in accumulator.add(partition, records_of(rows)):
                pipeline.send(closed)
        sent.add(batch)
    for closed in accumulator.close_all():
        pipeline.send(closed)
    pipeline.flush()
    return sent


def _commit(
    options: SinkOptions,
    sink: str,
    place: TokenPlace,
    batch_id: int | None,
    messages: list[WriterCommitMessage | None],
) -> None:
    """Commit the batch of these messages. No messages: no task ran, and nothing has to be committed."""
    _refuse_incomplete(messages)
    rows = [message.rows for message in messages if isinstance(message, RowsMessage)]
    if rows:
        # numpy and pyarrow load here, in the commit worker, which Spark keeps.
        from oncelog.spark.kafka_commit import commit_on_kafka

        assert {task.batch_id for task in rows} == {batch_id}, (batch_id, rows[0].batch_id)
        commit_on_kafka(options, sink, place, rows)
    outcomes = _outcomes(messages)
    if not outcomes:
        return
    assert batch_id is not None, "a batch has no number only on Apache Kafka"
    ending = ending_span("commit", outcomes[0].attempt, batch_id)
    with ending, cluster_of(options) as cluster:
        commit_batch(cluster, sink, batch_id, outcomes)
        skipped = sorted({outcome.attempt.nonce for outcome in outcomes if outcome.skipped})
        if skipped:
            # The batch was committed before, so the attempt of this replay is of no use; it would time out otherwise.
            abort_attempts(cluster, sink, skipped)


def _abort(options: SinkOptions, sink: str, messages: list[WriterCommitMessage | None]) -> None:
    """Abort the attempts (tries of a batch) that the messages name. Without messages nothing is done: the next attempt
    or the timeout aborts what is open."""
    attempts = {outcome.attempt.nonce: outcome.attempt for outcome in _outcomes(messages)}
    if attempts:
        nonces = sorted(attempts)
        ending = ending_span("abort", attempts[nonces[0]])
        with ending, cluster_of(options) as cluster:
            abort_attempts(cluster, sink, nonces)


def _outcomes(messages: list[WriterCommitMessage | None]) -> list[BranchOutcome]:
    return [message.outcome for message in messages if isinstance(message, BranchMessage)]


def _refuse_incomplete(messages: list[WriterCommitMessage | None]) -> None:
    kinds = [type(message) for message in messages]
    found = max(kinds.count(BranchMessage), kinds.count(RowsMessage))
    if found < len(messages):
        raise OncelogError(
            f"{len(messages) - found} of {len(messages)} tasks sent no message, so the batch is not complete"
        )


def _context() -> TaskContext:
    context = TaskContext.get()
    if context is None:
        raise OncelogError("the sink writes inside a Spark task, and there is none here")
    return context


def _streaming_task() -> TaskIdentity:
    """Return which micro-batch and partition this task writes. Spark tells it only in local properties, which are
    internal and may change."""
    context = _context()
    values = {
        name: context.getLocalProperty(name) or ""
        for name in (QUERY_ID_PROPERTY, RUN_ID_PROPERTY, BATCH_ID_PROPERTY)
    }
    missing = [name for name, value in values.items() if not value]
    if missing:
        raise OncelogError(
            f"Spark did not give the task {', '.join(missing)}: this connector is made for PySpark 4.3; "
            "with another version exactly-once cannot be promised, so nothing is written"
        )
    return TaskIdentity(
        query_id=values[QUERY_ID_PROPERTY],
        run_id=values[RUN_ID_PROPERTY],
        batch_id=int(values[BATCH_ID_PROPERTY]),
        task_partition=context.partitionId(),
        task_attempt_id=context.taskAttemptId(),
    )
