"""Answers `explain`: gathers facts from all roles at once, with a deadline, and applies the rules of `core.explain_*`
to them.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from pydantic import Field

from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import (
    Partition,
    branch_sink,
    shard_of,
)
from oncelog.rpc.metadata import GROUP, TOPIC_OF_KIND, TRANSACTION
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
from oncelog_gateway.core.explain_producer import (
    explain_idle_producer,
    explain_silence,
    names_of,
)
from oncelog_gateway.core.explain_sink import AttemptFacts, SinkFacts, explain_sink
from oncelog_gateway.core.explain_transaction import explain_transaction
from oncelog_gateway.core.held_back import Behind
from oncelog_gateway.core.paging import PageRequest
from oncelog_gateway.group_resources import GroupOffset, UnstableOffset
from oncelog_gateway.groups import Groups
from oncelog_gateway.marker_queues import marker_queues
from oncelog_gateway.partitions import Partitions, all_partitions
from oncelog_gateway.resources import PartitionStatus, Resource, resource_of
from oncelog_gateway.role_answers import is_two_phase, partitions_of
from oncelog_gateway.roles import Roles
from oncelog_gateway.sinks import Sinks
from oncelog_gateway.subjects import NOT_SAID, Kind, Named, Subjects, partition_of, producer_id_of
from oncelog_gateway.time_budget import time_budget
from oncelog_gateway.transactions import Transactions

PARTITIONS_MAX: Final = 100
"""Partitions of one transaction or group that are looked at. The explanation says if there are more."""
FAILURES_MAX: Final = 5
"""Number of silent partitions whose failures are told one by one."""
PRODUCER_PARTITIONS_MAX: Final = 2_000
"""Partitions of all topics that are searched for a producer id."""


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
        self._subjects = Subjects(roles, transactions, groups, history)

    async def explain(self, subject: str, kind: Kind | None) -> Explanation:
        """Return the explanation of a transaction, producer, partition, group or sink within two seconds. `kind` None:
        it is found by the name. Raises KafkaError when nothing has this name, or when several things have.
        """
        with time_budget():
            named = Named(kind) if kind is not None else await self._subjects.named(subject)
            try:
                diagnosis = await self._of(subject, named.kind)
            except KafkaError as error:
                if error.error_code not in NOT_SAID:
                    raise
                diagnosis = self._unanswered(subject, named.kind, error)
        return resource_of(
            Explanation,
            diagnosis,
            subject=subject,
            kind=named.kind,
            unknown=list(dict.fromkeys((*diagnosis.unknown, *named.unknown))),
        )

    async def _of(self, subject: str, kind: Kind) -> Diagnosis:
        match kind:
            case "transaction":
                return await self.transaction(subject)
            case "producer":
                return await self._producer(producer_id_of(subject))
            case "partition":
                partition = partition_of(subject)
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

    def _unanswered(self, subject: str, kind: Kind, error: KafkaError) -> Diagnosis:
        image = self._roles.image
        shards = GROUP if kind == "group" else TRANSACTION
        count = image.shard_count(shards)
        number = shard_of(subject, count) if count else -1
        owner = image.shards.get((shards, number))
        return explain_silence(
            f"{kind} {subject!r}",
            f"shard {number} of {TOPIC_OF_KIND[shards]}",
            -1 if owner is None else owner.coordinator,
            error.error_code.name,
            (error.message,),
        )

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
            known = await self._roles.describe_transaction(transactional_id)
        except KafkaError as error:
            events = self._history.of_transaction(transactional_id)
            return replace(
                facts, error=error.error_code.name, events=events, unknown=tuple(unknown)
            )
        partitions = partitions_of(known)
        if len(partitions) > PARTITIONS_MAX:
            unknown.append(f"{len(partitions) - PARTITIONS_MAX} more partitions were not looked at")
        rows, (queues, silent) = await asyncio.gather(
            self._partition_facts(partitions[:PARTITIONS_MAX]), self._queues()
        )
        unknown += [f"{row.name}: {row.failure}" for row in rows if row.failure][:FAILURES_MAX]
        if known.state in ("PrepareCommit", "PrepareAbort"):
            unknown += [f"markers that wait: {one.message}" for one in silent]
        return replace(
            facts,
            state=known.state,
            producer_id=known.producer_id,
            producer_epoch=known.producer_epoch,
            start_ms=known.transaction_start_time_ms,
            timeout_ms=known.transaction_timeout_ms,
            changed_ms=known.last_update_time_ms,
            is_two_phase=is_two_phase(known),
            owner=(known.owner_producer_id, known.owner_producer_epoch)
            if known.HasField("owner_producer_id")
            else None,
            partitions=tuple(rows),
            events=self._history.of_transaction(transactional_id, (known.producer_id,)),
            remembered_since_ms=self._history.oldest_ms,
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
        partitions = all_partitions(self._roles.image)
        described = await self._roles.describe_producers(partitions[:PRODUCER_PARTITIONS_MAX])
        unknown = list(dict.fromkeys(one.message for one in failures))
        silent = [one for one, answer in described.items() if isinstance(answer, KafkaError)]
        if silent:
            unknown.append(f"the producers of {names_of(silent)}: no leader said")
        if len(partitions) > len(described):
            unknown.append(f"{len(partitions) - len(described)} more partitions were not looked at")
        written = {
            partition: one.current_txn_start_offset
            for partition, answer in described.items()
            if not isinstance(answer, KafkaError)
            for one in answer.producers
            if one.producer_id == producer_id
        }
        opened = [one for one, start_offset in written.items() if start_offset >= 0]
        if opened:
            return await self._partition(opened[0])
        return explain_idle_producer(producer_id, sorted(written), unknown)

    async def _queues(self) -> tuple[list[QueueFacts], list[KafkaError]]:
        rows, failures = await marker_queues(self._roles)
        queues = [
            QueueFacts(row.marker_sender, row.node, row.marker_count, row.oldest_age_ms)
            for row in rows
        ]
        return queues, failures

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

    async def _partition_facts(self, partitions: Sequence[Partition]) -> list[PartitionFacts]:
        return [self._facts_of(row) for row in await self._partitions.statuses(partitions)]

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
                holder.first_record_age_ms,
            ),
            "" if row.failure is None else row.failure.detail,
        )

    # ------------------------------------------------------------------------------------------------ groups

    async def _group(self, group_id: str) -> Diagnosis:
        described = await self._groups.describe(group_id)
        paging = PageRequest(PARTITIONS_MAX, None)
        page = await self._groups.offsets(group_id, paging, count_records=True)
        unknown = _unknown_history(self._history)
        unknown += dict.fromkeys(one.detail for one in page.incomplete)
        if page.total > PARTITIONS_MAX:
            unknown.append(f"{page.total - PARTITIONS_MAX} more partitions were not looked at")
        waiting = [Partition(row.topic, row.partition) for row in page.offsets if row.held_by]
        held = {
            facts.partition: facts
            for facts in await self._partition_facts(waiting)
            if facts.holder is not None
        }
        offsets = [_offset_facts(row, held) for row in page.offsets]
        pending = [Partition(row.topic, row.partition) for row in page.offsets if row.unstable_by]
        holder = next(
            (_committer(row.unstable_by[0]) for row in page.offsets if row.unstable_by), None
        )
        facts = GroupFacts(
            group_id,
            described.state,
            len(described.members),
            tuple(offsets),
            tuple(pending),
            holder,
            tuple(unknown),
        )
        first = next((one.held for one in offsets if one.is_blocked), None)
        if pending or first is None:
            return explain_group(facts, await self._owner(holder))
        return explain_group(facts, explain_partition(first, await self._owner(first.holder)))

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


def _committer(found: UnstableOffset) -> HolderFacts:
    return HolderFacts(
        found.producer_id,
        -1,
        -1,
        found.transactional_id,
        found.coordinator_state,
        found.age_ms,
    )


def _offset_facts(row: GroupOffset, held: Mapping[Partition, PartitionFacts]) -> OffsetFacts:
    partition = Partition(row.topic, row.partition)
    behind = None
    if row.behind is not None:
        found = row.behind
        behind = Behind(found.records, found.aborted, found.markers, found.is_whole)
    facts = held.get(partition)
    return OffsetFacts(
        partition,
        row.offset,
        row.lag,
        behind,
        facts,
        row.held_back or 0,
        # It may have ended between the two looks.
        row.is_blocked and facts is not None,
    )


def _unknown_history(history: History) -> list[str]:
    unknown = [history.away_reason] if history.away_reason else []
    missing = sum(max(one.number("count"), 1) for one in history.holes())
    return [*unknown, f"{missing} events are missing in the history"] if missing else unknown
