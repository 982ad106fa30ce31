"""The sink on Apache Kafka, before the commit: the check of the cluster, and the work of a task (ADR 0053).

A task writes nothing. It makes record batches of its rows, complete but for the producer id, and returns them to the
driver. The driver writes all batches of the winning tasks in one transaction (`kafka_commit`).
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from oncelog.client.cluster import SPOKEN, Cluster, NoSuchTopicError
from oncelog.client.core.addresses import Address
from oncelog.client.single_transaction import TV2
from oncelog.errors import ErrorCode, KafkaError, OncelogError, error_code_of
from oncelog.protocol import versions
from oncelog.protocol.messages import schema_of
from oncelog.spark.attempt import TaskIdentity
from oncelog.spark.commit_token import TokenPlace
from oncelog.spark.options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from oncelog.client.core.encode import ClosedBatch

_log = logging.getLogger(__name__)

_TOPIC_RESOURCE: Final = 2
"""DescribeConfigs's number for a topic, among the types of resources."""
_REQUIRED: Final = {"cleanup.policy": "compact", "unclean.leader.election.enable": "false"}
_GIVEN: Final = _REQUIRED | {"segment.ms": "3600000"}
"""The configs of a topic of tokens that this module creates. Only closed segments are compacted, so an hour's tokens
stay."""

_prepared: set[tuple[tuple[Address, ...], str]] = set()
"""Clusters and topics of tokens that `prepare` has checked, and does not check again. Spark keeps the planner's process
between batches."""


@dataclass(frozen=True, slots=True)
class CollectedRows:
    """A task's rows as encoded record batches, which it returns to the driver, and which batch of which query they
    are."""

    nonce: bytes
    query_id: str
    batch_id: int | None
    """The id of the micro-batch; None: the rows are of a job without a name."""
    task_partition: int
    row_count: int
    row_checksum: int
    batches: "tuple[ClosedBatch, ...]"
    """The record batches in the order in which the driver must send them. It sets their producer id and sequences."""

    @property
    def size_bytes(self) -> int:
        return sum(len(batch.records) for batch in self.batches)


def is_prepared(options: SinkOptions, place: TokenPlace) -> bool:
    return (options.bootstrap, place.topic) in _prepared


def prepare(cluster: Cluster, options: SinkOptions, place: TokenPlace) -> None:
    """Create the topic of the sink's tokens (records that say which batch is committed), if it is missing, and log the
    sink's limits.

    Raises OncelogError where the cluster or the topic is such that exactly-once could not be promised.
    """
    level = cluster.feature_level("transaction.version")
    if level < TV2:
        raise OncelogError(
            f"the brokers at {_shown(options)} have finalized transaction.version={level}, and exactly-once on Apache "
            "Kafka needs 2 (KIP-890): upgrade to Kafka 4, then run `kafka-features.sh upgrade --feature "
            "transaction.version=2`"
        )
    _make_topic(cluster, place.topic)
    _check_topic(cluster, place.topic)
    _log.warning(
        "sink %r writes to Apache Kafka at %s: the driver collects each batch, %d bytes at most (maxBatchBytes), and "
        "writes it in one transaction with a token in topic %r. Limits: docs/spark.md, On Apache Kafka",
        options.transactional_id,
        _shown(options),
        options.collected_bytes_max,
        place.topic,
    )
    _prepared.add((options.bootstrap, place.topic))


def _shown(options: SinkOptions) -> str:
    return ", ".join(map(str, options.bootstrap))


def _make_topic(cluster: Cluster, topic: str) -> None:
    try:
        cluster.partition_counts([topic])
        return
    except NoSuchTopicError:
        pass
    try:
        cluster.create_topic(topic, 1, _GIVEN)
    except KafkaError as error:
        raise OncelogError(
            f"the sink's topic {topic!r} cannot be made: {error}. Make it yourself, with one partition, "
            f"{_written(_GIVEN)} and as many replicas as the topics that the sink writes to"
        ) from error


def _check_topic(cluster: Cluster, topic: str) -> None:
    count = cluster.partition_counts([topic])[topic]
    if count != 1:
        raise OncelogError(
            f"the sink's topic {topic!r} has {count} partitions, and must have 1: delete it if no sink of oncelog uses "
            "it, or choose another transactionalId"
        )
    found = _configs(cluster, topic)
    wrong = {name: found.get(name) for name, value in _REQUIRED.items() if found.get(name) != value}
    if wrong:
        raise OncelogError(
            f"the sink's topic {topic!r} has {_written(wrong)}, and its newest record must never be lost: set "
            f"{_written({name: _REQUIRED[name] for name in wrong})}"
        )


def _configs(cluster: Cluster, topic: str) -> dict[str, str | None]:
    version = SPOKEN[versions.DESCRIBE_CONFIGS]
    types = schema_of(versions.DESCRIBE_CONFIGS, version).request_types
    resource = types.DescribeConfigsResource(
        resource_type=_TOPIC_RESOURCE, resource_name=topic, configuration_keys=tuple(_REQUIRED)
    )
    request = types.DescribeConfigsRequest(resources=(resource,))

    def attempt() -> dict[str, str | None]:
        (result,) = cluster.ask(versions.DESCRIBE_CONFIGS, request).results
        code = error_code_of(result.error_code.value)
        if code is not ErrorCode.NONE:
            raise KafkaError(code, f"DescribeConfigs of topic {topic!r}")
        return {one.name: one.value for one in result.configs}

    return cluster.retrying(attempt)


def _written(configs: dict[str, str | None] | dict[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in configs.items())


def collect_rows(
    options: SinkOptions,
    cluster: Cluster,
    nonce: bytes,
    task: TaskIdentity,
    batch_id: int | None,
    iterator: Iterator["pa.RecordBatch"],
) -> CollectedRows:
    """Return the task's rows, encoded and compressed.

    Raises OncelogError for rows that cannot be written or exceed `maxBatchBytes`, and KafkaError.
    """
    from oncelog.client.core.encode import BATCH_BYTES, BatchAccumulator, ProducerIdentity
    from oncelog.ids import ProducerEpoch, ProducerId
    from oncelog.spark.row_checksum import RowChecksum
    from oncelog.spark.rows import RowRouter, records_of

    nobody = ProducerIdentity(ProducerId(0), ProducerEpoch(0))
    accumulator = BatchAccumulator(nobody, options.codec, options.batch_bytes or BATCH_BYTES)
    router = RowRouter(options.topic, options.partitioner, {}, task.task_partition)
    rows = RowChecksum()
    batches: list[ClosedBatch] = []
    size_bytes = 0

    def take(closed: "list[ClosedBatch]") -> None:
        nonlocal size_bytes
        batches.extend(closed)
        size_bytes += sum(len(one.records) for one in closed)
        check_size(options, batch_id, size_bytes)

    for batch in iterator:
        if not batch.num_rows:
            continue
        if missing := router.missing_topics(batch):
            router.learn(cluster.partition_counts(missing))
        for partition, of_partition in router.routed(batch):
            take(accumulator.add(partition, records_of(of_partition)))
        rows.add(batch)
    take(accumulator.close_all())
    return CollectedRows(
        nonce,
        task.query_id,
        batch_id,
        task.task_partition,
        rows.row_count,
        rows.value,
        tuple(batches),
    )


def check_size(options: SinkOptions, batch_id: int | None, size_bytes: int) -> None:
    """Raise OncelogError if a batch has more bytes than `maxBatchBytes`. `batch_id` is for its text; None: a job
    without a name."""
    if size_bytes <= options.collected_bytes_max:
        return
    name = "the job" if batch_id is None else f"batch {batch_id}"
    raise OncelogError(
        f"{name} has {size_bytes} bytes of records or more, above maxBatchBytes={options.collected_bytes_max}. On "
        "Apache Kafka the driver holds a whole batch: compress with kafka.compression.type=zstd, or raise "
        "maxBatchBytes, and with it spark.driver.memory and spark.driver.maxResultSize. A lower maxOffsetsPerTrigger "
        "makes later batches smaller, and not this one: its offsets are in the checkpoint"
    )
