"""Consumer groups as REST shows them: their members, committed offsets and lag."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from oncelog.api.v1 import groups_pb2 as pb
from oncelog.api.v1 import types_pb2
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Millis, Partition, ProducerId
from oncelog.rpc.metadata import GROUP
from oncelog.runtime.clock import Clock
from oncelog_gateway.audit import AuditLog
from oncelog_gateway.core.group_assignment import assigned_partitions
from oncelog_gateway.core.hanging import CoordinatedTransaction
from oncelog_gateway.core.paging import PageRequest
from oncelog_gateway.group_reading import (
    BlockedReadings,
    GroupsBlocked,
    Reading,
    Standing,
    readings_of,
    standing_of,
)
from oncelog_gateway.group_resources import (
    Group,
    GroupAssignment,
    GroupDetail,
    GroupMember,
    GroupOffset,
    GroupOffsetPage,
    GroupPage,
    OffsetMove,
    RecordsAfter,
    ResetOffsets,
    ResetOffsetsRequest,
    ToOffset,
    ToTimestamp,
    UnstableOffset,
)
from oncelog_gateway.one_reading import read_once
from oncelog_gateway.operators import Operator
from oncelog_gateway.partitions import Looked, Partitions
from oncelog_gateway.records_behind import RecordsBehind
from oncelog_gateway.resources import PartitionStatus, paged, resource_of
from oncelog_gateway.roles import Roles, all_answers, raise_for
from oncelog_gateway.transactions import Transactions

OfGroupT = TypeVar(
    "OfGroupT",
    pb.DescribeGroupsResponse.Group,
    pb.DeleteGroupsResponse.Result,
    pb.OffsetFetchResponse.Group,
)

COUNTED_MAX: Final = 100
COUNTED_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True)
class GroupLags:
    """The lag of each consumer group in each topic, for metrics."""

    standings: Mapping[tuple[str, str], Standing] = field(default_factory=dict)
    not_shown: int = 0
    """Number of groups beyond the limit, which are not shown."""


class Groups:
    """Reads, resets and deletes consumer groups through their coordinators. Every method raises KafkaError."""

    def __init__(
        self,
        roles: Roles,
        audit: AuditLog,
        transactions: Transactions,
        partitions: Partitions,
        clock: Clock,
    ) -> None:
        self._roles = roles
        self._audit = audit
        self._transactions = transactions
        self._partitions = partitions
        self._clock = clock
        self._blocked = BlockedReadings(roles)

    async def page(self, *, states: Sequence[str], paging: PageRequest) -> GroupPage:
        """Return a page of groups by id, and which coordinators did not answer. Only if none did, this raises."""
        rows, failures = await self._listed(states)
        if failures and len(failures) == len(self._roles.group_coordinators()):
            raise failures[0]
        page, about = paged(rows, lambda row: (row.group_id,), paging, failures)
        return GroupPage(groups=page, **about)

    async def known(self, count_max: int) -> tuple[list[Group], list[KafkaError]]:
        """Return the first groups in order of id, and the failures of the coordinators that did not answer."""
        rows, failures = await self._listed(())
        return rows[:count_max], failures

    async def _listed(self, states: Sequence[str]) -> tuple[list[Group], list[KafkaError]]:
        request = pb.ListGroupsRequest(state_filters=states)

        async def groups_on(node_id: int) -> pb.ListGroupsResponse:
            answer = await self._roles.ask_groups(
                node_id, lambda groups: groups.ListGroups, request
            )
            raise_for(answer.error_code, f"the coordinator on node {node_id} is not ready")
            return answer

        answers, failures = await all_answers(map(groups_on, self._roles.group_coordinators()))
        found = {one.group_id: one for answer in answers for one in answer.groups}
        return [resource_of(Group, found[one]) for one in sorted(found)], failures

    @read_once
    async def describe(self, group_id: str) -> GroupDetail:
        """Return a group with its members and what each was assigned."""
        coordinator = self._roles.coordinator_of_group(group_id)
        request = pb.DescribeGroupsRequest(group_ids=[group_id])
        answer = await self._roles.ask_groups(
            coordinator, lambda groups: groups.DescribeGroups, request
        )
        found = _only(answer.groups, group_id)
        return resource_of(
            GroupDetail,
            found,
            group_type=found.group_type or "classic",
            coordinator=coordinator,
            members=[
                resource_of(
                    GroupMember,
                    one,
                    group_instance_id=one.group_instance_id
                    if one.HasField("group_instance_id")
                    else None,
                    assignments=_assignments(one.assignment),
                )
                for one in found.members
            ],
        )

    async def offsets(
        self, group_id: str, paging: PageRequest, *, count_records: bool = False
    ) -> GroupOffsetPage:
        """Return a row for every partition with a committed offset of the group. It has the lag, if the leader answers,
        and the transactions that are about to change the offset.
        """
        await self.describe(group_id)
        found = await self._committed(group_id, with_pending=True)
        statuses = await self._statuses(found)
        offsets = ((partition, one.offset) for partition, one in found.items())
        readings = readings_of(group_id, offsets, statuses)
        blocked = await self._blocked.among(readings)
        unstable, silent = await self._unstable(found)
        rows = [
            _offset(one, found[one.partition], unstable, is_blocked=one.place in blocked)
            for one in readings
        ]
        page, about = paged(rows, lambda row: (row.topic, row.partition), paging, silent)
        failed = (one.failure for one in statuses.values() if one.failure is not None)
        about["incomplete"] = [*failed, *about["incomplete"]]
        if count_records:
            page = await self._counted(page)
        standing = standing_of(readings, blocked)
        return GroupOffsetPage(
            group_id=group_id,
            offsets=page,
            total_lag=standing.lag or 0,
            total_readable=standing.readable,
            total_held_back=standing.held_back,
            blocked_by=standing.blocked_by,
            stands=standing.words,
            **about,
        )

    async def _statuses(self, partitions: Iterable[Partition]) -> dict[Partition, PartitionStatus]:
        asked = list(partitions)
        return dict(zip(asked, await self._partitions.statuses(asked), strict=True))

    async def _counted(self, page: Sequence[GroupOffset]) -> list[GroupOffset]:
        """Return the rows with the records after the offset counted, for the first rows that have lag. A few are read
        at a time, and at most the first MiB of each.
        """
        counting = RecordsBehind(self._roles)
        places = asyncio.Semaphore(COUNTED_AT_ONCE)

        async def counted(row: GroupOffset) -> GroupOffset:
            if row.offset is None or row.log_end_offset is None or not row.lag:
                return row
            async with places:
                partition = Partition(row.topic, row.partition)
                found = await counting.count(partition, row.offset, row.log_end_offset)
            if found is None:
                return row
            return row.model_copy(update={"behind": resource_of(RecordsAfter, found)})

        behind = [row for row in page if row.lag][:COUNTED_MAX]
        done = dict(zip(map(id, behind), await asyncio.gather(*map(counted, behind)), strict=True))
        return [done.get(id(row), row) for row in page]

    async def _unstable(
        self, found: Mapping[Partition, pb.OffsetFetchResponse.Offset]
    ) -> tuple[dict[int, UnstableOffset], tuple[KafkaError, ...]]:
        """Return, by producer id, the open transactions that are about to change these committed offsets, and the
        failures of coordinators that did not answer.
        """
        producers = {one: None for offset in found.values() for one in offset.pending_producer_ids}
        known, silent = await self._transactions.of_producers(list(producers))
        now = self._clock.now()
        of_producer = {one.producer_id: one for one in known}
        return {
            one: _unstable(one, of_producer.get(ProducerId(one)), now) for one in producers
        }, silent

    @read_once
    async def _committed(
        self, group_id: str, *, with_pending: bool = False
    ) -> dict[Partition, pb.OffsetFetchResponse.Offset]:
        coordinator = self._roles.coordinator_of_group(group_id)
        request = _fetch([group_id], with_pending=with_pending)
        answer = await self._roles.ask_groups(
            coordinator, lambda groups: groups.OffsetFetch, request
        )
        return {
            Partition(one.topic, one.partition): one
            for one in _only(answer.groups, group_id).offsets
        }

    async def lags(
        self, statuses: Mapping[Partition, PartitionStatus], count_max: int
    ) -> GroupLags:
        """Return the lag of each group in each topic, for the first `count_max` groups in order of id.

        Partitions that are not in `statuses` are left out, and so are the groups of a coordinator that does not answer.
        """
        found, _ = await self._listed(())
        offsets = await self.offsets_of([one.group_id for one in found[:count_max]])
        readings = [
            one
            for group_id, of_group in offsets.items()
            for one in readings_of(group_id, of_group, statuses)
            if one.unread is not None
        ]
        blocked = await self._blocked.among(readings)
        by_topic: dict[tuple[str, str], list[Reading]] = {}
        for one in readings:
            by_topic.setdefault((one.group_id, one.partition.topic), []).append(one)
        return GroupLags(
            {key: standing_of(same, blocked) for key, same in by_topic.items()},
            max(len(found) - count_max, 0),
        )

    async def standings(self, group_ids: Sequence[str], partitions_max: int) -> dict[str, Standing]:
        """Return how far each of these groups has read, in the first `partitions_max` partitions of all groups
        together. Groups of a coordinator that does not answer are left out.
        """
        offsets = await self.offsets_of(group_ids)
        asked = dict.fromkeys(partition for one in offsets.values() for partition, _ in one)
        statuses = await self._statuses(list(asked)[:partitions_max])
        readings = {
            group_id: readings_of(group_id, of_group, statuses)
            for group_id, of_group in offsets.items()
        }
        blocked = await self._blocked.among(one for same in readings.values() for one in same)
        return {group_id: standing_of(same, blocked) for group_id, same in readings.items()}

    async def blocked(
        self, held: Looked, partitions: Sequence[Partition], groups_max: int
    ) -> GroupsBlocked:
        """Return which groups have nothing to read in one of these partitions before an open transaction there. Only
        the first `groups_max` groups in order of id are looked at. `held` has what the partitions' leaders answered.

        Without partitions no group's offsets are asked for.
        """
        found, failures = await self._listed(())
        if not partitions:
            return GroupsBlocked(frozenset(), len(found), failures)
        statuses = dict(zip(partitions, self._partitions.rows(held, partitions), strict=True))
        offsets = await self.offsets_of([one.group_id for one in found[:groups_max]], partitions)
        return GroupsBlocked(await self._blocked.where(offsets, statuses), len(found), failures)

    async def offsets_of(
        self, group_ids: Iterable[str], partitions: Sequence[Partition] = ()
    ) -> dict[str, list[tuple[Partition, int]]]:
        """Return each group's committed offsets as (partition, offset), in these partitions or in all. Groups whose
        coordinator does not answer are left out. Each coordinator is asked once.
        """
        of_coordinator: dict[int, list[str]] = {}
        for group_id in group_ids:
            shard = self._roles.image.shard_for(GROUP, group_id)
            if shard is not None and shard.coordinator >= 0:
                of_coordinator.setdefault(shard.coordinator, []).append(group_id)
        answers, _ = await all_answers(
            self._roles.ask_groups(
                node_id, lambda groups: groups.OffsetFetch, _fetch(asked, partitions)
            )
            for node_id, asked in of_coordinator.items()
        )
        return {
            group.group_id: [
                (Partition(one.topic, one.partition), one.offset) for one in group.offsets
            ]
            for answer in answers
            for group in answer.groups
        }

    async def delete(self, operator: Operator, group_id: str) -> None:
        """Delete a group with its offsets. Refused while the group has members."""
        target = {"group_id": group_id}
        async with self._audit.attempt(operator, "delete_group", target) as attempt:
            coordinator = self._roles.coordinator_of_group(group_id)
            request = pb.DeleteGroupsRequest(group_ids=[group_id])
            answer = await self._roles.ask_groups(
                coordinator, lambda groups: groups.DeleteGroups, request
            )
            _only(answer.results, group_id)
            attempt.detail = f"group {group_id!r} is deleted with its offsets"

    async def reset(
        self, operator: Operator, group_id: str, body: ResetOffsetsRequest
    ) -> ResetOffsets:
        """Set a group's committed offsets in one topic. Refused while the group has members: they would read on where
        they are, and commit over the new offsets.
        """
        target = {"group_id": group_id, **body.model_dump()}
        async with self._audit.attempt(operator, "reset_offsets", target) as attempt:
            partitions = self._chosen(body)
            state = (await self.describe(group_id)).state
            if state not in ("Empty", "Dead"):
                raise KafkaError(
                    ErrorCode.NON_EMPTY_GROUP,
                    f"group {group_id!r} is {state}: it has members; stop them first",
                )
            moves = await self._moves(group_id, partitions, body)
            if not body.dry_run:
                await self._commit(group_id, moves)
            done = "would go" if body.dry_run else "went"
            attempt.detail = f"{len(moves)} offsets of group {group_id!r} {done} elsewhere"
        return ResetOffsets(
            group_id=group_id, offsets=moves, dry_run=body.dry_run, audit_id=attempt.audit_id
        )

    def _chosen(self, body: ResetOffsetsRequest) -> list[Partition]:
        topic = self._roles.image.topics.get(body.topic)
        count = 0 if topic is None else len(topic.partitions)
        chosen = list(range(count)) if body.partitions is None else sorted(set(body.partitions))
        if not chosen or chosen[-1] >= count:
            missing = f"partition {chosen[-1]} of a topic" if chosen and topic else "topic"
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"there is no {missing} {body.topic!r}; GET /v1/topics lists all",
            )
        return [Partition(body.topic, one) for one in chosen]

    async def _moves(
        self, group_id: str, partitions: Sequence[Partition], body: ResetOffsetsRequest
    ) -> list[OffsetMove]:
        committed = await self._committed(group_id)
        first, end = await asyncio.gather(
            self._listed_offsets(partitions, -2), self._listed_offsets(partitions, -1)
        )
        match body.to:
            case "earliest":
                wanted = first
            case "latest":
                wanted = end
            case ToOffset(offset=offset):
                wanted = dict.fromkeys(partitions, offset)
            case ToTimestamp(timestamp_ms=timestamp_ms):
                found = await self._listed_offsets(partitions, timestamp_ms)
                # -1: every record is older.
                wanted = {one: at if at >= 0 else end[one] for one, at in found.items()}
        before = {one: committed[one].offset for one in partitions if one in committed}
        return [
            OffsetMove(
                topic=one.topic,
                partition=one.partition,
                offset_before=before[one] if before.get(one, -1) >= 0 else None,
                offset=min(max(wanted[one], first[one]), end[one]),
            )
            for one in partitions
        ]

    async def _listed_offsets(
        self, partitions: Sequence[Partition], timestamp_ms: int
    ) -> dict[Partition, int]:
        found = await self._roles.list_offsets(partitions, timestamp_ms)
        for one in found.values():
            if isinstance(one, KafkaError):
                raise one
        return {key: one.offset for key, one in found.items() if not isinstance(one, KafkaError)}

    async def _commit(self, group_id: str, moves: Sequence[OffsetMove]) -> None:
        request = pb.OffsetCommitRequest(
            group_id=group_id,
            generation_id=-1,
            offsets=[
                pb.OffsetToCommit(
                    topic=one.topic,
                    partition=one.partition,
                    offset=one.offset,
                    leader_epoch=-1,
                )
                for one in moves
            ],
        )
        coordinator = self._roles.coordinator_of_group(group_id)
        answer = await self._roles.ask_groups(
            coordinator, lambda groups: groups.OffsetCommit, request
        )
        for one in answer.partitions:
            raise_for(
                one.error_code,
                f"group {group_id!r} was not moved in {one.topic}-{one.partition}",
            )


def _only(answers: Iterable[OfGroupT], group_id: str) -> OfGroupT:
    """Return the answer that is about this group. Raises KafkaError if that answer is an error, or if there is none."""
    for one in answers:
        if one.group_id == group_id:
            raise_for(one.error_code, _refusal(one.error_code, group_id))
            return one
    raise KafkaError(
        ErrorCode.UNKNOWN_SERVER_ERROR, f"the coordinator did not answer for group {group_id!r}"
    )


def _refusal(error_code: int, group_id: str) -> str:
    if error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return f"there is no group {group_id!r}; GET /v1/groups lists all"
    if error_code == ErrorCode.NON_EMPTY_GROUP:
        return f"group {group_id!r} has members; stop them first"
    return f"group {group_id!r}"


def _fetch(
    group_ids: Iterable[str], partitions: Sequence[Partition] = (), *, with_pending: bool = False
) -> pb.OffsetFetchRequest:
    """Return the OffsetFetch request for these groups, in these partitions, or in all if there are none. The answer to
    `with_pending` also names the producers whose open transactions are about to change an offset.
    """
    by_topic: dict[str, list[int]] = {}
    for one in partitions:
        by_topic.setdefault(one.topic, []).append(one.partition)
    topics = [types_pb2.TopicPartitions(topic=name, partitions=of) for name, of in by_topic.items()]
    return pb.OffsetFetchRequest(
        groups=[
            pb.OffsetFetchRequest.Group(
                group_id=one, member_epoch=-1, all_topics=not topics, topics=topics
            )
            for one in group_ids
        ],
        with_pending=with_pending,
    )


def _assignments(content: bytes) -> list[GroupAssignment] | None:
    topics = assigned_partitions(content)
    if topics is None:
        return None
    return [
        GroupAssignment(topic=topic, partitions=sorted(topics[topic])) for topic in sorted(topics)
    ]


def _unstable(
    producer_id: int, known: CoordinatedTransaction | None, now: Millis
) -> UnstableOffset:
    is_begun = known is not None and known.is_open and known.start_time_ms >= 0
    return UnstableOffset(
        transactional_id=known.transactional_id if known else None,
        producer_id=producer_id,
        coordinator_state=known.state if known else None,
        age_ms=max(now - known.start_time_ms, 0) if known and is_begun else None,
    )


def _offset(
    reading: Reading,
    committed: pb.OffsetFetchResponse.Offset,
    unstable: Mapping[int, UnstableOffset],
    *,
    is_blocked: bool,
) -> GroupOffset:
    found = reading.unread
    return GroupOffset(
        topic=reading.partition.topic,
        partition=reading.partition.partition,
        offset=reading.offset,
        metadata=committed.metadata,
        log_end_offset=None if reading.status is None else reading.status.high_watermark,
        lag=None if found is None else sum(found),
        readable=None if found is None else found.readable,
        held_back=None if found is None else found.held_back,
        held_by=reading.held_by,
        is_blocked=is_blocked,
        unstable_by=[unstable[one] for one in committed.pending_producer_ids],
    )
