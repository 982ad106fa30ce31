"""The states of transactions at their coordinators, for the audit: from the records in `__transaction_state`, or from
what running coordinators answer.

A Spark sink's transaction in one task is called a branch. It is open from the record that begins it until that record
is removed.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from oncelog.errors import KafkaError, OncelogError
from oncelog.ids import Partition, branch_transactional_id
from oncelog.record.bulk import uncompressed
from oncelog.record.records import Record, decode_batch
from oncelog.spark.options import SourceOptions
from oncelog_coordinator.core.sink_records import Branch, SinkRecordType, decode_sink_record
from oncelog_coordinator.core.txn_records import (
    TXN_RECORD_TYPE,
    MalformedRecord,
    decode_record,
    record_type,
)
from oncelog_coordinator.core.txn_state import TxnTombstone
from oncelog_server.log_audit.fetching import admin_of
from oncelog_server.log_audit.reading import FoundBatch, Stretch, batches_of

OPEN_STATES: Final = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")
"""States in which a coordinator still owes its partitions a marker."""
BRANCH_STATE: Final = "Ongoing"
REMOVED: Final = "Dead"
NO_SHARD: Final = -1


class StateRow(NamedTuple):
    """One record of a coordinator about a transaction. The newest record of a key is the transaction's state."""

    shard: int
    offset: int
    key: bytes
    transactional_id: str
    """The transactional id. Empty for a record that removes a branch: its key lacks the batch and the task that are
    parts of the id.
    """
    producer_id: int
    producer_epoch: int
    state: str
    partitions: list[str]
    """Names of the partitions, such as `orders-0`."""


def states_of_file(stretch: Stretch) -> Iterator[StateRow]:
    """Yield the states in the committed records of a segment file of `__transaction_state`. Batches that are damaged
    are left out.

    Raises OncelogError for an undamaged batch that holds what no coordinator writes.
    """
    path = Path(stretch.path)
    try:
        with open(path, "rb") as file:
            for found in batches_of(path):
                if not _is_committed(stretch, found):
                    continue
                file.seek(found.position)
                for record in decode_batch(uncompressed(file.read(found.size_bytes))):
                    if row := _state_of(stretch.partition, record):
                        yield row
    except FileNotFoundError:
        # Compaction took it meanwhile.
        return
    except (KafkaError, MalformedRecord) as error:
        raise OncelogError(f"{path} has a record that no coordinator writes: {error}") from error


def _is_committed(stretch: Stretch, found: FoundBatch) -> bool:
    header = found.header
    if header is None or not found.is_sound or header.is_control:
        return False
    return stretch.high_watermark < 0 or header.next_offset <= stretch.high_watermark


def _state_of(shard: int, record: Record) -> StateRow | None:
    """Return the state that a record holds; None if the record says nothing of a transaction."""
    key = record.key or b""
    kind = record_type(key)
    if kind == SinkRecordType.BRANCH:
        branch = decode_sink_record(key, record.value)
        if isinstance(branch, Branch):
            name = branch_transactional_id(branch.sink, branch.batch_id, branch.task_partition)
            owner = (name, branch.producer_id, branch.producer_epoch, BRANCH_STATE)
            return StateRow(shard, record.offset, key, *owner, list(map(str, branch.partitions)))
        return _removed(shard, record, "")
    if kind != TXN_RECORD_TYPE:
        return None
    txn = decode_record(key, record.value)
    if txn is None:
        return None
    if isinstance(txn, TxnTombstone):
        return _removed(shard, record, txn.transactional_id)
    owner = (txn.transactional_id, txn.producer_id, txn.producer_epoch, txn.state.kafka_name)
    return StateRow(shard, record.offset, key, *owner, list(map(str, txn.partitions)))


def _removed(shard: int, record: Record, transactional_id: str) -> StateRow:
    key = record.key or b""
    return StateRow(shard, record.offset, key, transactional_id, -1, -1, REMOVED, [])


def states_of_cluster(options: SourceOptions, producer_ids: Sequence[int]) -> list[StateRow]:
    """Return the transactions of these producer ids that the coordinators of a running cluster have open.

    Raises ClientError where a coordinator does not answer. Otherwise its transactions would count as hanging.
    """
    if not producer_ids:
        return []
    with admin_of(options) as admin:
        known = admin.list_transactions(OPEN_STATES, producer_ids)
        described = admin.describe_transactions(one.transactional_id for one in known).check()
    return [
        StateRow(
            NO_SHARD,
            number,
            one.transactional_id.encode(),
            one.transactional_id,
            one.producer_id,
            one.producer_epoch,
            one.state,
            sorted(map(str, one.partitions)),
        )
        for number, one in enumerate(described.values())
    ]


def names_of_cluster(options: SourceOptions, producer_ids: Sequence[int]) -> dict[int, str]:
    """Return the transactional id that has each of these producer ids now. A producer id without one is left out."""
    if not producer_ids:
        return {}
    with admin_of(options) as admin:
        known = admin.list_transactions(producer_ids=producer_ids)
    return {one.producer_id: one.transactional_id for one in known}


def still_open_of_cluster(
    options: SourceOptions, suspects: Mapping[Partition, set[tuple[int, int]]]
) -> set[tuple[Partition, int, int]]:
    """Return those suspects that are still open in their partitions, as (partition, producer id, first offset).
    `suspects` has (producer id, first offset) by partition.
    """
    if not suspects:
        return set()
    with admin_of(options) as admin:
        again = admin.describe_producers(suspects).check()
    return {
        (partition, one.producer_id, one.open_since_offset)
        for partition, producers in again.items()
        for one in producers
        if (one.producer_id, one.open_since_offset) in suspects[partition]
    }
