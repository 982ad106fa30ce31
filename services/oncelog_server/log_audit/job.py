"""The Spark job of the audit: how batches, walks and the states of coordinators come together.

A transaction that is open in a log hangs if no coordinator has it open. Files are read once, so they must not change
meanwhile: those of stopped nodes, or a copy. A running cluster is read in three steps, as by `oncelog transactions
find-hanging`: the logs, then the coordinators, then the partitions again.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark import StorageLevel
from pyspark.sql import functions as f
from pyspark.sql.window import Window

from oncelog.errors import OncelogError
from oncelog.ids import TRANSACTION_STATE_TOPIC, Partition
from oncelog.spark.options import SourceOptions
from oncelog_server.log_audit.core.log_walk import OPEN, WHOLE
from oncelog_server.log_audit.core.rows import FAULTS, BatchRow, Event, Kind, ddl
from oncelog_server.log_audit.fetching import parsed_options, stretches_of_cluster
from oncelog_server.log_audit.reading import Stretch, stretches_of
from oncelog_server.log_audit.states import (
    OPEN_STATES,
    StateRow,
    names_of_cluster,
    states_of_cluster,
    still_open_of_cluster,
)
from oncelog_server.log_audit.tasks import (
    Task,
    read_files,
    read_ranges,
    read_states,
    walk_logs,
    walk_producers,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

BYTES_OF_A_TASK: Final = 64 * 1024 * 1024
TASKS_MIN: Final = 4
"""The fewest Spark tasks of a job. Small files share a task, because each task costs some milliseconds whatever it
reads.
"""
NAMES_MAX: Final = 1000
"""A running cluster is asked for the transactional ids behind so many standstills at most, the longest ones. It is
asked for those of open transactions in any case.
"""
_PARTITION: Final = ("topic", "partition")
_LOG: Final = ("replica", *_PARTITION)
_PLACE: Final = ("segment", "position")
_OF_EVERY_REPLICA: Final = (
    Kind.HOLE,
    Kind.OVERLAP,
    Kind.DAMAGED,
    Kind.UNREADABLE,
    Kind.TORN_END,
)


class Audit(NamedTuple):
    """The result of an audit, as Spark data frames: each may be large. `report_of` makes a short report of it."""

    logs: "DataFrame"
    """One row for each replica. `is_judged` marks the fullest replica of each partition: only its transactions and
    standstills are reported.
    """
    findings: "DataFrame"
    """The findings, one a row: faults (`is_fault` is true), and events that are only information."""
    transactions: "DataFrame"
    """Transactions that have ended, one row for each transaction and partition."""
    standstills: "DataFrame"
    """The times in which the last stable offset of a partition did not move, each with the producer that was the cause.
    """

    def save(self, folder: str) -> None:
        """Write each data frame as Parquet into a folder of its name below `folder`, and replace what was there."""
        for name, frame in self._asdict().items():
            frame.write.mode("overwrite").parquet(f"{folder}/{name}")


def audit_folders(spark: "SparkSession", folders: Iterable[str | Path]) -> Audit:
    """Audit the data folders of stopped storage nodes. Give those of all nodes of a cluster: otherwise the
    coordinators' records may be missing, by which hanging transactions are found.

    Each executor must reach the folders under the same paths. Raises OncelogError for a folder that is no data folder.
    """
    stretches = [one for folder in folders for one in stretches_of(Path(folder))]
    if not stretches:
        raise OncelogError("name at least one data folder of a node")
    walked = _Walked(spark, stretches, read_files)
    is_shard = (f.col("topic") == TRANSACTION_STATE_TOPIC) & f.col("is_judged")
    judged = {(one.replica, one.partition) for one in walked.logs.where(is_shard).collect()}
    shards = [one for one in stretches if one.topic == TRANSACTION_STATE_TOPIC]
    states = _mapped(
        spark,
        [one for one in shards if (one.replica, one.partition) in judged],
        read_states,
        ddl(StateRow),
    )
    newest = f.struct("producer_id", "state", "partitions")
    states_now = states.groupBy("shard", "key").agg(f.max_by(newest, "offset").alias("now"))
    named = states.where("producer_id >= 0 AND transactional_id <> ''").groupBy("producer_id")
    names = named.agg(f.max_by("transactional_id", "offset").alias("transactional_id"))
    # A shard has a folder when something was written to it. Without any, no coordinator was heard, and none is accused.
    hanging = walked.unowned(states_now.select("now.*")) if shards else walked.opened.limit(0)
    last = walked.logs.agg(f.max("last_ms").alias("ms")).first()
    until_ms = -1 if last is None or last.ms is None else min(last.ms, _now_ms())
    return walked.audit(hanging, names, until_ms)


def audit_cluster(spark: "SparkSession", options: Mapping[str, str]) -> Audit:
    """Audit the logs of a running cluster. `options` are as for `spark.read.format("oncelog")`, such as
    `bootstrap.servers`.

    Without `subscribe` or another option that names topics, all topics are read, internal ones too. Raises
    OncelogError, KafkaError, ClientError.
    """
    parsed = parsed_options(options)
    walked = _Walked(spark, stretches_of_cluster(parsed), partial(read_ranges, parsed))
    opened = _producers(walked.opened)
    owned = spark.createDataFrame(states_of_cluster(parsed, opened), ddl(StateRow))
    suspects = walked.unowned(owned).collect()
    hanging = spark.createDataFrame(_confirmed(parsed, suspects), walked.opened.schema)
    longest = walked.standstills.orderBy(f.desc(f.col("to_ms") - f.col("from_ms")))
    known = names_of_cluster(parsed, sorted({*opened, *_producers(longest.limit(NAMES_MAX))}))
    names = spark.createDataFrame(
        list(known.items()), "producer_id bigint, transactional_id string"
    )
    return walked.audit(hanging, names, _now_ms())


def _now_ms() -> int:
    return int(time.time() * 1000)


def _producers(frame: "DataFrame") -> list[int]:
    return sorted(one.producer_id for one in frame.select("producer_id").distinct().collect())


def _confirmed(options: SourceOptions, suspects: Sequence["Row"]) -> list["Row"]:
    """Return those suspected transactions that are still open in their partitions, unchanged. It is asked after the
    coordinators have answered, so these hang.
    """
    by_partition: dict[Partition, set[tuple[int, int]]] = defaultdict(set)
    for one in suspects:
        by_partition[Partition(one.topic, one.partition)].add((one.producer_id, one.offset))
    still = still_open_of_cluster(options, by_partition)
    return [
        one
        for one in suspects
        if (Partition(one.topic, one.partition), one.producer_id, one.offset) in still
    ]


def _mapped(
    spark: "SparkSession", stretches: Sequence[Stretch], task: Task, schema: str
) -> "DataFrame":
    """Run `task` on the stretches of logs in Spark, and return its rows as a data frame with this schema. The frame is
    kept on disk, because several queries read it.
    """
    read = [one for one in stretches if one.size_bytes]
    frame = spark.createDataFrame(read, ddl(Stretch)).repartition(_task_count(read))
    return frame.mapInArrow(task, schema).persist(StorageLevel.DISK_ONLY)


def _task_count(stretches: Sequence[Stretch]) -> int:
    """Return how many Spark tasks the stretches are worth, by their bytes. Spark alone would make two hundred, however
    little there is.
    """
    total = sum(one.size_bytes for one in stretches)
    return max(TASKS_MIN, min(len(stretches), total // BYTES_OF_A_TASK))


class _Walked:
    """The logs after both walks have gone through them: what is known before coordinators are asked."""

    def __init__(self, spark: "SparkSession", stretches: Sequence[Stretch], read: Task) -> None:
        self._tasks = _task_count(stretches)
        batches = _mapped(spark, stretches, read, ddl(BatchRow))
        in_order = batches.repartition(self._tasks, *_LOG).sortWithinPartitions(*_LOG, *_PLACE)
        self._events = in_order.mapInArrow(walk_logs, ddl(Event)).persist(StorageLevel.DISK_ONLY)
        self._of_producers = _of_producers(batches, self._events, self._tasks)
        self.logs = _logs(spark, stretches, self._events)
        judged = self.logs.where("is_judged").select(*_LOG)
        self._judged = self._events.join(f.broadcast(judged), [*_LOG])
        self.standstills = self._of(Kind.STANDSTILL)
        self.opened = self._of(Kind.OPEN)
        # Coordinators and partitions are asked behind the last log.
        self._events.count()

    def _of(self, *kinds: Kind) -> "DataFrame":
        return self._judged.where(f.col("kind").isin(*kinds))

    def unowned(self, states: "DataFrame") -> "DataFrame":
        """Return the open transactions of the logs that no coordinator has open. `states` has the state and the
        partitions of each transaction at its coordinator.
        """
        owed = states.where(f.col("state").isin(*OPEN_STATES))
        owned = owed.select("producer_id", f.explode("partitions").alias("place"))
        place = f.concat("topic", f.lit("-"), f.col("partition").cast("string"))
        opened = self.opened.withColumn("place", place)
        return opened.join(owned, ["producer_id", "place"], "left_anti").select(
            *self.opened.columns
        )

    def audit(self, hanging: "DataFrame", names: "DataFrame", until_ms: int) -> Audit:
        """Return the finished audit. `hanging` are those open transactions that hang. `names` has transactional ids by
        producer id. Transactions still open have held the last stable offset until `until_ms`.
        """
        identity = [*_LOG, "producer_id", "offset"]
        others = self.opened.join(hanging.select(*identity), identity, "left_anti")
        accused = hanging.withColumn("kind", f.lit(Kind.HANGING.value))
        every = self._events.where(f.col("kind").isin(*_OF_EVERY_REPLICA))
        found = [every, self._of_producers, self._of(Kind.EMPTY_MARKER), others, accused]
        findings = found[0]
        for one in found[1:]:
            findings = findings.unionByName(one)

        is_open = f.col("outcome") == OPEN
        until = f.when(is_open, f.greatest("to_ms", f.lit(until_ms))).otherwise(f.col("to_ms"))

        def named(frame: "DataFrame") -> "DataFrame":
            found = frame.join(names, "producer_id", "left")
            return found.coalesce(self._tasks).persist(StorageLevel.DISK_ONLY)

        return Audit(
            self.logs,
            named(findings.withColumn("is_fault", f.col("kind").isin(*FAULTS))),
            named(self._of(Kind.TRANSACTION)),
            named(self.standstills.withColumn("to_ms", until)),
        )


def _of_producers(batches: "DataFrame", events: "DataFrame", tasks: int) -> "DataFrame":
    damaged = events.where(f.col("kind") == Kind.DAMAGED.value).groupBy(*_LOG)
    places = damaged.agg(f.sort_array(f.collect_list("offset")).alias("damaged"))
    facts = events.where(f.col("kind") == Kind.LOG.value).select(
        *_LOG,
        (f.col("outcome") == WHOLE).alias("is_whole"),
        f.col("expected").alias("first_leader_epoch"),
    )
    facts = facts.join(places, [*_LOG], "left")
    with_facts = batches.where("is_sound AND producer_id >= 0").join(f.broadcast(facts), [*_LOG])
    of_one = (*_LOG, "producer_id")
    in_order = with_facts.repartition(tasks, *of_one).sortWithinPartitions(*of_one, *_PLACE)
    return in_order.mapInArrow(walk_producers, ddl(Event)).persist(StorageLevel.DISK_ONLY)


def _logs(spark: "SparkSession", stretches: Sequence[Stretch], events: "DataFrame") -> "DataFrame":
    """Return a row for each replica. `is_judged` marks the one of each partition whose transactions are reported: one
    without damage if there is one. Of these it is the one with the highest high watermark, then with the longest log.
    """
    committed = {(*one[:3], one.high_watermark) for one in stretches}
    schema = "replica string, topic string, partition bigint, committed bigint"
    marks = spark.createDataFrame(sorted(committed), schema)
    is_damaged = f.max(f.col("kind") == Kind.DAMAGED.value).alias("is_damaged")
    damaged = events.groupBy(*_LOG).agg(is_damaged)
    found = events.where(f.col("kind") == Kind.LOG.value)
    found = found.join(f.broadcast(marks), [*_LOG]).join(damaged, [*_LOG])
    end = f.col("end_offset")
    mark = f.when(f.col("committed") < 0, end).otherwise(f.least("committed", end))
    fullness = ("is_damaged", f.desc("high_watermark"), f.desc("end_offset"), "start_offset")
    rank = f.row_number().over(Window.partitionBy(*_PARTITION).orderBy(*fullness, "replica"))
    return found.select(
        *_LOG,
        f.col("offset").alias("start_offset"),
        "end_offset",
        mark.alias("high_watermark"),
        f.col("total").alias("batches"),
        (f.col("outcome") == WHOLE).alias("is_whole"),
        "is_damaged",
        f.col("to_ms").alias("last_ms"),
    ).withColumn("is_judged", rank == 1)
