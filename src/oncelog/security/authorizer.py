"""The authorizer: the decision of Kafka's StandardAuthorizer as a pure function of ACLs, principal, host and resource.

1. A super user may do everything.
2. Without an entry for the resource, `allow_everyone_if_no_acl_found` decides.
3. A DENY that matches refuses.
4. An ALLOW that matches allows. READ, WRITE, DELETE and ALTER allow DESCRIBE too, ALTER_CONFIGS DESCRIBE_CONFIGS.
5. Everything else is refused.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from oncelog.security.acl import (
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    is_host_in,
)

_IMPLY: Final[Mapping[Operation, frozenset[Operation]]] = {
    Operation.DESCRIBE: frozenset(
        {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""An operation → the operations whose permission includes it."""

_NAME_WITHOUT_ACL: Final = "hardcode"
"""The resource name that `decide_any` tries first, as Kafka does. Usually no ACL names it, so super users, ACLs for
every name, and `allow_everyone_if_no_acl_found` decide."""

_DECISIONS_MAX: Final = 50_000
"""The most decisions that are remembered; one more forgets them all."""


@dataclass(frozen=True, slots=True)
class AuthorizerRules:
    """The authorizer's settings: super users, and what holds where no ACL is found."""

    super_users: frozenset[str] = frozenset()
    """The principals of super users, such as `User:admin`."""
    allow_everyone_if_no_acl_found: bool = False


class Verdict(NamedTuple):
    is_allowed: bool
    reason: str
    """The reason of the decision, for the log."""
    is_denied: bool = False
    """True if a DENY for this resource decided, which no ALLOW outweighs."""


@dataclass(slots=True)
class _Index:
    """The ACLs of one resource type, split by literal names and prefixes for a fast look-up."""

    literal: dict[str, list[Acl]] = field(default_factory=lambda: defaultdict(list))
    prefixed: dict[str, list[Acl]] = field(default_factory=lambda: defaultdict(list))
    prefix_lengths: tuple[int, ...] = ()

    def matching(self, name: str) -> list[Acl]:
        found = list(self.literal.get(name, ()))
        if name != WILDCARD:
            found += self.literal.get(WILDCARD, ())
        for length in self.prefix_lengths:
            if length > len(name):
                break
            found += self.prefixed.get(name[:length], ())
        return found


class Authorizer:
    """Decides by a fixed set of ACLs, and never changes. After a change of ACLs a new one is made."""

    def __init__(self, acls: Iterable[Acl], rules: AuthorizerRules) -> None:
        self._rules = rules
        self._indexes: dict[ResourceType, _Index] = {}
        self._decided: dict[tuple[str, str, Operation, ResourceType, str], Verdict] = {}
        for acl in acls:
            index = self._indexes.setdefault(acl.resource_type, _Index())
            by_name = index.literal if acl.pattern_type is PatternType.LITERAL else index.prefixed
            by_name[acl.resource_name].append(acl)
        for index in self._indexes.values():
            index.prefix_lengths = tuple(sorted({len(prefix) for prefix in index.prefixed}))

    def decide(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> Verdict:
        """Return whether `principal`, which connects from `host`, may do `operation` on the resource."""
        key = (principal, host, operation, resource_type, name)
        found = self._decided.get(key)
        if found is None:
            if len(self._decided) >= _DECISIONS_MAX:
                self._decided.clear()
            found = self._decided[key] = self._decide(*key)
        return found

    def _decide(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str,
    ) -> Verdict:
        if principal in self._rules.super_users:
            return Verdict(True, "a super user")
        index = self._indexes.get(resource_type)
        acls = index.matching(name) if index else []
        if not acls:
            return Verdict(self._rules.allow_everyone_if_no_acl_found, "no ACL for the resource")
        concerning = [acl for acl in acls if _concerns(acl, principal, host)]
        for acl in concerning:
            if acl.permission is Permission.DENY and acl.operation in (operation, Operation.ALL):
                return Verdict(False, str(acl), is_denied=True)
        allowing = {operation, Operation.ALL, *_IMPLY.get(operation, ())}
        for acl in concerning:
            if acl.permission is Permission.ALLOW and acl.operation in allowing:
                return Verdict(True, str(acl))
        return Verdict(False, "no ACL allows it")

    def decide_any(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> Verdict:
        """Return whether there is a resource of the type on which `principal` may do `operation` (KIP-679)."""
        somewhere = self.decide(principal, host, operation, resource_type, _NAME_WITHOUT_ACL)
        if somewhere.is_allowed:
            return somewhere
        index = self._indexes.get(resource_type, _Index())
        literal = _split(index.literal, principal, host, operation)
        prefixed = _split(index.prefixed, principal, host, operation)
        if WILDCARD in literal.denied:
            return Verdict(False, "a DENY for every resource")
        for name in literal.allowed:
            if name == WILDCARD or (
                name not in literal.denied and not _is_below(name, prefixed.denied)
            ):
                return Verdict(True, f"an ALLOW on {name}")
        for prefix in prefixed.allowed:
            if not _is_below(prefix, prefixed.denied):
                return Verdict(True, f"an ALLOW on names that begin with {prefix}")
        return Verdict(False, "no ACL allows it on any resource")

    def operations(
        self,
        principal: str,
        host: str,
        candidates: Iterable[Operation],
        resource_type: ResourceType,
        name: str,
    ) -> int:
        """Return the allowed operations among `candidates`, as the bits of KIP-430."""
        return sum(
            1 << operation
            for operation in candidates
            if self.decide(principal, host, operation, resource_type, name).is_allowed
        )


class _Names(NamedTuple):
    """The resource names (or prefixes) on which the ACLs allow or deny one principal one operation."""

    allowed: list[str]
    denied: set[str]


def _split(
    by_name: Mapping[str, list[Acl]], principal: str, host: str, operation: Operation
) -> _Names:
    names = _Names([], set())
    for name, acls in by_name.items():
        for acl in acls:
            if _concerns(acl, principal, host) and acl.operation in (operation, Operation.ALL):
                if acl.permission is Permission.ALLOW:
                    names.allowed.append(name)
                else:
                    names.denied.add(name)
    return names


def _is_below(name: str, prefixes: set[str]) -> bool:
    return any(name.startswith(prefix) for prefix in prefixes)


def _concerns(acl: Acl, principal: str, host: str) -> bool:
    return acl.principal in (principal, WILDCARD_PRINCIPAL) and is_host_in(host, acl.host)
