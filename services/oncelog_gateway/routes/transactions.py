"""`/v1/transactions`: lists transactional ids, and describes one."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from oncelog.errors import ErrorCode, KafkaError
from oncelog_gateway.core.id_pattern import ID_PATTERN_SCHEMA, LENGTH_MAX
from oncelog_gateway.nodes import require_node
from oncelog_gateway.problems import described, plain_problem, respond
from oncelog_gateway.resources import (
    INT32_MAX,
    INT64_MAX,
    TransactionDetail,
    TransactionPage,
    TransactionState,
)
from oncelog_gateway.roles import Roles
from oncelog_gateway.routes.paging import Paging
from oncelog_gateway.transactions import Transactions

TransactionalId = Annotated[
    str,
    Path(
        min_length=1,
        max_length=32_767,
        description="any id; one with slashes may be written with slashes",
        examples=["payments"],
    ),
]


def transactions_router(roles: Roles, transactions: Transactions) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["transactions"])

    @router.get(**described("/transactions", "List transactions", 404))
    async def list_transactions(
        state: Annotated[
            list[TransactionState] | None, Query(description="repeat it for several states")
        ] = None,
        producer_id: Annotated[
            list[Annotated[int, Query(ge=0, le=INT64_MAX)]] | None,
            Query(max_length=500, description="repeat it for several producers"),
        ] = None,
        min_duration_ms: Annotated[
            int | None,
            Query(ge=0, le=INT64_MAX, description="only transactions open for longer than this"),
        ] = None,
        id_pattern: Annotated[
            str,
            Query(
                max_length=LENGTH_MAX,
                pattern=ID_PATTERN_SCHEMA,
                description="of the whole transactional id; `*` stands for any characters",
                examples=["payments-*"],
            ),
        ] = "",
        coordinator: Annotated[
            int | None,
            Query(ge=0, le=INT32_MAX, description="only those that this node coordinates"),
        ] = None,
        *,
        paging: Paging,
    ) -> TransactionPage:
        """Transactions in order of transactional id. Every coordinator is asked; who did not answer is in
        `incomplete`.
        """
        if coordinator is not None:
            require_node(roles.image, coordinator)
        return await transactions.page(
            states=state or (),
            producer_ids=producer_id or (),
            min_duration_ms=min_duration_ms,
            id_pattern=id_pattern,
            coordinator=coordinator,
            paging=paging,
        )

    @router.get(
        **described("/transactions/{transactional_id:path}", "Describe a transaction", 404, 405),
        response_model=TransactionDetail,
    )
    async def describe(transactional_id: TransactionalId) -> TransactionDetail | Response:
        """The transaction with its partitions and the offset of its first record in each."""
        try:
            return await transactions.describe(transactional_id)
        except KafkaError as error:
            # These are actions unless somebody really named a transaction so.
            is_action = transactional_id == "abort" or transactional_id.endswith(
                ("/terminate", "/complete")
            )
            if is_action and error.error_code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                problem = plain_problem(
                    405, "this is an action: POST it; GET describes transactions"
                )
                return respond(problem, {"Allow": "POST"})
            raise

    return router
