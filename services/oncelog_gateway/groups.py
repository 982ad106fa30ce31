"""Consumer groups as REST shows them: who is a member, what was committed, and how far behind that is."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from oncelog.api.v1 import groups_pb2 as pb
from oncelog.errors import ErrorCode, KafkaError
from oncelog.ids import Partition
from oncelog_gateway.audit import AuditLog
from oncelog_gateway.core.group_assignment import assigned_partitions
from oncelog_gateway.operators import Operator
from oncelog_gateway.resources import (
    Group,
    GroupAssignment,
    GroupDetail,
    GroupMember,
    GroupOffset,
    GroupOffsets,
    GroupPage,
)
from oncelog_gateway.roles import Roles, raise_for
from oncelog_gateway.transactions import failure_of


class Groups:
    """Reads and deletes groups through the coordinators of their shards. Every method raises KafkaError."""

    def __init__(self, roles: Roles, audit: AuditLog) -> None:
        self._roles = roles
        self._audit = audit

    async def page(self, *, states: Sequence[str], limit: int, offset: int) -> GroupPage:
        """In order of id. A silent coordinator is a failure in the page, unless all are silent."""
        rows, failures = await self._listed(states)
        if failures and len(failures) == len(self._roles.group_coordinators()):
            raise failures[0]
        return GroupPage(
            groups=rows[offset : offset + limit],
            total=len(rows),
            incomplete=[failure_of(failure) for failure in failures],
        )

    async def known(self, count_max: int) -> tuple[list[Group], list[KafkaError]]:
        """The first groups in order of id, and the failures of the coordinators that did not answer."""
        rows, failures = await self._listed(())
        return rows[:count_max], failures

    async def _listed(self, states: Sequence[str]) -> tuple[list[Group], list[KafkaError]]:
        request = pb.ListGroupsRequest(state_filters=states)
        found: dict[str, Any] = {}
        failures: list[KafkaError] = []

        async def ask(node_id: int) -> None:
            try:
                answer = await self._roles.ask_groups(node_id, "ListGroups", request)
                raise_for(answer.error_code, f"the coordinator on node {node_id} is not ready")
            except KafkaError as error:
                failures.append(error)
                return
            found.update((one.group_id, one) for one in answer.groups)

        async with asyncio.TaskGroup() as group:
            for node_id in self._roles.group_coordinators():
                group.create_task(ask(node_id))
        return [Group(**_fields(found[one])) for one in sorted(found)], failures

    async def describe(self, group_id: str) -> GroupDetail:
        """With its members and what each was assigned."""
        coordinator = self._roles.coordinator_of_group(group_id)
        request = pb.DescribeGroupsRequest(group_ids=[group_id])
        answer = await self._roles.ask_groups(coordinator, "DescribeGroups", request)
        found = _only(answer.groups, group_id)
        return GroupDetail(
            group_id=group_id,
            state=found.state,
            protocol_type=found.protocol_type,
            group_type=found.group_type or "classic",
            protocol_name=found.protocol_name,
            coordinator=coordinator,
            members=[
                GroupMember(
                    member_id=one.member_id,
                    group_instance_id=one.group_instance_id
                    if one.HasField("group_instance_id")
                    else None,
                    client_id=one.client_id,
                    client_host=one.client_host,
                    assignments=_assignments(one.assignment),
                )
                for one in found.members
            ],
        )

    async def offsets(self, group_id: str) -> GroupOffsets:
        """Every partition the group has committed for, and its lag where the leader answers."""
        await self.describe(group_id)
        coordinator = self._roles.coordinator_of_group(group_id)
        wanted = pb.OffsetFetchRequest.Group(group_id=group_id, member_epoch=-1, all_topics=True)
        request = pb.OffsetFetchRequest(groups=[wanted])
        answer = await self._roles.ask_groups(coordinator, "OffsetFetch", request)
        found = {
            Partition(one.topic, one.partition): one
            for one in _only(answer.groups, group_id).offsets
        }
        described = await self._roles.describe_partitions(found)
        rows = [
            _offset(partition, found[partition], described.get(partition))
            for partition in sorted(found)
        ]
        return GroupOffsets(
            group_id=group_id, offsets=rows, total_lag=sum(row.lag or 0 for row in rows)
        )

    async def delete(self, operator: Operator, group_id: str) -> None:
        """With its offsets. Refused while it has members."""
        target = {"group_id": group_id}
        async with self._audit.attempt(operator, "delete_group", target) as attempt:
            coordinator = self._roles.coordinator_of_group(group_id)
            request = pb.DeleteGroupsRequest(group_ids=[group_id])
            answer = await self._roles.ask_groups(coordinator, "DeleteGroups", request)
            _only(answer.results, group_id)
            attempt.detail = f"group {group_id!r} is deleted with its offsets"


def _only(answers: Iterable[Any], group_id: str) -> Any:
    """The answer for this group. Raises KafkaError for one that is a refusal."""
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


def _fields(found: Any) -> dict[str, str]:
    return {
        "group_id": found.group_id,
        "state": found.state,
        "protocol_type": found.protocol_type,
        "group_type": found.group_type,
    }


def _assignments(content: bytes) -> list[GroupAssignment] | None:
    topics = assigned_partitions(content)
    if topics is None:
        return None
    return [
        GroupAssignment(topic=topic, partitions=sorted(topics[topic])) for topic in sorted(topics)
    ]


def _offset(partition: Partition, committed: Any, described: Any) -> GroupOffset:
    end = None if described is None or isinstance(described, KafkaError) else described
    offset = committed.offset if committed.offset >= 0 else None
    high_watermark = None if end is None else end.high_watermark
    return GroupOffset(
        topic=partition.topic,
        partition=partition.partition,
        offset=offset,
        metadata=committed.metadata,
        log_end_offset=high_watermark,
        lag=None if offset is None or high_watermark is None else max(0, high_watermark - offset),
    )
