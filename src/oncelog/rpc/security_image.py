"""The part of the metadata with ACLs, SCRAM credentials, client quotas, API tokens and logouts of the console."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.security.acl import Acl, Operation, PatternType, Permission, ResourceType, enum_of
from oncelog.security.api_tokens import ApiToken
from oncelog.security.quotas import Entity

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")


@dataclass(frozen=True)
class SecurityImage:
    """ACLs, credentials, quotas, tokens and logouts of the cluster at one moment, as the controller's stream has told
    them.

    An image never changes. A new one shares the parts that an update leaves alone.
    """

    acls: frozenset[Acl] = frozenset()
    credentials: Mapping[tuple[str, int], pb.ScramCredential] = field(
        default_factory=lambda: MappingProxyType({})
    )
    """SCRAM credentials by user and mechanism's number."""
    quotas: Mapping[Entity, Mapping[str, float]] = field(
        default_factory=lambda: MappingProxyType({})
    )
    tokens: Mapping[str, ApiToken] = field(default_factory=lambda: MappingProxyType({}))
    """API tokens by digest: a request's token is looked for by its digest."""
    ended_sessions: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Console sessions that were logged out, each with the time at which it would have ended."""
    sessions_void_until_ms: int = 0
    """Milliseconds since 1970: a console session that would end until then counts as logged out."""
    unknown_user_key: bytes = field(default=b"", repr=False)
    """The secret for the salts of unknown users; empty until there was a SCRAM credential."""

    def is_logged_out(self, session_id: str, expires_ms: int) -> bool:
        return expires_ms <= self.sessions_void_until_ms or session_id in self.ended_sessions

    def updated(self, update: pb.MetadataDelta | pb.MetadataSnapshot) -> "SecurityImage":
        removed = update.removed_acls if isinstance(update, pb.MetadataDelta) else ()
        if not (
            update.acls
            or removed
            or update.scram_credentials
            or update.client_quotas
            or update.api_tokens
            or update.ended_console_sessions
            or update.unknown_user_key
        ):
            return self
        image = self
        if update.acls or removed:
            kept = image.acls.difference(map(acl_of, removed))
            image = replace(image, acls=kept.union(map(acl_of, update.acls)))
        if update.scram_credentials:
            credentials = (
                ((one.user, one.mechanism), one if one.iterations else None)
                for one in update.scram_credentials
            )
            image = replace(image, credentials=_changed(image.credentials, credentials))
        if update.unknown_user_key:
            image = replace(image, unknown_user_key=update.unknown_user_key)
        if update.client_quotas:
            quotas = ((_entity(one), dict(one.values) or None) for one in update.client_quotas)
            image = replace(image, quotas=_changed(image.quotas, quotas))
        if update.api_tokens:
            named = {token.name: token for token in image.tokens.values()}
            tokens = (
                (one.name, api_token_of(one) if one.digest else None) for one in update.api_tokens
            )
            known = _changed(named, tokens).values()
            image = replace(image, tokens={token.digest: token for token in known})
        if update.ended_console_sessions:
            image = image._with_logouts(update)
        return image

    def _with_logouts(self, update: pb.MetadataDelta | pb.MetadataSnapshot) -> "SecurityImage":
        ended = ((one.session_id, one.expires_ms or None) for one in update.ended_console_sessions)
        void_until_ms = max(self.sessions_void_until_ms, update.console_sessions_void_until_ms)
        return replace(
            self,
            ended_sessions=_changed(self.ended_sessions, ended),
            sessions_void_until_ms=void_until_ms,
        )


def _changed(
    known: Mapping[KeyT, ValueT], changes: Iterable[tuple[KeyT, ValueT | None]]
) -> Mapping[KeyT, ValueT]:
    """Return the mapping after these changes; the value None removes a key."""
    found = dict(known)
    for key, value in changes:
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return found


def acl_of(message: pb.Acl) -> Acl:
    return Acl(
        enum_of(ResourceType, message.resource_type),
        message.resource_name,
        enum_of(PatternType, message.pattern_type),
        message.principal,
        message.host,
        enum_of(Operation, message.operation),
        enum_of(Permission, message.permission),
    )


def _entity(quota: pb.ClientQuota) -> Entity:
    return tuple((part.type, part.name if part.HasField("name") else None) for part in quota.entity)


def api_token_of(message: pb.ApiToken) -> ApiToken:
    return ApiToken(
        message.name,
        message.digest.hex(),
        message.role,
        message.created_ms,
        message.expires_ms,
        message.last_used_ms,
        message.created_by,
    )
