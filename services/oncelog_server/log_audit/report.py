"""A short report of an audit, for people and scripts. The audit's data frames have all of it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict

from pyspark.sql import functions as f

from oncelog_server.log_audit.core.rows import Kind
from oncelog_server.log_audit.job import Audit

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

FINDINGS_MAX: Final = 100
STANDSTILLS_MAX: Final = 10


Row: TypeAlias = Any
"""A row of a frame as a dictionary. Spark knows its columns when the job runs, not before."""


class Finding(TypedDict):
    """Something that the audit found, as a row of `Audit.findings`."""

    replica: str
    topic: str
    partition: int
    kind: str
    is_fault: bool
    offset: int
    end_offset: int
    total: int
    sequence: int
    expected: int
    outcome: str
    producer_id: int
    producer_epoch: int
    transactional_id: str | None


class Standstill(TypedDict):
    """A time in which a partition's last stable offset did not move, as a row of `Audit.standstills`. `stood_ms` says
    how long.
    """

    topic: str
    partition: int
    offset: int
    total: int
    outcome: str
    producer_id: int
    transactional_id: str | None
    stood_ms: int


class Report(TypedDict):
    logs: int
    batches: int
    partitions: int
    transactions: dict[str, int]
    findings: dict[str, int]
    fault_count: int
    first_findings: list[Finding]
    standstills: list[Standstill]
    partitions_held: list[Mapping[str, object]]


def report_of(audit: Audit) -> Report:
    """Return the counts, the first findings with the faults at the top, and the longest standstills. Times are
    milliseconds.
    """
    findings = audit.findings
    logs = audit.logs.agg(
        f.count("*").alias("logs"),
        f.coalesce(f.sum("batches"), f.lit(0)).alias("batches"),
        f.count_if("is_judged").alias("partitions"),
    ).first()
    assert logs is not None
    return {
        "logs": logs.logs,
        "batches": logs.batches,
        "partitions": logs.partitions,
        "transactions": _counted(audit.transactions, "outcome"),
        "findings": _counted(findings, "kind"),
        "fault_count": findings.where("is_fault").count(),
        "first_findings": _rows(
            findings.orderBy(f.desc("is_fault"), "topic", "partition", "offset", "kind", "replica"),
            FINDINGS_MAX,
        ),
        "standstills": _rows(
            audit.standstills.withColumn("stood_ms", stood_ms()).orderBy(
                f.desc("stood_ms"), "topic", "partition", "offset"
            ),
            STANDSTILLS_MAX,
        ),
        "partitions_held": _rows(_held(audit), STANDSTILLS_MAX),
    }


def stood_ms() -> "Column":
    """Return the column that says how long the last stable offset stood still. It is 0 where the clients' timestamps
    run backwards.
    """
    return f.greatest(f.col("to_ms") - f.col("from_ms"), f.lit(0))


def _held(audit: Audit) -> "DataFrame":
    """Return how often and how long the last stable offset of each partition stood still, the longest first."""
    of_partition = audit.standstills.groupBy("topic", "partition").agg(
        f.count("*").alias("standstills"),
        f.sum(stood_ms()).alias("stood_ms"),
        f.max(stood_ms()).alias("longest_ms"),
    )
    return of_partition.orderBy(f.desc("stood_ms"), "topic", "partition")


def _counted(frame: "DataFrame", column: str) -> dict[str, int]:
    return {one[column]: one["count"] for one in frame.groupBy(column).count().collect()}


def _rows(frame: "DataFrame", limit: int) -> list[Row]:
    return [one.asDict() for one in frame.limit(limit).collect()]


def sentence_of(finding: Finding) -> str:
    """Return one finding in words, without the partition that it is about."""
    at, end = finding["offset"], finding["end_offset"]
    who = _who(finding)
    total = finding["total"]
    match Kind(finding["kind"]):
        case Kind.HANGING:
            return f"the transaction of {who} is open since {at}, and no coordinator will end it"
        case Kind.OPEN:
            return f"the transaction of {who} is open since {at}"
        case Kind.HOLE:
            return f"offsets {at} to {end - 1} are not there"
        case Kind.OVERLAP:
            return f"behind {at - 1} the log goes on at {end}, which was there before"
        case Kind.DAMAGED:
            return f"{total} batches from {at} on fail their checksum"
        case Kind.UNREADABLE:
            return f"{total} bytes behind {at - 1} are no batches"
        case Kind.TORN_END:
            return f"what stands behind {at - 1} is not whole; a start cuts it off"
        case Kind.SEQUENCE_GAP:
            return f"{who} wrote sequence {finding['sequence']} at {at}; {finding['expected']} is missing"
        case Kind.DUPLICATE:
            return f"{who} wrote sequence {finding['sequence']} at {at} again; {finding['expected']} was due"
        case Kind.EPOCH_WENT_BACK:
            return f"{who} wrote at {at}, behind a batch of epoch {finding['expected']}"
        case Kind.EMPTY_MARKER:
            return (
                f"the {finding['outcome']} marker of {who} at {at} ends no records that are there"
            )
        case kind:
            return f"{kind} at {at}"


def _who(finding: Finding) -> str:
    producer = f"producer {finding['producer_id']} epoch {finding['producer_epoch']}"
    name = finding["transactional_id"]
    return f"{name} ({producer})" if name else producer
