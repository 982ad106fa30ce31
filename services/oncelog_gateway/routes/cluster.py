"""`/v1/cluster`, `/health` and `/ready`: the state of the cluster and of this gateway."""

import asyncio
from collections.abc import Sequence

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from oncelog.errors import KafkaError
from oncelog.ids import Partition
from oncelog.rpc.metadata import GROUP, TRANSACTION
from oncelog.runtime.clock import Clock
from oncelog_gateway.nodes import Duties, cluster_node
from oncelog_gateway.overview_resources import ClusterHealth, health_of
from oncelog_gateway.overviews import Overviews
from oncelog_gateway.problems import described
from oncelog_gateway.resources import (
    ClusterStatus,
    Health,
    Readiness,
    ReadinessCheck,
    resource_of,
)
from oncelog_gateway.roles import Roles
from oncelog_gateway.time_budget import time_budget


def cluster_router(roles: Roles, overviews: Overviews, clock: Clock) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["cluster"])

    @router.get(**described("/cluster", "Describe the cluster"))
    async def describe_cluster() -> ClusterStatus:
        """Nodes with what they lead and own, features, and how new the gateway's view is."""
        image = roles.image
        duties = Duties(image)
        return resource_of(
            ClusterStatus,
            image,
            topic_count=len(image.topics),
            transaction_shard_count=image.shard_count(TRANSACTION),
            group_shard_count=image.shard_count(GROUP),
            leaderless_partition_count=duties.leaders[-1],
            unowned_shard_count=duties.shards[TRANSACTION, -1] + duties.shards[GROUP, -1],
            features=dict(image.feature_levels),
            nodes=[cluster_node(image.nodes[node_id], duties) for node_id in sorted(image.nodes)],
        )

    @router.get(**described("/cluster/health", "Say whether the cluster is well"))
    async def describe_health() -> ClusterHealth:
        """The troubles of the cluster, since when each lasts and what to do, the worst first. It waits 1.8 seconds at
        most for all roles. A role that did not answer is a trouble of its own.
        """
        with time_budget():
            found = await overviews.look(0)
        return health_of(found.verdict, clock.now())

    return router


def probes_router(roles: Roles) -> APIRouter:
    router = APIRouter(tags=["probes"])
    checking = _Checking(roles)

    @router.get("/health", summary="Is the process alive")
    async def health() -> Health:
        """The process is alive. No other role is asked: a restart would not help a cluster whose other roles are
        away.
        """
        return Health()

    @router.get(
        "/ready",
        summary="Can it serve",
        response_model=Readiness,
        responses={503: {"model": Readiness, "description": "A check fails; `checks` says which"}},
    )
    async def ready() -> Response:
        """The gateway is ready when it has the image, and at least one partition leader and one coordinator answer."""
        readiness = await checking.result()
        return JSONResponse(readiness.model_dump(), 200 if readiness.ready else 503)

    return router


class _Checking:
    """The check behind `/ready`, which asks every role. Requests that arrive while it runs share its result, so that
    many of them cost one check.
    """

    def __init__(self, roles: Roles) -> None:
        self._roles = roles
        self._running: asyncio.Task[Readiness] | None = None

    async def result(self) -> Readiness:
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._check(), name="readiness")
        return await asyncio.shield(self._running)

    async def _check(self) -> Readiness:
        checks = [
            _metadata_check(self._roles),
            await _storage_check(self._roles),
            await _coordinator_check(self._roles),
        ]
        return Readiness(ready=all(check.ok for check in checks), checks=checks)


def _metadata_check(roles: Roles) -> ReadinessCheck:
    offset = roles.image.metadata_offset
    return ReadinessCheck(
        name="metadata",
        ok=offset >= 0,
        detail=f"at offset {offset}" if offset >= 0 else "nothing heard from the controller yet",
    )


async def _storage_check(roles: Roles) -> ReadinessCheck:
    leaders: dict[int, Partition] = {}
    for topic in roles.image.topics.values():
        for one in topic.partitions:
            if one.leader >= 0:
                leaders.setdefault(one.leader, Partition(topic.name, one.partition))
    answers = await roles.describe_partitions(leaders.values())
    failed = [error for error in answers.values() if isinstance(error, KafkaError)]
    return _check("storage", "partition leaders", len(leaders), failed)


async def _coordinator_check(roles: Roles) -> ReadinessCheck:
    # No transaction is named so: the answer is empty and cheap, and still every coordinator gives it.
    failed = (await roles.list_transactions(producer_ids=[2**63 - 1])).failures
    shards = roles.image.shards.items()
    owners = {shard.coordinator for (kind, _), shard in shards if kind == TRANSACTION}
    return _check("coordinator", "coordinators", len(owners), failed)


def _check(name: str, what: str, total: int, failed: Sequence[KafkaError]) -> ReadinessCheck:
    """Return one line of `/ready`. It fails only if none of the roles answered: while some do, the gateway shows what
    they know.
    """
    answered = total - len(failed)
    text = f"{answered} of {total} {what} answered" if failed else f"{total} {what} answered"
    return ReadinessCheck(
        name=name,
        ok=answered > 0 or not failed,
        detail=f"{text}; {failed[0]}" if failed else text,
    )
