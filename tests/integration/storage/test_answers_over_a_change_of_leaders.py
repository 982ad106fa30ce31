"""What was asked of one leader, and is answered when another one leads or has led: nothing of that is believed."""

import asyncio

import pytest
from tests.integration.storage.replica_cluster import batch, running_cluster
from tests.integration.storage.storage_node import until

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_batch_that_another_leader_dropped_is_not_acknowledged_with_its_neighbours(
    tmp_path, comes_back
):
    """The answer of a request waits for one partition after the other. By the time it comes to the second one the
    offset there is taken by another leader's record, and committed."""

    async def scenario():
        async with running_cluster(tmp_path) as cluster:
            cluster.controller.topic("slow", replicas=(1, 3))
            cluster.controller.topic("moved", replicas=(1, 2))
            cluster.cut_off.update((2, 3))
            request = pb.ProduceRequest(
                acks=-1,
                timeout_ms=5000,
                partitions=[
                    pb.PartitionRecords(topic=name, partition=0, records=batch(value=b"mine"))
                    for name in ("slow", "moved")
                ],
            )
            sent = asyncio.create_task(cluster.nodes[1].storage.Produce(request, None))
            held = cluster.nodes[1].held("moved")
            await until(lambda: held.log.log_end_offset == 1)
            cluster.controller.change("moved", leader=2)
            cluster.cut_off.discard(2)
            assert (await cluster.produce(batch(value=b"theirs"), "moved")).base_offset == 0
            await cluster.caught_up("moved")
            if comes_back:
                cluster.controller.change("moved", leader=1)
                await cluster.caught_up("moved")
            cluster.cut_off.discard(3)
            slow, moved = (await sent).partitions
            assert slow.error_code == 0
            assert b"mine" not in held.log.read(0, 1, 1 << 20).records
            assert moved.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER

    asyncio.run(scenario())
