"""`/v1/hanging-transactions`, `/v1/prepared-transactions` and `/v1/marker-queues`: transactions that do not end, and
why.
"""

from typing import Annotated

from fastapi import APIRouter, Query

from oncelog_gateway.core.hanging import Shown
from oncelog_gateway.marker_queues import marker_queues
from oncelog_gateway.nodes import require_node
from oncelog_gateway.partitions import Partitions, partitions_to_search
from oncelog_gateway.problems import described
from oncelog_gateway.resources import (
    INT32_MAX,
    INT64_MAX,
    HangingPage,
    MarkerQueue,
    MarkerQueuePage,
    PreparedPage,
    paged,
)
from oncelog_gateway.roles import Roles
from oncelog_gateway.routes.paging import Paging
from oncelog_gateway.transactions import Transactions


def hanging_router(roles: Roles, partitions: Partitions) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["transactions"])

    @router.get(**described("/hanging-transactions", "Find hanging transactions", 404))
    async def find_hanging(
        topic: Annotated[
            str | None, Query(min_length=1, max_length=249, description="only this topic")
        ] = None,
        partition: Annotated[
            int | None,
            Query(ge=0, le=INT32_MAX, description="only this partition of the topic"),
        ] = None,
        broker: Annotated[
            int | None,
            Query(ge=0, le=INT32_MAX, description="only partitions with a replica on this node"),
        ] = None,
        min_idle_ms: Annotated[
            int, Query(ge=0, le=INT64_MAX, description="only with no record for this long")
        ] = 0,
        max_transaction_timeout_ms: Annotated[
            int | None,
            Query(ge=0, le=INT64_MAX, description="only with no record for longer than this"),
        ] = None,
        coordinator: Annotated[
            int | None,
            Query(
                ge=0,
                le=INT32_MAX,
                description="only with a known transactional.id that this node coordinates",
            ),
        ] = None,
        *,
        paging: Paging,
    ) -> HangingPage:
        """Transactions that are open in a partition and not at a coordinator: nobody will end them, and
        read_committed waits for good.
        """
        searched = partitions_to_search(roles.image, topic, partition, broker)
        if coordinator is not None:
            require_node(roles.image, coordinator)
        shown = Shown(min_idle_ms, max_transaction_timeout_ms, coordinator)
        return await partitions.hanging(searched, shown, paging)

    @router.get(**described("/marker-queues", "Markers that wait for a node", 404))
    async def list_marker_queues(paging: Paging) -> MarkerQueuePage:
        """Markers that wait, at every marker sender. Until they are written, their transaction stays in PrepareCommit
        or PrepareAbort.
        """
        rows, failures = await marker_queues(roles)
        page, about = paged(rows, lambda row: (row.marker_sender, _place(row)), paging, failures)
        return MarkerQueuePage(marker_queues=page, **about)

    return router


def _place(row: MarkerQueue) -> int:
    """Return a sort key for marker queues: by node, and the queue for partitions without a leader first."""
    return -1 if row.node is None else row.node


def prepared_router(transactions: Transactions) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["transactions"])

    @router.get(**described("/prepared-transactions", "List open two-phase transactions"))
    async def prepared(paging: Paging) -> PreparedPage:
        """Two-phase transactions that are open. Their applications decide them together with another system, and no
        timeout ends them (KIP-939). Each may be prepared, and holds back readers until it is decided.
        """
        return await transactions.prepared(paging)

    return router
