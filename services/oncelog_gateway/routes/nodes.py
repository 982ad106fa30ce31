"""`/v1/nodes`, `/v1/storage` and `/v1/reassignments`: what nodes lead and own, and how it is moved to other nodes."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from oncelog_gateway.node_resources import (
    BalanceRequest,
    EvacuateRequest,
    MoveStep,
    NodeChange,
    NodePage,
    NodeStatus,
    ReassignmentPage,
    ReassignRequest,
    ReassignResult,
)
from oncelog_gateway.nodes import Nodes
from oncelog_gateway.operators import Operators
from oncelog_gateway.problems import described
from oncelog_gateway.reassignments import Reassignments
from oncelog_gateway.replica_moves import ReplicaMoves
from oncelog_gateway.resources import INT32_MAX
from oncelog_gateway.routes.paging import Paging

NodeId = Annotated[int, Path(ge=1, le=INT32_MAX, examples=[1])]


def nodes_router(nodes: Nodes, operators: Operators) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["nodes"])

    @router.get(**described("/nodes", "List nodes", 404))
    async def list_nodes(paging: Paging) -> NodePage:
        """Nodes with what each leads, hosts and owns, and which controller is active."""
        return await nodes.list(paging)

    @router.get(**described("/nodes/{node_id}", "Describe a node", 404))
    async def describe_node(node_id: NodeId) -> NodeStatus:
        """The node with its duties. `drained` says that a draining node may be stopped."""
        return nodes.describe(node_id)

    @router.post(**described("/nodes/{node_id}/drain", "Drain a node", 403, 404, 409, 413))
    async def drain_node(request: Request, node_id: NodeId) -> NodeChange:
        """Drains the node: leaders and shards move to other nodes from now on, and the node gets nothing new; its
        replicas stay. It answers at once: GET the node until it is `drained`. A restart of the node ends the drain.
        """
        return await nodes.drain(operators.of(request), node_id)

    @router.delete(**described("/nodes/{node_id}/drain", "Take a drain back", 403, 404))
    async def undrain_node(request: Request, node_id: NodeId) -> NodeChange:
        """Takes the drain back. Shards come back at once, leaders with the next balancing. Harmless when the node is
        not draining.
        """
        return await nodes.undrain(operators.of(request), node_id)

    @router.delete(**described("/nodes/{node_id}", "Forget a node", 403, 404, 409), status_code=204)
    async def remove_node(request: Request, node_id: NodeId) -> Response:
        """Forgets a node that was stopped for good. Refused while it hosts replicas: the problem says which and how
        to move them.
        """
        await nodes.remove(operators.of(request), node_id)
        return Response(status_code=204)

    return router


def replica_moves_router(moves: ReplicaMoves, operators: Operators) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["nodes"])

    @router.post(
        **described(
            "/storage/evacuate", "Move all replicas off storage nodes", 400, 403, 404, 409, 413
        )
    )
    async def evacuate(request: Request, body: EvacuateRequest) -> MoveStep:
        """Takes one step: the nodes are drained, and as many partitions as `in_motion_max` leaves room for begin to
        move to the other storage nodes. Ask again until `left_count` is 0: each request plans anew from what is
        there. `dry_run` is the default.
        """
        return await moves.evacuate(operators.of(request), body)

    @router.post(
        **described(
            "/storage/balance", "Even out replicas and preferred leaders", 400, 403, 404, 409, 413
        )
    )
    async def balance(request: Request, body: BalanceRequest) -> MoveStep:
        """Takes one step, as with evacuate, over all storage nodes that live and are not draining. Leadership goes to
        the preferred replicas with the controller's next balance.
        """
        return await moves.balance(operators.of(request), body)

    return router


def reassignments_router(reassignments: Reassignments, operators: Operators) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["nodes"])

    @router.get(**described("/reassignments", "List reassignments", 404))
    async def list_reassignments(paging: Paging) -> ReassignmentPage:
        """Reassignments under way. Each ends by itself when all replicas that it adds are in sync."""
        return reassignments.page(paging)

    @router.post(**described("/reassignments", "Reassign partitions", 400, 403, 404, 409, 413))
    async def reassign(request: Request, body: ReassignRequest) -> ReassignResult:
        """Begins a reassignment. The new replicas copy the partition, then the others are removed. A reassignment
        under way is replaced.
        """
        return await reassignments.begin(operators.of(request), body)

    @router.delete(
        **described("/reassignments/{topic}", "Cancel reassignments of a topic", 403, 404, 409)
    )
    async def cancel(
        request: Request,
        topic: Annotated[str, Path(min_length=1, max_length=249, examples=["orders"])],
        partition: Annotated[
            int | None, Query(ge=0, le=INT32_MAX, description="without it: every partition")
        ] = None,
    ) -> ReassignResult:
        """Cancels reassignments. The replicas that were being added are dropped, and none is removed."""
        return await reassignments.cancel(operators.of(request), topic, partition)

    return router
