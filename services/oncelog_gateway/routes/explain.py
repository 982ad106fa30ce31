"""`/v1/explain`: the reason why something is as it is, in sentences."""

from typing import Annotated

from fastapi import APIRouter, Query

from oncelog_gateway.explanations import Explanation, Explanations
from oncelog_gateway.problems import described
from oncelog_gateway.subjects import Kind


def explain_router(explanations: Explanations) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["transactions"])

    @router.get(**described("/explain", "Explain what holds something up", 404, 409))
    async def explain(
        subject: Annotated[
            str,
            Query(
                min_length=1,
                max_length=32_767,
                description="a transactional.id, a producer id, a topic-partition, a group or a sink",
                examples=["payments", "1001", "orders-0"],
            ),
        ],
        kind: Annotated[
            Kind | None, Query(description="needed only where one name is several things")
        ] = None,
    ) -> Explanation:
        """A verdict, the findings that led to it, the evidence, and what to type next. It asks every role that knows
        something, and says what it could not read.
        """
        return await explanations.explain(subject, kind)

    return router
