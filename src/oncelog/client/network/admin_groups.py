"""The administrator's requests about groups of both protocols and their offsets."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from oncelog.client.core.admin_results import (
    GroupDescription,
    GroupListing,
    GroupMemberDescription,
    Results,
    item_error,
)
from oncelog.client.core.transaction_calls import GroupMember, OffsetToCommit
from oncelog.client.errors import ClientError
from oncelog.client.network.admin_calls import AdminCalls, code_of, outcome, raise_error
from oncelog.client.network.consumer_messages import (
    by_topic,
    commit_codes,
    fetched_offsets,
    offset_commit_request,
    offset_fetch_request,
)
from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog.protocol import versions

if TYPE_CHECKING:
    from oncelog.protocol import kafka_messages as kafka

_CLASSIC = "classic"
_CONSUMER = "consumer"
_NO_EPOCH = -1


async def list_groups(
    calls: AdminCalls, states: Iterable[str], kinds: Iterable[str]
) -> list[GroupListing]:
    wanted_states, wanted_kinds = tuple(states), tuple(kinds)
    responses = await calls.every(
        versions.LIST_GROUPS,
        lambda types: types.ListGroupsRequest(
            states_filter=wanted_states, types_filter=wanted_kinds
        ),
        "list_groups()",
        lambda response: (code_of(response),),
    )
    found: dict[str, GroupListing] = {}
    for response in responses:
        raise_error(response, "list_groups()")
        for one in response.groups:
            kind = (one.group_type if hasattr(one, "group_type") else "") or _CLASSIC
            found[one.group_id] = GroupListing(
                one.group_id, kind.lower(), one.group_state, one.protocol_type
            )
    return [found[name] for name in sorted(found)]


async def describe_group(calls: AdminCalls, group_id: str) -> GroupDescription:
    """Describe the group as one of KIP-848; if it is none, as one of the classic protocol."""
    what = f"group {group_id!r}"
    response = await calls.coordinator(
        group_id,
        versions.CONSUMER_GROUP_DESCRIBE,
        lambda types: types.ConsumerGroupDescribeRequest(
            group_ids=(group_id,), include_authorized_operations=False
        ),
        what,
        lambda response: map(code_of, response.groups),
    )
    found = response.groups[0]
    if code_of(found) is not ErrorCode.GROUP_ID_NOT_FOUND:
        raise_error(found, what)
        return _consumer_group(found)
    return await _describe_classic(calls, group_id, what)


def _consumer_group(
    one: kafka.ConsumerGroupDescribeResponseTypes.DescribedGroup,
) -> GroupDescription:
    return GroupDescription(
        one.group_id,
        _CONSUMER,
        one.group_state,
        one.group_epoch,
        one.assignor_name,
        tuple(
            GroupMemberDescription(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.member_epoch,
                frozenset(
                    Partition(topic.topic_name, number)
                    for topic in member.assignment.topic_partitions
                    for number in topic.partitions
                ),
            )
            for member in one.members
        ),
    )


async def _describe_classic(calls: AdminCalls, group_id: str, what: str) -> GroupDescription:
    response = await calls.coordinator(
        group_id,
        versions.DESCRIBE_GROUPS,
        lambda types: types.DescribeGroupsRequest(
            groups=(group_id,), include_authorized_operations=False
        ),
        what,
        lambda response: map(code_of, response.groups),
    )
    one = response.groups[0]
    raise_error(one, what)
    if one.group_state == "Dead":
        raise item_error(ErrorCode.GROUP_ID_NOT_FOUND, what, "there is no such group")
    return GroupDescription(
        one.group_id,
        _CLASSIC,
        one.group_state,
        _NO_EPOCH,
        one.protocol_data,
        tuple(
            GroupMemberDescription(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                _NO_EPOCH,
                _classic_assignment(bytes(member.member_assignment)),
            )
            for member in one.members
        ),
    )


def _classic_assignment(data: bytes) -> frozenset[Partition]:
    """Return the partitions of a ConsumerProtocolAssignment; an assignment of another format has none.

    The format is: version i16, topics [name, partitions [i32]], user data.
    """
    found: set[Partition] = set()
    try:
        (count,), at = struct.unpack_from(">i", data, 2), 6
        for _ in range(count):
            (size,) = struct.unpack_from(">h", data, at)
            name = data[at + 2 : at + 2 + size].decode()
            at += 2 + size
            (numbers,) = struct.unpack_from(">i", data, at)
            found.update(
                Partition(name, number)
                for number in struct.unpack_from(f">{numbers}i", data, at + 4)
            )
            at += 4 + 4 * numbers
    except (struct.error, UnicodeDecodeError):
        return frozenset()
    return frozenset(found)


async def delete_groups(calls: AdminCalls, names: Iterable[str]) -> Results[str, None]:
    return Results({name: await _delete_group(calls, name) for name in names})


async def _delete_group(calls: AdminCalls, name: str) -> ClientError | None:
    response = await calls.coordinator(
        name,
        versions.DELETE_GROUPS,
        lambda types: types.DeleteGroupsRequest(groups_names=(name,)),
        f"group {name!r}",
        lambda response: map(code_of, response.results),
    )
    return outcome(response.results[0], f"group {name!r}", None)


async def list_offsets(
    calls: AdminCalls, group_id: str, partitions: Iterable[Partition] | None, *, stable: bool
) -> dict[Partition, OffsetToCommit]:
    wanted = None if partitions is None else tuple(partitions)
    response = await calls.coordinator(
        group_id,
        versions.OFFSET_FETCH,
        lambda types: offset_fetch_request(types, GroupMember(group_id), wanted, stable),
        f"offsets of group {group_id!r}",
        lambda response: (fetched_offsets(response)[0],),
    )
    worst, found = fetched_offsets(response)
    if worst is not ErrorCode.NONE:
        raise item_error(worst, f"offsets of group {group_id!r}")
    return {partition: at for partition, at in found.items() if at is not None}


async def alter_offsets(
    calls: AdminCalls, group_id: str, offsets: Mapping[Partition, int | OffsetToCommit]
) -> Results[Partition, None]:
    wanted = {
        one: at if isinstance(at, OffsetToCommit) else OffsetToCommit(at)
        for one, at in offsets.items()
    }
    response = await calls.coordinator(
        group_id,
        versions.OFFSET_COMMIT,
        lambda types: offset_commit_request(types, GroupMember(group_id), wanted),
        f"offsets of group {group_id!r}",
        lambda response: commit_codes(response).values(),
    )
    return Results(
        {
            one: None if code is ErrorCode.NONE else item_error(code, str(one), _has_members(code))
            for one, code in commit_codes(response).items()
        }
    )


def _has_members(code: ErrorCode) -> str:
    if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH):
        return "the group has members: stop them before its offsets are altered"
    return ""


async def delete_offsets(
    calls: AdminCalls, group_id: str, partitions: Iterable[Partition]
) -> Results[Partition, None]:
    wanted = by_topic(partitions)
    what = f"offsets of group {group_id!r}"
    response = await calls.coordinator(
        group_id,
        versions.OFFSET_DELETE,
        lambda types: types.OffsetDeleteRequest(
            group_id=group_id,
            topics=tuple(
                types.OffsetDeleteRequestTopic(
                    name=name,
                    partitions=tuple(
                        types.OffsetDeleteRequestPartition(partition_index=number)
                        for number in numbers
                    ),
                )
                for name, numbers in wanted.items()
            ),
        ),
        what,
        lambda response: (code_of(response),),
    )
    raise_error(response, what)
    return Results(
        {
            Partition(topic.name, one.partition_index): outcome(
                one, f"{topic.name}-{one.partition_index}", None
            )
            for topic in response.topics
            for one in topic.partitions
        }
    )
