"""One user for each set of ACLs: all are made at once, before the first request, so no request waits for an ACL."""

from dataclasses import dataclass

from oncelog.security.acl import (
    CLUSTER_NAME,
    WILDCARD_PRINCIPAL,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
CLUSTER, TRANSACTIONAL_ID = ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID
ALLOW, DENY = Permission.ALLOW, Permission.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED

OPEN, OPEN_ABSENT, OPEN_DELETED = "open-orders", "open-absent", "open-deleted"
SECRET, SECRET_ABSENT, SECRET_DELETED = "secret-orders", "secret-absent", "secret-deleted"
ALLOWED = (OPEN, OPEN_ABSENT, OPEN_DELETED)
"""What a user's ACLs name. Topics, groups and transactional ids have the same names."""

_WORDS = {
    TOPIC: "READ WRITE CREATE DESCRIBE DELETE ALTER DESCRIBE_CONFIGS ALTER_CONFIGS",
    GROUP: "READ DESCRIBE DELETE DESCRIBE_CONFIGS ALTER_CONFIGS",
    CLUSTER: "CREATE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE ALTER DESCRIBE",
    TRANSACTIONAL_ID: "DESCRIBE WRITE TWO_PHASE_COMMIT",
}
RIGHTS = tuple((kind, Operation[one]) for kind, words in _WORDS.items() for one in words.split())


@dataclass(frozen=True)
class User:
    name: str
    about: str
    acls: tuple[Acl, ...]


def acls_of(rights, principal, permission=ALLOW, names=ALLOWED, pattern=LITERAL, host="*"):
    return tuple(
        Acl(kind, name, LITERAL if kind is CLUSTER else pattern, principal, host, one, permission)
        for kind, one in rights
        for name in ((CLUSTER_NAME,) if kind is CLUSTER else names)
    )


def _sets():
    """(what it is, the ACLs of a principal) each."""
    everything = tuple((kind, Operation.ALL) for kind in _WORDS)

    def plain(rights, **words):
        return lambda me: acls_of(rights, me, **words)

    def but(denied_rights, allowed_words, denied_words):
        return lambda me: (
            acls_of(everything, me, **allowed_words)
            + acls_of(denied_rights, me, DENY, **denied_words)
        )

    yield "nothing", plain(())
    for kind, one in (*RIGHTS, *everything):
        right = f"{one.name} on {kind.name}"
        others = tuple(each for each in everything if each[0] is not kind)
        yield f"only {right}", plain(((kind, one),))
        yield f"{right} and ALL on the other types", plain(((kind, one), *others))
        yield f"ALL, and DENY {right}", but(((kind, one),), {}, {})
        if one is not Operation.ALL:
            rest = tuple(each for each in RIGHTS if each != (kind, one))
            yield f"each but {right}", plain(rest)
    yield "ALL on *", plain(everything, names=("*",))
    yield "ALL on a prefix", plain(everything, names=("open-",), pattern=PREFIXED)
    yield "ALL on another prefix", plain(everything, names=("opener-",), pattern=PREFIXED)
    yield "ALL on a name that is a prefix", plain(everything, names=("open-",))
    yield "ALL from this host", plain(everything, host="127.0.0.1")
    yield "ALL from another host", plain(everything, host="127.0.0.2")
    yield "ALL, and DENY from another host", but(everything, {}, {"host": "127.0.0.2"})
    yield "ALL, and DENY from this host", but(everything, {}, {"host": "127.0.0.1"})
    yield "ALL on *, and DENY a name", but(everything[:1], {"names": ("*",)}, {})
    denied = {"names": ("open-",), "pattern": PREFIXED}
    yield "ALL on names, and DENY their prefix", but(everything[:1], {}, denied)
    yield "ALL on names, and DENY *", but(everything[:1], {}, {"names": ("*",)})


USERS = tuple(
    User(f"u{number}", about, acls(f"User:u{number}"))
    for number, (about, acls) in enumerate(_sets())
)
EVERYBODYS = "open-everybodys"
FOR_EVERYBODY = acls_of(((TOPIC, Operation.DESCRIBE),), WILDCARD_PRINCIPAL, names=(EVERYBODYS,))
