"""The format in which the records of a shard's state machine are written into its log as batches, and read again."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from oncelog.record.batch import BatchHeader
from oncelog.record.records import Record
from oncelog.rpc.metadata import MetadataFollower
from oncelog_coordinator.core.shard_machine import (
    ShardRecord,
    decode_shard_record,
    encode_shard_record,
)

RecordT = TypeVar("RecordT")


class Run(NamedTuple):
    """Records that belong into one batch of a shard's log.

    `producer` is the client's (id, epoch) if they are part of its transaction; None: they are the coordinator's own.
    """

    records: list[Record]
    producer: tuple[int, int] | None = None
    is_control: bool = False


class RecordFormat(Protocol[RecordT]):
    """Turns the records of one kind of state machine (transactions or groups) into log records, and back."""

    def encode(self, records: Sequence[RecordT], now: int) -> Iterable[Run]:
        """Return the batches to write: together and in order, one log record for each record of the state machine."""

    def decode(self, header: BatchHeader, key: bytes, value: bytes | None) -> RecordT | None:
        """Return the state machine's record for this key and value of a log record; None: its kind is newer than this
        build.

        Raises ValueError or OncelogError for a damaged one.
        """

    def decode_control(self, header: BatchHeader, data: bytes, at: int) -> RecordT | None:
        """Return the state machine's record for a control batch (a transaction marker) whose bytes begin at `at` in
        `data`.

        None: it makes no record.
        """


class TransactionRecords:
    """Turns a transaction shard's records into log records of `__transaction_state`, and back.

    The version of a transaction's value follows the cluster's `transaction.version` (docs/kafka-facts.md, 5.1).
    """

    def __init__(self, metadata: MetadataFollower) -> None:
        self._metadata = metadata

    def encode(self, records: Sequence[ShardRecord], now: int) -> Iterable[Run]:
        version = min(1, self._metadata.image.transaction_version)
        return (Run([Record(*encode_shard_record(record, version), now) for record in records]),)

    def decode(self, header: BatchHeader, key: bytes, value: bytes | None) -> ShardRecord | None:
        return decode_shard_record(key, value)

    def decode_control(self, header: BatchHeader, data: bytes, at: int) -> ShardRecord | None:
        return None
