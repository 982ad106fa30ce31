"""`/v1/tokens` and `/v1/whoami`: API tokens, and the caller of a request."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from oncelog_gateway.access import ANONYMOUS, Caller
from oncelog_gateway.operators import CALLER_KEY, Operators
from oncelog_gateway.problems import described
from oncelog_gateway.resources import Resource
from oncelog_gateway.routes.paging import Paging
from oncelog_gateway.tokens import CreatedToken, CreateTokenRequest, TokenPage, Tokens


class WhoAmI(Resource):
    caller: str = Field(examples=["token:ci"])
    role: str | None = Field(description="null: none")
    expires_time_ms: int | None = Field(description="of the token or session; null: never")


def tokens_router(tokens: Tokens, operators: Operators) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["tokens"])

    @router.get(**described("/whoami", "Who is asking"))
    async def whoami(request: Request) -> WhoAmI:
        """The caller and the role of this request's token or session."""
        caller: Caller = request.scope.get(CALLER_KEY, ANONYMOUS)
        return WhoAmI(
            caller=caller.name,
            role=caller.role.word if caller.role is not None else None,
            expires_time_ms=caller.expires_ms or None,
        )

    @router.get(**described("/tokens", "List API tokens", 404))
    async def list_tokens(paging: Paging) -> TokenPage:
        """API tokens in order of name. No answer but the first ever holds a token."""
        return tokens.page(paging)

    @router.post(**described("/tokens", "Create an API token", 400, 403, 409, 413), status_code=201)
    async def create_token(request: Request, body: CreateTokenRequest) -> CreatedToken:
        """Creates a token. Only its SHA-256 is kept: the answer is the one place where the token stands."""
        return await tokens.create(operators.of(request), body)

    @router.delete(**described("/tokens/{name}", "Revoke an API token", 403, 404), status_code=204)
    async def revoke_token(
        request: Request, name: Annotated[str, Path(min_length=1, max_length=100, examples=["ci"])]
    ) -> Response:
        """Revokes a token. Every gateway refuses it as soon as it knows; streams and sessions of the token end."""
        await tokens.revoke(operators.of(request), name)
        return Response(status_code=204)

    return router
