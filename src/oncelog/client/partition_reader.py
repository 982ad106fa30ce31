"""Reads the offsets [start, end) of one partition for Spark's source, at read_committed unless the cluster's settings
differ.

The reader asks for a position, not for records: control batches, aborted data and what compaction removed take offsets
too. So the record at `end - 1`, or any record at all, may not exist. After each response the position is the offset
behind the last batch in it, whatever that batch showed. Reading is over when the position has reached `end`. It is also
over when a response is empty although everything below `end` is decided.

A plan with outcomes yields every record, also aborted ones, each with what became of its transaction. A leader names
the aborted transactions only to readers of committed records, and only up to the last stable offset. So the reader
fetches like that until it is there. Records behind it are read uncommitted and called undecided.

The next request leaves before the last answer is decoded, so broker and reader work at the same time.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final, Protocol

from oncelog.client.cluster import SPOKEN, Cluster, NoSuchTopicError
from oncelog.client.connection import Connection, Deadline
from oncelog.client.core.decode import Columns, decode_batches
from oncelog.client.core.log_places import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    READ_COMMITTED,
    READ_UNCOMMITTED,
)
from oncelog.client.core.visibility import AbortedTransaction, sight_batches
from oncelog.errors import ErrorCode, KafkaError, OncelogError, error_code_of
from oncelog.ids import Partition
from oncelog.protocol import versions
from oncelog.protocol.messages import schema_of
from oncelog.record.batch import BatchHeader

FETCH_BYTES: Final = 4 * 1024 * 1024
"""Bytes of one answer: about 35 000 records of 120 bytes, enough to make the cost of a request and of an Arrow batch
vanish."""

FETCH_BYTES_MAX: Final = 128 * 1024 * 1024
MAX_WAIT_MS: Final = 500
STALLED_MAX_MS: Final = 30_000
"""Milliseconds for which answers may not move the position; after them the broker is called inconsistent."""

COMMITTED: Final = "committed"
ABORTED: Final = "aborted"
UNDECIDED: Final = "undecided"
"""The outcome of a transactional record that was at or above the last stable offset when it was read."""


class DataLossError(OncelogError):
    """Offsets that a Spark query planned to read are no longer in the log: retention, truncation or a topic created
    anew."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The plan to read one partition: its offsets, from `start` to before `end`, and what to do if some are gone."""

    partition: Partition
    start: int
    end: int
    with_headers: bool = False
    with_outcome: bool = False
    """True to show each record with its transaction's outcome. The cluster's settings must read uncommitted."""
    fail_on_data_loss: bool = True
    fetch_bytes: int = FETCH_BYTES
    fetch_bytes_min: int = 1
    max_wait_ms: int = MAX_WAIT_MS


def read_partition(
    cluster: Cluster, plan: ReadPlan, warn: Callable[[str], None]
) -> Iterator[Columns]:
    """Yield the committed records of the plan, some ten thousand at a time; empty groups are left out.

    Raises DataLossError, and KafkaError for what no repetition cured. A plan that allows loss calls `warn` instead of
    DataLossError, and goes on.
    """
    reader = _PartitionReader(cluster, plan, warn)
    try:
        yield from reader.read()
    finally:
        reader.close()


class _Runs:
    """The batches of an answer in order, grouped into runs in which all transactions have one outcome (committed,
    aborted, undecided)."""

    def __init__(self) -> None:
        self.found: list[tuple[str, list[tuple[int, BatchHeader]]]] = []

    def add(self, at: int, header: BatchHeader, outcome: str | None) -> None:
        if outcome is None:
            return
        if not self.found or self.found[-1][0] != outcome:
            self.found.append((outcome, []))
        self.found[-1][1].append((at, header))


class _Aborted(Protocol):
    """An aborted transaction in a Fetch response: its producer id and first offset."""

    @property
    def producer_id(self) -> int: ...
    @property
    def first_offset(self) -> int: ...


class _Answer(Protocol):
    """One partition's part of a Fetch response."""

    @property
    def records(self) -> bytes | None: ...
    @property
    def aborted_transactions(self) -> Sequence[_Aborted] | None: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def last_stable_offset(self) -> int: ...


class _PartitionReader:
    def __init__(self, cluster: Cluster, plan: ReadPlan, warn: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._plan = plan
        self._warn = warn
        self._connection: Connection | None = None
        self._position = plan.start
        self._end = plan.end
        self._fetch_bytes = plan.fetch_bytes
        self._is_behind_stable = False
        """In a plan with outcomes: True once the last stable offset is reached and uncommitted records are fetched."""
        self._stalled = Deadline(STALLED_MAX_MS)

    @property
    def _isolation_level(self) -> int:
        return self._cluster.settings.isolation_level

    @property
    def _tells_outcomes(self) -> bool:
        """True if the next request reads committed records and the list of aborted transactions, to tell outcomes
        apart."""
        return self._plan.with_outcome and not self._is_behind_stable

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def read(self) -> Iterator[Columns]:
        try:
            while self._position < self._end:
                if self._stalled.has_passed:
                    raise KafkaError(
                        ErrorCode.OFFSET_NOT_AVAILABLE,
                        f"{self._plan.partition}: nothing came for offset {self._position} in "
                        f"{STALLED_MAX_MS // 1000} s",
                    )
                answer = self._next_answer()
                if answer is None:
                    continue
                yield from (columns for columns in self._take(answer) if len(columns))
        except NoSuchTopicError:
            self._lose(
                f"{self._plan.partition}: offsets {self._position} to {self._end - 1} were planned, but there is no "
                "such partition any more: its topic was deleted"
            )

    def _next_answer(self) -> _Answer | None:
        """Fetch at the position, and return the partition's part of the response. None: the offsets there are gone, so
        the position was moved."""
        try:
            return self._cluster.retrying(self._fetch)
        except KafkaError as error:
            if error.error_code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
        self._skip_what_is_gone()
        return None

    def _fetch(self) -> _Answer:
        """Make one attempt at a fetch: send a request unless one is under way, and receive its answer."""
        deadline = Deadline(self._cluster.settings.request_timeout_ms)
        try:
            if self._connection is None:
                leader = self._cluster.leader_of(self._plan.partition)
                self._connection = self._cluster.open_connection(leader)
            if not self._connection.waiting_count:
                self._send(deadline)
            response = self._connection.receive(deadline)
            code = error_code_of(response.error_code.value)
            if code is not ErrorCode.NONE:
                raise KafkaError(code, f"fetch from {self._plan.partition}")
            told = response.responses[0].partitions[0]
            self._cluster.check_partition(self._plan.partition, told.error_code.value)
            answer: _Answer = told
            return answer
        except KafkaError:
            self.close()
            raise

    def _send(self, deadline: Deadline) -> None:
        assert self._connection is not None
        schema = self._cluster.schema(self._connection.address, versions.FETCH)
        types = schema_of(versions.FETCH, SPOKEN[versions.FETCH]).request_types
        partition = types.FetchPartition(
            partition=self._plan.partition.partition,
            fetch_offset=self._position,
            partition_max_bytes=self._fetch_bytes,
        )
        request = types.FetchRequest(
            max_wait=timedelta(milliseconds=0 if self._tells_outcomes else self._plan.max_wait_ms),
            min_bytes=self._plan.fetch_bytes_min,
            max_bytes=self._fetch_bytes,
            isolation_level=READ_COMMITTED if self._tells_outcomes else self._isolation_level,
            topics=(types.FetchTopic(topic=self._plan.partition.topic, partitions=(partition,)),),
            forgotten_topics_data=(),
        )
        self._connection.send(schema, request, deadline)

    def _take(self, answer: _Answer) -> Iterator[Columns]:
        """Set the position behind this answer, send the next request, and then yield this answer's decoded records."""
        records = answer.records or b""
        aborted = [
            AbortedTransaction(transaction.producer_id, transaction.first_offset)
            for transaction in answer.aborted_transactions or ()
        ]
        start, position = self._position, self._position
        runs = _Runs()
        for at, header, is_visible in sight_batches(records, aborted):
            if header.base_offset >= self._end:
                position = self._end
                break
            position = max(position, header.next_offset)
            if header.next_offset > start:
                runs.add(at, header, self._outcome(header, is_visible))
        if position == start:
            self._no_progress(answer, len(records))
            return
        self._position, self._stalled = position, Deadline(STALLED_MAX_MS)
        self._is_behind_stable = position >= answer.last_stable_offset
        if self._position < self._end and self._connection is not None:
            self._send_ahead(self._connection)
        for outcome, batches in runs.found:
            for columns in decode_batches(
                records, batches, start=start, end=self._end, with_headers=self._plan.with_headers
            ):
                yield replace(columns, outcome=outcome) if self._plan.with_outcome else columns

    def _outcome(self, header: BatchHeader, is_visible: bool) -> str | None:
        """Return the outcome of a batch's transaction; None: its records are not shown."""
        if is_visible:
            is_undecided = header.is_transactional and self._is_behind_stable
            return UNDECIDED if is_undecided and self._plan.with_outcome else COMMITTED
        return None if header.is_control or not self._plan.with_outcome else ABORTED

    def _send_ahead(self, connection: Connection) -> None:
        try:
            self._send(Deadline(self._cluster.settings.request_timeout_ms))
        except KafkaError:
            self.close()  # the next fetch connects again

    def _no_progress(self, answer: _Answer, record_bytes: int) -> None:
        """Handle an answer without a whole batch: fetch more bytes, wait, or find that the log ends.

        The batch may be above the size limit, the log may end here, or the leader may not have the batch yet.
        """
        if record_bytes:
            if self._fetch_bytes >= FETCH_BYTES_MAX:
                raise KafkaError(
                    ErrorCode.MESSAGE_TOO_LARGE,
                    f"{self._plan.partition}: the batch at offset {self._position} is above {FETCH_BYTES_MAX} bytes",
                )
            self._fetch_bytes = min(self._fetch_bytes * 4, FETCH_BYTES_MAX)
        elif self._readable_end(answer) >= self._end:
            self._position = self._end
        elif self._tells_outcomes:
            self._is_behind_stable = True
        else:
            self._wait_for_end(self._readable_end(answer))

    def _readable_end(self, answer: _Answer) -> int:
        """Return the offset where the partition ends at this reader's isolation level, by the answer to its fetch."""
        if self._isolation_level == READ_UNCOMMITTED and not self._tells_outcomes:
            return answer.high_watermark
        return min(answer.last_stable_offset, answer.high_watermark)

    def _wait_for_end(self, readable_end: int) -> None:
        """Wait until the leader's log reaches the end of the plan. A leader that is behind was just elected, or lost
        the last records."""
        partition = self._plan.partition

        def attempt() -> None:
            newest = self._cluster.list_offsets({partition: LATEST_TIMESTAMP})[partition]
            if newest < self._end:
                raise KafkaError(ErrorCode.OFFSET_NOT_AVAILABLE, str(partition))

        try:
            self._cluster.retrying(attempt)
        except KafkaError as error:
            if error.error_code is not ErrorCode.OFFSET_NOT_AVAILABLE:
                raise
            self._lose(
                f"{partition}: offsets {self._position} to {self._end - 1} were planned, but the log can be read "
                f"up to offset {readable_end}: it was truncated, or the topic was created anew"
            )
            self._end = self._position

    def _skip_what_is_gone(self) -> None:
        partition = self._plan.partition
        first = self._cluster.list_offsets({partition: EARLIEST_TIMESTAMP})[partition]
        if first <= self._position:
            self._wait_for_end(self._cluster.list_offsets({partition: LATEST_TIMESTAMP})[partition])
            return
        behind = min(first, self._end)
        self._lose(
            f"{partition}: offsets {self._position} to {behind - 1} are gone; the log now starts at {first} (retention)"
        )
        self._position = behind

    def _lose(self, what: str) -> None:
        if self._plan.fail_on_data_loss:
            raise DataLossError(
                f"{what}. To go on with what is left, set failOnDataLoss=false; to keep this from happening, "
                "raise the topic's retention.ms"
            )
        self._warn(what)
