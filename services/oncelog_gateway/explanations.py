"""Gathers what the rules of `core.explain_*` read, all roles at once and with a deadline, and lets them answer."""

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Final, Literal, TypeVar

from pydantic import Field

from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import (
    CONSUMER_OFFSETS_TOPIC,
    NO_TIMESTAMP,
    CoordinatorEpoch,
    Offset,
    Partition,
    ProducerEpoch,
    ProducerId,
    branch_sink,
    shard_of,
)
from oncelog.rpc.metadata import GROUP, TRANSACTION
from oncelog.runtime.clock import Clock
from oncelog.telemetry.history import History
from oncelog_gateway.core.diagnosis import (
    Diagnosis,
    HolderFacts,
    PartitionFacts,
    QueueFacts,
    TransactionFacts,
)
from oncelog_gateway.core.explain_group import GroupFacts, OffsetFacts, explain_group
from oncelog_gateway.core.explain_partition import explain_partition
from oncelog_gateway.core.explain_sink import AttemptFacts, SinkFacts, explain_sink
from oncelog_gateway.core.explain_transaction import explain_transaction
from oncelog_gateway.core.hanging import OpenTransaction
from oncelog_gateway.core.paging import PageRequest
from oncelog_gateway.groups import Groups
from oncelog_gateway.marker_queues import marker_queues
from oncelog_gateway.partitions import Partitions, abort_command
from oncelog_gateway.records_behind import RecordsBehind
from oncelog_gateway.resources import INT32_MAX, INT64_MAX, PartitionStatus, Resource
from oncelog_gateway.roles import Roles
from oncelog_gateway.sinks import Sinks
from oncelog_gateway.transactions import Transactions, partitions_of

Kind = Literal["transaction", "producer", "partition", "group", "sink"]
T = TypeVar("T")

PARTITIONS_MAX: Final = 100
"""Of one transaction or group; the others are not looked at, and it is said."""
DIGITS_MAX: Final = 19
"""Of the largest number there is; Python refuses to read thousands of digits."""
TIMEOUT_S: Final = 1.5
"""Of one question. What has not answered by then is unknown, and the rest is told."""


class EvidenceRow(Resource):
    name: str
    value: str
    source: str


class CommandRow(Resource):
    command: str
    does: str
    is_safe: bool = Field(description="changes nothing")


class Explanation(Resource):
    subject: str
    kind: Kind
    incident: str = Field(
        description="a word for programs; `healthy` and `unknown` are two of them; docs/operations.md lists them",
        examples=["fenced-by-timeout"],
    )
    verdict: str = Field(description="the answer in a sentence or two")
    findings: list[str] = Field(description="how it came to that, in order")
    evidence: list[EvidenceRow]
    next_commands: list[CommandRow]
    unknown: list[str] = Field(description="what could not be read")


class Explanations:
    def __init__(
        self,
        roles: Roles,
        transactions: Transactions,
        partitions: Partitions,
        groups: Groups,
        sinks: Sinks,
        history: History,
        clock: Clock,
    ) -> None:
        self._roles = roles
        self._transactions = transactions
        self._partitions = partitions
        self._groups = groups
        self._sinks = sinks
        self._history = history
        self._clock = clock
        self._behind = RecordsBehind(roles)

    async def explain(self, subject: str, kind: Kind | None) -> Explanation:
        """Raises KafkaError when nothing of this name is known, or when several things are."""
        found = [kind] if kind is not None else await self._kinds_of(subject)
        if not found:
            raise KafkaError(
                ErrorCode.RESOURCE_NOT_FOUND,
                f"{subject!r} is no transactional.id, producer id, topic-partition, group or sink that is known",
            )
        if len(found) > 1:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"{subject!r} is a {' and a '.join(found)}; choose one with kind",
            )
        diagnosis = await self._of(subject, found[0])
        return Explanation(
            subject=subject,
            kind=found[0],
            incident=diagnosis.incident,
            verdict=diagnosis.verdict,
            findings=list(diagnosis.findings),
            evidence=[
                EvidenceRow(name=one.name, value=one.value, source=one.source)
                for one in diagnosis.evidence
            ],
            next_commands=[
                CommandRow(command=one.command, does=one.does, is_safe=one.is_safe)
                for one in diagnosis.next_commands
            ],
            unknown=list(diagnosis.unknown),
        )

    async def _of(self, subject: str, kind: Kind) -> Diagnosis:
        match kind:
            case "transaction":
                return await self.transaction(subject)
            case "producer":
                return await self._producer(_producer_id(subject))
            case "partition":
                partition = _partition(subject)
                if partition is None:
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST,
                        f"{subject!r} is no topic-partition; orders-0 is one",
                    )
                self._require(partition)
                return await self._partition(partition)
            case "group":
                return await self._group(subject)
            case "sink":
                return await self._sink(subject)

    async def _kinds_of(self, subject: str) -> list[Kind]:
        found: list[Kind] = []
        partition = _partition(subject)
        if partition is not None and self._roles.image.partition(partition) is not None:
            found.append("partition")
        asked: dict[Kind, Awaitable[object]] = {
            "transaction": self._roles.describe_transaction(subject),
            "group": self._known_group(subject),
            "sink": self._roles.describe_sink(subject),
        }
        answers = await asyncio.gather(*map(_known, asked.values()))
        answered = dict(zip(asked, answers, strict=True))
        found += [kind for kind, is_known in answered.items() if is_known]
        if "transaction" not in found and self._history.of_transaction(subject):
            found.append("transaction")
        if not found and None in answered.values():
            # Its coordinator did not say; the explanation will.
            found.append(next(kind for kind, is_known in answered.items() if is_known is None))
        if not found and subject.isdecimal():
            found.append("producer")
        return found

    async def _known_group(self, group_id: str) -> None:
        described = await self._groups.describe(group_id)
        if described.state == "Dead":
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {group_id!r}")

    # ------------------------------------------------------------------------------------------ transactions

    async def transaction(self, transactional_id: str) -> Diagnosis:
        sink = branch_sink(transactional_id)
        if sink is not None:
            return await self._sink(sink)
        return explain_transaction(await self._transaction_facts(transactional_id))

    async def _transaction_facts(self, transactional_id: str) -> TransactionFacts:
        image = self._roles.image
        count = image.shard_count(TRANSACTION)
        number = shard_of(transactional_id, count) if count else -1
        shard = image.shards.get((TRANSACTION, number))
        unknown = _unknown_history(self._history)
        facts = TransactionFacts(
            transactional_id,
            self._clock.now(),
            number,
            -1 if shard is None else shard.coordinator,
            shard_events=[
                event
                for event in self._history.newest(2_000)
                if event.kind == "shard" and event.number("shard") == number
            ],
        )
        try:
            known = await _within(self._roles.describe_transaction(transactional_id))
        except KafkaError as error:
            events = self._history.of_transaction(transactional_id)
            return replace(
                facts, error=error.error_code.name, events=events, unknown=tuple(unknown)
            )
        asked = partitions_of(known)
        if len(asked) > PARTITIONS_MAX:
            unknown.append(f"{len(asked) - PARTITIONS_MAX} more partitions were not looked at")
        rows, queues = await asyncio.gather(
            self._partition_facts(asked[:PARTITIONS_MAX]), self._queues()
        )
        return replace(
            facts,
            state=known.state,
            producer_id=known.producer_id,
            producer_epoch=known.producer_epoch,
            start_ms=known.transaction_start_time_ms,
            timeout_ms=known.transaction_timeout_ms,
            partitions=tuple(rows),
            events=self._history.of_transaction(transactional_id, (known.producer_id,)),
            queues=tuple(queues),
            unknown=tuple(unknown),
        )

    async def _producer(self, producer_id: int) -> Diagnosis:
        known, failures = await self._transactions.of_producers([producer_id])
        names = {one.transactional_id for one in known}
        names |= {
            event.text("transactional_id")
            for event in self._history.of_producer(producer_id)
            if event.text("transactional_id")
        }
        if names:
            return await self.transaction(sorted(names)[0])
        if failures:
            raise failures[0]
        opened = await self._opened_by(producer_id)
        if opened is not None:
            return await self._partition(opened)
        return Diagnosis(
            "healthy",
            f"No transactional.id has producer id {producer_id} and nothing is open under it: it is an idempotent "
            "producer, or one of long ago.",
        )

    async def _opened_by(self, producer_id: int) -> Partition | None:
        """Where it has a transaction open, as the history knows."""
        for event in reversed(self._history.of_producer(producer_id)):
            if event.kind == "opened":
                return Partition(event.text("topic"), event.number("partition"))
        return None

    async def _queues(self) -> list[QueueFacts]:
        rows, _ = await marker_queues(self._roles)
        return [
            QueueFacts(row.marker_sender, row.node, row.marker_count, row.oldest_age_ms)
            for row in rows
        ]

    # -------------------------------------------------------------------------------------------- partitions

    def _require(self, partition: Partition) -> None:
        if self._roles.image.partition(partition) is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"there is no partition {partition.partition} of a topic {partition.topic!r}; GET /v1/topics lists all",
            )

    async def _partition(self, partition: Partition) -> Diagnosis:
        (facts,) = await self._partition_facts([partition])
        return explain_partition(facts, await self._owner(facts.holder))

    async def _owner(self, holder: HolderFacts | None) -> Diagnosis | None:
        if holder is None or holder.is_hanging or holder.transactional_id is None:
            return None
        return await self.transaction(holder.transactional_id)

    async def _partition_facts(self, asked: Sequence[Partition]) -> list[PartitionFacts]:
        try:
            rows = await _within(self._partitions.statuses(asked))
        except KafkaError as error:
            return [self._unread(one, error.message) for one in asked]
        return [self._facts_of(row) for row in rows]

    def _unread(self, partition: Partition, failure: str) -> PartitionFacts:
        found = self._roles.image.partition(partition)
        return PartitionFacts(
            partition, -1 if found is None else found.leader, self._dead(partition), failure=failure
        )

    def _dead(self, partition: Partition) -> tuple[int, ...]:
        image = self._roles.image
        found = image.partition(partition)
        return tuple(
            node_id
            for node_id in (() if found is None else found.replicas)
            if node_id not in image.nodes or image.nodes[node_id].fenced
        )

    def _facts_of(self, row: PartitionStatus) -> PartitionFacts:
        partition = Partition(row.topic, row.partition)
        holder = row.lso_holder
        return PartitionFacts(
            partition,
            -1 if row.leader is None else row.leader,
            self._dead(partition),
            row.last_stable_offset,
            row.high_watermark,
            None
            if holder is None
            else HolderFacts(
                holder.producer_id,
                holder.producer_epoch,
                holder.start_offset,
                holder.transactional_id,
                holder.coordinator_state,
                holder.age_ms,
                holder.idle_ms,
                holder.hanging,
                abort_command(
                    OpenTransaction(
                        partition,
                        ProducerId(holder.producer_id),
                        ProducerEpoch(holder.producer_epoch),
                        Offset(holder.start_offset),
                        CoordinatorEpoch(holder.coordinator_epoch),
                        NO_TIMESTAMP,
                    )
                ),
            ),
            "" if row.failure is None else row.failure.detail,
        )

    # ------------------------------------------------------------------------------------------------ groups

    async def _group(self, group_id: str) -> Diagnosis:
        described = await self._groups.describe(group_id)
        page = await self._groups.offsets(group_id, PageRequest(PARTITIONS_MAX, None))
        unknown = _unknown_history(self._history)
        if page.total > PARTITIONS_MAX:
            unknown.append(f"{page.total - PARTITIONS_MAX} more partitions were not looked at")
        lagging = [
            Partition(row.topic, row.partition)
            for row in page.offsets
            if row.lag and row.offset is not None
        ]
        held = {
            facts.partition: facts
            for facts in await self._partition_facts(lagging)
            if facts.holder is not None
        }
        offsets: list[OffsetFacts] = []
        for row in page.offsets:
            partition = Partition(row.topic, row.partition)
            behind = None
            if row.lag and row.offset is not None and partition not in held:
                behind = await self._behind.count(partition, row.offset, row.log_end_offset or 0)
            offsets.append(OffsetFacts(partition, row.offset, row.lag, behind, held.get(partition)))
        pending, holder = await self._pending(group_id)
        facts = GroupFacts(
            group_id,
            described.state,
            len(described.members),
            tuple(offsets),
            tuple(pending),
            holder,
            tuple(unknown),
        )
        if not pending:
            holder = next((one.held.holder for one in offsets if one.held is not None), None)
        return explain_group(facts, await self._owner(holder))

    async def _pending(self, group_id: str) -> tuple[list[Partition], HolderFacts | None]:
        """Partitions whose offsets an open transaction commits for the group, and that transaction. One that began
        before it in the group's shard hides it: its end is awaited first in any case."""
        count = self._roles.image.shard_count(GROUP)
        if not count:
            return [], None
        shard = Partition(CONSUMER_OFFSETS_TOPIC, shard_of(group_id, count))
        (facts,) = await self._partition_facts([shard])
        holder = facts.holder
        if holder is None:
            return [], None
        pending = await self._behind.pending_offsets(
            shard, holder.start_offset, group_id, holder.producer_id
        )
        return pending, holder

    # ------------------------------------------------------------------------------------------------- sinks

    async def _sink(self, name: str) -> Diagnosis:
        sink = await self._sinks.describe(name)
        return explain_sink(
            SinkFacts(
                sink.sink,
                self._clock.now(),
                sink.last_committed_batch_id,
                tuple(
                    AttemptFacts(
                        one.batch_id,
                        one.state,
                        one.opened_time_ms,
                        one.deadline_ms,
                        len(one.branches),
                        sum(branch.sealed for branch in one.branches),
                    )
                    for one in sink.attempts
                ),
            )
        )


def _partition(subject: str) -> Partition | None:
    topic, _, number = subject.rpartition("-")
    if not topic or not number.isdecimal() or len(number) > DIGITS_MAX or int(number) > INT32_MAX:
        return None
    return Partition(topic, int(number))


def _producer_id(subject: str) -> int:
    if not subject.isdecimal() or len(subject) > DIGITS_MAX or int(subject) > INT64_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{subject!r} is no producer id; 1001 is one")
    return int(subject)


def _unknown_history(history: History) -> list[str]:
    unknown = [history.away_reason] if history.away_reason else []
    missing = sum(max(one.number("count"), 1) for one in history.holes())
    return [*unknown, f"{missing} events are missing in the history"] if missing else unknown


async def _known(answer: Awaitable[object]) -> bool | None:
    """None: nobody could say."""
    try:
        await _within(answer)
    except KafkaError as error:
        return None if error.error_code in _NOT_SAID else False
    return True


_NOT_SAID: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)


async def _within(answer: Awaitable[T]) -> T:
    """Raises KafkaError(REQUEST_TIMED_OUT)."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await answer
    except TimeoutError:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"no answer within {TIMEOUT_S:g} s") from None
