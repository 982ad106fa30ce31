"""Groups are described, listed and deleted through the listener."""

import pytest
from tests.unit.listener.listener_requests import ask
from tests.unit.listener.listener_world import World

from oncelog.api.v1 import groups_pb2
from oncelog.errors import OncelogError

DESCRIBE, LIST, DELETE = 15, 16, 42


@pytest.mark.parametrize("version", range(7))
def test_a_group_is_described_in_every_version(version):
    fields = {"include_authorized_operations": False} if version >= 3 else {}
    world = World()
    (group,) = ask(world, DESCRIBE, version, groups=("billing", "billing"), **fields).groups
    assert (group.group_state, group.protocol_data) == ("Stable", "range")
    assert [(one.client_id, one.member_assignment) for one in group.members] == [("app", b"mine")]


@pytest.mark.parametrize(("version", "code"), [(5, 0), (6, 69)])
@pytest.mark.parametrize("answer", [{"error_code": 69}, {"state": "Dead"}])
def test_a_group_that_does_not_exist_is_dead_or_not_found(version, code, answer):
    world = World()
    described = groups_pb2.DescribeGroupsResponse()
    described.groups.add(group_id="billing", **answer)
    world.groups.canned["DescribeGroups"] = described
    fields = {"groups": ("billing",), "include_authorized_operations": False}
    (group,) = ask(world, DESCRIBE, version, **fields).groups
    assert (group.error_code, group.group_state) == (code, "Dead")


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_in_every_version(version):
    world = World()
    fields = {}
    if version >= 4:
        fields["states_filter"] = ("Stable",)
    if version >= 5:
        fields["types_filter"] = ("classic",)
    (group,) = ask(world, LIST, version, **fields).groups
    assert (group.group_id, group.protocol_type) == ("billing", "consumer")
    (request,) = world.groups.received("ListGroups")
    assert list(request.state_filters) == list(fields.get("states_filter", ()))
    assert list(request.type_filters) == list(fields.get("types_filter", ()))


def test_a_list_without_every_coordinator_is_no_list():
    world = World()
    world.groups.canned["ListGroups"] = OncelogError("gone")
    assert ask(world, LIST, 2).error_code == 15
    assert ask(World(shards=0), LIST, 2).error_code == 15


@pytest.mark.parametrize("version", range(3))
def test_groups_are_deleted_each_with_its_code(version):
    world = World()
    refused = groups_pb2.DeleteGroupsResponse()
    refused.results.add(group_id="billing", error_code=68)
    refused.results.add(group_id="old")
    world.groups.canned["DeleteGroups"] = refused
    answer = ask(world, DELETE, version, groups_names=("billing", "old"))
    assert [(one.group_id, one.error_code) for one in answer.results] == [
        ("billing", 68),
        ("old", 0),
    ]
    assert ask(World(shards=0), DELETE, version, groups_names=("old",)).results[0].error_code == 15
