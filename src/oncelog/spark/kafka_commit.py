"""The commit of a Spark batch on Apache Kafka: one transaction of the driver with the batch's rows, and a token, the
record that says which batch they are.

`commit_on_kafka` may be called any number of times for a batch, by any number of drivers, after any crash. Each call
fences all earlier ones before it reads what is committed, so whatever it finds is final (ADR 0053).

```
InitProducerId      fences; the answer comes when all earlier transactions are over, with their markers
read the token      is this batch committed? are its rows the same?
Produce token       it must land exactly where the reading ended
Produce rows        of the winning tasks
EndTxn              an answer that is lost is not guessed: from the top
```
"""

import time
from collections.abc import Sequence
from typing import Final

from oncelog.client.cluster import Cluster
from oncelog.client.connection import Deadline
from oncelog.client.core.encode import BatchAccumulator, ClosedBatch, ProducerIdentity, Row
from oncelog.client.core.log_places import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    READ_COMMITTED,
    READ_UNCOMMITTED,
)
from oncelog.client.partition_reader import ReadPlan, read_partition
from oncelog.client.produce_pipeline import ProducePipeline, ProducerFencedError
from oncelog.client.single_transaction import (
    CommitUnknownError,
    SingleTransaction,
    TransactionOverError,
)
from oncelog.errors import ErrorCode, KafkaError, OncelogError
from oncelog.ids import Partition, ProducerEpoch, ProducerId, next_sequence
from oncelog.record.batch import stamp_producer
from oncelog.spark.attempt import FencedError
from oncelog.spark.commit_token import BatchToCommit, CommitToken, TokenPlace, token_after
from oncelog.spark.connecting import cluster_of
from oncelog.spark.kafka_sink import CollectedRows, check_size
from oncelog.spark.options import OnNewQuery, SinkOptions

OFFSETS_AT_FIRST: Final = 64
"""The number of offsets before the log's end that are searched first for the newest token. A batch leaves a token and a
marker, so it is nearly always among them."""
_TOPICS_OF_TOKENS: Final = ("__oncelog_sink_", "__oncelog_jobs_")
_PAUSE_S: Final = 0.1


class UnansweredError(OncelogError):
    """The commit was sent, and no answer came, so it may have happened. `after`: the number of the last batch committed
    before."""

    def __init__(self, message: str, after: int) -> None:
        super().__init__(message)
        self.after = after


class StaleEndError(OncelogError):
    """The token was not placed right behind the last record that was read, so an old leader had told a wrong end. The
    commit starts anew."""


def commit_on_kafka(
    options: SinkOptions, sink: str, place: TokenPlace, tasks: Sequence[CollectedRows]
) -> None:
    """Commit a batch's rows on Apache Kafka, exactly once, and return when they are committed, by this call or an
    earlier one. `tasks`: the rows of each winning task, one at least.

    Raises FencedError, QueryChangedError, ReplayRefusedError, OncelogError, KafkaError. After each of them Spark may
    run the batch again, committed or not.
    """
    batch = _batch_of(options, tasks)
    check_size(options, batch.batch_id, sum(task.size_bytes for task in tasks))
    _check_topics(tasks)
    with cluster_of(options) as cluster:
        deadline = Deadline(cluster.settings.call_timeout_ms)
        asked_after: int | None = None
        while True:
            try:
                _commit_once(cluster, options, sink, place, batch, tasks, asked_after)
                return
            except (ProducerFencedError, TransactionOverError) as error:
                if asked_after is None or batch.batch_id is not None:
                    raise _fenced(sink, batch, error) from error
                # Only its nonce tells whether the first try was committed, and a second run has another one.
                _go_on(deadline, sink, batch, error)
            except UnansweredError as error:
                asked_after = error.after if asked_after is None else asked_after
                _go_on(deadline, sink, batch, error)
            except StaleEndError as error:
                _go_on(deadline, sink, batch, error)
            time.sleep(_PAUSE_S)


def _go_on(deadline: Deadline, sink: str, batch: BatchToCommit, error: OncelogError) -> None:
    """Return if there is time for another try of the commit; otherwise raise OncelogError that says it is unknown."""
    if not deadline.has_passed:
        return
    if batch.batch_id is None:
        way = "Look before you run the job again, or give it a jobId: then a second run asks the cluster"
    else:
        way = "Start the query again: it asks the cluster, and writes what is not committed"
    raise OncelogError(
        f"sink {sink!r}, {_named(batch)}: {error}. Whether it is committed is not known yet. {way}"
    ) from error


def _fenced(sink: str, batch: BatchToCommit, error: OncelogError) -> FencedError:
    if batch.batch_id is None:
        way = "Nothing of it is written: run the job again"
    else:
        way = "Start the query again: it runs the batch again, and skips it if it is committed"
    return FencedError(
        f"FENCED: sink {sink!r}, {_named(batch)}: {error}. {way}. If it happens again and again, two drivers use this "
        "transactionalId, or attemptTimeout is shorter than the writing of a batch"
    )


def _named(batch: BatchToCommit) -> str:
    return "a job without a name" if batch.batch_id is None else f"batch {batch.batch_id}"


def _batch_of(options: SinkOptions, tasks: Sequence[CollectedRows]) -> BatchToCommit:
    from oncelog.spark.row_checksum import CHECKSUM_MASK

    names = {(task.nonce, task.query_id, task.batch_id) for task in tasks}
    if len(names) != 1:
        raise OncelogError(
            f"Spark gave the commit messages of {len(names)} tries of a batch, and it promises one: nothing is written"
        )
    ((nonce, query_id, batch_id),) = names
    return BatchToCommit(
        nonce=nonce.hex(),
        query_id=query_id,
        batch_id=batch_id,
        row_count=sum(task.row_count for task in tasks),
        row_checksum=sum(task.row_checksum for task in tasks) & CHECKSUM_MASK,
        verify_replay=options.verify_replay,
        adopt_query=options.on_new_query is OnNewQuery.ADOPT,
    )


def _check_topics(tasks: Sequence[CollectedRows]) -> None:
    for task in tasks:
        for batch in task.batches:
            if batch.partition.topic.startswith(_TOPICS_OF_TOKENS):
                raise OncelogError(
                    f"topic {batch.partition.topic!r} holds the tokens of a sink: write to another topic"
                )


def _commit_once(
    cluster: Cluster,
    options: SinkOptions,
    sink: str,
    place: TokenPlace,
    batch: BatchToCommit,
    tasks: Sequence[CollectedRows],
    asked_after: int | None,
) -> None:
    transaction = SingleTransaction.opened(
        cluster, place.transactional_id, options.attempt_timeout_ms
    )
    end, newest = newest_token(cluster, place)
    token = token_after(newest, batch, sink, asked_after)
    if token is None:
        return
    pipeline = ProducePipeline(cluster, place.transactional_id)
    try:
        _write_token(pipeline, transaction, place, end, token)
        _write_rows(pipeline, transaction, tasks)
    except BaseException:
        transaction.abort()
        raise
    finally:
        pipeline.close()
    try:
        transaction.commit()
    except CommitUnknownError as error:
        after = -1 if newest is None else newest.last_batch_id
        raise UnansweredError(str(error), after) from error


def _write_token(
    pipeline: ProducePipeline,
    transaction: SingleTransaction,
    place: TokenPlace,
    end: int,
    token: CommitToken,
) -> None:
    """Write the token (the record that says which batch this is) in the transaction. Raises StaleEndError if it is not
    placed right behind all that was read."""
    identity = ProducerIdentity(
        ProducerId(transaction.producer_id), ProducerEpoch(transaction.producer_epoch)
    )
    accumulator = BatchAccumulator(identity)
    partition = Partition(place.topic, 0)
    row: Row = (int(time.time() * 1000), place.key.encode(), token.to_bytes(), [])
    for closed in (*accumulator.add(partition, [row]), *accumulator.close_all()):
        pipeline.send(closed)
    pipeline.flush()
    if (found := pipeline.first_offsets[partition]) != end:
        raise StaleEndError(f"{partition} was read up to offset {end}, and ends at {found}")


def _write_rows(
    pipeline: ProducePipeline, transaction: SingleTransaction, tasks: Sequence[CollectedRows]
) -> None:
    next_sequences: dict[Partition, int] = {}
    for task in sorted(tasks, key=lambda one: one.task_partition):
        for batch in task.batches:
            sequence = next_sequences.get(batch.partition, 0)
            next_sequences[batch.partition] = next_sequence(sequence, batch.record_count)
            records = bytearray(batch.records)
            stamp_producer(records, transaction.producer_id, transaction.producer_epoch, sequence)
            pipeline.send(
                ClosedBatch(batch.partition, bytes(records), sequence, batch.record_count)
            )
    pipeline.flush()


def newest_token(cluster: Cluster, place: TokenPlace) -> tuple[int, CommitToken | None]:
    """Read the topic of tokens (records that say which batch is committed). Return the offset of its end, and the
    newest committed token with this key; None: there is none.

    Raises OncelogError, KafkaError.
    """
    partition = Partition(place.topic, 0)
    end = _decided_end(cluster, partition)
    start = cluster.list_offsets({partition: EARLIEST_TIMESTAMP})[partition]
    high, width = end, OFFSETS_AT_FIRST
    while high > start:
        low = max(start, high - width)
        values = _values(cluster, ReadPlan(partition, low, high), place.key.encode())
        if values:
            # Without a value: somebody has deleted what the sink knew.
            value, where = values[-1], f"topic {place.topic!r}"
            return end, None if value is None else CommitToken.from_bytes(value, where)
        high, width = low, width * 4
    return end, None


def _decided_end(cluster: Cluster, partition: Partition) -> int:
    """Return the end offset of a partition, as soon as no transaction in it is open.

    The sink's earlier transactions are over, and nobody else may write there. Raises KafkaError if one stays open.
    """

    def attempt() -> int:
        latest = {partition: LATEST_TIMESTAMP}
        end = cluster.list_offsets(latest, READ_UNCOMMITTED)[partition]
        if cluster.list_offsets(latest, READ_COMMITTED)[partition] != end:
            raise KafkaError(
                ErrorCode.CONCURRENT_TRANSACTIONS,
                f"an open transaction hides the end of {partition}, where only the sink may write: find it with "
                "`kafka-transactions.sh find-hanging`, and abort it",
            )
        return end

    return cluster.retrying(attempt)


def _values(cluster: Cluster, plan: ReadPlan, key: bytes) -> list[bytes | None]:
    """Read the planned offsets, and return the values of the committed records with this key, in order."""
    return [
        value
        for columns in read_partition(cluster, plan, print)
        for found, value in zip(columns.keys.to_pylist(), columns.values.to_pylist(), strict=True)
        if found == key
    ]
