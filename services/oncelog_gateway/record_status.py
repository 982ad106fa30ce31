"""Answers what became of one record: committed, aborted or open. The partition's leader and the
coordinators are asked.
"""

from typing import Final, Literal

from pydantic import Field

from oncelog.api.v1 import storage_pb2
from oncelog.ids import Partition
from oncelog_gateway.partitions import Partitions
from oncelog_gateway.resources import LsoHolder, Resource, known_or_none, resource_of
from oncelog_gateway.role_answers import opened_of
from oncelog_gateway.roles import Roles
from oncelog_gateway.transactions import Transactions

Status = Literal[
    "committed",
    "aborted",
    "open",
    "not_transactional",
    "control",
    "compacted",
    "below_log_start",
    "above_high_watermark",
    "not_written",
]

_STATUS: Final[dict[int, Status]] = {
    storage_pb2.BELOW_LOG_START: "below_log_start",
    storage_pb2.NOT_WRITTEN: "not_written",
    storage_pb2.COMPACTED: "compacted",
    storage_pb2.NOT_TRANSACTIONAL: "not_transactional",
    storage_pb2.IN_COMMITTED: "committed",
    storage_pb2.IN_ABORTED: "aborted",
    storage_pb2.IN_OPEN: "open",
    storage_pb2.COMMIT_MARKER: "control",
    storage_pb2.ABORT_MARKER: "control",
    storage_pb2.OTHER_CONTROL: "control",
}
_MARKERS: Final[dict[int, Literal["commit", "abort"]]] = {
    storage_pb2.COMMIT_MARKER: "commit",
    storage_pb2.ABORT_MARKER: "abort",
}


class RecordStatus(Resource):
    topic: str
    partition: int
    offset: int
    status: Status = Field(
        description="`committed`, `aborted` and `open` are of its transaction; `control`: a marker; `compacted`: "
        "no record has this offset any more; `above_high_watermark`: not on every in-sync replica yet"
    )
    read_committed: bool = Field(description="a read_committed reader gets this record now")
    marker: Literal["commit", "abort"] | None = Field(None, description="of a control record")
    producer_id: int | None = None
    producer_epoch: int | None = None
    transactional_id: str | None = Field(
        None,
        description="null: not transactional, or no coordinator knows the producer id any more",
    )
    transaction_start_offset: int | None = Field(
        None, description="first offset here of its open or aborted transaction"
    )
    marker_offset: int | None = Field(None, description="of the marker that aborted it")
    open_transaction: LsoHolder | None = Field(
        None, description="with `open`: whose it is, since when, and what to do"
    )
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    last_stable_offset: int
    detail: str


async def record_status(
    roles: Roles,
    partitions: Partitions,
    transactions: Transactions,
    partition: Partition,
    offset: int,
) -> RecordStatus:
    """Return what became of the record at an offset, such as committed or open. Raises KafkaError when the leader does
    not answer; if a coordinator is silent, only names are missing.
    """
    found = await roles.describe_record(partition, offset)
    holder = None
    if found.fate == storage_pb2.IN_OPEN:
        holder = await partitions.opened(opened_of(partition, found.open_transaction))
    name = holder.transactional_id if holder else None
    if holder is None and found.producer_id >= 0:
        known, _ = await transactions.of_producers([found.producer_id])
        name = known[0].transactional_id if known else None
    status = _status(found, offset)
    is_readable = found.fate in (storage_pb2.NOT_TRANSACTIONAL, storage_pb2.IN_COMMITTED)
    return resource_of(
        RecordStatus,
        found,
        topic=partition.topic,
        partition=partition.partition,
        offset=offset,
        status=status,
        read_committed=is_readable and offset < found.last_stable_offset,
        marker=_MARKERS.get(found.fate),
        producer_id=known_or_none(found.producer_id),
        producer_epoch=found.producer_epoch if found.producer_id >= 0 else None,
        transactional_id=name,
        transaction_start_offset=known_or_none(found.txn_first_offset),
        marker_offset=known_or_none(found.txn_last_offset),
        open_transaction=holder,
        detail=_detail(found, status, offset),
    )


def _status(found: storage_pb2.DescribeRecordResponse, offset: int) -> Status:
    if found.high_watermark <= offset < found.log_end_offset:
        return "above_high_watermark"
    return _STATUS[found.fate]


def _detail(found: storage_pb2.DescribeRecordResponse, status: Status, offset: int) -> str:
    match status:
        case "below_log_start":
            return f"the log begins at {found.log_start_offset}: retention or DeleteRecords took it"
        case "not_written":
            return f"the log ends at {found.log_end_offset}: nothing was written there yet"
        case "compacted":
            return "compaction took it, or the batch around it has no record left"
        case "above_high_watermark":
            return (
                f"written by the leader, and not on every in-sync replica yet: the high watermark is "
                f"{found.high_watermark}"
            )
        case "control":
            return "a control record: readers never see it"
        case "aborted":
            return (
                f"aborted by the marker at {found.txn_last_offset}; read_committed readers skip it"
            )
        case "open":
            return "its transaction is open here: nothing is decided"
    if offset >= found.last_stable_offset:
        return (
            f"decided, but read_committed readers wait before it: the last stable offset is "
            f"{found.last_stable_offset}, held by another transaction"
        )
    return "every reader gets it"
