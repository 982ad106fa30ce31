"""When ACLs decide who reads records: what the listeners published is enough (ADR 0049)."""

from dataclasses import dataclass

import pytest

from oncelog.api.v1 import controller_pb2
from oncelog.errors import ErrorCode, KafkaError
from oncelog.rpc.metadata import MetadataImage
from oncelog.security.api_tokens import Role
from oncelog_gateway.access import ANONYMOUS, Caller
from oncelog_gateway.record_access import RecordAccess, principal_of


@dataclass
class Follower:
    image: MetadataImage


VIEWER = Caller("token:v", Role.VIEWER)
ADMIN = Caller("token:a", Role.ADMIN)
CHECKING = controller_pb2.Node(node_id=1, configs={"authorizer.class.name": "acl"})


def reads(caller, nodes, rule="auto"):
    access = RecordAccess(Follower(MetadataImage(nodes=nodes)), rule)
    try:
        access.check(caller, "192.0.2.1", "orders")
    except KafkaError as error:
        return error.error_code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return True


@pytest.mark.parametrize("caller", [VIEWER, ANONYMOUS, None])
def test_a_listener_with_an_authorizer_closes_records(caller):
    """Also before the first ACL is made: super users alone read then."""
    assert reads(caller, {2: controller_pb2.Node(node_id=2)})
    assert not reads(caller, {1: CHECKING, 2: controller_pb2.Node(node_id=2)})
    assert not reads(caller, {}, "acl")


def test_an_admin_who_logged_in_needs_no_acl():
    assert reads(ADMIN, {1: CHECKING})
    assert reads(ADMIN, {}, "acl")


def test_callers_have_the_principals_of_the_audit_log():
    assert str(principal_of(VIEWER)) == "User:token:v"
    assert str(principal_of(Caller("oidc:alice", Role.OPERATOR))) == "User:oidc:alice"
    assert str(principal_of(ANONYMOUS)) == "User:ANONYMOUS"
