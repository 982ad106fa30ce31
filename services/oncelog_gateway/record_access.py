"""Who may read the records of a topic (ADR 0049): a role is enough where nobody checks ACLs, else they decide.

A listener that checks ACLs publishes its authorizer, as Kafka's `authorizer.class.name`. So every gateway knows.
"""

from shlex import quote
from typing import Final, Literal

from oncelog.errors import ErrorCode, KafkaError
from oncelog.rpc.metadata import MetadataFollower
from oncelog.security.acl import Acl, Operation, ResourceType
from oncelog.security.api_tokens import Role
from oncelog.security.authorizer import Authorizer, AuthorizerRules
from oncelog.security.principal import ANONYMOUS as NOBODY
from oncelog.security.principal import Principal
from oncelog_gateway.access import ANONYMOUS, Caller

RecordAccessRule = Literal["auto", "acl"]
_AUTHORIZER: Final = "authorizer.class.name"
_RULES: Final = AuthorizerRules()
"""Nobody is a super user here, and a topic without an ACL is nobody's. A role admin needs none."""


class RecordAccess:
    def __init__(self, metadata: MetadataFollower, rule: RecordAccessRule) -> None:
        self._metadata = metadata
        self._rule = rule
        self._acls: frozenset[Acl] = frozenset()
        self._authorizer = Authorizer((), _RULES)

    def check(self, caller: Caller | None, address: str, topic: str) -> None:
        """Raises KafkaError(TOPIC_AUTHORIZATION_FAILED) with the command that lets this caller read."""
        if not self._are_acls_asked():
            return
        if caller is not None and caller is not ANONYMOUS and caller.role is Role.ADMIN:
            return
        principal = str(principal_of(caller))
        acls = self._metadata.image.security.acls
        if acls is not self._acls:
            self._authorizer, self._acls = Authorizer(acls, _RULES), acls
        verdict = self._authorizer.decide(
            principal, address, Operation.READ, ResourceType.TOPIC, topic
        )
        if not verdict.is_allowed:
            raise KafkaError(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED,
                f"{principal} may not read topic {topic!r} ({verdict.reason}); an admin allows it with: "
                f"oncelog acls add --principal {quote(principal)} --operation Read --topic {quote(topic)}; "
                "a token of the role admin reads every topic",
            )

    def _are_acls_asked(self) -> bool:
        """Also where ACLs are left and no listener is known now: they were made to close something."""
        image = self._metadata.image
        return (
            self._rule == "acl"
            or bool(image.security.acls)
            or any(node.configs.get(_AUTHORIZER) for node in image.nodes.values())
        )


def principal_of(caller: Caller | None) -> Principal:
    """As the ACLs name a caller: by the name that stands in the audit log. Nobody logged in: Kafka's ANONYMOUS."""
    if caller is None or caller is ANONYMOUS:
        return NOBODY
    return Principal.user(caller.name)
