"""A request has markers for many partitions: it takes one round of replication, not one for each."""

import asyncio

from tests.integration.storage.storage_node import running, topic, txn_batch

from oncelog.api.v1 import storage_pb2

REPLICATED = {"replicas": (1, 2), "isr": (1, 2)}
PARTITIONS = 3
DEADLINE_S = 60


def request():
    made = storage_pb2.WriteTxnMarkersRequest()
    marker = made.markers.add(producer_id=9, producer_epoch=1, commit=True, transaction_version=2)
    for partition in range(PARTITIONS):
        marker.partitions.add(topic="orders", partition=partition)
    return made


async def test_all_are_written_before_the_first_is_committed(tmp_path):
    async with running(tmp_path, topic("orders", PARTITIONS, **REPLICATED)) as node:
        for partition in range(PARTITIONS):
            answer = await node.produce(
                "orders", txn_batch(9, 0), partition, acks=1, transactional_id="pay", mode=0
            )
            assert answer.error_code == 0
        writing = asyncio.create_task(node.storage.WriteTxnMarkers(request(), None))

        async def ends():
            return [
                (await node.describe("orders", each)).log_end_offset for each in range(PARTITIONS)
            ]

        async with asyncio.timeout(DEADLINE_S):
            # No condition: nobody tells that a log has grown.
            while await ends() != [2] * PARTITIONS:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert not writing.done()
        # The other replica is out: what stands here is committed.
        node.delta(topics=[topic("orders", PARTITIONS, replicas=(1, 2), isr=(1,), leader_epoch=0)])
        answer = await writing
        assert [one.error_code for one in answer.results[0].partitions] == [0] * PARTITIONS
