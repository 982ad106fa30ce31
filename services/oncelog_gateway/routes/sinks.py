"""`/v1/sinks`: list, describe and delete Spark sinks."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from oncelog_gateway.operators import Operators
from oncelog_gateway.problems import described
from oncelog_gateway.resources import Sink, SinkPage
from oncelog_gateway.routes.paging import Paging
from oncelog_gateway.sinks import Sinks

SinkName = Annotated[
    str,
    Path(
        min_length=1,
        max_length=32_767,
        description="a stream's `transactionalId`, or the name of a batch job's sink as the list has it",
        examples=["orders-to-totals"],
    ),
]


def sinks_router(sinks: Sinks, operators: Operators) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["sinks"])

    @router.get(**described("/sinks", "List Spark sinks", 404))
    async def list_sinks(paging: Paging) -> SinkPage:
        """Spark sinks in order of name. Every coordinator is asked; one that did not answer is in `incomplete`."""
        return await sinks.page(paging)

    @router.get(**described("/sinks/{sink:path}", "Describe a Spark sink", 404))
    async def describe_sink(sink: SinkName) -> Sink:
        """The sink with its attempts, their branches, and the batches decided last."""
        return await sinks.describe(sink)

    @router.delete(
        **described("/sinks/{sink:path}", "Delete a Spark sink", 403, 404, 409), status_code=204
    )
    async def delete_sink(request: Request, sink: SinkName) -> Response:
        """Deletes the sink, which forgets which batches were committed: one that Spark runs again afterwards is
        written again. Refused while the sink is being written to.
        """
        await sinks.delete(operators.of(request), sink)
        return Response(status_code=204)

    return router
