"""`/metrics`."""

from fastapi import APIRouter, Response

from oncelog.process.exposition import CONTENT_TYPE
from oncelog_gateway.metrics import Metrics, Snapshot
from oncelog_gateway.partitions import Partitions, all_partitions
from oncelog_gateway.roles import Roles
from oncelog_gateway.transactions import Transactions


def scrape_router(
    roles: Roles,
    transactions: Transactions,
    partitions: Partitions,
    metrics: Metrics,
    partitions_max: int,
) -> APIRouter:
    router = APIRouter(tags=["probes"])

    @router.get(
        "/metrics",
        summary="Prometheus metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def scrape() -> Response:
        """Roles that do not answer leave gaps, never an error: a scrape that fails tells nothing."""
        listed, failures = await transactions.everything()
        asked = all_partitions(roles.image)
        snapshot = Snapshot(
            transactions=listed,
            partitions=await partitions.statuses(asked[:partitions_max]),
            partitions_not_shown=max(len(asked) - partitions_max, 0),
            coordinators_silent=len(failures),
            metadata_offset=roles.image.metadata_offset,
        )
        return Response(metrics.text(snapshot), headers={"Content-Type": CONTENT_TYPE})

    return router
