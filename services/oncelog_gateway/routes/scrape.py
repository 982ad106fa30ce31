"""`/metrics`: the cluster's and the gateway's metrics for Prometheus."""

from collections import Counter
from typing import Annotated

from fastapi import APIRouter, Header, Response

from oncelog.ids import Partition
from oncelog.process.exposition import OPENMETRICS
from oncelog.rpc.metadata import MetadataImage
from oncelog_gateway.groups import Groups
from oncelog_gateway.metrics import Metrics, Snapshot
from oncelog_gateway.nodes import role_names
from oncelog_gateway.partitions import Partitions, all_partitions
from oncelog_gateway.roles import Roles
from oncelog_gateway.settings import GatewaySettings
from oncelog_gateway.transactions import Transactions


def scrape_router(
    roles: Roles,
    transactions: Transactions,
    partitions: Partitions,
    groups: Groups,
    metrics: Metrics,
    settings: GatewaySettings,
) -> APIRouter:
    router = APIRouter(tags=["probes"])

    @router.get(
        "/metrics",
        summary="Prometheus metrics",
        response_class=Response,
        responses={
            200: {
                "content": {
                    kind: {"schema": {"type": "string"}} for kind in ("text/plain", OPENMETRICS)
                }
            }
        },
    )
    async def scrape(accept: Annotated[str, Header(include_in_schema=False)] = "") -> Response:
        """Metrics of the cluster and of this gateway. Roles that do not answer leave gaps, never an error: a scrape
        that fails tells nothing.
        """
        listed, failures = await transactions.everything()
        image = roles.image
        every = all_partitions(image)
        # First those that have series in any case; of the internal ones most have none.
        every.sort(key=lambda one: image.topics[one.topic].internal)
        rows = await partitions.statuses(every[: settings.metrics_partitions_max])
        statuses = {Partition(row.topic, row.partition): row for row in rows}
        shown = [
            row
            for row in rows
            if settings.metrics_internal_partitions
            or row.lso_holder is not None
            or not _is_internal(image, row.topic)
        ]
        snapshot = Snapshot(
            transactions=listed,
            partitions=shown,
            partitions_not_shown=max(len(every) - settings.metrics_partitions_max, 0),
            group_lags=await groups.lags(statuses, settings.metrics_groups_max),
            coordinators_silent=len(failures),
            metadata_offset=image.metadata_offset,
            nodes=Counter(
                name
                for node in image.nodes.values()
                if not node.fenced
                for name in role_names(node)
            ),
        )
        content, content_type = metrics.page(snapshot, accept)
        return Response(content, headers={"Content-Type": content_type})

    return router


def _is_internal(image: MetadataImage, topic: str) -> bool:
    """True if the topic is one of Kafka's own. A topic that was deleted meanwhile counts as none."""
    return topic in image.topics and image.topics[topic].internal
