"""The leader of a shard's partition freezes, dies or moves. Its coordinator goes on at once where the metadata points,
and not after a deadline or a pause. Pauses are made far longer than the tests.
"""

import asyncio
from contextlib import asynccontextmanager

from tests.contracts.shard_storage import NODE, Cluster, FakeStorage, shards, topic, until

from oncelog.api.v1 import coordinator_pb2
from oncelog.ids import TRANSACTION_STATE_TOPIC
from oncelog.rpc.direct import DirectStub
from oncelog.rpc.directory import LocalDirectory
from oncelog.rpc.metadata import TRANSACTION
from oncelog.rpc.sessions import PeerUnavailable
from oncelog_coordinator.settings import CoordinatorSettings
from oncelog_coordinator.shard_terms import LOADS_MAX
from oncelog_coordinator.wiring import build_coordinator

OTHER = 2
FOREVER_MS = 60_000
PATIENT = {
    "append_timeout_ms": FOREVER_MS,
    "retry_backoff_ms": FOREVER_MS,
    "retry_backoff_max_ms": FOREVER_MS,
    "concurrent_wait_ms": 0,
    "start_timeout_ms": 0,
}


class TwoLeaders(LocalDirectory):
    """The same replicated log behind two storage nodes."""

    def __init__(self, cluster):
        super().__init__(
            storage=None,
            coordinator=None,
            marker_sender=DirectStub(cluster.marker_sender),
            controller=DirectStub(cluster.controller),
        )
        self.nodes = {NODE: cluster.storage, OTHER: FakeStorage()}
        self.nodes[OTHER].logs = cluster.storage.logs

    def storage(self, node_id):
        return DirectStub(self.nodes[node_id])


def lead(cluster, node_id):
    moved = topic(TRANSACTION_STATE_TOPIC, 4, internal=True)
    for partition in moved.partitions:
        partition.leader = node_id
    cluster.change(topics=[moved])


@asynccontextmanager
async def coordinator(cluster):
    settings = CoordinatorSettings(**PATIENT)
    role = build_coordinator(settings, NODE, cluster.metadata, cluster.directory)
    await role.start()
    try:
        yield role
    finally:
        await role.stop()


def init(role):
    request = coordinator_pb2.InitProducerIdRequest(
        transactional_id="pay", transaction_timeout_ms=60_000, producer_id=-1, producer_epoch=-1
    )
    return role.servicer.InitProducerId(request, None)


async def loaded(role):
    await until(lambda: all(term.driver for term in role.shards._terms.values()))


def of_transactions(request):
    """Group shards load beside them, with a bound of their own."""
    return request.partitions[0].topic == TRANSACTION_STATE_TOPIC


async def test_an_append_at_a_frozen_leader_goes_to_the_next_at_once(cluster):
    cluster.directory = directory = TwoLeaders(cluster)
    async with coordinator(cluster) as role:
        await loaded(role)
        cluster.storage.gate = asyncio.Event()
        task = asyncio.create_task(init(role))
        await until(lambda: cluster.storage.append_calls == 1)
        lead(cluster, OTHER)
        assert (await task).error_code == 0
        assert directory.nodes[OTHER].append_calls == 1
        log = next(log for (name, _), log in cluster.storage.logs.items() if log.end)
        assert log.end == 1


async def test_an_append_at_a_dead_leader_waits_for_the_news(cluster):
    cluster.directory = TwoLeaders(cluster)
    async with coordinator(cluster) as role:
        await loaded(role)

        async def dead(request, context=None):
            cluster.storage.append_calls += 1
            raise PeerUnavailable("gone")

        cluster.storage.Append = dead
        task = asyncio.create_task(init(role))
        await until(lambda: cluster.storage.append_calls == 1)
        lead(cluster, OTHER)
        assert (await task).error_code == 0


async def test_a_load_from_a_frozen_leader_starts_again_at_the_next(cluster):
    cluster.directory = TwoLeaders(cluster)
    fetches = []

    async def frozen(request, context=None):
        if of_transactions(request):
            fetches.append(request)
        await asyncio.Event().wait()

    cluster.storage.Fetch = frozen
    async with coordinator(cluster) as role:
        await until(lambda: len(fetches) == 4)
        assert (await init(role)).error_code == 14
        lead(cluster, OTHER)
        await loaded(role)
        assert (await init(role)).error_code == 0


async def test_shards_load_in_parallel_but_bounded():
    cluster = Cluster(shard_count=50)
    at_once, most, gate = 0, 0, asyncio.Event()
    fetch = cluster.storage.Fetch

    async def slow(request, context=None):
        nonlocal at_once, most
        if not of_transactions(request):
            return await fetch(request)
        at_once += 1
        most = max(most, at_once)
        await gate.wait()
        at_once -= 1
        return await fetch(request)

    cluster.storage.Fetch = slow
    async with coordinator(cluster) as role:
        await until(lambda: at_once == LOADS_MAX)
        gate.set()
        await loaded(role)
        assert most == LOADS_MAX


async def test_a_shard_that_moves_away_tells_who_waits(cluster):
    cluster.directory = TwoLeaders(cluster)
    async with coordinator(cluster) as role:
        await loaded(role)
        cluster.storage.gate = asyncio.Event()
        task = asyncio.create_task(init(role))
        await until(lambda: cluster.storage.append_calls == 1)
        cluster.change(shards=shards(coordinator=OTHER, coordinator_epoch=1))
        assert (await task).error_code == 16
        assert (await init(role)).error_code == 16
        assert cluster.metadata.image.shards[TRANSACTION, 0].coordinator == OTHER
        cluster.storage.gate.set()
