"""The decisions of a Fetch: which whole batches it returns, up to HW, LSO or log end, and when they are enough.

`Fetching.read` is a generator. It yields what it needs of a log, and the caller reads that, or throws KafkaError
into it when the read fails. Responses are filled in place, as in `producing`.
"""

import struct
from collections.abc import Generator, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog.record.batch import iter_headers
from oncelog_storage.core.aborted_index import AbortedTransactionEntry
from oncelog_storage.core.messages import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    LedPartitions,
)
from oncelog_storage.core.partition import PartitionReplica
from oncelog_storage.core.topic_counts import TopicCounts

_EMPTY_READS_MAX: Final = 100
_ANY_BYTES: Final = 2**31
_RECORD_COUNT: Final = struct.Struct(">i")
_RECORD_COUNT_AT: Final = 57

HostedT = TypeVar("HostedT", bound=PartitionReplica)


class LogSlice(NamedTuple):
    """Whole batches as they stand in the log, and the offset behind them; `next_offset` is -1 when there are none."""

    records: bytes
    next_offset: int


class AdmitLoader(NamedTuple, Generic[HostedT]):
    """Yielded by the generator `Fetching.read` when a coordinator loads its shard from this log.

    The caller then refuses appends of older coordinators, which would come behind what this one reads.
    """

    hosted: HostedT
    coordinator_epoch: int


class ReadBatches(NamedTuple, Generic[HostedT]):
    """Yielded by the generator `Fetching.read` to ask for batches, from the one that holds `offset` up to `upper`.

    The caller sends a LogSlice. It has at least one batch, if the log has one there.
    """

    hosted: HostedT
    offset: int
    upper: int
    bytes_max: int


class FindAborted(NamedTuple, Generic[HostedT]):
    """Yielded by the generator `Fetching.read` to ask for the aborted transactions with data in [offset, upper).

    The caller sends a list of them.
    """

    hosted: HostedT
    offset: int
    upper: int


Need = AdmitLoader[HostedT] | ReadBatches[HostedT] | FindAborted[HostedT]
Found = LogSlice | Sequence[AbortedTransactionEntry] | None
ResultT = TypeVar("ResultT")
Walk = Generator[Need[HostedT], Found, ResultT]


class Fetching(Generic[HostedT]):
    """One try to answer a Fetch request from all its partitions. A request that waits for more records tries again with
    a new object.
    """

    __slots__ = (
        "_is_committed_only",
        "_left_bytes",
        "_replica_manager",
        "_request",
        "given",
        "is_final",
        "is_full",
        "total_bytes",
    )

    def __init__(
        self,
        request: FetchRequest,
        replica_manager: LedPartitions[HostedT],
        bytes_max: int,
        *,
        is_committed_only: bool,
    ) -> None:
        self._request = request
        self._replica_manager = replica_manager
        self._is_committed_only = is_committed_only
        self._left_bytes = min(request.max_bytes or _ANY_BYTES, bytes_max)
        self.total_bytes = 0
        self.given: list[tuple[TopicCounts, int, int]] = []
        """(counters of the topic, number of bytes, number of offsets) of each partition that was read.

        `count_given` adds the numbers to the counters if this try becomes the response.
        """
        self.is_final = False
        """True if a partition has an error, so that waiting is pointless."""
        self.is_full = False
        """True if there is more than may be returned. Whole batches seldom fill the limit, and waiting brings no more.
        """

    @property
    def is_enough(self) -> bool:
        is_over = self.is_final or self.is_full
        return is_over or self.total_bytes >= self._request.min_bytes

    @property
    def missing_bytes(self) -> int:
        """Bytes that must be appended before another try can have enough.

        It is 1 for read_committed, where a moving LSO may uncover any number of bytes.
        """
        return 1 if self._is_committed_only else self._request.min_bytes - self.total_bytes

    def is_known(self, part: FetchPartition) -> bool:
        """True if the partition has no news for a reader that asks for changes only (`changes_only`): it is at the end.

        Most partitions of a fetch session are like that, and this check costs a fraction of `read`.
        """
        if not self._request.changes_only:
            return False
        try:
            led = self._replica_manager.led(part.topic, part.partition)
        except KafkaError:
            return False
        log, high_watermark = led.log, led.high_watermark
        upper = led.last_stable_offset if self._is_committed_only else high_watermark
        return (
            upper <= part.fetch_offset <= log.log_end_offset
            and high_watermark == part.known_high_watermark
            and log.log_start_offset == part.known_log_start_offset
            and part.current_leader_epoch in (-1, led.leadership.leader_epoch)
            and part.topic_id in (b"", log.topic_id)
        )

    def is_news(self, part: FetchPartition, answer: FetchedPartition, size_bytes: int) -> bool:
        """True if the response must include this partition, which has `size_bytes` of records (KIP-227)."""
        return (
            not self._request.changes_only
            or size_bytes > 0
            or answer.error_code != ErrorCode.NONE
            or answer.high_watermark != part.known_high_watermark
            or answer.log_start_offset != part.known_log_start_offset
        )

    def read(self, part: FetchPartition, answer: FetchedPartition) -> Walk[HostedT, int]:
        """Fill the partition's response, with an error code if it is refused. Return its number of bytes of records.

        The caller need not look at the records for that: a look at that field of a protobuf message copies them.
        """
        size_bytes = 0
        try:
            size_bytes = yield from self._read(part, answer)
        except KafkaError as error:
            self.is_final = True
            answer.records = b""
            self._refuse(answer, error)
        self.total_bytes += size_bytes
        self._left_bytes -= size_bytes
        return size_bytes

    def _read(self, part: FetchPartition, answer: FetchedPartition) -> Walk[HostedT, int]:
        """Fill the partition's response, and return its bytes of records. Raises KafkaError."""
        led = self._replica_manager.led(part.topic, part.partition)
        led.require_topic(part.topic_id, ErrorCode.INCONSISTENT_TOPIC_ID)
        led.require_leader_epoch(part.current_leader_epoch)
        log, offset = led.log, part.fetch_offset
        last_stable_offset = led.last_stable_offset
        answer.high_watermark = led.high_watermark
        answer.last_stable_offset = last_stable_offset
        answer.log_start_offset = log.log_start_offset
        answer.leader = led.leadership.leader
        answer.leader_epoch = led.leadership.leader_epoch
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE)
        if self._request.read_to_log_end:
            yield AdmitLoader(led, self._request.coordinator_epoch)
            upper = log.log_end_offset
        else:
            upper = last_stable_offset if self._is_committed_only else led.high_watermark
        bytes_max = min(part.max_bytes or _ANY_BYTES, self._left_bytes)
        is_first = self.total_bytes == 0
        if offset >= upper:
            return 0
        if bytes_max <= 0 and not is_first:
            self.is_full = True
            return 0
        records, next_offset = yield from _read_past_empty(led, offset, upper, max(bytes_max, 1))
        self.is_full = self.is_full or next_offset < upper
        if not records:
            return 0
        if len(records) > bytes_max and not is_first:
            self.is_full = True
            return 0
        answer.records = records
        if self._is_committed_only:
            aborted = yield FindAborted(led, offset, next_offset)
            assert isinstance(aborted, Sequence)
            for entry in aborted:
                assert isinstance(entry, AbortedTransactionEntry)
                answer.aborted_transactions.add(
                    producer_id=entry.producer_id, first_offset=entry.first_offset
                )
        if not (self._request.read_to_log_end or self._request.uncounted):
            self.given.append((led.counts, len(records), next_offset - offset))
        return len(records)

    def count_given(self) -> None:
        """Add the bytes and records of this try to the topics' counters, because it became the response.

        A try that was repeated is not counted.
        """
        for counts, size_bytes, offset_count in self.given:
            counts.consumed_bytes += size_bytes
            counts.consumed_records += offset_count

    def _refuse(self, answer: FetchedPartition, error: KafkaError) -> None:
        answer.error_code = error.error_code
        if error.error_code != ErrorCode.OFFSET_OUT_OF_RANGE:
            answer.high_watermark = answer.last_stable_offset = answer.log_start_offset = -1
        answer.leader, answer.leader_epoch = self._replica_manager.leader_of(
            Partition(answer.topic, answer.partition)
        )


def _read_past_empty(
    hosted: HostedT, offset: int, upper: int, bytes_max: int
) -> Generator[Need[HostedT], Found, LogSlice]:
    """Read batches, and go on past those that compaction has emptied if more follows.

    librdkafka takes a response without a message for one that its limit has cut, doubles the limit, and gives up after
    the eleventh.
    """
    found = yield ReadBatches(hosted, offset, upper, bytes_max)
    assert isinstance(found, LogSlice)
    for _ in range(_EMPTY_READS_MAX):
        if not found.records or not _is_empty(found.records) or found.next_offset >= upper:
            break
        following = yield ReadBatches(hosted, found.next_offset, upper, bytes_max)
        assert isinstance(following, LogSlice)
        if not following.records:
            break
        found = following
    return found


def _is_empty(records: bytes) -> bool:
    """True if these batches have no records. Most responses begin with a batch that has some."""
    if _RECORD_COUNT.unpack_from(records, _RECORD_COUNT_AT)[0]:
        return False
    return all(header.record_count == 0 for _, header in iter_headers(records))
