"""`POST /v1/transactions/…`: abort a hanging transaction, terminate a producer's, or complete a two-phase one."""

from typing import Annotated

from fastapi import APIRouter, Body, Request

from oncelog_gateway.operators import Operators
from oncelog_gateway.problems import described
from oncelog_gateway.resources import (
    AbortRequest,
    AbortResult,
    CompleteRequest,
    CompleteResult,
    TerminateRequest,
    TerminateResult,
)
from oncelog_gateway.routes.transactions import TransactionalId
from oncelog_gateway.transactions import Transactions, WouldReadOn


def ending_router(
    transactions: Transactions, operators: Operators, would_read_on: WouldReadOn
) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["transactions"])

    @router.post(
        **described("/transactions/abort", "Abort a hanging transaction", 400, 403, 404, 409, 413)
    )
    async def abort(request: Request, body: AbortRequest) -> AbortResult:
        """Writes an abort marker, and only if the partition has a transaction open at exactly `start_offset` (and
        `producer_epoch`) that no coordinator owns. It goes behind the coordinator's back, so `dry_run` is the default.
        """
        return await transactions.abort(operators.of(request), body, would_read_on)

    @router.post(
        **described(
            "/transactions/{transactional_id:path}/terminate",
            "End a transaction through its coordinator",
            400,
            403,
            404,
            409,
            413,
        )
    )
    async def terminate(
        request: Request,
        transactional_id: TransactionalId,
        body: Annotated[TerminateRequest | None, Body()] = None,
    ) -> TerminateResult:
        """The coordinator fences the producer and aborts its transaction; the producer's next request fails. With the
        `start_time_ms` of a dry run, a transaction that began since is left alone.
        """
        return await transactions.terminate(
            operators.of(request), transactional_id, body or TerminateRequest(), would_read_on
        )

    @router.post(
        **described(
            "/transactions/{transactional_id:path}/complete",
            "Commit or abort a two-phase transaction",
            400,
            403,
            404,
            409,
            413,
            501,
        )
    )
    async def complete(
        request: Request, transactional_id: TransactionalId, body: CompleteRequest
    ) -> CompleteResult:
        """Decides a transaction for an application that does not decide itself (KIP-939). Stop it first: it may be
        about to decide. Compare `prepared` with what its database holds. The same text: commit. Another one, or none:
        abort. The coordinator fences the producer.
        """
        return await transactions.complete(
            operators.of(request), transactional_id, body, would_read_on
        )

    return router
