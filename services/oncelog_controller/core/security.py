"""The rules for ACLs, SCRAM credentials, client quotas, API tokens and logouts, and their state.

The rules are those of Kafka's controller (AclControlManager, ScramControlManager, ClientQuotaControlManager).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from typing import Final, NamedTuple, assert_never

from oncelog.errors import ErrorCode
from oncelog.security.acl import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    entry_fault,
)
from oncelog.security.api_tokens import ApiToken
from oncelog.security.quotas import Entity, QuotaKey, entity_fault, quota_fault
from oncelog.security.sasl import SCRAM_NAMES
from oncelog_controller.core.api_tokens import altered_tokens
from oncelog_controller.core.console_sessions import EndedSessions, ended_session
from oncelog_controller.core.events import (
    AlterApiTokens,
    AlterClientQuotas,
    AlterUserScramCredentials,
    CreateAcls,
    DeleteAcls,
    EndConsoleSession,
    FilterResult,
    Outcome,
    SecurityAnswer,
    SecurityResult,
)
from oncelog_controller.core.records import (
    AclRow,
    AclsChanged,
    ApiTokensChanged,
    ClientQuotasChanged,
    ConsoleSessionsEnded,
    ScramCredentialsChanged,
    ScramRow,
    Stored,
)

ACLS_MAX: Final = 100_000
"""The cluster has at most this many ACLs, for each stays in every process's memory."""
CREDENTIALS_MAX: Final = 100_000
QUOTAS_MAX: Final = 10_000
CHANGES_MAX: Final = 10_000
"""One request has at most this many changes (Kafka's MAX_RECORDS_PER_USER_OP)."""
ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384

_DONE: Final = SecurityResult()


SecurityRecord = (
    AclsChanged
    | ScramCredentialsChanged
    | ClientQuotasChanged
    | ApiTokensChanged
    | ConsoleSessionsEnded
)


class CredentialKey(NamedTuple):
    user: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class SecurityChange:
    """The keys of the security state that one record changed. The values are in the state."""

    acls: tuple[Acl, ...] = ()
    credentials: tuple[CredentialKey, ...] = ()
    quotas: tuple[Entity, ...] = ()
    tokens: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    unknown_user_key: bool = False


@dataclass(slots=True)
class SecurityState:
    """ACLs, SCRAM credentials, quotas, tokens and logouts, as the metadata records so far say.

    Values inside are immutable and replaced.
    """

    acls: dict[Acl, None] = field(default_factory=dict)
    credentials: dict[CredentialKey, ScramRow] = field(default_factory=dict)
    quotas: dict[Entity, Mapping[str, float]] = field(default_factory=dict)
    tokens: dict[str, ApiToken] = field(default_factory=dict)
    """The API tokens by name."""
    sessions: EndedSessions = field(default_factory=EndedSessions)
    unknown_user_key: str = field(default="", repr=False)
    """The secret for unknown users; empty until there was a SCRAM credential."""

    def apply(self, record: SecurityRecord) -> SecurityChange:
        match record:
            case AclsChanged():
                removed = [_acl(row) for row in record.removed]
                for acl in removed:
                    del self.acls[acl]
                added = [_acl(row) for row in record.added]
                self.acls.update(dict.fromkeys(added))
                return SecurityChange(acls=(*removed, *added))
            case ScramCredentialsChanged():
                keys = []
                for row in record.credentials:
                    user, mechanism, *_, iterations = row
                    key = CredentialKey(user, mechanism)
                    keys.append(key)
                    if iterations:
                        self.credentials[key] = row
                    else:
                        del self.credentials[key]
                if record.unknown_user_key:
                    self.unknown_user_key = record.unknown_user_key
                return SecurityChange(
                    credentials=tuple(keys), unknown_user_key=bool(record.unknown_user_key)
                )
            case ClientQuotasChanged():
                for entity, values in record.quotas:
                    if values:
                        self.quotas[entity] = dict(values)
                    else:
                        self.quotas.pop(entity, None)
                return SecurityChange(quotas=tuple(entity for entity, _ in record.quotas))
            case ApiTokensChanged():
                tokens = [ApiToken(*row) for row in record.tokens]
                for token in tokens:
                    if token.digest:
                        self.tokens[token.name] = token
                    else:
                        del self.tokens[token.name]
                return SecurityChange(tokens=tuple(token.name for token in tokens))
            case ConsoleSessionsEnded():
                return SecurityChange(sessions=self.sessions.apply(record))

    def to_state(self) -> dict[str, object]:
        """Return the state in values that JSON can hold, for a snapshot of the metadata.

        Empty parts are left out, so that an older version can read it.
        """
        parts = {
            "acls": tuple(_row(acl) for acl in self.acls),
            "credentials": tuple(self.credentials.values()),
            "quotas": tuple((entity, dict(values)) for entity, values in self.quotas.items()),
            "tokens": tuple(tuple(token) for token in self.tokens.values()),
            **self.sessions.to_state(),
            "unknown_user_key": self.unknown_user_key,
        }
        return {name: part for name, part in parts.items() if part}

    @staticmethod
    def restored(state: Mapping[str, Stored]) -> "SecurityState":
        rows = state.get("credentials", ())
        return SecurityState(
            dict.fromkeys(_acl(row) for row in state.get("acls", ())),
            {CredentialKey(row[0], row[1]): row for row in rows},
            {entity: dict(values) for entity, values in state.get("quotas", ())},
            {row[0]: ApiToken(*row) for row in state.get("tokens", ())},
            EndedSessions.restored(state),
            state.get("unknown_user_key", ""),
        )

    def copy(self) -> "SecurityState":
        return SecurityState(
            dict(self.acls),
            dict(self.credentials),
            dict(self.quotas),
            dict(self.tokens),
            self.sessions.copy(),
            self.unknown_user_key,
        )


def created_acls(state: SecurityState, event: CreateAcls) -> tuple[SecurityAnswer, AclsChanged]:
    """Return an answer for each ACL to create, and the record of those that are new. An ACL that exists is no error."""
    results = []
    added: dict[Acl, None] = {}
    for acl in event.acls:
        reason = entry_fault(acl)
        if not reason and acl not in state.acls and len(state.acls) + len(added) >= ACLS_MAX:
            reason = f"the cluster has {ACLS_MAX} ACLs; remove some, or use prefixes"
        if reason:
            results.append(SecurityResult(ErrorCode.INVALID_REQUEST, reason))
            continue
        if acl not in state.acls:
            added[acl] = None
        results.append(_DONE)
    return SecurityAnswer(tuple(results)), AclsChanged(added=tuple(_row(acl) for acl in added))


def deleted_acls(state: SecurityState, event: DeleteAcls) -> tuple[SecurityAnswer, AclsChanged]:
    """Return, for each filter, the ACLs that it deletes, and the record of all of them. Two answers may name the same
    ACL.
    """
    results: list[FilterResult] = []
    removed: dict[Acl, None] = {}
    for wanted in event.filters:
        if wanted.fault:
            results.append(FilterResult(ErrorCode.INVALID_REQUEST, wanted.fault))
            continue
        found = tuple(acl for acl in _candidates(state, wanted) if wanted.matches(acl))
        removed.update(dict.fromkeys(found))
        results.append(FilterResult(deleted=found))
    return SecurityAnswer(tuple(results)), AclsChanged(removed=tuple(_row(acl) for acl in removed))


def _candidates(state: SecurityState, wanted: AclFilter) -> Iterable[Acl]:
    """Return the ACLs that a filter may match: all, or only the one that it names completely.

    So a request of many filters stays cheap.
    """
    if (
        wanted.resource_name is None
        or wanted.principal is None
        or wanted.host is None
        or wanted.resource_type is ResourceType.ANY
        or wanted.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED)
        or wanted.operation is Operation.ANY
        or wanted.permission is Permission.ANY
    ):
        return state.acls
    named = Acl(*astuple(wanted))
    return (named,) if named in state.acls else ()


def altered_credentials(
    state: SecurityState, event: AlterUserScramCredentials
) -> tuple[SecurityAnswer, ScramCredentialsChanged]:
    """Return an answer for each user whose SCRAM credentials are to change, in order of first appearance, and the
    record.

    A user's two mechanisms need two requests, as in Kafka.
    """
    results: dict[str, SecurityResult] = {}
    rows: dict[str, ScramRow] = {}
    for row in event.credentials:
        user = row[0]
        if user in results:
            if results[user] is _DONE:
                rows.pop(user)
                message = f"user {user!r} stands twice in one request; send two requests"
                results[user] = SecurityResult(ErrorCode.DUPLICATE_RESOURCE, message)
            continue
        results[user] = _credential_result(state, row)
        if results[user] is _DONE:
            rows[user] = row
    answer = SecurityAnswer(tuple(results.values()))
    key = "" if state.unknown_user_key else event.unknown_user_key
    return answer, ScramCredentialsChanged(tuple(rows.values()), key)


def _credential_result(state: SecurityState, row: ScramRow) -> SecurityResult:
    user, mechanism, *_, iterations = row
    is_known = CredentialKey(user, mechanism) in state.credentials
    if not user:
        return SecurityResult(ErrorCode.UNACCEPTABLE_CREDENTIAL, "the user name is empty")
    if mechanism not in SCRAM_NAMES:
        known = ", ".join(f"{number} is {name}" for number, name in SCRAM_NAMES.items())
        message = f"SCRAM mechanism {mechanism} is not known; {known}"
        return SecurityResult(ErrorCode.UNSUPPORTED_SASL_MECHANISM, message)
    if not iterations:
        if is_known:
            return _DONE
        message = f"user {user!r} has no such credential"
        return SecurityResult(ErrorCode.RESOURCE_NOT_FOUND, message)
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        message = f"{iterations} iterations; from {ITERATIONS_MIN} to {ITERATIONS_MAX} are taken"
        return SecurityResult(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)
    if not is_known and len(state.credentials) >= CREDENTIALS_MAX:
        message = f"the cluster has {CREDENTIALS_MAX} credentials; delete some first"
        return SecurityResult(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)
    return _DONE


def altered_quotas(
    state: SecurityState, event: AlterClientQuotas
) -> tuple[SecurityAnswer, ClientQuotasChanged]:
    """Return an answer for each change of client quotas, and the record of the entities whose quotas change."""
    results: list[SecurityResult] = []
    changed: dict[Entity, Mapping[str, float]] = {}
    times: dict[Entity, int] = {}
    for entity, _ in event.changes:
        times[entity] = times.get(entity, 0) + 1
    for entity, operations in event.changes:
        reason = _quota_fault(entity, operations)
        if times[entity] > 1:
            reason = f"entity {dict(entity)} stands twice in one request"
        elif not reason and entity not in state.quotas and len(state.quotas) >= QUOTAS_MAX:
            reason = f"{QUOTAS_MAX} entities have quotas; remove those of others first"
        if reason:
            results.append(SecurityResult(ErrorCode.INVALID_REQUEST, reason))
            continue
        known = state.quotas.get(entity, {})
        gone = {key for key, value in operations if value is None}
        wanted = {key: value for key, value in known.items() if key not in gone}
        wanted.update((key, value) for key, value in operations if value is not None)
        if wanted != known:
            changed[entity] = wanted
        results.append(_DONE)
    return SecurityAnswer(tuple(results)), ClientQuotasChanged(tuple(changed.items()))


def _quota_fault(entity: Entity, operations: Sequence[tuple[str, float | None]]) -> str:
    reason = entity_fault(entity)
    keys: set[QuotaKey] = set()
    for key, value in operations:
        if reason:
            break
        reason = f"quota {key!r} stands twice" if key in keys else quota_fault(entity, key, value)
        keys.add(key)
    return reason


SecurityEvent = (
    CreateAcls
    | DeleteAcls
    | AlterUserScramCredentials
    | AlterClientQuotas
    | AlterApiTokens
    | EndConsoleSession
)


def changed_security(state: SecurityState, event: SecurityEvent) -> Outcome:
    """Return the answer to a request about ACLs, credentials, quotas, tokens or logouts, with a record if anything
    changes.
    """
    if not 0 < _count(event) <= CHANGES_MAX:
        message = f"the request has {_count(event)} changes; 1 to {CHANGES_MAX} are taken"
        refusal = FilterResult(ErrorCode.INVALID_REQUEST, message)
        return Outcome(SecurityAnswer((refusal,) * _count(event)), "security_refused")
    match event:
        case CreateAcls():
            answer, acls = created_acls(state, event)
            return Outcome(answer, "acls_created", (acls,) if acls.added else ())
        case DeleteAcls():
            answer, acls = deleted_acls(state, event)
            return Outcome(answer, "acls_deleted", (acls,) if acls.removed else ())
        case AlterUserScramCredentials():
            answer, credentials = altered_credentials(state, event)
            is_change = bool(credentials.credentials)
            return Outcome(answer, "credentials_altered", (credentials,) if is_change else ())
        case AlterClientQuotas():
            answer, quotas = altered_quotas(state, event)
            is_change = bool(quotas.quotas) and not event.validate_only
            return Outcome(answer, "quotas_altered", (quotas,) if is_change else ())
        case AlterApiTokens():
            answer, tokens = altered_tokens(state.tokens, event)
            return Outcome(answer, "api_tokens_altered", (tokens,) if tokens.tokens else ())
        case EndConsoleSession():
            result, sessions = ended_session(state.sessions, event)
            return Outcome(SecurityAnswer((result,)), "console_session_ended", sessions)
        case _:
            assert_never(event)


def _count(event: SecurityEvent) -> int:
    match event:
        case CreateAcls():
            return len(event.acls)
        case DeleteAcls():
            return len(event.filters)
        case AlterUserScramCredentials():
            return len(event.credentials)
        case AlterClientQuotas() | AlterApiTokens():
            return len(event.changes)
        case EndConsoleSession():
            return 1
        case _:
            assert_never(event)


def _row(acl: Acl) -> AclRow:
    return (
        acl.resource_type.name,
        acl.resource_name,
        acl.pattern_type.name,
        acl.principal,
        acl.host,
        acl.operation.name,
        acl.permission.name,
    )


def _acl(row: AclRow) -> Acl:
    resource_type, resource_name, pattern_type, principal, host, operation, permission = row
    return Acl(
        ResourceType[resource_type],
        resource_name,
        PatternType[pattern_type],
        principal,
        host,
        Operation[operation],
        Permission[permission],
    )
