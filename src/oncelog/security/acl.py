"""Access control entries: Kafka's words, numbers and rules for them (KIP-11, KIP-290).

The numbers are those of Kafka's protocol. A filter is an entry in which ANY, and None for a text, stand for everything.
"""

from dataclasses import dataclass, fields
from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple, TypeVar

WILDCARD: Final = "*"
"""The name of every resource of a type, and the host that stands for every host."""
WILDCARD_PRINCIPAL: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"
"""The only name that a resource of type CLUSTER has."""


class ResourceType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class Acl(NamedTuple):
    """One access control entry: it allows or denies a principal, coming from a host, an operation on resources."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    """The principal, such as `User:alice`; `User:*` is everybody."""
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        return (
            f"{self.permission.name} {self.principal} {self.operation.name} from {self.host} on "
            f"{self.pattern_type.name} {self.resource_type.name}:{self.resource_name}"
        )


@dataclass(frozen=True, slots=True)
class AclFilter:
    """A filter of entries: DescribeAcls shows those that match, and DeleteAcls removes them."""

    resource_type: ResourceType = ResourceType.ANY
    resource_name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
            and self._matches_name(acl)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED):
            return acl.pattern_type is self.pattern_type and self.resource_name in (
                None,
                acl.resource_name,
            )
        if self.resource_name is None:
            return True
        if self.pattern_type is PatternType.ANY:
            return acl.resource_name == self.resource_name
        if acl.pattern_type is PatternType.PREFIXED:
            return self.resource_name.startswith(acl.resource_name)
        return acl.resource_name in (self.resource_name, WILDCARD)

    @property
    def fault(self) -> str:
        """The reason why the filter is invalid, so no entry can match; empty: it is valid."""
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, IntEnum) and value == 0:
                return f"{one.name} of the filter is not known here"
        return ""


def entry_fault(acl: Acl) -> str:
    """Return why Kafka refuses to create this entry; empty: it can be created."""
    if acl.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        return f"resource type {acl.resource_type.name} cannot have an ACL; name one type"
    if not acl.resource_name:
        return "the resource name is empty; '*' stands for every resource"
    if acl.resource_type is ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return f"a CLUSTER resource is named {CLUSTER_NAME!r}, not {acl.resource_name!r}"
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return f"pattern type {acl.pattern_type.name} is for filters; name LITERAL or PREFIXED"
    if acl.operation in (Operation.UNKNOWN, Operation.ANY):
        return f"operation {acl.operation.name} cannot have an ACL; name one operation, or ALL"
    if acl.permission not in (Permission.ALLOW, Permission.DENY):
        return f"permission {acl.permission.name} is for filters; name ALLOW or DENY"
    kind, _, name = acl.principal.partition(":")
    if not kind or not name:
        return f"principal {acl.principal!r} is not TYPE:NAME, such as User:alice"
    if not acl.host:
        return "the host is empty; '*' stands for every host"
    if "/" in acl.host and _network(acl.host) is None:
        return f"host {acl.host!r} is no network, such as 10.0.0.0/8"
    return ""


def is_host_in(address: str, host: str) -> bool:
    """Return True if the host of an ACL covers this address: the same address, every host (`*`), or a network that
    contains it."""
    if host in (WILDCARD, address):
        return True
    network = _network(host) if "/" in host else None
    try:
        return network is not None and ip_address(address) in network
    except ValueError:
        return False


@lru_cache(maxsize=10_000)
def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


EnumT = TypeVar("EnumT", bound=IntEnum)


def enum_of(kind: type[EnumT], code: int) -> EnumT:
    """Return the member of this enum with Kafka's number `code`, or UNKNOWN."""
    try:
        return kind(code)
    except ValueError:
        return kind(0)
