"""A Produce request at a leader, stage by stage: refusals, verification, append, and the wait (docs/kafka-facts.md, 9).

```
check ──▶ unchecked ───▶ needs_verification, questions ──▶ to_append ──▶ wanted
  │           │                   │                            │            │
refused   a long check,     the coordinator               the write     the commit
          another codec       is asked
```

Answers are filled in place: one object for each partition more would cost as much as the append. The order is Kafka's:
a repeated batch is answered before anything is asked of the coordinator. Pure: the caller checks long batches in a
thread, asks, writes and waits.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from enum import Enum
from typing import Final, Generic, NamedTuple, TypeVar

from oncelog.errors import ErrorCode, KafkaError, RecordsRefused
from oncelog.ids import INTERNAL_TOPICS, Partition
from oncelog.record.batch import HEADER_BYTES, BatchHeader, read_header
from oncelog.record.check import is_long_check
from oncelog_storage.core.messages import (
    LedPartitions,
    Messages,
    PartitionProduced,
    PartitionRecords,
    ProduceRequest,
)
from oncelog_storage.core.partition import PartitionReplica
from oncelog_storage.core.partition_values import Appended
from oncelog_storage.core.verification import VerificationGuard

ACKS_ALL: Final = -1
_PRODUCE_TIMEOUT_MS_MAX: Final = 3_600_000
_TIMEOUT_MS: Final = 30_000

HostedT = TypeVar("HostedT", bound=PartitionReplica)


class ProducedBatch(Generic[HostedT]):
    """One partition's batch of a Produce request, on its way into the log."""

    __slots__ = (
        "answer",
        "appended",
        "guard",
        "header",
        "is_checked",
        "is_refused",
        "leader_epoch",
        "led",
        "records",
        "topic_id",
    )

    def __init__(self, part: PartitionRecords, answer: PartitionProduced) -> None:
        self.records = part.records
        self.topic_id = part.topic_id
        self.answer = answer
        self.led: HostedT
        self.header: BatchHeader
        self.is_checked = False
        """True if the batch was checked down to its records."""
        self.is_refused = False
        self.guard: VerificationGuard | None = None
        self.appended: Appended | None = None
        self.leader_epoch = -1
        """The leader epoch in which the batch was appended."""

    def check(self, led: HostedT, acks: int, now: int) -> None:
        """Check the batch, except for the records of a batch whose check takes long. Raises KafkaError."""
        led.require_topic(self.topic_id, ErrorCode.UNKNOWN_TOPIC_ID)
        self.led = led
        if acks == ACKS_ALL:
            led.require_enough_replicas()
        self.header = led.header_of_produced(self.records)
        if self.header.size_bytes < len(self.records):
            self.records = self.records[: self.header.size_bytes]
        self.is_checked = not is_long_check(len(self.records), self.header)
        if self.is_checked:
            self.change_to(led.check_produced(self.records, self.header, now))

    def refuse(self, error: KafkaError) -> None:
        self.is_refused = True
        answer = self.answer
        answer.error_code = error.error_code
        answer.error_message = error.message
        answer.base_offset = answer.log_append_time_ms = answer.log_start_offset = -1
        if isinstance(error, RecordsRefused):
            for index, message in error.record_errors:
                answer.record_errors.add(index=index, message=message)

    def note_refused(self, *, supports_epoch_bump: bool, now: int) -> None:
        """Store the sequence of a transactional batch that its leader refused, so that no later one of its producer
        goes first (docs/kafka-facts.md, 9).

        The header's own fields count, as in Kafka, even if the bytes were refused.
        """
        if not hasattr(self, "led") or len(self.records) < HEADER_BYTES:
            return
        header = read_header(self.records)
        if header.is_transactional and header.producer_id >= 0:
            with suppress(KafkaError):
                self.led.begin_verification(
                    header, supports_epoch_bump=supports_epoch_bump, now=now
                )

    def change_to(self, records: bytes) -> None:
        """Replace the batch's bytes: by those in the topic's codec, or with another maximum timestamp."""
        if records is not self.records:
            self.records = records
            self.header = read_header(records)

    def written(self, appended: Appended) -> None:
        answer, led = self.answer, self.led
        self.appended = appended
        self.leader_epoch = led.leadership.leader_epoch
        answer.base_offset = appended.base_offset
        answer.log_append_time_ms = appended.log_append_time
        answer.log_start_offset = led.log.log_start_offset

    @property
    def is_awaited(self) -> bool:
        """True if the batch is in the log, but not committed: the high watermark has not passed it."""
        appended = self.appended
        return appended is not None and self.led.high_watermark <= appended.last_offset


class Wanted(Enum):
    """The state that a batch must reach before its producer is answered: none, written to this log, or committed."""

    NOTHING = "nothing"
    COMMITTED = "committed"
    WRITTEN = "written"
    """This node has done its part for the batch: it is written, and synced if the flush policy asks for that."""


class Question(NamedTuple, Generic[HostedT]):
    """A question to the transaction coordinator: are these partitions in the producer's transaction?

    It is sent once for all partitions of one producer id and epoch.
    """

    producer_id: int
    producer_epoch: int
    batches: list[ProducedBatch[HostedT]]

    @property
    def partitions(self) -> list[Partition]:
        return [batch.led.partition for batch in self.batches]


class Producing(Generic[HostedT]):
    """The state of one Produce request at a leader's node, with the decisions of each stage.

    `adds_partition` is TV2: the coordinator adds the partition to the transaction.
    """

    def __init__(
        self,
        request: ProduceRequest,
        answers: Messages[PartitionProduced],
        replica_manager: LedPartitions[HostedT],
        *,
        adds_partition: bool,
    ) -> None:
        self._transactional_id = request.transactional_id
        self._acks = request.acks
        self._replica_manager = replica_manager
        self._adds_partition = adds_partition
        self.timeout_s = min(request.timeout_ms or _TIMEOUT_MS, _PRODUCE_TIMEOUT_MS_MAX) / 1000
        self.batches: list[ProducedBatch[HostedT]] = [
            ProducedBatch(part, answers.add(topic=part.topic, partition=part.partition))
            for part in request.partitions
        ]

    def refuse(self, batch: ProducedBatch[HostedT], error: KafkaError) -> None:
        """Refuse a batch. If another node leads its partition, the answer names that leader."""
        batch.refuse(error)
        if error.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            answer = batch.answer
            answer.leader, answer.leader_epoch = self._replica_manager.leader_of(
                Partition(answer.topic, answer.partition)
            )

    # Before the append.

    def check(self, now: int) -> bool:
        """Check each batch by itself, then the request. False: the whole request is refused. `now` is in ms."""
        refusal = self._refusal(now)
        if refusal is not None:
            for batch in self.batches:
                batch.refuse(refusal)
        return refusal is None

    def _refusal(self, now: int) -> KafkaError | None:
        if self._acks not in (-1, 0, 1):
            return KafkaError(
                ErrorCode.INVALID_REQUIRED_ACKS, f"acks={self._acks}; 0, 1 and -1 are known"
            )
        transactional_producers: set[int] = set()
        for batch in self.batches:
            try:
                self._check(batch, now)
            except KafkaError as error:
                self.refuse(batch, error)
                continue
            if batch.header.is_transactional:
                transactional_producers.add(batch.header.producer_id)
        if transactional_producers and not self._transactional_id:
            return KafkaError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                "transactional batches need a transactional.id",
            )
        if len(transactional_producers) > 1:
            return KafkaError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                "transactional batches of one request must have one producer id",
            )
        return None

    def _check(self, batch: ProducedBatch[HostedT], now: int) -> None:
        """Check one batch of the request. Raises KafkaError."""
        topic, partition = batch.answer.topic, batch.answer.partition
        if topic in INTERNAL_TOPICS:
            raise KafkaError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"clients may not write to the internal topic {topic}",
            )
        batch.check(self._replica_manager.led(topic, partition), self._acks, now)

    @property
    def is_checked(self) -> bool:
        """True if no batch is refused, takes long to check, or needs another codec."""
        return all(
            batch.is_checked
            and not batch.is_refused
            and not batch.led.wants_other_codec(batch.header)
            for batch in self.batches
        )

    @property
    def partitions(self) -> set[Partition]:
        """The partitions of the batches that are not refused."""
        return {batch.led.partition for batch in self.batches if not batch.is_refused}

    def unchecked(self) -> list[ProducedBatch[HostedT]]:
        """Return the batches that are not checked yet, because the check of their records takes long."""
        return [batch for batch in self.batches if not batch.is_refused and not batch.is_checked]

    def to_recompress(self) -> list[ProducedBatch[HostedT]]:
        return [
            batch
            for batch in self.batches
            if not batch.is_refused and batch.led.wants_other_codec(batch.header)
        ]

    # Verification.

    def needs_guard(self, *, is_verification_on: bool) -> bool:
        return self._adds_partition or is_verification_on

    def note_refused(self, now: int, *, is_verification_on: bool) -> None:
        """Store the sequences of refused transactional batches, before any batch of this or the next request is
        verified.
        """
        if self._transactional_id and self.needs_guard(is_verification_on=is_verification_on):
            for batch in self.batches:
                if batch.is_refused:
                    batch.note_refused(supports_epoch_bump=self._adds_partition, now=now)

    def needs_verification(self, *, is_verification_on: bool) -> bool:
        """True if any transactional batch finds no open transaction of its producer in its partition.

        A batch that repeats one of an ended transaction counts too; `questions` leaves it out.
        """
        if not self._transactional_id or not self.needs_guard(
            is_verification_on=is_verification_on
        ):
            return False
        return any(
            not batch.led.log.producers.has_ongoing_transaction(
                batch.header.producer_id, batch.header.producer_epoch
            )
            for batch in self.batches
            if not batch.is_refused and batch.header.is_transactional
        )

    def questions(self, now: int) -> list[Question[HostedT]]:
        """Return the questions to the coordinator, about the partitions that need verification.

        A batch that is not in a question needs none, or is refused here for its stale epoch.
        """
        asked: dict[tuple[int, int], Question[HostedT]] = {}
        for batch in self.batches:
            if batch.is_refused or not batch.header.is_transactional:
                continue
            header = batch.header
            if batch.led.find_duplicate(header) is not None:
                continue
            try:
                batch.guard = batch.led.begin_verification(
                    header, supports_epoch_bump=self._adds_partition, now=now
                )
            except KafkaError as error:
                batch.refuse(error)
                continue
            if batch.guard is not None:
                key = (header.producer_id, header.producer_epoch)
                asked.setdefault(key, Question(*key, [])).batches.append(batch)
        return list(asked.values())

    def verified(
        self, question: Question[HostedT], codes: Sequence[ErrorCode], start_ms: int, now: int
    ) -> None:
        """Refuse the batches to which the coordinator gave an error code; store when the transaction began for the
        others.

        `start_ms` is in ms; 0: unknown.
        """
        for batch, code in zip(question.batches, codes, strict=True):
            if code:
                batch.refuse(
                    KafkaError(
                        code,
                        f"the transaction coordinator did not let {self._transactional_id} into"
                        f" {batch.led.partition}",
                    )
                )
            else:
                assert batch.guard is not None, batch.led.partition
                verifications = batch.led.verifications
                verifications.note_start(question.producer_id, batch.guard, start_ms, now)

    # The append, and what is waited for.

    def to_append(self) -> Iterator[ProducedBatch[HostedT]]:
        """Yield the batches to append.

        Each is checked again: leadership, topic or disk may have gone while the coordinator was asked.
        """
        for batch in self.batches:
            if batch.is_refused:
                continue
            try:
                batch.led.require_leader()
            except KafkaError as error:
                self.refuse(batch, error)
                continue
            yield batch

    @property
    def is_awaited(self) -> bool:
        """True if any batch waits for its commit. A leader that is the only replica often has nothing to wait for."""
        return any(batch.is_awaited for batch in self.batches)

    def wanted(self, batch: ProducedBatch[HostedT]) -> Wanted:
        """Return the state that the batch must reach before its producer is answered, such as COMMITTED.

        If this node's leadership of the partition has ended while the request waited, the batch is refused with
        NOT_LEADER_OR_FOLLOWER and the result is NOTHING: the records at the batch's offset may now be those of another
        leader.
        """
        if batch.appended is None:
            return Wanted.NOTHING
        if batch.led.leadership.leader_epoch != batch.leader_epoch:
            self.not_committed(batch, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            return Wanted.NOTHING
        if not batch.is_awaited:
            return Wanted.NOTHING
        return Wanted.COMMITTED if self._acks == ACKS_ALL else Wanted.WRITTEN

    def not_committed(self, batch: ProducedBatch[HostedT], code: ErrorCode) -> None:
        assert batch.appended is not None
        self.refuse(
            batch,
            KafkaError(
                code,
                f"{batch.led.partition}: the batch at offset {batch.appended.base_offset} is not known to be"
                " committed",
            ),
        )
