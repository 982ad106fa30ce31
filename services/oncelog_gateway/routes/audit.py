"""`/v1/audit`: the list of who changed what through this gateway."""

from typing import Annotated

from fastapi import APIRouter, Query

from oncelog_gateway.acts import ActPage, Acts, Outcome
from oncelog_gateway.problems import described
from oncelog_gateway.resources import INT64_MAX
from oncelog_gateway.routes.paging import Paging


def audit_router(acts: Acts) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["audit"])

    @router.get(**described("/audit", "List acts", 404))
    async def list_acts(
        paging: Paging,
        action: Annotated[str, Query(max_length=100, examples=["terminate_transaction"])] = "",
        outcome: Annotated[Outcome | None, Query()] = None,
        caller: Annotated[str, Query(max_length=300, examples=["token:ci"])] = "",
        since_ms: Annotated[int, Query(ge=0, le=INT64_MAX, description="began then or later")] = 0,
    ) -> ActPage:
        """Attempts to change something through this gateway, the newest first. Other gateways have lists of their
        own.
        """
        return await acts.page(
            paging, action=action, outcome=outcome or "", caller=caller, since_ms=since_ms
        )

    return router
