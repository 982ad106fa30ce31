"""API tokens as REST shows, makes and revokes them."""

import secrets
from typing import Literal, TypeVar

from pydantic import Field

from oncelog.api.v1 import controller_pb2 as pb
from oncelog.runtime.clock import Clock
from oncelog.security.api_tokens import (
    LIFETIME_MAX_MS,
    PREFIX,
    RANDOM_BYTES,
    ApiToken,
    digest_of,
)
from oncelog_gateway.audit import AuditLog
from oncelog_gateway.core.paging import PageRequest
from oncelog_gateway.operators import Operator
from oncelog_gateway.resources import Page, RequestBody, Resource, paged, resource_of
from oncelog_gateway.roles import Roles, raise_for

RoleWord = Literal["viewer", "operator", "admin"]


class Token(Resource):
    """An API token, without the secret text or its digest."""

    name: str
    role: str = Field(description="viewer, operator or admin")
    created_time_ms: int
    created_by: str
    expires_time_ms: int
    is_expired: bool
    last_used_time_ms: int | None = Field(description="within an hour; null: never")


TokenT = TypeVar("TokenT", bound=Token)


class TokenPage(Page):
    tokens: list[Token]


class CreateTokenRequest(RequestBody):
    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$", max_length=100, examples=["ci"]
    )
    role: RoleWord
    lifetime_ms: int = Field(
        ge=1_000, le=LIFETIME_MAX_MS, description="from now on", examples=[2_592_000_000]
    )


class CreatedToken(Token):
    token: str = Field(description="shown here and never again")


class Tokens:
    """Lists, creates and revokes API tokens through the controller. Every method raises KafkaError."""

    def __init__(self, roles: Roles, audit: AuditLog, clock: Clock) -> None:
        self._roles = roles
        self._audit = audit
        self._clock = clock

    def page(self, paging: PageRequest) -> TokenPage:
        """Return a page of tokens in order of name."""
        found = list(self._roles.image.security.tokens.values())
        rows, about = paged(found, lambda one: (one.name,), paging)
        return TokenPage(tokens=[self._shown(Token, one) for one in rows], **about)

    async def create(self, operator: Operator, body: CreateTokenRequest) -> CreatedToken:
        """Create a token, and return it with its secret. Every gateway accepts it as soon as its metadata
        image has it.
        """
        text = PREFIX + secrets.token_urlsafe(RANDOM_BYTES)
        now = self._clock.now()
        token = ApiToken(
            body.name,
            digest_of(text),
            body.role,
            now,
            now + body.lifetime_ms,
            created_by=operator.caller,
        )
        message = pb.ApiToken(**{**token._asdict(), "digest": bytes.fromhex(token.digest)})
        async with self._audit.attempt(operator, "create_token", body.model_dump()) as attempt:
            await self._alter(pb.AlterApiTokensRequest.Change(create=message))
            attempt.detail = f"token {body.name} may do what a {body.role} may"
        return self._shown(CreatedToken, token, token=text)

    async def revoke(self, operator: Operator, name: str) -> None:
        async with self._audit.attempt(operator, "revoke_token", {"name": name}) as attempt:
            await self._alter(pb.AlterApiTokensRequest.Change(revoke=name))
            attempt.detail = f"token {name} is revoked"

    async def _alter(self, change: pb.AlterApiTokensRequest.Change) -> None:
        request = pb.AlterApiTokensRequest(changes=[change])
        answer = await self._roles.ask_controller(
            lambda controller: controller.AlterApiTokens, request
        )
        raise_for(answer.results[0].error_code, answer.results[0].error_message)
        await self._roles.seen(answer.metadata_offset)

    def _shown(self, kind: type[TokenT], one: ApiToken, **given: str) -> TokenT:
        return resource_of(
            kind,
            one,
            created_time_ms=one.created_ms,
            expires_time_ms=one.expires_ms,
            is_expired=self._clock.now() >= one.expires_ms,
            last_used_time_ms=one.last_used_ms or None,
            **given,
        )
