"""The connector's options, parsed once on the driver. Tasks get them pickled."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from oncelog.client.core.addresses import Address
from oncelog.client.core.login import ClientLogin
from oncelog.errors import OncelogError
from oncelog.ids import RESERVED_PREFIX, Partition, is_reserved_name
from oncelog.record.batch import Codec
from oncelog.spark.given_options import GivenOptions, Side
from oncelog.spark.offsets import (
    EARLIEST,
    LATEST,
    Offsets,
    Timestamps,
    parse_assignment,
    parse_offsets,
    parse_timestamps,
)
from oncelog.spark.task_ranges import TASKS_MAX

MAX_OFFSETS_PER_TRIGGER: Final = 500_000
"""The default of maxOffsetsPerTrigger.
A micro-batch costs about 0.35 s before its first row: below 250 000 rows that is most of its time."""

ATTEMPT_TIMEOUT_MS: Final = 15 * 60_000
ATTEMPT_TIMEOUT_MIN_MS: Final = 1_000
ATTEMPT_TIMEOUT_MAX_MS: Final = 24 * 3_600_000

TRIGGER_DELAY_MS: Final = 15 * 60_000
TRIGGER_DELAY_MAX_MS: Final = 7 * 24 * 3_600_000
FETCH_BYTES_MAX: Final = 128 * 1024 * 1024
FETCH_WAIT_MAX_MS: Final = 300_000
REQUEST_TIMEOUT_MS: Final = 30_000
"""The client's own time limit of a request, where no option gives one."""
TIMEOUT_MAX_MS: Final = 24 * 3_600_000
BATCH_BYTES_MAX: Final = 64 * 1024 * 1024
COLLECTED_BYTES: Final = 128 * 1024 * 1024
"""The default of `maxBatchBytes`: a driver of Spark's default size, 1 GiB, holds a batch of so many bytes three
times."""
COLLECTED_BYTES_MAX: Final = 1024 * 1024 * 1024
"""The largest `maxBatchBytes`: Spark hands a task's message on in one piece, whose length is a signed 32-bit number."""


class OnNewQuery(Enum):
    FAIL = "fail"
    ADOPT = "adopt"


class Partitioner(Enum):
    MURMUR2 = "murmur2"
    ROUND_ROBIN = "roundrobin"


@dataclass(frozen=True, slots=True)
class CallOptions:
    """The time limits and names of requests to the cluster. None: the client's default."""

    client_id: str | None = None
    request_timeout_ms: int | None = None
    call_timeout_ms: int | None = None
    backoff_min_ms: int | None = None
    backoff_max_ms: int | None = None


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """The limits of the Fetch requests of a task. None: the client's default."""

    max_bytes: int | None = None
    min_bytes: int = 1
    max_wait_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a read. One of `topics`, `topic_pattern` and `assigned` is given."""

    bootstrap: tuple[Address, ...]
    login: ClientLogin
    calls: CallOptions
    fetch: FetchOptions
    topics: tuple[str, ...]
    topic_pattern: str | None
    """A pattern of whole topic names, for Python's `re`."""
    assigned: tuple[Partition, ...]
    starting: Offsets | Timestamps | None
    """The place to start at; None: earliest for a batch query, latest for a stream, as in Spark's Kafka source."""
    ending: Offsets | Timestamps
    max_offsets_per_trigger: int
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    min_partitions: int | None
    max_records_per_partition: int | None
    group_id: str | None
    """The group that shows how far the stream has read; None: no group does."""
    read_uncommitted: bool
    fail_on_data_loss: bool
    include_headers: bool
    include_outcome: bool
    pushdown: bool


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a write: the cluster, the topic, and the sink's transactional id."""

    bootstrap: tuple[Address, ...]
    login: ClientLogin
    calls: CallOptions
    codec: Codec
    batch_bytes: int | None
    """Bytes of a batch before compression; None: the client's default."""
    topic: str | None
    transactional_id: str
    on_new_query: OnNewQuery
    attempt_timeout_ms: int
    verify_replay: bool
    """True to compare a batch that was committed before with what was committed; False to skip it without a look."""
    job_id: str | None
    batch_id: int | None
    """For a write inside foreachBatch: the batch number that Spark gives the function."""
    collected_bytes_max: int
    """On Apache Kafka: the most encoded bytes of one batch, which the driver holds."""
    partitioner: Partitioner


def parse_source_options(options: Mapping[str, str], is_stream: bool = False) -> SourceOptions:
    """Return the options of a read.
    Raises OncelogError for an option that is missing, unknown, malformed or not honoured."""
    given = GivenOptions(options, Side.SOURCE)
    if is_stream:
        for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
            if given.text(name) is not None:
                raise OncelogError(
                    f"option {name} is for batch reads: a stream has no end; trigger(availableNow=True) ends it at "
                    "what is there when it starts"
                )
    topics, pattern, assigned = _subscription(given)
    read_uncommitted = _read_uncommitted(given)
    include_outcome = given.flag("includeOutcome", False)
    if include_outcome and not read_uncommitted:
        raise OncelogError(
            "option includeOutcome needs isolation.level=read_uncommitted: at read_committed every record is committed"
        )
    return SourceOptions(
        bootstrap=given.bootstrap(),
        login=given.login(),
        calls=_calls(given, "kafka.default.api.timeout.ms"),
        fetch=_fetch(given),
        topics=topics,
        topic_pattern=pattern,
        assigned=assigned,
        starting=_starting(given),
        ending=_ending(given),
        max_offsets_per_trigger=given.count("maxOffsetsPerTrigger") or MAX_OFFSETS_PER_TRIGGER,
        min_offsets_per_trigger=given.count("minOffsetsPerTrigger"),
        max_trigger_delay_ms=_or(
            given.duration_ms("maxTriggerDelay", 0, TRIGGER_DELAY_MAX_MS), TRIGGER_DELAY_MS
        ),
        min_partitions=given.count("minPartitions", TASKS_MAX),
        max_records_per_partition=given.count("maxRecordsPerPartition"),
        group_id=given.text("kafka.group.id"),
        read_uncommitted=read_uncommitted,
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        include_headers=given.flag("includeHeaders", False),
        include_outcome=include_outcome,
        pushdown=given.flag("pushdown", False),
    )


def parse_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Return the options of a write. Raises OncelogError for an option that is missing, unknown or malformed."""
    given = GivenOptions(options, Side.SINK)
    transactional_id = given.text("transactionalId")
    if not transactional_id:
        raise OncelogError(
            "option transactionalId is required: the sink's name in the cluster, the same at every start "
            "of this query and used by no other"
        )
    if is_reserved_name(transactional_id):
        raise OncelogError(
            f"option transactionalId is {transactional_id!r}: names that begin with {RESERVED_PREFIX} are oncelog's "
            "own; choose another"
        )
    timeout_ms = given.duration_ms("attemptTimeout", ATTEMPT_TIMEOUT_MIN_MS, ATTEMPT_TIMEOUT_MAX_MS)
    job_id, batch_id = given.text("jobId"), given.number("batchId")
    if job_id is not None and batch_id is not None:
        raise OncelogError(
            f"options jobId={job_id!r} and batchId={batch_id} exclude each other: a job that is submitted again has a "
            "jobId, a write inside foreachBatch has a batchId"
        )
    return SinkOptions(
        bootstrap=given.bootstrap(),
        login=given.login(),
        calls=_calls(given, "kafka.delivery.timeout.ms"),
        codec=Codec[given.choice("kafka.compression.type", _CODECS).upper()],
        batch_bytes=given.count("kafka.batch.size", BATCH_BYTES_MAX),
        topic=given.text("topic"),
        transactional_id=transactional_id,
        on_new_query=OnNewQuery(given.choice("onNewQuery", [kind.value for kind in OnNewQuery])),
        attempt_timeout_ms=_or(timeout_ms, ATTEMPT_TIMEOUT_MS),
        verify_replay=given.flag("verifyReplay", True),
        job_id=job_id,
        batch_id=batch_id,
        collected_bytes_max=given.count("maxBatchBytes", COLLECTED_BYTES_MAX) or COLLECTED_BYTES,
        partitioner=Partitioner(given.choice("partitioner", [kind.value for kind in Partitioner])),
    )


_CODECS: Final = tuple(codec.name.lower() for codec in Codec)
_ISOLATION_LEVELS: Final = ("read_committed", "read_uncommitted")


def _subscription(
    given: GivenOptions,
) -> tuple[tuple[str, ...], str | None, tuple[Partition, ...]]:
    """Return the values of subscribe, subscribePattern and assign; exactly one must be given. Raises OncelogError."""
    topics = tuple(dict.fromkeys(name for name in _split(given.text("subscribe") or "") if name))
    pattern = given.text("subscribePattern")
    assign = given.text("assign")
    found = [
        name
        for name, is_given in (
            ("subscribe", bool(topics)),
            ("subscribePattern", pattern is not None),
            ("assign", assign is not None),
        )
        if is_given
    ]
    if len(found) != 1:
        raise OncelogError(
            "give one of subscribe (topics with commas), subscribePattern (a regular expression) and assign "
            f"(JSON {{topic: [partitions]}}); {' and '.join(found) + ' were' if found else 'none was'} given"
        )
    if pattern is not None:
        try:
            re.compile(pattern)
        except re.error as error:
            raise OncelogError(
                f"option subscribePattern is {pattern!r}, no regular expression of Python: {error}. "
                "Give one that matches whole names, such as orders-.*"
            ) from error
    return topics, pattern, () if assign is None else parse_assignment("assign", assign)


def _read_uncommitted(given: GivenOptions) -> bool:
    names = ("isolation.level", "kafka.isolation.level")
    levels = {given.choice(name, _ISOLATION_LEVELS) for name in names if given.text(name)}
    if len(levels) > 1:
        raise OncelogError(f"options {' and '.join(names)} differ: give one of them")
    return "read_uncommitted" in levels


def _calls(given: GivenOptions, call_timeout: str) -> CallOptions:
    """Return the time limits of requests. `call_timeout` is the option's name, from Kafka, for a request with its
    repetitions."""
    return CallOptions(
        client_id=given.text("kafka.client.id"),
        request_timeout_ms=given.count("kafka.request.timeout.ms", TIMEOUT_MAX_MS),
        call_timeout_ms=given.count(call_timeout, TIMEOUT_MAX_MS),
        backoff_min_ms=given.count("kafka.retry.backoff.ms", TIMEOUT_MAX_MS),
        backoff_max_ms=given.count("kafka.retry.backoff.max.ms", TIMEOUT_MAX_MS),
    )


def _fetch(given: GivenOptions) -> FetchOptions:
    """Return the limits of Fetch requests. A task fetches one partition at a time, so the smaller of the two byte
    limits holds."""
    limits = (
        given.count("kafka.fetch.max.bytes", FETCH_BYTES_MAX),
        given.count("kafka.max.partition.fetch.bytes", FETCH_BYTES_MAX),
    )
    max_wait_ms = given.number("kafka.fetch.max.wait.ms", FETCH_WAIT_MAX_MS)
    if max_wait_ms is not None and max_wait_ms >= _or(
        given.count("kafka.request.timeout.ms"), REQUEST_TIMEOUT_MS
    ):
        raise OncelogError(
            f"option kafka.fetch.max.wait.ms is {max_wait_ms}: give less than kafka.request.timeout.ms, which is "
            f"{REQUEST_TIMEOUT_MS} unless it is set"
        )
    return FetchOptions(
        max_bytes=min((limit for limit in limits if limit is not None), default=None),
        min_bytes=given.count("kafka.fetch.min.bytes", FETCH_BYTES_MAX) or 1,
        max_wait_ms=max_wait_ms,
    )


def _or(given: int | None, default: int) -> int:
    return default if given is None else given


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")]


def _starting(given: GivenOptions) -> Offsets | Timestamps | None:
    """Return where a read starts; None: no option says it. Options count in the order of Spark's Kafka source: a time
    for all, times of partitions, offsets."""
    or_latest = given.choice("startingOffsetsByTimestampStrategy", ["error", "latest"]) == "latest"
    timestamps = _timestamps(given, "startingTimestamp", "startingOffsetsByTimestamp", or_latest)
    if timestamps is not None:
        return timestamps
    text = given.text("startingOffsets")
    return None if text is None else parse_offsets("startingOffsets", text)


def _timestamps(
    given: GivenOptions, of_all: str, of_partition: str, or_latest: bool
) -> Timestamps | None:
    timestamp_ms = given.number(of_all)
    if timestamp_ms is not None:
        return Timestamps(timestamp_ms, {}, or_latest)
    text = given.text(of_partition)
    return (
        None if text is None else Timestamps(None, parse_timestamps(of_partition, text), or_latest)
    )


def _ending(given: GivenOptions) -> Offsets | Timestamps:
    timestamps = _timestamps(given, "endingTimestamp", "endingOffsetsByTimestamp", or_latest=True)
    if timestamps is not None:
        return timestamps
    text = given.text("endingOffsets")
    offsets = parse_offsets("endingOffsets", text or "latest")
    if offsets == EARLIEST or (isinstance(offsets, dict) and EARLIEST in offsets.values()):
        raise OncelogError(
            f"option endingOffsets is {text!r}: a query that ends at the earliest offset reads nothing; "
            f"give latest, or offsets as JSON ({LATEST} for latest)"
        )
    return offsets
