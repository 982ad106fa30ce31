"""Reads the offsets [start, end) of one partition at read_committed, by position.

The reader asks for a position, not for records: control batches, aborted data and what compaction removed take offsets
too. So the record at `end - 1`, or any record at all, may not exist. After each response the position is the offset
behind the last batch in it, whatever that batch showed. Reading is over when the position has reached `end`. When a
response is empty although everything below `end` is decided, nothing is left to come: over as well.

The next request leaves before the last answer is decoded, so broker and reader work at the same time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from oncelog.client.cluster import SPOKEN, Cluster
from oncelog.client.connection import Connection, Deadline
from oncelog.client.core.decode import Columns, decode_batches
from oncelog.client.core.log_places import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, READ_COMMITTED
from oncelog.client.core.visibility import AbortedTransaction, sight_batches
from oncelog.errors import ErrorCode, KafkaError, OncelogError, error_code_of
from oncelog.ids import Partition
from oncelog.protocol import versions
from oncelog.protocol.messages import schema_of
from oncelog.record.batch import BatchHeader

FETCH_BYTES: Final = 4 * 1024 * 1024
"""One answer: about 35 000 records of 120 bytes, enough to make the cost of a request and of an Arrow batch vanish."""

FETCH_BYTES_MAX: Final = 128 * 1024 * 1024
_MAX_WAIT: Final = timedelta(milliseconds=500)
_STALLS_MAX: Final = 60
"""Answers in a row that move nothing, about half a second each, before the broker is called inconsistent."""


class DataLossError(OncelogError):
    """Offsets that were planned are not in the log: retention, truncation or a topic created anew."""


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What to read, and what to do about offsets that are gone."""

    partition: Partition
    start: int
    end: int
    with_headers: bool = False
    fail_on_data_loss: bool = True


def read_partition(
    cluster: Cluster, plan: ReadPlan, warn: Callable[[str], None]
) -> Iterator[Columns]:
    """The committed records of the plan, some ten thousand at a time; empty groups are left out.

    Raises DataLossError (or, when the plan allows loss, tells `warn` and goes on with what there is), and KafkaError
    for what no repetition cured.
    """
    reader = _PartitionReader(cluster, plan, warn)
    try:
        yield from reader.read()
    finally:
        reader.close()


class _PartitionReader:
    def __init__(self, cluster: Cluster, plan: ReadPlan, warn: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._plan = plan
        self._warn = warn
        self._connection: Connection | None = None
        self._position = plan.start
        self._end = plan.end
        self._fetch_bytes = FETCH_BYTES
        self._stalls = 0

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def read(self) -> Iterator[Columns]:
        while self._position < self._end:
            self._stalls += 1
            if self._stalls > _STALLS_MAX:
                raise KafkaError(
                    ErrorCode.OFFSET_NOT_AVAILABLE,
                    f"{self._plan.partition}: nothing came for offset {self._position} in {_STALLS_MAX} answers",
                )
            answer = self._next_answer()
            if answer is None:
                continue
            yield from (columns for columns in self._take(answer) if len(columns))

    def _next_answer(self) -> Any | None:
        """The partition's part of a fetch response; None when the position was moved instead."""
        try:
            return self._cluster.retrying(self._fetch)
        except KafkaError as error:
            if error.error_code is not ErrorCode.OFFSET_OUT_OF_RANGE:
                raise
        self._skip_what_is_gone()
        return None

    def _fetch(self) -> Any:
        """One attempt: send unless a request is under way already, and receive."""
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
            answer = response.responses[0].partitions[0]
            self._cluster.check_partition(self._plan.partition, answer.error_code.value)
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
            max_wait=_MAX_WAIT,
            min_bytes=1,
            max_bytes=self._fetch_bytes,
            isolation_level=READ_COMMITTED,
            topics=(types.FetchTopic(topic=self._plan.partition.topic, partitions=(partition,)),),
            forgotten_topics_data=(),
        )
        self._connection.send(schema, request, deadline)

    def _take(self, answer: Any) -> Iterator[Columns]:
        """Move the position, send the next request, then decode this answer."""
        records = answer.records or b""
        aborted = [
            AbortedTransaction(transaction.producer_id, transaction.first_offset)
            for transaction in answer.aborted_transactions or ()
        ]
        visible: list[tuple[int, BatchHeader]] = []
        start, position = self._position, self._position
        for at, header, is_visible in sight_batches(records, aborted):
            if header.base_offset >= self._end:
                position = self._end
                break
            position = max(position, header.next_offset)
            if is_visible and header.next_offset > start:
                visible.append((at, header))
        if position == start:
            self._no_progress(answer, len(records))
            return
        self._position, self._stalls = position, 0
        if self._position < self._end and self._connection is not None:
            self._send_ahead(self._connection)
        yield from decode_batches(
            records, visible, start=start, end=self._end, with_headers=self._plan.with_headers
        )

    def _send_ahead(self, connection: Connection) -> None:
        try:
            self._send(Deadline(self._cluster.settings.request_timeout_ms))
        except KafkaError:
            self.close()  # the next fetch connects again

    def _no_progress(self, answer: Any, record_bytes: int) -> None:
        """An answer without a whole batch: a batch above the limit, the end of what there is, or not there yet."""
        if record_bytes:
            if self._fetch_bytes >= FETCH_BYTES_MAX:
                raise KafkaError(
                    ErrorCode.MESSAGE_TOO_LARGE,
                    f"{self._plan.partition}: the batch at offset {self._position} is above {FETCH_BYTES_MAX} bytes",
                )
            self._fetch_bytes = min(self._fetch_bytes * 4, FETCH_BYTES_MAX)
        elif min(answer.last_stable_offset, answer.high_watermark) >= self._end:
            self._position = self._end
        else:
            self._wait_for_end(answer.last_stable_offset)

    def _wait_for_end(self, last_stable_offset: int) -> None:
        """The plan was made from an LSO; a leader that is behind it has just been elected, or lost its tail."""
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
                f"{partition}: offsets {self._position} to {self._end - 1} were planned, but the log's last stable "
                f"offset is {last_stable_offset}: it was truncated, or the topic was created anew"
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
