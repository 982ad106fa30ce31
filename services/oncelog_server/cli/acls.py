"""`oncelog acls`: lists, adds and deletes ACLs through Kafka's own protocol, with the options of `kafka-acls`."""

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer
from typer.models import OptionInfo

from oncelog.errors import OncelogError
from oncelog.security.acl import (
    CLUSTER_NAME,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from oncelog.wording import counted
from oncelog_server.cli.kafka_clients import admin, told
from oncelog_server.cli.lazy import command_group
from oncelog_server.cli.options import AsOutput, Bootstrap, Yes, confirmed
from oncelog_server.cli.tables import printed_as_json, say, show_table

if TYPE_CHECKING:
    from oncelog.client.blocking import Admin

app = command_group("List, add and delete access control entries (ACLs).")

_CONFIGS: Final = ("DescribeConfigs", "AlterConfigs")
OPERATIONS: Final[Mapping[ResourceType, tuple[str, ...]]] = {
    ResourceType.TOPIC: ("Read", "Write", "Create", "Describe", "Delete", "Alter", *_CONFIGS),
    ResourceType.GROUP: ("Read", "Describe", "Delete", *_CONFIGS),
    ResourceType.TRANSACTIONAL_ID: ("Describe", "Write", "TwoPhaseCommit"),
    ResourceType.CLUSTER: (
        "Create",
        "ClusterAction",
        "IdempotentWrite",
        "Alter",
        "Describe",
        *_CONFIGS,
    ),
}
"""Operations on a resource of each type. All stands for all of them."""
WORDS: Final = ("All", *dict.fromkeys(itertools.chain(*OPERATIONS.values())))
SEE_ALL: Final = "`oncelog acls list` shows all"


def _not_empty(given: list[str] | None) -> list[str]:
    """Return the names without repetitions. Raises BadParameter for an empty one, on which the client library would end
    the process.
    """
    if any(not one.strip() for one in given or ()):
        raise typer.BadParameter("an empty name is none; '*' stands for all")
    return list(dict.fromkeys(given or ()))


def _principals(given: list[str] | None) -> list[str]:
    for one in given or ():
        kind, _, name = one.partition(":")
        if not kind or not name:
            raise typer.BadParameter(
                f"{one!r} is no TYPE:NAME; write User:{name or kind or 'NAME'}"
            )
    return list(dict.fromkeys(given or ()))


def _operations(given: list[str] | None) -> list[str]:
    """Return the names of operations as Kafka writes them. They may be typed in any case, with or without underscores:
    DESCRIBE_CONFIGS gives DescribeConfigs.
    """
    known = {one.casefold(): one for one in WORDS}
    for one in given or ():
        if one.replace("_", "").casefold() not in known:
            raise typer.BadParameter(f"{one!r} is not one of {', '.join(WORDS)}")
    return list(dict.fromkeys(known[one.replace("_", "").casefold()] for one in given or ()))


def _repeatable(
    callback: Callable[[list[str] | None], list[str]], text: str, metavar: str
) -> OptionInfo:
    option: OptionInfo = typer.Option(
        callback=callback, metavar=metavar, help=f"{text}; repeatable", show_default=False
    )
    return option


Principals = Annotated[list[str] | None, _repeatable(_principals, "who", "User:NAME")]
Operations = Annotated[list[str] | None, _repeatable(_operations, "what", "OPERATION")]
Hosts = Annotated[
    list[str] | None, _repeatable(_not_empty, "from which address or network", "HOST")
]
Topics = Annotated[list[str] | None, _repeatable(_not_empty, "on this topic", "NAME")]
Groups = Annotated[list[str] | None, _repeatable(_not_empty, "on this group", "NAME")]
TransactionalIds = Annotated[
    list[str] | None, _repeatable(_not_empty, "on this transactional id", "NAME")
]
OnCluster = Annotated[bool, typer.Option("--cluster", help="on the cluster itself")]
Prefix = Annotated[
    bool, typer.Option("--prefix", help="names are beginnings of names (pattern PREFIXED)")
]
Deny = Annotated[bool, typer.Option("--deny", help="entries that deny, not those that allow")]


Resource = tuple[ResourceType, str, PatternType]


def _resources(
    topic: Iterable[str] | None,
    group: Iterable[str] | None,
    transactional_id: Iterable[str] | None,
    cluster: bool,
    pattern: PatternType,
) -> list[Resource]:
    names = {
        ResourceType.TOPIC: topic,
        ResourceType.GROUP: group,
        ResourceType.TRANSACTIONAL_ID: transactional_id,
    }
    found = [(kind, name, pattern) for kind in names for name in names[kind] or ()]
    of_cluster = (ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL)
    return [*found, of_cluster] if cluster else found


@app.command("list")
def list_acls(
    principal: Principals = None,
    operation: Operations = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    cluster: OnCluster = False,
    prefix: Prefix = False,
    deny: Deny = False,
    host: Hosts = None,
    bootstrap: Bootstrap = "",
    output: AsOutput = None,
) -> None:
    """List entries. With a name: those that count for it, by name, by prefix or by '*'."""
    pattern = PatternType.PREFIXED if prefix else PatternType.MATCH
    resources = _resources(topic, group, transactional_id, cluster, pattern)
    permission = Permission.DENY if deny else Permission.ANY
    filters = _filters(principal, operation, resources, host, permission)
    with admin(bootstrap) as client:
        found = _described(client, filters)
    if printed_as_json([_fields(one) for one in found], output):
        return
    _show(found, "No ACL matches")


@app.command("add")
def add_acls(
    principal: Principals = None,
    operation: Operations = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    cluster: OnCluster = False,
    prefix: Prefix = False,
    deny: Deny = False,
    host: Hosts = None,
    bootstrap: Bootstrap = "",
) -> None:
    """Add an entry for each principal, operation, resource and host.

    Without --operation it is All, without --host every host.
    """
    pattern = PatternType.PREFIXED if prefix else PatternType.LITERAL
    resources = _resources(topic, group, transactional_id, cluster, pattern)
    if not principal:
        raise typer.BadParameter("give --principal User:NAME, or User:* for everybody")
    if not resources:
        raise typer.BadParameter("give --topic, --group, --transactional-id or --cluster")
    operations = _known_operations(operation or ["All"], resources)
    permission = Permission.DENY if deny else Permission.ALLOW
    wanted = [
        Acl(*resource, who, where, one, permission)
        for who, resource, one, where in itertools.product(
            principal, resources, operations, host or [WILDCARD]
        )
    ]
    with admin(bootstrap) as client, told("not added"):
        client.create_acls(wanted).check()
    _show(wanted, "")


def _known_operations(words: Iterable[str], resources: Iterable[Resource]) -> list[Operation]:
    for word, (kind, _, _) in itertools.product(words, resources):
        if word not in ("All", *OPERATIONS[kind]):
            known = ", ".join(OPERATIONS[kind])
            raise typer.BadParameter(
                f"{word} is no operation on {kind.name}; there are All, {known}"
            )
    return [_operation_of(word) for word in words]


@app.command("delete")
def delete_acls(
    principal: Principals = None,
    operation: Operations = None,
    topic: Topics = None,
    group: Groups = None,
    transactional_id: TransactionalIds = None,
    cluster: OnCluster = False,
    prefix: Prefix = False,
    deny: Deny = False,
    host: Hosts = None,
    yes: Yes = False,
    bootstrap: Bootstrap = "",
) -> None:
    """Delete entries. What is not given matches all: no --operation means every operation.

    The arguments of `add` delete what it added. Entries that deny need --deny.
    """
    pattern = PatternType.PREFIXED if prefix else PatternType.LITERAL
    resources = _resources(topic, group, transactional_id, cluster, pattern)
    if not (principal or resources):
        raise typer.BadParameter(
            "say whose or on what: --principal, --topic, --group, --transactional-id or --cluster"
        )
    permission = Permission.DENY if deny else Permission.ALLOW
    filters = _filters(principal, operation, resources, host, permission)
    with admin(bootstrap) as client:
        if found := _described(client, filters):
            if not yes:
                _show(found, "")
            confirmed(f"Delete {counted(len(found), 'ACL')}?", yes=yes)
        with told("the ACLs were not all deleted", SEE_ALL):
            answers = client.delete_acls(filters).check()
        deleted = {acl for gone in answers.values() for acl in gone}
    if not deleted:
        raise OncelogError(f"no ACL matches, so nothing was deleted; {SEE_ALL}")
    say(f"{counted(len(deleted), 'ACL')} deleted")


def _filters(
    principals: Sequence[str] | None,
    operations: Sequence[str] | None,
    resources: Sequence[Resource],
    hosts: Sequence[str] | None,
    permission: Permission,
) -> list[AclFilter]:
    """Return an ACL filter for each combination of these arguments. An argument that is not given matches any value."""
    anything: list[tuple[ResourceType, str | None, PatternType]] = [
        (ResourceType.ANY, None, PatternType.ANY)
    ]
    anybody: list[str | None] = [None]
    anywhere: list[str | None] = [None]
    wanted = [_operation_of(word) for word in operations or ()] or [Operation.ANY]
    return [
        AclFilter(*resource, who, where, one, permission)
        for resource, who, one, where in itertools.product(
            resources or anything, principals or anybody, wanted, hosts or anywhere
        )
    ]


def _described(client: "Admin", filters: Iterable[AclFilter]) -> list[Acl]:
    """Return the ACLs that match one of the filters, in order of principal."""
    with told("the ACLs were not listed"):
        found = {acl for one in filters for acl in client.describe_acls(one)}
    return sorted(found, key=lambda acl: (acl.principal, acl))


def _operation_of(word: str) -> Operation:
    """Return the operation with this name, as Kafka writes it: `DescribeConfigs` gives `Operation.DESCRIBE_CONFIGS`."""
    return Operation[re.sub(r"(?<=[a-z])(?=[A-Z])", "_", word).upper()]


def _fields(acl: Acl) -> dict[str, str]:
    return {
        "principal": acl.principal,
        "permission": acl.permission.name,
        "operation": acl.operation.name,
        "resource_type": acl.resource_type.name,
        "resource_name": acl.resource_name,
        "pattern_type": acl.pattern_type.name,
        "host": acl.host,
    }


def _show(acls: Iterable[Acl], empty: str) -> None:
    show_table(
        ["principal", "permission", "operation", "on", "name", "pattern", "host"],
        [tuple(_fields(acl).values()) for acl in acls],
        empty=empty,
    )
