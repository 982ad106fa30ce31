"""API tokens of gateways: the rules for making, revoking and using them."""

from collections.abc import Mapping
from typing import Final, assert_never

from oncelog.errors import ErrorCode
from oncelog.security.api_tokens import ApiToken, token_fault
from oncelog_controller.core.events import (
    AlterApiTokens,
    CreateToken,
    RevokeToken,
    SecurityAnswer,
    SecurityResult,
    TokenChange,
    UseToken,
)
from oncelog_controller.core.records import ApiTokensChanged

TOKENS_MAX: Final = 10_000

_DONE: Final = SecurityResult()


def altered_tokens(
    known: Mapping[str, ApiToken], event: AlterApiTokens
) -> tuple[SecurityAnswer, ApiTokensChanged]:
    """Return an answer for each change of an API token, and one record with all tokens that changed."""
    results: list[SecurityResult] = []
    changed: dict[str, ApiToken] = {}
    for change in event.changes:
        name = change.token.name if isinstance(change, CreateToken) else change.name
        if name in changed:
            message = f"token {name!r} stands twice in one request; send two requests"
            results.append(SecurityResult(ErrorCode.INVALID_REQUEST, message))
            continue
        result, after = _altered(known, len(changed), change)
        results.append(result)
        if after is not None:
            changed[name] = after
    return SecurityAnswer(tuple(results)), ApiTokensChanged(
        tuple(token[:] for token in changed.values())
    )


def _altered(
    known: Mapping[str, ApiToken], changed_count: int, change: TokenChange
) -> tuple[SecurityResult, ApiToken | None]:
    """Return the answer to one change of an API token, and the token after it; None: nothing changes."""
    match change:
        case CreateToken(token):
            if fault := token_fault(token):
                return SecurityResult(ErrorCode.INVALID_REQUEST, fault), None
            if token.name in known:
                message = f"there is a token {token.name!r}; choose another name, or revoke it"
                return SecurityResult(ErrorCode.DUPLICATE_RESOURCE, message), None
            if len(known) + changed_count >= TOKENS_MAX:
                message = f"the cluster has {TOKENS_MAX} tokens; revoke some first"
                return SecurityResult(ErrorCode.POLICY_VIOLATION, message), None
            return _DONE, token
        case RevokeToken(name):
            if name not in known:
                message = f"there is no token {name!r}; `oncelog tokens list` shows all"
                return SecurityResult(ErrorCode.RESOURCE_NOT_FOUND, message), None
            return _DONE, ApiToken(name, "", "", 0, 0)
        case UseToken(name, digest, time_ms):
            used = known.get(name)
            # A token that was revoked, or made again meanwhile, was not used.
            if used is None or used.digest != digest or time_ms <= used.last_used_ms:
                return _DONE, None
            return _DONE, used._replace(last_used_ms=time_ms)
        case _:
            assert_never(change)
