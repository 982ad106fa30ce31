"""The protobuf messages of the classic group protocol, made from the answers and groups of the group machine."""

from oncelog.api.v1 import groups_pb2 as pb
from oncelog_coordinator.core.group_events import JoinAnswer
from oncelog_coordinator.core.group_state import CLASSIC, Group, GroupState


def described_classic(group: Group) -> pb.DescribeGroupsResponse.Group:
    """Return the message that describes a classic group. The members' metadata and assignments are left out unless
    the group is stable, as in Kafka."""
    is_stable = group.state is GroupState.STABLE
    return pb.DescribeGroupsResponse.Group(
        group_id=group.group_id,
        group_type=CLASSIC,
        state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_name=(group.protocol or "") if is_stable else "",
        members=[
            pb.DescribeGroupsResponse.Member(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                metadata=member.metadata(group.protocol) if is_stable else b"",
                assignment=member.assignment if is_stable else b"",
            )
            for member in group.members.values()
        ],
    )


def joined(answer: JoinAnswer) -> pb.JoinGroupResponse:
    return pb.JoinGroupResponse(
        error_code=answer.error_code,
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        leader=answer.leader,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=[
            pb.JoinGroupResponse.Member(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata,
            )
            for member in answer.members
        ],
    )
