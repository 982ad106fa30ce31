"""A shard's journal: one partition of an internal topic, behind whichever storage node leads it.

Only the shard's coordinator writes here, and three things keep it so:

* every append carries the coordinator epoch, and a leader that has seen a newer one refuses it;
* every append says where it expects the log to end, so one decided without knowing the newest record is refused;
* the coordinator is an idempotent producer to its shard, with a producer id of its own for each load. It repeats an
  append whose answer was lost byte for byte, and the leader answers for the first one.

An append without an answer within `append_timeout_ms` fails: the state machine is dropped, and a replay finds out what
was written. Replay reads to the log's end, not to the high watermark (docs/kafka-facts.md, 1.1, row 3). But it waits
until the high watermark has passed what it read: markers must not go out for a decision that a lost leader takes with
it.

A `RecordFormat` says what the records are. A group shard also writes parts of clients' transactions: offsets under the
client's producer id, and markers. Those batches have no sequence of ours. The leader recognises a repeated one, because
the log ends with the very same batch.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar, cast

from oncelog.api.v1 import controller_pb2, types_pb2
from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError, OncelogError, error_code_of
from oncelog.ids import (
    PRODUCER_EPOCH_MAX,
    CoordinatorEpoch,
    Millis,
    Offset,
    Partition,
    ProducerId,
    next_sequence,
)
from oncelog.journal import AppendFailed
from oncelog.record.batch import CONTROL, HEADER_BYTES
from oncelog.record.records import Record, encode_batch
from oncelog.rpc import plain
from oncelog.rpc.backoff import Backoff
from oncelog.rpc.deadline import AnswerT
from oncelog.rpc.direct import takes_plain
from oncelog.rpc.directory import Directory
from oncelog.rpc.metadata import MetadataFollower, MetadataImage
from oncelog.rpc.owner_calls import answer_of_owner
from oncelog.rpc.stubs import StorageStub
from oncelog.runtime import Clock
from oncelog.topic_config import TopicConfig
from oncelog_coordinator.settings import CoordinatorSettings
from oncelog_coordinator.shard_format import RecordFormat, Run
from oncelog_coordinator.shard_replay import (
    LiveRecord,
    LiveRecords,
    MalformedShard,
    next_offset_of,
)

_log = logging.getLogger(__name__)

FETCH_BYTES: Final = 1024 * 1024
"""The most bytes that are read in one turn of the event loop."""
RECORDS_PER_TURN: Final = 200
"""The most records that are decoded and applied before other tasks have their turn."""
FETCH_TIMEOUT_S: Final = 10.0
HIGH_WATERMARK_POLL_MS: Final = 5
HIGH_WATERMARK_POLL_MAX_MS: Final = 100
"""The longest wait in milliseconds between two looks at the high watermark. After an election followers need a fetch
or two."""
RECENT_MS: Final = Millis(5_000)
"""The age in milliseconds, before a log's newest record, up to which a load passes a record to `on_recent`.

The last writer may have died before it exported the spans of such records. A root span leaves a tenth of a second after
its completion, and a collector may be slow.
"""
RECORD_OVERHEAD_BYTES: Final = 32
"""The most bytes that a batch needs for a record beside its key and value."""

NOT_WRITTEN_YET: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""The errors after which repeating the identical batch may succeed, and can do no harm."""

TOLD_TO_CLIENTS: Final = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.LEADER_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.INVALID_PRODUCER_EPOCH: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.OFFSET_OUT_OF_RANGE: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}
"""The error that clients get for a failed append (docs/kafka-facts.md, 6); an error that is not here stays as it is."""


class ReplayFailed(OncelogError):
    """The shard's log could not be read. Reading it again is safe."""


RecordT = TypeVar("RecordT")

OnRecent = Callable[[Millis, RecordT, RecordT | None], None]
"""A function that a load calls for each recent record: when it was appended, the record, and the one that it
superseded. None: it superseded none."""


class AppendsAtOnce(Protocol):
    """A partition leader in this process, which can append without a wait. `takes_plain` recognises it."""

    def AppendAtOnce(self, request: plain.AppendRequest) -> bool: ...  # noqa: N802


class ShardLog(Generic[RecordT]):
    """The journal of one load of a shard; it implements `oncelog.journal.Journal`.

    The shard's driver, which runs its state machine, writes to it and replays from it.
    """

    def __init__(
        self,
        partition: Partition,
        record_format: RecordFormat[RecordT],
        coordinator_epoch: CoordinatorEpoch,
        metadata: MetadataFollower,
        directory: Directory,
        claim_producer_id: Callable[[], Awaitable[ProducerId]],
        clock: Clock,
        settings: CoordinatorSettings,
        load_buffer_bytes: int = FETCH_BYTES,
        on_recent: OnRecent[RecordT] | None = None,
    ) -> None:
        """Open the log. `on_recent` is called at the end of each replay, for each record of the last `RECENT_MS`."""
        self._on_recent = on_recent
        self._partition = partition
        self._load_buffer_bytes = load_buffer_bytes
        self._format = record_format
        self._coordinator_epoch = coordinator_epoch
        self._metadata = metadata
        self._directory = directory
        self._claim_producer_id = claim_producer_id
        self._clock = clock
        self._settings = settings
        self._wire_partition = types_pb2.TopicPartition(
            topic=partition.topic, partition=partition.partition
        )
        self._next_offset = 0
        self._producer_id: ProducerId | None = None
        self._next_sequence = 0
        self._topic: controller_pb2.Topic | None = None
        self._topic_batch_bytes_max = TopicConfig().max_message_bytes

    @property
    def next_offset(self) -> Offset:
        return Offset(self._next_offset)

    # ------------------------------------------------------------------------------------------------ append

    async def append(self, records: Sequence[RecordT]) -> Offset:
        """Append the records as one batch, or as many as the topic's max.message.bytes requires; return the first
        offset.

        Raises AppendFailed.
        """
        first = self._next_offset
        if self._producer_id is None:
            self._producer_id = await self._claim()
        for run in self._format.encode(records, self._clock.now()):
            for chunk in self._chunks(run.records):
                await self._append_batch(chunk, run)
        return Offset(first)

    def append_at_once(self, records: Sequence[RecordT]) -> bool:
        """Append and commit the records without a wait, if the leader is in this process. False: nothing was
        written.
        """
        try:
            _, storage = self._leader()
        except KafkaError:
            return False
        if self._producer_id is None or not takes_plain(storage, "AppendAtOnce"):
            return False
        runs = tuple(self._format.encode(records, self._clock.now()))
        chunks = [chunk for run in runs for chunk in self._chunks(run.records)]
        if len(chunks) != 1:
            return False
        request = plain.AppendRequest(
            self._partition,
            self._coordinator_epoch,
            bytes(self._batch(chunks[0], runs[0])),
            self._next_offset,
        )
        is_appended = cast(AppendsAtOnce, storage).AppendAtOnce(request)
        if is_appended:
            self._appended(chunks[0], runs[0])
        return is_appended

    async def _claim(self) -> ProducerId:
        try:
            async with asyncio.timeout(self._settings.append_timeout_ms / 1000):
                return await self._claim_producer_id()
        except TimeoutError:
            raise AppendFailed(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, "no producer id for the shard's own appends"
            ) from None

    def _chunks(self, records: list[Record]) -> list[list[Record]]:
        """Divide the records into batches that the topic allows. An oversized record gets a batch of its own: the
        leader's refusal is the better message.
        """
        if len(records) == 1:
            return [records]
        limit = self._batch_bytes_max()
        chunks: list[list[Record]] = [[]]
        size = HEADER_BYTES
        for record in records:
            assert record.key is not None, record
            cost = RECORD_OVERHEAD_BYTES + len(record.key) + len(record.value or b"")
            if chunks[-1] and size + cost > limit:
                chunks.append([])
                size = HEADER_BYTES
            chunks[-1].append(record)
            size += cost
        return chunks

    def _batch_bytes_max(self) -> int:
        topic = self._metadata.image.topics.get(self._partition.topic)
        if topic is not self._topic:
            self._topic = topic
            config = self._metadata.image.topic_config(self._partition.topic)
            self._topic_batch_bytes_max = config.max_message_bytes
        return self._topic_batch_bytes_max

    def _batch(self, records: list[Record], run: Run) -> bytearray:
        assert self._producer_id is not None, "claimed before the first batch"
        if run.producer is None:
            return encode_batch(
                records,
                producer_id=self._producer_id,
                # Fixed for this load, whose producer id is its own; it shows in the log who wrote (ADR 0016).
                producer_epoch=self._coordinator_epoch & PRODUCER_EPOCH_MAX,
                base_sequence=self._next_sequence,
            )
        return encode_batch(
            records,
            producer_id=run.producer[0],
            producer_epoch=run.producer[1],
            is_transactional=True,
            extra_attributes=CONTROL if run.is_control else 0,
        )

    def _appended(self, records: list[Record], run: Run) -> None:
        self._next_offset += len(records)
        if run.producer is None:
            self._next_sequence = next_sequence(self._next_sequence, len(records))

    async def _append_batch(self, records: list[Record], run: Run) -> None:
        request = pb.AppendRequest(
            partition=self._wire_partition,
            coordinator_epoch=self._coordinator_epoch,
            records=bytes(self._batch(records, run)),
            timeout_ms=self._settings.append_timeout_ms,
            expected_base_offset=self._next_offset,
        )
        await self._until_settled(lambda timeout_s: self._append_once(request, timeout_s))
        self._appended(records, run)

    async def confirm(self) -> None:
        """Ask the leader whether this coordinator still owns the shard, and return if it does.

        Raises AppendFailed if a newer coordinator has loaded the shard or written to it, or if the leader does not
        answer.
        """
        await self._until_settled(self._confirm_once)

    async def _confirm_once(self, timeout_s: float) -> tuple[ErrorCode, str]:
        try:
            fetched = await self._fetch(self._next_offset, timeout_s)
        except ReplayFailed as failed:
            return ErrorCode.NETWORK_EXCEPTION, str(failed)
        if fetched.records:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED, f"grew past {self._next_offset}"
        return error_code_of(fetched.error_code), "while the shard's owner was confirmed"

    async def _until_settled(
        self, attempt: Callable[[float], Awaitable[tuple[ErrorCode, str]]]
    ) -> None:
        """Repeat the call `attempt` until it succeeds. Raises AppendFailed for a final error or when time is up."""
        loop = asyncio.get_running_loop()
        timeout_s = self._settings.append_timeout_ms / 1000
        deadline = loop.time() + timeout_s
        backoff: Backoff | None = None
        while True:
            image = self._metadata.image
            error_code, message = await attempt(timeout_s)
            if error_code is ErrorCode.NONE:
                return
            if backoff is None:
                backoff = Backoff(
                    self._settings.retry_backoff_ms, self._settings.retry_backoff_max_ms
                )
            if error_code not in NOT_WRITTEN_YET or loop.time() >= deadline:
                client_code = TOLD_TO_CLIENTS.get(error_code, error_code)
                raise AppendFailed(client_code, f"{self._partition}: {error_code.name} {message}")
            await backoff.pause_or_news(self._metadata, image)
            timeout_s = deadline - loop.time()

    async def _append_once(
        self, request: pb.AppendRequest, timeout_s: float
    ) -> tuple[ErrorCode, str]:
        try:
            leader, storage = self._leader()
            response = await self._answer(storage.Append(request), leader, timeout_s)
        except KafkaError as error:
            return error.error_code, error.message
        except TimeoutError:
            return ErrorCode.REQUEST_TIMED_OUT, "no answer"
        except Exception as error:
            # Whatever the transport raises means the same here: it is unknown whether the batch was written.
            return ErrorCode.NETWORK_EXCEPTION, str(error)
        error_code = error_code_of(response.error_code)
        if error_code is ErrorCode.NONE and response.base_offset not in (-1, self._next_offset):
            return (
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"written at {response.base_offset}, expected {self._next_offset}",
            )
        return error_code, response.error_message

    def _leader(self) -> tuple[int, StorageStub]:
        """Return the node id of the partition's leader, and its stub. Raises KafkaError while there is none."""
        found = self._metadata.image.partition(self._partition)
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(self._partition))
        if found.leader < 0:
            raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{self._partition} has no leader")
        try:
            return found.leader, self._directory.storage(found.leader)
        except KeyError:
            raise KafkaError(
                ErrorCode.LEADER_NOT_AVAILABLE, f"node {found.leader} is not known yet"
            ) from None

    async def _answer(self, call: Awaitable[AnswerT], leader: int, timeout_s: float) -> AnswerT:
        """Wait for the answer of this leader, but no longer than it leads: every call made here is safe to repeat."""

        def still_leads(image: MetadataImage) -> bool:
            found = image.partition(self._partition)
            return found is not None and found.leader == leader

        return await answer_of_owner(call, timeout_s, self._metadata, still_leads)

    # ------------------------------------------------------------------------------------------------ replay

    async def replay(self) -> AsyncIterator[tuple[Offset, RecordT]]:
        """Yield the newest record of each key and all of clients' transactions, in order, with their offsets.

        Raises ReplayFailed.
        """
        live = LiveRecords(0 if self._on_recent is None else RECENT_MS)
        log_end, high_watermark = await self._read_all(live)
        for count, record in enumerate(live.in_order()):
            decoded = self._decoded(record)
            if decoded is not None:
                yield Offset(record.offset), decoded
            if count % RECORDS_PER_TURN == 0:
                await asyncio.sleep(0)
        await self._wait_for_high_watermark(log_end, high_watermark)
        self._next_offset = log_end
        if self._on_recent is not None:
            await self._tell_recent(live, self._on_recent)

    async def _tell_recent(self, live: LiveRecords, on_recent: OnRecent[RecordT]) -> None:
        for count, recent in enumerate(live.recent()):
            header, key, value, before = recent
            try:
                record = self._format.decode(header, key, value)
                superseded = None if before is None else self._format.decode(header, key, before)
            except (ValueError, OncelogError):
                continue  # What is no longer alive may be damaged, and the shard is whole.
            if record is not None:
                on_recent(Millis(header.max_timestamp), record, superseded)
            if count % RECORDS_PER_TURN == 0:
                await asyncio.sleep(0)

    async def _read_all(self, live: LiveRecords) -> tuple[int, int]:
        """Read the whole log into `live`; return the log's end and the high watermark.

        The next bytes are fetched while these are decoded.
        """
        position = 0
        fetch = asyncio.ensure_future(self._fetch(position))
        try:
            while True:
                fetched = await fetch
                if (
                    fetched.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
                    and position < fetched.log_start_offset
                ):
                    position = fetched.log_start_offset
                    fetch = asyncio.ensure_future(self._fetch(position))
                    continue
                self._check(fetched)
                if not fetched.records:
                    end = max(position, fetched.log_start_offset, fetched.high_watermark)
                    return end, fetched.high_watermark
                following = next_offset_of(fetched.records)
                if following <= position:
                    raise ReplayFailed(
                        f"{self._partition}: {len(fetched.records)} bytes at offset {position} hold"
                        " no whole batch"
                    )
                fetch = asyncio.ensure_future(self._fetch(following))
                await asyncio.sleep(0)
                try:
                    live.add_batches(fetched.records, position)
                except MalformedShard as error:
                    raise ReplayFailed(f"{self._partition}: {error}") from error
                position = following
        finally:
            fetch.cancel()

    async def _wait_for_high_watermark(self, log_end: int, high_watermark: int) -> None:
        backoff = Backoff(HIGH_WATERMARK_POLL_MS, HIGH_WATERMARK_POLL_MAX_MS)
        deadline = asyncio.get_running_loop().time() + FETCH_TIMEOUT_S
        while high_watermark < log_end:
            if asyncio.get_running_loop().time() > deadline:
                raise ReplayFailed(
                    f"{self._partition}: in-sync replicas are not at {log_end} yet but at {high_watermark}"
                )
            await backoff.pause()
            fetched = await self._fetch(log_end)
            self._check(fetched)
            if fetched.records:
                raise ReplayFailed(f"{self._partition} grew past {log_end} while it was loaded")
            high_watermark = fetched.high_watermark

    async def _fetch(
        self, position: int, timeout_s: float = FETCH_TIMEOUT_S
    ) -> pb.FetchedPartition:
        request = pb.FetchRequest(
            max_bytes=self._load_buffer_bytes,
            read_to_log_end=True,
            coordinator_epoch=self._coordinator_epoch,
            partitions=[
                pb.FetchPartition(
                    topic=self._partition.topic,
                    partition=self._partition.partition,
                    fetch_offset=position,
                    max_bytes=self._load_buffer_bytes,
                    current_leader_epoch=-1,
                )
            ],
        )
        try:
            leader, storage = self._leader()
            response = await self._answer(storage.Fetch(request), leader, timeout_s)
        except Exception as error:
            raise ReplayFailed(f"{self._partition}: {error}") from error
        if len(response.partitions) != 1:
            raise ReplayFailed(
                f"{self._partition}: answer about {len(response.partitions)} partitions"
            )
        return response.partitions[0]

    def _check(self, fetched: pb.FetchedPartition) -> None:
        if fetched.error_code != ErrorCode.NONE:
            raise ReplayFailed(f"{self._partition}: {error_code_of(fetched.error_code).name}")

    def _decoded(self, record: LiveRecord) -> RecordT | None:
        try:
            if record.key is None:
                assert record.value is not None, record
                return self._format.decode_control(record.header, record.value, 0)
            decoded = self._format.decode(record.header, record.key, record.value)
        except (ValueError, OncelogError) as error:
            raise ReplayFailed(
                f"{self._partition}: batch at offset {record.header.base_offset}: {error}"
            ) from error
        if decoded is None:
            _log.info(
                "%s: record at %d is of a newer kind; skipped", self._partition, record.offset
            )
        return decoded
