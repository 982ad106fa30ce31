"""The authorizer against a model that looks at every entry for every question: no false allow, no false refusal."""

from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.security.acl import Acl, Operation, PatternType, Permission, ResourceType
from oncelog.security.authorizer import Authorizer, AuthorizerRules

NAMES = ("a", "ab", "abc", "b", "*")
PRINCIPALS = ("User:a", "User:b", "User:*", "Group:a")
HOSTS = ("10.0.0.1", "10.0.0.2", "10.0.0.0/31", "*")
OPERATIONS = tuple(Operation)[2:]

acls = st.builds(
    Acl,
    st.sampled_from((ResourceType.TOPIC, ResourceType.GROUP)),
    st.sampled_from(NAMES),
    st.sampled_from((PatternType.LITERAL, PatternType.PREFIXED)),
    st.sampled_from(PRINCIPALS),
    st.sampled_from(HOSTS),
    st.sampled_from(OPERATIONS),
    st.sampled_from((Permission.ALLOW, Permission.DENY)),
)
questions = st.tuples(
    st.sampled_from(("User:a", "User:b", "User:root")),
    st.sampled_from(("10.0.0.1", "10.0.0.2", "10.0.0.9")),
    st.sampled_from(OPERATIONS),
    st.sampled_from((ResourceType.TOPIC, ResourceType.GROUP)),
    st.sampled_from(("a", "ab", "abc", "abcd", "b", "z")),
)
IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}
IN_NETWORK = {"10.0.0.0/31": {"10.0.0.0", "10.0.0.1"}}


def model(entries, rules, question):
    principal, host, operation, resource_type, name = question
    if principal in rules.super_users:
        return True
    on_resource = [
        acl
        for acl in entries
        if acl.resource_type is resource_type
        and (
            name.startswith(acl.resource_name)
            if acl.pattern_type is PatternType.PREFIXED
            else acl.resource_name in (name, "*")
        )
    ]
    if not on_resource:
        return rules.allow_everyone_if_no_acl_found
    mine = [
        acl
        for acl in on_resource
        if acl.principal in (principal, "User:*")
        and (acl.host in (host, "*") or host in IN_NETWORK.get(acl.host, ()))
    ]
    for acl in mine:
        if acl.permission is Permission.DENY and acl.operation in (operation, Operation.ALL):
            return False
    enough = {operation, Operation.ALL} | IMPLIED.get(operation, set())
    return any(acl.permission is Permission.ALLOW and acl.operation in enough for acl in mine)


@given(
    st.lists(acls, max_size=12),
    st.lists(questions, min_size=20, max_size=40),
    st.booleans(),
)
@settings(max_examples=400)
def test_decisions_are_those_of_the_model(entries, questions, allow_everyone):
    rules = AuthorizerRules(frozenset({"User:root"}), allow_everyone)
    authorizer = Authorizer(entries, rules)
    for question in questions:
        assert authorizer.decide(*question).is_allowed is model(entries, rules, question), question
