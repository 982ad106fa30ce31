"""The format in which a kind of shard writes its machine's records into its log, and reads them again."""

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
    """Records that belong into one batch. `producer` is the client's (id, epoch) for what a transaction covers."""

    records: list[Record]
    producer: tuple[int, int] | None = None
    is_control: bool = False


class RecordFormat(Protocol[RecordT]):
    """The functions that turn the records of one kind of machine into bytes and back."""

    def encode(self, records: Sequence[RecordT], now: int) -> Iterable[Run]:
        """Return runs that hold, together and in order, one record of the log for each record of the machine."""

    def decode(self, header: BatchHeader, key: bytes, value: bytes | None) -> RecordT | None:
        """Return the machine's record; None for a record of a newer kind. Raises ValueError or OncelogError for a
        damaged one."""

    def decode_control(self, header: BatchHeader, data: bytes, at: int) -> RecordT | None:
        """Return the machine's record for the control batch whose bytes begin at `at` in `data`; None: it has none."""


class TransactionRecords:
    """The format of `__transaction_state`. The version of a transaction's value follows the cluster's
    `transaction.version` (facts 5.1)."""

    def __init__(self, metadata: MetadataFollower) -> None:
        self._metadata = metadata

    def encode(self, records: Sequence[ShardRecord], now: int) -> Iterable[Run]:
        version = min(1, self._metadata.image.transaction_version)
        return (Run([Record(*encode_shard_record(record, version), now) for record in records]),)

    def decode(self, header: BatchHeader, key: bytes, value: bytes | None) -> ShardRecord | None:
        return decode_shard_record(key, value)

    def decode_control(self, header: BatchHeader, data: bytes, at: int) -> ShardRecord | None:
        return None
