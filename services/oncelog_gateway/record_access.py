"""Decides who may read the records of a topic through the gateway, and who may write them (ADR 0049).

ACLs decide if a listener checks them, or if any exists. Otherwise, at a gateway without a login everybody reads. At one
with a login only the role admin does: a viewer's token may be older than this feature, and was not given for reading
records. A listener that checks ACLs publishes its authorizer as Kafka's setting `authorizer.class.name`. By this every
gateway knows of it.
"""

from collections.abc import Iterator
from shlex import quote
from typing import Final, NamedTuple

from oncelog.errors import ErrorCode, KafkaError
from oncelog.rpc.metadata import MetadataFollower
from oncelog.security.acl import Acl, Operation, ResourceType
from oncelog.security.api_tokens import Role
from oncelog.security.authorizer import Authorizer, AuthorizerRules, Verdict
from oncelog.security.principal import ANONYMOUS as NOBODY
from oncelog.security.principal import Principal
from oncelog_gateway.access import ANONYMOUS, Caller
from oncelog_gateway.access_settings import AccessSettings

_AUTHORIZER: Final = "authorizer.class.name"
_RULES: Final = AuthorizerRules()
"""The authorizer's rules for records. There is no super user, and a topic without an ACL is closed. The role admin
needs no ACL.
"""


class Way(NamedTuple):
    """One way in which this caller can be allowed to read or write the topic, and the command for it. It is part of a
    refusal's text.
    """

    what: str
    command: str


class RecordsClosedError(KafkaError):
    """The caller may not read or write the topic's records: TOPIC_AUTHORIZATION_FAILED. `ways` says what would allow
    it.
    """

    def __init__(self, why: str, ways: tuple[Way, ...]) -> None:
        super().__init__(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            f"{why}; " + "; ".join(f"{one.what}: {one.command}" for one in ways),
        )
        self.why = why
        self.ways = ways


class RecordAccess:
    def __init__(self, metadata: MetadataFollower, settings: AccessSettings) -> None:
        self._metadata = metadata
        self._settings = settings
        self._acls: frozenset[Acl] = frozenset()
        self._authorizer = Authorizer((), _RULES)

    def check(
        self, caller: Caller | None, address: str, topic: str, operation: Operation = Operation.READ
    ) -> str:
        """Return in words why this caller may read the topic's records, or write them. `address` is the caller's, for
        ACLs with a host. Raises RecordsClosedError, with the commands that would allow it, if the caller may not.
        """
        is_anonymous = caller is None or caller is ANONYMOUS
        if caller is not None and not is_anonymous and caller.role is Role.ADMIN:
            return f"{caller.name} has the role admin, to which every topic is open"
        are_acls_asked = self._are_acls_asked()
        if not are_acls_asked:
            if self._settings.record_access == "viewer":
                return (
                    "ONCELOG_GATEWAY_RECORD_ACCESS=viewer lets every viewer read records, "
                    "and every operator write them"
                )
            if self._settings.record_access == "auto" and not self._settings.is_login_required:
                return (
                    "nobody logs in here and no listener checks ACLs, "
                    "so everybody who reaches this gateway reads every topic"
                )
        principal = str(principal_of(caller))
        acls = self._metadata.image.security.acls
        if acls is not self._acls:
            self._authorizer, self._acls = Authorizer(acls, _RULES), acls
        verdict = self._authorizer.decide(principal, address, operation, ResourceType.TOPIC, topic)
        if verdict.is_allowed:
            return f"an ACL lets {principal} {operation.name.lower()} this topic"
        raise RecordsClosedError(
            f"{principal} may not {operation.name.lower()} topic {topic!r} ({verdict.reason})",
            tuple(self._ways(principal, topic, operation, verdict, are_acls_asked=are_acls_asked)),
        )

    def _are_acls_asked(self) -> bool:
        """True if ACLs decide who reads records. They do if a listener that checks ACLs is registered, or if any ACL
        exists. An ACL was made to close something, even while no such listener runs.
        """
        image = self._metadata.image
        return bool(image.security.acls) or any(
            node.configs.get(_AUTHORIZER) for node in image.nodes.values()
        )

    def _ways(
        self,
        principal: str,
        topic: str,
        operation: Operation,
        verdict: Verdict,
        *,
        are_acls_asked: bool,
    ) -> Iterator[Way]:
        login = f" --config {quote(found)}" if (found := self._settings.client_config) else ""
        if verdict.is_denied:
            yield Way(
                "no ALLOW outweighs this DENY, which an admin finds with",
                f"oncelog acls list --topic {quote(topic)}{login}",
            )
        elif are_acls_asked:
            yield Way(
                "an admin allows it with",
                f"oncelog acls add --principal {quote(principal)} --operation {operation.name.title()} "
                f"--topic {quote(topic)}{login}",
            )
        else:
            # Listeners without an authorizer take no ACL.
            yield Way(
                "every viewer reads records, and every operator writes them, at a gateway with",
                "ONCELOG_GATEWAY_RECORD_ACCESS=viewer",
            )
        if self._settings.is_login_required:
            yield Way(
                "every topic is open to a token of the role admin; an admin makes one with",
                "oncelog tokens create NAME --role admin",
            )


def principal_of(caller: Caller | None) -> Principal:
    """Return the principal for whom a caller's ACLs are made. It is the user of the name that the audit log has, or
    Kafka's ANONYMOUS without a login.
    """
    if caller is None or caller is ANONYMOUS:
        return NOBODY
    return Principal.user(caller.name)
