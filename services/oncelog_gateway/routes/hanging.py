"""`/v1/hanging-transactions`."""

from typing import Annotated

from fastapi import APIRouter, Query

from oncelog.errors import ErrorCode, KafkaError
from oncelog_gateway.partitions import Partitions, all_partitions
from oncelog_gateway.problems import documented
from oncelog_gateway.resources import INT64_MAX, HangingList
from oncelog_gateway.roles import Roles


def hanging_router(roles: Roles, partitions: Partitions) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["transactions"])

    @router.get(
        "/hanging-transactions", summary="Find hanging transactions", responses=documented(404)
    )
    async def find_hanging(
        topic: Annotated[
            str | None, Query(min_length=1, max_length=249, description="only this topic")
        ] = None,
        min_idle_ms: Annotated[
            int, Query(ge=0, le=INT64_MAX, description="only with no record for this long")
        ] = 0,
    ) -> HangingList:
        """Open in a partition and not at a coordinator: nobody will end them, and read_committed waits for good."""
        image = roles.image
        if topic is not None and topic not in image.topics:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"there is no topic {topic!r}; GET /v1/topics lists all",
            )
        asked = [one for one in all_partitions(image) if topic is None or one.topic == topic]
        return await partitions.hanging(asked, min_idle_ms)

    return router
