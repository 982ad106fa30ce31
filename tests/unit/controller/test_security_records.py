"""ACLs, SCRAM credentials and client quotas in the journal: what is taken, what is refused, and that it stays."""

import pytest
from tests.worlds.controller.metadata_cases import codes, security_everywhere

from oncelog.errors import ErrorCode
from oncelog.security.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from oncelog_controller.core.events import (
    AlterClientQuotas,
    AlterUserScramCredentials,
    CreateAcls,
    DeleteAcls,
)

READ_ORDERS = Acl(
    ResourceType.TOPIC,
    "orders",
    PatternType.LITERAL,
    "User:alice",
    "*",
    Operation.READ,
    Permission.ALLOW,
)
WRITE_ORDERS = READ_ORDERS._replace(operation=Operation.WRITE)
QUOTA = "producer_byte_rate"


def create(bench, *acls):
    return bench.ask(CreateAcls, acls)


def delete(bench, *filters):
    return bench.ask(DeleteAcls, filters)


def scram(bench, *rows, key="a2V5IG9uZQ=="):
    return bench.ask(AlterUserScramCredentials, rows, key)


def quotas(bench, *changes, validate_only=False):
    return bench.ask(AlterClientQuotas, changes, validate_only)


def row(user, mechanism=1, iterations=4096, salt="c2FsdA=="):
    return (user, mechanism, salt, "a2V5", "a2V5", iterations)


def test_acls_come_and_go(bench):
    answer = create(bench, READ_ORDERS, WRITE_ORDERS, READ_ORDERS)
    assert codes(answer) == [0, 0, 0]
    assert answer.metadata_offset == bench.image.metadata_offset
    assert security_everywhere(bench).acls == {READ_ORDERS, WRITE_ORDERS}
    assert codes(create(bench, READ_ORDERS)) == [0]  # it exists: no fault, no record
    first, second = delete(
        bench,
        AclFilter(operation=Operation.WRITE),
        AclFilter(resource_name="nothing"),
    ).results
    assert first.deleted == (WRITE_ORDERS,)
    assert (second.error_code, second.deleted) == (0, ())
    assert security_everywhere(bench).acls == {READ_ORDERS}


def test_two_filters_may_match_one_entry(bench):
    create(bench, READ_ORDERS)
    answer = delete(bench, AclFilter(*READ_ORDERS), AclFilter())
    assert [result.deleted for result in answer.results] == [(READ_ORDERS,), (READ_ORDERS,)]
    assert security_everywhere(bench).acls == set()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"resource_type": ResourceType.ANY}, "ANY"),
        ({"resource_name": ""}, "empty"),
        ({"resource_type": ResourceType.CLUSTER}, "kafka-cluster"),
        ({"pattern_type": PatternType.MATCH}, "MATCH"),
        ({"operation": Operation.UNKNOWN}, "UNKNOWN"),
        ({"permission": Permission.ANY}, "ANY"),
        ({"principal": "alice"}, "'alice'"),
        ({"host": ""}, "host"),
        ({"host": "10.0.0.0/40"}, "10.0.0.0/40"),
    ],
)
def test_what_is_no_acl_is_refused(bench, change, message):
    refused, made = create(bench, READ_ORDERS._replace(**change), WRITE_ORDERS).results
    assert refused.error_code is ErrorCode.INVALID_REQUEST
    assert message in refused.message
    assert made.error_code is ErrorCode.NONE
    assert security_everywhere(bench).acls == {WRITE_ORDERS}


def test_a_filter_that_is_not_known_deletes_nothing(bench):
    create(bench, READ_ORDERS)
    answer = delete(bench, AclFilter(operation=Operation.UNKNOWN))
    assert codes(answer) == [ErrorCode.INVALID_REQUEST]
    assert security_everywhere(bench).acls == {READ_ORDERS}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([row("alice")], [ErrorCode.NONE]),
        ([row("")], [ErrorCode.UNACCEPTABLE_CREDENTIAL]),
        ([row("alice", 3)], [ErrorCode.UNSUPPORTED_SASL_MECHANISM]),
        ([row("alice", 1, 4095)], [ErrorCode.UNACCEPTABLE_CREDENTIAL]),
        ([row("alice", 1, 16385)], [ErrorCode.UNACCEPTABLE_CREDENTIAL]),
        ([row("alice", 1, 0)], [ErrorCode.RESOURCE_NOT_FOUND]),
        ([row("alice", 1), row("alice", 2)], [ErrorCode.DUPLICATE_RESOURCE]),
        ([row("alice")] * 3 + [row("bob")], [ErrorCode.DUPLICATE_RESOURCE, ErrorCode.NONE]),
    ],
)
def test_credentials_are_checked(bench, rows, expected):
    answer = scram(bench, *rows)
    assert codes(answer) == expected
    users = dict.fromkeys(one[0] for one in rows)
    kept = {user for user, code in zip(users, expected, strict=True) if not code}
    assert {user for user, _ in security_everywhere(bench).credentials} == kept


def test_a_credential_is_replaced_and_deleted(bench):
    scram(bench, row("alice"))
    scram(bench, row("alice", salt="b3RoZXI="))
    (found,) = security_everywhere(bench).credentials.values()
    assert found.salt == b"other"
    assert codes(scram(bench, row("alice", 1, 0))) == [0]
    assert security_everywhere(bench).credentials == {}


def test_no_record_shows_what_proves_a_password(bench):
    scram(bench, row("alice", salt="c2VjcmV0"))
    assert "alice" in repr(bench.records[-1])
    assert "c2VjcmV0" not in repr(bench.records[-1])
    event = AlterUserScramCredentials(1, (row("alice", salt="c2VjcmV0"),), "b3RoZXI=")
    assert "c2VjcmV0" not in repr(event)
    assert "b3RoZXI=" not in repr(event)


def test_the_first_user_brings_a_secret_that_stays(bench):
    assert security_everywhere(bench).unknown_user_key == b""
    assert codes(scram(bench, row("", 1), key="cmVmdXNlZA==")) != [0]
    assert security_everywhere(bench).unknown_user_key == b""
    scram(bench, row("alice"))
    scram(bench, row("bob"), key="b3RoZXI=")
    scram(bench, row("alice", 1, 0))
    scram(bench, row("bob", 1, 0))
    assert security_everywhere(bench).credentials == {}
    assert security_everywhere(bench).unknown_user_key == b"key one"
    shown = f"{bench.records} {bench.image.security} {security_everywhere(bench)}"
    assert "a2V5IG9uZQ==" not in shown
    assert "key one" not in shown


def test_quotas_are_set_and_removed_by_key(bench):
    alice = (("user", "alice"),)
    assert codes(quotas(bench, (alice, ((QUOTA, 5.0), ("request_percentage", 2.5))))) == [0]
    assert codes(quotas(bench, (alice, ((QUOTA, None),)), validate_only=True)) == [0]
    assert security_everywhere(bench).quotas == {alice: {QUOTA: 5.0, "request_percentage": 2.5}}
    quotas(bench, (alice, ((QUOTA, None),)))
    assert security_everywhere(bench).quotas == {alice: {"request_percentage": 2.5}}
    quotas(bench, (alice, (("request_percentage", None), ("never_set", None)))[:2])
    quotas(bench, (alice, (("request_percentage", None),)))
    assert security_everywhere(bench).quotas == {}


def test_a_default_entity_is_not_one_without_a_name(bench):
    default, named = (("user", None),), (("user", "a"),)
    quotas(bench, (default, ((QUOTA, 5.0),)), (named, ((QUOTA, 6.0),)))
    assert security_everywhere(bench).quotas == {default: {QUOTA: 5.0}, named: {QUOTA: 6.0}}


def test_a_quota_that_cannot_be_is_refused(bench):
    alice = (("user", "alice"),)
    twice = quotas(bench, (alice, ((QUOTA, 5.0),)), (alice, ((QUOTA, 6.0),)))
    assert codes(twice) == [ErrorCode.INVALID_REQUEST] * 2
    assert codes(quotas(bench, (alice, ((QUOTA, -1.0),)))) == [ErrorCode.INVALID_REQUEST]
    assert codes(quotas(bench, (alice, ((QUOTA, 1.0), (QUOTA, 2.0))))) == [42]
    assert security_everywhere(bench).quotas == {}


def test_an_older_version_reads_a_snapshot_without_security(bench):
    assert bench.image.to_state()["security"] == {}


def test_too_many_changes_are_refused_whole(bench):
    answer = create(bench, *([READ_ORDERS] * 10_001))
    assert set(codes(answer)) == {ErrorCode.INVALID_REQUEST}
    assert security_everywhere(bench).acls == set()
