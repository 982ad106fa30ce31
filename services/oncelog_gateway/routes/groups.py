"""`/v1/groups`: list groups, describe one with its offsets, reset these, and delete it."""

from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request, Response

from oncelog_gateway.group_resources import (
    GroupDetail,
    GroupOffsetPage,
    GroupPage,
    ResetOffsets,
    ResetOffsetsRequest,
)
from oncelog_gateway.groups import Groups
from oncelog_gateway.operators import Operators
from oncelog_gateway.problems import described
from oncelog_gateway.routes.paging import Paging

GroupState = Literal[
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "Stable",
    "Dead",
]

GroupId = Annotated[
    str,
    Path(
        min_length=1,
        max_length=32_767,
        description="any id; one with slashes may be written with slashes",
        examples=["billing"],
    ),
]


def groups_router(groups: Groups, operators: Operators) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["groups"])

    @router.get(**described("/groups", "List groups", 404))
    async def list_groups(
        state: Annotated[
            list[GroupState] | None, Query(description="repeat it for several states")
        ] = None,
        *,
        paging: Paging,
    ) -> GroupPage:
        """Groups in order of id. Every coordinator is asked; one that did not answer is in `incomplete`."""
        return await groups.page(states=state or (), paging=paging)

    @router.get(**described("/groups/{group_id:path}/offsets", "Offsets of a group", 404))
    async def group_offsets(
        group_id: GroupId,
        count_records: Annotated[
            bool,
            Query(
                description="read what comes after, at most 1 MiB of each of 100 partitions, and tell records that a "
                "read_committed reader gets from aborted ones and markers"
            ),
        ] = False,
        *,
        paging: Paging,
    ) -> GroupOffsetPage:
        """The offsets that the group has committed, partition by partition, and how many offsets come after each."""
        return await groups.offsets(group_id, paging, count_records=count_records)

    @router.patch(
        **described(
            "/groups/{group_id:path}/offsets", "Reset offsets of a group", 400, 403, 404, 409, 413
        )
    )
    async def reset_offsets(
        request: Request, group_id: GroupId, body: ResetOffsetsRequest
    ) -> ResetOffsets:
        """Sets where the group reads on in one topic. Refused while it has members; `dry_run` is the default."""
        return await groups.reset(operators.of(request), group_id, body)

    @router.get(**described("/groups/{group_id:path}", "Describe a group", 404))
    async def describe_group(group_id: GroupId) -> GroupDetail:
        """The group with its members and what each was assigned."""
        return await groups.describe(group_id)

    @router.delete(
        **described("/groups/{group_id:path}", "Delete a group", 403, 404, 409), status_code=204
    )
    async def delete_group(request: Request, group_id: GroupId) -> Response:
        """Deletes the group with its committed offsets. Refused while it has members."""
        await groups.delete(operators.of(request), group_id)
        return Response(status_code=204)

    return router
