"""The check of ACLs for the clients of one listener: an authorizer over the newest ACLs, and a log line for each
verdict."""

import logging
from typing import Final

from oncelog.rpc.metadata import MetadataFollower
from oncelog.security.acl import Acl, Operation, ResourceType
from oncelog.security.authorizer import Authorizer, AuthorizerRules, Verdict

log = logging.getLogger("oncelog.authorizer")

_EVERYBODY: Final = Verdict(True, "there is no authorizer")


class Access:
    """The authorizer of one listener: it says if a client may do something, by the newest ACLs. Without `rules` every
    client may do everything."""

    def __init__(self, metadata: MetadataFollower, rules: AuthorizerRules | None) -> None:
        self._metadata = metadata
        self._rules = rules
        self._acls: frozenset[Acl] = frozenset()
        self._authorizer = Authorizer((), rules or AuthorizerRules())

    @property
    def is_checked(self) -> bool:
        return self._rules is not None

    def decide(
        self,
        principal: str,
        host: str,
        operation: Operation,
        resource_type: ResourceType,
        name: str | None,
    ) -> Verdict:
        """Return whether the ACLs allow the operation on this resource, with the reason; `name` None: on any resource
        of the type."""
        if self._rules is None:
            return _EVERYBODY
        authorizer = self._current()
        if name is None:
            return authorizer.decide_any(principal, host, operation, resource_type)
        return authorizer.decide(principal, host, operation, resource_type, name)

    def _current(self) -> Authorizer:
        acls = self._metadata.image.security.acls
        if acls is not self._acls:
            assert self._rules is not None
            self._authorizer = Authorizer(acls, self._rules)
            self._acls = acls
        return self._authorizer


REFUSALS_LOGGED_MAX: Final = 20
"""The most refusals of one request that are logged. A request may name 40,000 topics, and the log is written on the
event loop."""


def log_no_more(principal: str, host: str, request: str) -> None:
    log.info(
        "%s from %s is refused more than %d resources by one %s; the others are not logged",
        principal,
        host,
        REFUSALS_LOGGED_MAX,
        request,
    )


def log_verdict(
    verdict: Verdict,
    principal: str,
    host: str,
    operation: Operation,
    resource_type: ResourceType,
    name: str | None,
    request: str,
) -> None:
    """Write an authorizer's verdict to the log: a refused operation always, an allowed one at level DEBUG."""
    level = logging.DEBUG if verdict.is_allowed else logging.INFO
    if log.isEnabledFor(level):
        log.log(
            level,
            "%s from %s is %s %s on %s:%s for %s: %s",
            principal,
            host,
            "allowed" if verdict.is_allowed else "refused",
            operation.name,
            resource_type.name,
            name if name is not None else "(any)",
            request,
            verdict.reason,
        )
