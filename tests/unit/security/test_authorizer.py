"""The authorizer's decisions, in the cases of Kafka's StandardAuthorizer."""

import pytest

from oncelog.security.acl import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from oncelog.security.authorizer import Authorizer, AuthorizerRules

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE, ALTER = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALTER
ALICE, BOB = "User:alice", "User:bob"
HERE = "10.1.2.3"


def allow(name, operation=READ, principal=ALICE, host="*", pattern=PatternType.LITERAL, kind=TOPIC):
    return Acl(kind, name, pattern, principal, host, operation, Permission.ALLOW)


def prefixed(name, operation=READ, principal=ALICE):
    return allow(name, operation, principal, pattern=PatternType.PREFIXED)


def deny(acl):
    return acl._replace(permission=Permission.DENY)


@pytest.mark.parametrize(
    ("acls", "operation", "name", "is_allowed"),
    [
        ([], READ, "orders", False),
        ([allow("orders")], READ, "orders", True),
        ([allow("orders")], READ, "orders2", False),
        ([allow("orders")], WRITE, "orders", False),
        ([allow("orders", principal=BOB)], READ, "orders", False),
        ([allow("orders", principal="User:*")], READ, "orders", True),
        ([allow("orders", principal="Group:alice")], READ, "orders", False),
        ([allow("orders", kind=GROUP)], READ, "orders", False),
        ([allow("*")], READ, "orders", True),
        ([prefixed("ord")], READ, "orders", True),
        ([prefixed("orders")], READ, "orders", True),
        ([prefixed("orders.")], READ, "orders", False),
        ([allow("orders", Operation.ALL)], ALTER, "orders", True),
        ([allow("orders", host=HERE)], READ, "orders", True),
        ([allow("orders", host="10.1.2.4")], READ, "orders", False),
        ([allow("orders", host="10.0.0.0/8")], READ, "orders", True),
        ([allow("orders", host="10.2.0.0/16")], READ, "orders", False),
        ([allow("orders", host="2001:db8::/32")], READ, "orders", False),
        # An operation may include another, where it is allowed.
        ([allow("orders", READ)], DESCRIBE, "orders", True),
        ([allow("orders", WRITE)], DESCRIBE, "orders", True),
        ([allow("orders", ALTER)], DESCRIBE, "orders", True),
        ([allow("orders", Operation.DELETE)], DESCRIBE, "orders", True),
        ([allow("orders", Operation.CREATE)], DESCRIBE, "orders", False),
        ([allow("orders", DESCRIBE)], READ, "orders", False),
        ([allow("orders", Operation.ALTER_CONFIGS)], Operation.DESCRIBE_CONFIGS, "orders", True),
        # A refusal weighs more than any permission, and takes no other operation with it.
        ([allow("orders"), deny(allow("orders"))], READ, "orders", False),
        ([allow("orders"), deny(allow("*", principal="User:*"))], READ, "orders", False),
        ([allow("*"), deny(prefixed("ord"))], READ, "orders", False),
        ([allow("orders", DESCRIBE), deny(allow("orders", READ))], DESCRIBE, "orders", True),
        ([allow("*"), deny(allow("orders", Operation.ALL))], READ, "orders", False),
        ([allow("*"), deny(allow("orders", host="10.9.9.9"))], READ, "orders", True),
    ],
)
def test_acls_decide(acls, operation, name, is_allowed):
    authorizer = Authorizer(acls, AuthorizerRules())
    for _ in range(2):  # the second one is remembered
        assert authorizer.decide(ALICE, HERE, operation, TOPIC, name).is_allowed is is_allowed


def test_super_users_pass_every_refusal():
    rules = AuthorizerRules(super_users=frozenset({"User:admin"}))
    authorizer = Authorizer([deny(allow("*", Operation.ALL, "User:*"))], rules)
    assert authorizer.decide("User:admin", HERE, READ, TOPIC, "orders").is_allowed
    assert not authorizer.decide("Group:admin", HERE, READ, TOPIC, "orders").is_allowed
    assert authorizer.decide_any("User:admin", HERE, WRITE, TOPIC).is_allowed


def test_without_acls_the_default_decides():
    rules = AuthorizerRules(allow_everyone_if_no_acl_found=True)
    authorizer = Authorizer([allow("orders", principal=BOB)], rules)
    assert authorizer.decide(ALICE, HERE, READ, TOPIC, "other").is_allowed
    assert not authorizer.decide(ALICE, HERE, READ, TOPIC, "orders").is_allowed


@pytest.mark.parametrize(
    ("acls", "is_allowed"),
    [
        ([], False),
        ([allow("orders", WRITE)], True),
        ([allow("orders", READ)], False),
        ([allow("*", WRITE)], True),
        ([prefixed("ord", WRITE)], True),
        ([allow("orders", WRITE), deny(allow("orders", WRITE))], False),
        ([allow("orders", WRITE), deny(prefixed("ord", WRITE))], False),
        ([prefixed("orders", WRITE), deny(prefixed("ord", WRITE))], False),
        ([prefixed("ord", WRITE), deny(prefixed("orders", WRITE))], True),
        ([prefixed("orders", WRITE), deny(allow("orders", WRITE))], True),
        ([allow("*", WRITE), deny(prefixed("ord", WRITE))], True),
        ([allow("*", WRITE), deny(allow("*", WRITE))], False),
        ([allow("orders", WRITE), allow("more", WRITE), deny(allow("orders", WRITE))], True),
        ([allow("orders", Operation.ALL)], True),
    ],
)
def test_a_right_on_any_topic(acls, is_allowed):
    authorizer = Authorizer(acls, AuthorizerRules())
    assert authorizer.decide_any(ALICE, HERE, WRITE, TOPIC).is_allowed is is_allowed


def test_operations_are_told_as_bits():
    authorizer = Authorizer([allow("orders"), allow("orders", WRITE)], AuthorizerRules())
    bits = authorizer.operations(ALICE, HERE, (READ, WRITE, DESCRIBE, ALTER), TOPIC, "orders")
    assert bits == 1 << READ | 1 << WRITE | 1 << DESCRIBE


@pytest.mark.parametrize(
    ("pattern", "name", "acl", "is_match"),
    [
        (PatternType.ANY, None, allow("orders"), True),
        (PatternType.ANY, "orders", allow("orders"), True),
        (PatternType.ANY, "orders", prefixed("orders"), True),
        (PatternType.ANY, "orders", allow("*"), False),
        (PatternType.MATCH, "orders", allow("*"), True),
        (PatternType.MATCH, "orders", prefixed("ord"), True),
        (PatternType.MATCH, "orders", prefixed("orders2"), False),
        (PatternType.MATCH, "orders", allow("ord"), False),
        (PatternType.LITERAL, "orders", prefixed("orders"), False),
        (PatternType.LITERAL, None, allow("orders"), True),
        (PatternType.PREFIXED, None, allow("orders"), False),
        (PatternType.PREFIXED, "ord", prefixed("ord"), True),
    ],
)
def test_a_filter_finds_entries(pattern, name, acl, is_match):
    assert AclFilter(TOPIC, name, pattern).matches(acl) is is_match
