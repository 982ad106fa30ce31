"""When ACLs decide who reads records, and what opens them where nobody checks ACLs (ADR 0049)."""

from dataclasses import dataclass

import pytest

from oncelog.api.v1 import controller_pb2
from oncelog.errors import ErrorCode
from oncelog.rpc.metadata import MetadataImage
from oncelog.security.api_tokens import Role
from oncelog_gateway.access import ANONYMOUS, Caller
from oncelog_gateway.access_settings import AccessSettings
from oncelog_gateway.record_access import RecordAccess, RecordsClosedError, principal_of


@dataclass
class Follower:
    image: MetadataImage


VIEWER = Caller("token:v", Role.VIEWER)
OPERATOR = Caller("token:o", Role.OPERATOR)
ADMIN = Caller("token:a", Role.ADMIN)
PLAIN = {2: controller_pb2.Node(node_id=2)}
CHECKING = {1: controller_pb2.Node(node_id=1, configs={"authorizer.class.name": "acl"}), **PLAIN}
LOGIN = "required"


def refusal(caller, nodes, rule="auto", authentication="loopback", client_config=""):
    """None: the caller reads."""
    settings = AccessSettings(
        record_access=rule, authentication=authentication, client_config=client_config
    )
    access = RecordAccess(Follower(MetadataImage(nodes=nodes)), settings)
    try:
        access.check(caller, "192.0.2.1", "orders")
    except RecordsClosedError as closed:
        return closed
    return None


def reads(*args):
    return refusal(*args) is None


@pytest.mark.parametrize("caller", [VIEWER, OPERATOR, ANONYMOUS, None])
@pytest.mark.parametrize("rule", ["auto", "viewer", "acl"])
@pytest.mark.parametrize("authentication", ["loopback", "none", LOGIN])
def test_a_listener_with_an_authorizer_closes_records(caller, rule, authentication):
    """Also before the first ACL is made: super users alone read then."""
    assert not reads(caller, CHECKING, rule, authentication)


@pytest.mark.parametrize(
    ("rule", "authentication", "caller", "is_open"),
    [
        ("auto", "loopback", ANONYMOUS, True),
        ("auto", "none", ANONYMOUS, True),
        ("auto", LOGIN, VIEWER, False),
        ("auto", LOGIN, OPERATOR, False),
        ("viewer", LOGIN, VIEWER, True),
        ("viewer", LOGIN, OPERATOR, True),
        ("viewer", "loopback", ANONYMOUS, True),
        ("acl", "loopback", ANONYMOUS, False),
        ("acl", LOGIN, VIEWER, False),
    ],
)
def test_without_acls_a_login_closes_records(rule, authentication, caller, is_open):
    """A viewer's token of an earlier version opened no record, and opens none after an upgrade."""
    assert reads(caller, PLAIN, rule, authentication) == is_open


def test_an_admin_who_logged_in_needs_no_acl():
    assert reads(ADMIN, CHECKING, "auto", LOGIN)
    assert reads(ADMIN, PLAIN, "acl", LOGIN)


def test_a_refusal_names_the_command_that_works_here():
    """A listener without an authorizer takes no ACL. Where nobody logs in, a token opens nothing."""
    add = "oncelog acls add --principal User:ANONYMOUS --operation Read --topic orders"
    closed = refusal(ANONYMOUS, CHECKING, client_config="/my logs/client.properties")
    assert closed.error_code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert [one.command for one in closed.ways] == [f"{add} --config '/my logs/client.properties'"]
    closed = refusal(VIEWER, PLAIN, "auto", LOGIN)
    assert [one.command for one in closed.ways] == [
        "ONCELOG_GATEWAY_RECORD_ACCESS=viewer",
        "oncelog tokens create NAME --role admin",
    ]
    assert all(one.command in closed.message for one in closed.ways)


def test_callers_have_the_principals_of_the_audit_log():
    assert str(principal_of(VIEWER)) == "User:token:v"
    assert str(principal_of(Caller("oidc:alice", Role.OPERATOR))) == "User:oidc:alice"
    assert str(principal_of(ANONYMOUS)) == "User:ANONYMOUS"
