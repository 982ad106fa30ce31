"""The state of Spark sinks: a map from record key to newest record, and what follows from it.

An attempt is one try to write a micro-batch. Whether it is open, which batch was committed last and when an attempt is
overdue are computed from the records, and never stored. So a log of which compaction left only the newest records
replays to the same answers. For the same reason nothing depends on the order in which records were first seen: what has
an order is sorted.
"""

from dataclasses import dataclass, field
from typing import Final

from oncelog.ids import Millis, ProducerEpoch, ProducerId, branch_transactional_id
from oncelog_coordinator.core.markers import SINK_MACHINE, DecisionKey, MarkersWanted, MarkerWanted
from oncelog_coordinator.core.sink_events import (
    AttemptDescription,
    BranchDescription,
    LiveBranch,
)
from oncelog_coordinator.core.sink_records import (
    AttemptOpen,
    Branch,
    CommittedBatch,
    Complete,
    Decide,
    Outcome,
    SinkHeader,
    SinkRecord,
    SinkRecordType,
    Tombstone,
)
from oncelog_coordinator.core.txn_state import TV2, TxnMetadata, TxnState

NOT_SEALED: Final = Millis(-1)
NO_BATCH: Final = -1


@dataclass(slots=True)
class Attempt:
    """One try of Spark to write a micro-batch: its records, and what follows from them.

    It is open until a DECIDE record of its nonce commits or aborts it.
    """

    nonce: bytes
    opened: AttemptOpen | None = None
    """The record that opened the attempt; None: the removal of the attempt has begun."""
    branches: dict[ProducerId, Branch] = field(default_factory=dict)
    producer_of_task: dict[tuple[int, int], ProducerId] = field(default_factory=dict)
    """The producer id of the branch of each task attempt, by (task partition, task attempt id)."""
    decide: Decide | None = None

    @property
    def is_open(self) -> bool:
        return self.opened is not None and self.decide is None

    @property
    def is_empty(self) -> bool:
        return self.opened is None and self.decide is None and not self.branches

    @property
    def sink_epoch(self) -> int:
        held = self.decide or self.opened
        assert held is not None, ("a branch without its attempt", self)
        return held.sink_epoch

    @property
    def batch_id(self) -> int:
        """The id of the micro-batch that this attempt tries to write; -1 before the first task has joined, as only
        tasks name it.
        """
        if self.decide is not None:
            return self.decide.batch_id
        return next((branch.batch_id for branch in self.branches.values()), NO_BATCH)

    @property
    def deadline_ms(self) -> Millis:
        """The time at which this try to write a micro-batch times out, in milliseconds.

        That is its `timeout_ms` after it was opened, or after a task last joined it or sealed its rows.
        """
        assert self.opened is not None, self
        newest = self.opened.opened_time_ms
        for branch in self.branches.values():
            newest = max(newest, branch.joined_time_ms, branch.sealed_time_ms)
        return Millis(newest + self.opened.timeout_ms)

    def sorted_branches(self) -> list[Branch]:
        return [self.branches[producer_id] for producer_id in sorted(self.branches)]

    def branch_of(self, task_partition: int, task_attempt_id: int) -> Branch | None:
        producer_id = self.producer_of_task.get((task_partition, task_attempt_id))
        return self.branches[producer_id] if producer_id is not None else None

    def put_branch(self, branch: Branch) -> None:
        task = (branch.task_partition, branch.task_attempt_id)
        known = self.producer_of_task.setdefault(task, branch.producer_id)
        assert known == branch.producer_id, ("a task attempt has one branch", known, branch)
        self.branches[branch.producer_id] = branch

    def drop_branch(self, producer_id: ProducerId) -> None:
        branch = self.branches.pop(producer_id, None)
        if branch is not None:
            del self.producer_of_task[branch.task_partition, branch.task_attempt_id]


@dataclass(slots=True)
class Sink:
    name: str
    header: SinkHeader | None = None
    complete: Complete | None = None
    attempts: dict[bytes, Attempt] = field(default_factory=dict)

    def sorted_attempts(self) -> list[Attempt]:
        """Return the sink's attempts (tries to write a micro-batch), the oldest first."""
        return sorted(self.attempts.values(), key=lambda attempt: attempt.sink_epoch)

    def attempt_of_decision(self, number: int) -> Attempt | None:
        return next((a for a in self.attempts.values() if decision_number(a.nonce) == number), None)

    def open_attempts(self) -> list[Attempt]:
        return [attempt for attempt in self.sorted_attempts() if attempt.is_open]

    def committed_batches(self) -> list[CommittedBatch]:
        """Return the batches that the present query committed, by batch id, as far as the sink remembers them.

        Those whose markers are still under way are among them.
        """
        if self.header is None:
            return []
        generation = self.header.query_generation
        batches: dict[int, CommittedBatch] = {}
        if self.complete is not None and self.complete.query_generation == generation:
            batches = {batch.batch_id: batch for batch in self.complete.batches}
        for attempt in self.attempts.values():
            decide = attempt.decide
            if (
                decide is not None
                and decide.outcome is Outcome.COMMIT
                and decide.query_generation == generation
            ):
                batches[decide.batch_id] = committed_batch(decide)
        return [batches[batch_id] for batch_id in sorted(batches)]

    @property
    def last_committed_batch_id(self) -> int:
        """The highest batch id that the present query committed; -1: it has committed none."""
        batches = self.committed_batches()
        return batches[-1].batch_id if batches else NO_BATCH


class SinkMap:
    """Every Spark sink of a shard by name, and the attempt (a try to write a micro-batch) of each live producer id."""

    def __init__(self) -> None:
        self.sinks: dict[str, Sink] = {}
        self.attempt_of_producer: dict[ProducerId, tuple[str, bytes]] = {}

    def attempt(self, sink: str, nonce: bytes) -> Attempt | None:
        held = self.sinks.get(sink)
        return held.attempts.get(nonce) if held is not None else None

    def open_attempt(self, sink: str, nonce: bytes) -> Attempt | None:
        attempt = self.attempt(sink, nonce)
        return attempt if attempt is not None and attempt.is_open else None

    def put(self, record: SinkRecord) -> None:
        if isinstance(record, Tombstone):
            self._remove(record)
            return
        sink = self.sinks.setdefault(record.sink, Sink(record.sink))
        match record:
            case SinkHeader():
                sink.header = record
            case Complete():
                sink.complete = record
            case AttemptOpen():
                self._attempt_of(sink, record.nonce).opened = record
            case Branch():
                self._attempt_of(sink, record.nonce).put_branch(record)
                self.attempt_of_producer[record.producer_id] = (record.sink, record.nonce)
            case Decide():
                self._decide(sink, record)

    def _decide(self, sink: Sink, record: Decide) -> None:
        attempt = self._attempt_of(sink, record.nonce)
        assert attempt.decide is None, ("an attempt is decided once", attempt.decide, record)
        if record.outcome is Outcome.COMMIT and sink.header is not None:
            is_current = record.query_generation == sink.header.query_generation
            last = sink.last_committed_batch_id
            assert not is_current or record.batch_id > last, (
                "a batch is decided once",
                last,
                record,
            )
        attempt.decide = record

    def _remove(self, tombstone: Tombstone) -> None:
        sink = self.sinks.get(tombstone.sink)
        if sink is None:
            return
        match tombstone.record_type:
            case SinkRecordType.SINK:
                sink.header = None
            case SinkRecordType.COMPLETE:
                sink.complete = None
            case _:
                attempt = sink.attempts.get(tombstone.nonce)
                if attempt is not None:
                    self._remove_from(sink, attempt, tombstone)
        if sink.header is None and sink.complete is None and not sink.attempts:
            del self.sinks[sink.name]

    def _remove_from(self, sink: Sink, attempt: Attempt, tombstone: Tombstone) -> None:
        match tombstone.record_type:
            case SinkRecordType.ATTEMPT_OPEN:
                attempt.opened = None
            case SinkRecordType.BRANCH:
                attempt.drop_branch(tombstone.producer_id)
                self.attempt_of_producer.pop(tombstone.producer_id, None)
            case SinkRecordType.DECIDE:
                attempt.decide = None
        if attempt.is_empty:
            del sink.attempts[attempt.nonce]

    @staticmethod
    def _attempt_of(sink: Sink, nonce: bytes) -> Attempt:
        return sink.attempts.setdefault(nonce, Attempt(nonce))


def committed_batch(decide: Decide) -> CommittedBatch:
    return CommittedBatch(
        batch_id=decide.batch_id,
        nonce=decide.nonce,
        branch_count=len(decide.winners),
        row_count=decide.row_count,
        crc32c=decide.crc32c,
        decided_time_ms=decide.decided_time_ms,
        row_checksum=decide.row_checksum,
    )


def markers_wanted(attempt: Attempt, decide: Decide) -> MarkersWanted:
    """Return every marker that the end of an attempt (a try to write a micro-batch) needs, for all of its tasks'
    branches.

    Those of committed and aborted branches travel in one message. So a partition leader can append them in one write,
    and its LSO passes the whole batch at once. A branch that wrote to no partition needs no marker.
    """
    winners = frozenset(decide.winners)
    return MarkersWanted(
        decision_key=DecisionKey(SINK_MACHINE, decide.sink, decision_number(decide.nonce)),
        markers=tuple(
            MarkerWanted(
                producer_id=branch.producer_id,
                producer_epoch=bumped(branch.producer_epoch),
                commit=branch.producer_id in winners,
                # They carry the bumped epoch, so a partition refuses what the branch sends after its end (facts 9).
                transaction_version=TV2,
                partitions=branch.partitions,
            )
            for branch in attempt.sorted_branches()
            if branch.partitions
        ),
    )


def completion_records(
    sink: Sink, attempt: Attempt, decide: Decide, batches_max: int
) -> tuple[SinkRecord, ...]:
    """Return the records to append once every marker of an attempt (a try to write a micro-batch) is delivered.

    If a crash leaves only the first few in the log, the next coordinator writes the rest.
    """
    records: list[SinkRecord] = []
    assert sink.header is not None, sink
    generation = sink.header.query_generation
    if decide.outcome is Outcome.COMMIT and decide.query_generation == generation:
        batches: dict[int, CommittedBatch] = {}
        if sink.complete is not None and sink.complete.query_generation == generation:
            batches = {batch.batch_id: batch for batch in sink.complete.batches}
        batches[decide.batch_id] = committed_batch(decide)
        newest = tuple(batches[batch_id] for batch_id in sorted(batches)[-batches_max:])
        records.append(Complete(sink.name, generation, newest))
    records.extend(
        Tombstone(SinkRecordType.BRANCH, sink.name, attempt.nonce, branch.producer_id)
        for branch in attempt.sorted_branches()
    )
    records.append(Tombstone(SinkRecordType.ATTEMPT_OPEN, sink.name, attempt.nonce))
    records.append(Tombstone(SinkRecordType.DECIDE, sink.name, attempt.nonce))
    return tuple(records)


def decision_number(nonce: bytes) -> int:
    """Return the number that names the end of an attempt (a try to write a micro-batch) in a `DecisionKey`.

    It is computed from the attempt's nonce. It is not the sink epoch: a sink that is deleted and made anew counts from
    1 again.
    """
    return int.from_bytes(nonce[-8:], "big")


def bumped(producer_epoch: ProducerEpoch) -> ProducerEpoch:
    return ProducerEpoch(producer_epoch + 1)


def describe_attempt(attempt: Attempt) -> AttemptDescription:
    if attempt.decide is None:
        state = "Open"
    else:
        state = "Committing" if attempt.decide.outcome is Outcome.COMMIT else "Aborting"
    return AttemptDescription(
        nonce=attempt.nonce,
        batch_id=attempt.batch_id,
        state=state,
        opened_time_ms=attempt.opened.opened_time_ms if attempt.opened else Millis(-1),
        deadline_ms=attempt.deadline_ms if attempt.is_open else Millis(-1),
        branches=tuple(
            BranchDescription(
                task_partition=branch.task_partition,
                task_attempt_id=branch.task_attempt_id,
                producer_id=branch.producer_id,
                producer_epoch=branch.producer_epoch,
                sealed=branch.is_sealed,
                row_count=branch.row_count,
            )
            for branch in attempt.sorted_branches()
        ),
    )


def live_branch(attempt: Attempt, branch: Branch) -> LiveBranch:
    decide = attempt.decide
    if decide is None:
        state = TxnState.ONGOING
    elif branch.producer_id in decide.winners:
        state = TxnState.PREPARE_COMMIT
    else:
        state = TxnState.PREPARE_ABORT
    last_update = max(branch.joined_time_ms, branch.sealed_time_ms)
    transaction = TxnMetadata(
        branch_transactional_id(branch.sink, branch.batch_id, branch.task_partition),
        branch.producer_id,
        # Bumped once the branch is decided, as in TV2 (facts 8.7).
        bumped(branch.producer_epoch) if decide else branch.producer_epoch,
        state,
        # -1: unknown, the attempt is being removed.
        attempt.opened.timeout_ms if attempt.opened else Millis(-1),
        branch.partitions,
        branch.joined_time_ms,
        decide.decided_time_ms if decide else last_update,
        branch.producer_id,
        client_transaction_version=TV2,
    )
    return LiveBranch(branch.sink, branch.nonce, transaction)
