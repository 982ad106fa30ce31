"""The source: batch and streaming reads of committed records, one task per topic-partition unless options cut it.

Planning asks the cluster for offsets. A task gets (topic, partition, start, end) and no more, so planning a micro-batch
again after a crash gives the same ranges. The end is never above the last stable offset of the moment of the plan. So
everything below it is decided, and a later read of the same range shows the same records.
"""

import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from oncelog.client.cluster import Cluster
from oncelog.errors import OncelogError
from oncelog.ids import Partition
from oncelog.spark.connecting import cluster_of
from oncelog.spark.group_progress import GroupProgress
from oncelog.spark.message_first import message_first, rows_message_first
from oncelog.spark.offsets import (
    EARLIEST,
    LATEST,
    OffsetJson,
    OffsetRange,
    Offsets,
    OffsetVector,
    Timestamps,
    check_covers,
    from_json,
    limited,
    ranges_between,
    to_json,
)
from oncelog.spark.options import SourceOptions
from oncelog.spark.pruning import Pruning
from oncelog.spark.task_ranges import TriggerDelay, task_ranges
from oncelog.wording import counted

if TYPE_CHECKING:
    import pyarrow as pa

_CONDITIONS: Final = {
    EqualTo: "==",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
    In: "in",
}


class RangePartition(InputPartition):
    """The work of one task: offsets `start <= offset < end` of one topic-partition. It has plain values, as it travels
    pickled."""

    def __init__(self, topic: str, partition: int, start: int, end: int) -> None:
        super().__init__(None)
        self.topic = topic
        self.partition = partition
        self.start = start
        self.end = end

    def __repr__(self) -> str:
        return f"RangePartition({self.topic}-{self.partition}, {self.start}, {self.end})"


class BatchReader(DataSourceReader):
    """Spark's reader of a batch query: from `startingOffsets` to `endingOffsets`, as they are when the query is
    planned."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._pruning = Pruning()

    @message_first
    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with cluster_of(options) as cluster:
            existing = existing_partitions(cluster, options)
            wanted = [partition for partition in existing if self._pruning.keeps(partition)]
            start = _resolve(cluster, "startingOffsets", options.starting or EARLIEST, existing)
            end = _resolve(cluster, "endingOffsets", options.ending, existing)
            if self._pruning.timestamp_ms is not None:
                times = dict.fromkeys(wanted, self._pruning.timestamp_ms)
                for partition, offset in cluster.list_offsets(times).items():
                    if offset >= 0:
                        start[partition] = max(start[partition], offset)
                    elif options.ending == LATEST:  # no stable record is that late
                        start[partition] = end[partition]
        bounds = self._pruning
        return _tasks(
            options,
            [
                OffsetRange(partition, first, last)
                for partition in sorted(wanted)
                if (first := max(start[partition], bounds.offset_min))
                < (last := min(end[partition], bounds.offset_end))
            ],
        )

    @rows_message_first
    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        return read_range(self._options, partition)


class PruningBatchReader(BatchReader):
    """A batch reader with `pushdown=true`: filters on topic, partition, offset and timestamp shorten the ranges.

    It is a class of its own because Spark fails a query whose reader has `pushFilters` while
    `spark.sql.python.filterPushdown.enabled` is off. Every filter is handed back, so Spark still applies it: pruning
    may only leave out what cannot match.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterator[Filter]:  # noqa: N802 (Spark's name)
        for condition in filters:
            operator = _CONDITIONS.get(type(condition))
            column: tuple[str, ...] = getattr(condition, "attribute", ())
            value = getattr(condition, "value", None)
            if operator is not None and len(column) == 1:
                self._pruning = self._pruning.narrowed(column[0], operator, value)
            yield condition


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Spark's reader of a stream. On the driver one object plans offsets for the whole run of the query; `read` runs on
    executors."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cluster: Cluster | None = None
        self._target: OffsetVector | None = None
        """With Trigger.AvailableNow: the offsets at which the query ends."""
        self._delay: TriggerDelay | None = None
        if options.min_offsets_per_trigger is not None:
            self._delay = TriggerDelay(
                options.min_offsets_per_trigger, options.max_trigger_delay_ms
            )
        self._progress = None if options.group_id is None else GroupProgress(options)

    def __getstate__(self) -> dict[str, object]:
        """Return the options alone, which tasks need to read; the driver's state stays on the driver."""
        kept = {"_cluster": None, "_target": None, "_delay": None, "_progress": None}
        return kept | {"_options": self._options}

    @message_first
    def initialOffset(self) -> OffsetJson:  # noqa: N802
        starting = LATEST if self._options.starting is None else self._options.starting
        cluster = self._connected()
        existing = existing_partitions(cluster, self._options)
        return to_json(_resolve(cluster, "startingOffsets", starting, existing))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._options.max_offsets_per_trigger)

    @message_first
    def latestOffset(self, start: OffsetJson, limit: ReadLimit) -> OffsetJson:  # noqa: N802
        """Return where the next micro-batch ends: at the partitions' ends, or as far from `start` as the limit allows.
        Markers take offsets, too."""
        begin = from_json(start)
        if self._progress is not None:
            # Spark asks only once the micro-batch before is committed, so all below `start` is done.
            self._progress.show(begin, tell)
        newest = self._readable_ends(begin)
        if self._target is not None:
            newest = {
                key: max(min(offset, self._target.get(key, 0)), begin.get(key, 0))
                for key, offset in newest.items()
                if key in self._target
            }
        if isinstance(limit, ReadMaxRows):
            if self._target is None and self._waits_for_more(begin, newest):
                return start
            return to_json(limited(begin, newest, limit.max_rows))
        if isinstance(limit, ReadAllAvailable):
            return to_json(newest)
        raise OncelogError(f"read limit {limit!r} is unknown to the oncelog source")

    @message_first
    def reportLatestOffset(self) -> OffsetJson:  # noqa: N802
        cluster = self._connected()
        existing = existing_partitions(cluster, self._options)
        return to_json(cluster.list_offsets(dict.fromkeys(existing, LATEST)))

    @message_first
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        cluster = self._connected()
        existing = existing_partitions(cluster, self._options)
        self._target = cluster.list_offsets(dict.fromkeys(existing, LATEST))

    @message_first
    def partitions(self, start: OffsetJson, end: OffsetJson) -> Sequence[InputPartition]:
        """Return the tasks that read between two offsets. They follow from the arguments alone, so a micro-batch that
        is run again reads the same records."""
        return _tasks(self._options, ranges_between(from_json(start), from_json(end)))

    @rows_message_first
    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        return read_range(self._options, partition)

    def commit(self, end: OffsetJson) -> None:
        """Do nothing: Spark's checkpoint holds the offsets, and the source has none to store."""

    def stop(self) -> None:
        if self._progress is not None:
            self._progress.close()
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    def _connected(self) -> Cluster:
        if self._cluster is None:
            self._cluster = cluster_of(self._options)
        return self._cluster

    def _waits_for_more(self, begin: OffsetVector, newest: OffsetVector) -> bool:
        if self._delay is None:
            return False
        available = sum(max(0, end - begin.get(key, 0)) for key, end in newest.items())
        return self._delay.waits(available, time.monotonic() * 1000)

    def _readable_ends(self, begin: Mapping[Partition, int]) -> OffsetVector:
        """Return each partition's LSO, or its high watermark where the query reads uncommitted.

        Raises OncelogError, or warns, where offsets that were reached before are gone.
        """
        cluster = self._connected()
        existing = existing_partitions(cluster, self._options)
        newest: OffsetVector = cluster.list_offsets(dict.fromkeys(existing, LATEST))
        for partition in sorted(begin.keys() - newest.keys()):
            self._lose(
                f"partition {partition} is gone; offset {begin[partition]} was reached in it"
            )
        for partition, offset in newest.items():
            if offset < begin.get(partition, 0):
                self._lose(
                    f"partition {partition} ends at offset {offset}, before offset {begin[partition]} that was "
                    "reached: it was truncated, or the topic was created anew"
                )
        return newest

    def _lose(self, what: str) -> None:
        if self._options.fail_on_data_loss:
            raise OncelogError(f"{what}. To go on with what is there, set failOnDataLoss=false")
        warn(what)


def _tasks(options: SourceOptions, ranges: list[OffsetRange]) -> list[InputPartition]:
    cut = task_ranges(ranges, options.min_partitions, options.max_records_per_partition)
    return [RangePartition(*one.partition, one.start, one.end) for one in cut]


def existing_partitions(cluster: Cluster, options: SourceOptions) -> list[Partition]:
    """Return the partitions of the subscribed topics, or the assigned ones.
    Raises OncelogError for those that do not exist."""
    if options.assigned:
        counts = cluster.partition_counts({partition.topic for partition in options.assigned})
        for partition in options.assigned:
            if partition.partition >= counts[partition.topic]:
                raise OncelogError(
                    f"option assign names {partition}, but the topic has "
                    f"{counted(counts[partition.topic], 'partition')}"
                )
        return sorted(options.assigned)
    if options.topic_pattern is None:
        counts = cluster.partition_counts(options.topics)
    else:
        matches = re.compile(options.topic_pattern).fullmatch
        all_counts = cluster.partition_counts_of_all()
        counts = {topic: count for topic, count in all_counts.items() if matches(topic)}
    return [Partition(topic, number) for topic in sorted(counts) for number in range(counts[topic])]


def read_range(options: SourceOptions, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
    """Yield the Arrow batches of one planned range. Runs in a task;
    Spark sends a bare InputPartition for an empty plan."""
    if not isinstance(partition, RangePartition):
        return
    # numpy and pyarrow load here, in the task: Spark imports this module in every process that looks a source up.
    from oncelog.client.partition_reader import (
        FETCH_BYTES,
        MAX_WAIT_MS,
        ReadPlan,
        read_partition,
    )
    from oncelog.spark.arrow_batches import record_batch

    fetch = options.fetch
    plan = ReadPlan(
        Partition(partition.topic, partition.partition),
        partition.start,
        partition.end,
        with_headers=options.include_headers,
        with_outcome=options.include_outcome,
        fail_on_data_loss=options.fail_on_data_loss,
        fetch_bytes=fetch.max_bytes or FETCH_BYTES,
        fetch_bytes_min=fetch.min_bytes,
        max_wait_ms=MAX_WAIT_MS if fetch.max_wait_ms is None else fetch.max_wait_ms,
    )
    with cluster_of(options) as cluster:
        for columns in read_partition(cluster, plan, warn):
            yield record_batch(plan.partition, columns, options.include_headers)


def warn(what: str) -> None:
    tell(f"data loss accepted: {what}")


def tell(what: str) -> None:
    """Print a line to standard error, which Spark writes to the log of the executor or, on the planner, of the
    driver."""
    print(f"oncelog: {what}", file=sys.stderr)


def _resolve(
    cluster: Cluster, option: str, offsets: Offsets | Timestamps, partitions: list[Partition]
) -> OffsetVector:
    """Return a number for each partition's offset, where `earliest`, `latest` or a time was given."""
    if isinstance(offsets, Timestamps):
        return _resolve_timestamps(cluster, option, offsets, partitions)
    if isinstance(offsets, dict):
        check_covers(option, offsets, partitions)
        wanted = offsets
    else:
        wanted = dict.fromkeys(partitions, offsets)
    found: OffsetVector = {key: offset for key, offset in wanted.items() if offset >= 0}
    relative = {key: offset for key, offset in wanted.items() if offset < 0}
    found.update(cluster.list_offsets(relative))
    return found


def _resolve_timestamps(
    cluster: Cluster, option: str, timestamps: Timestamps, partitions: list[Partition]
) -> OffsetVector:
    times = timestamps.per_partition(partitions)
    check_covers(option, times, partitions)
    found: OffsetVector = cluster.list_offsets(times)
    too_early = [partition for partition in sorted(found) if found[partition] < 0]
    if too_early and not timestamps.or_latest:
        raise OncelogError(
            f"{too_early[0]} has no committed record at or after {times[too_early[0]]} ms: give an earlier time, or "
            "set startingOffsetsByTimestampStrategy=latest to start such a partition at its end"
        )
    found.update(cluster.list_offsets(dict.fromkeys(too_early, LATEST)))
    return found
