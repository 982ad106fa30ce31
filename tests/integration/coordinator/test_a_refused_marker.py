"""One partition refuses a transaction's marker: the others, and the group, are decided all the same."""

from tests.integration.coordinator.group_client import group_on

from oncelog.api.v1 import storage_pb2, types_pb2

REFUSING = ("orders", 1)


async def refused_from_now_on(log, identity, partition):
    """Somebody ended it there with a coordinator epoch that no coordinator has."""
    marker = storage_pb2.TxnMarker(
        producer_id=identity[0],
        producer_epoch=identity[1],
        coordinator_epoch=2**31 - 1,
        partitions=[types_pb2.TopicPartition(topic=partition[0], partition=partition[1])],
    )
    answer = await log.storage.WriteTxnMarkers(storage_pb2.WriteTxnMarkersRequest(markers=[marker]))
    assert answer.results[0].partitions[0].error_code == 0


async def test_a_healthy_group_is_not_held_up(tmp_path):
    async with group_on(tmp_path) as (log, client):
        await log.create_topic("orders", 2)
        identity = await log.identity("pay")
        assert (await log.add("pay", identity, ("orders", 0), REFUSING)).error_code == 0
        assert await log.produce("pay", identity, 0, b"healthy") == 0
        assert await client.add_offsets("pay", identity) == 0
        assert await client.commit_in_transaction("pay", identity, 5) == [0]
        await refused_from_now_on(log, identity, REFUSING)
        assert (await log.end("pay", identity, True)).error_code == 0
        while await client.fetch(require_stable=True) != [(5, 0)]:
            pass
        while [(one.topic, one.partition) for one in (await log.describe("pay")).partitions] != [
            REFUSING
        ]:
            pass
        assert (await log.describe("pay")).state == "PrepareCommit"
        assert await log.offsets() == (2, 2, [])
