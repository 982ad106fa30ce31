"""An operator's abort marker for a group's shard, with what the partition's leader showed of the transaction."""

from tests.integration.coordinator.group_client import group_on

from oncelog.api.v1 import storage_pb2, types_pb2
from oncelog.errors import ErrorCode


async def seen_at_the_leader(log, partition):
    request = storage_pb2.DescribeProducersRequest(partitions=[partition])
    (answer,) = (await log.storage.DescribeProducers(request)).partitions
    (opened,) = (one for one in answer.producers if one.current_txn_start_offset >= 0)
    return opened


async def test_a_group_shard_ends_only_what_its_leader_showed(tmp_path):
    async with group_on(tmp_path) as (log, client):
        partition = types_pb2.TopicPartition(topic="__consumer_offsets", partition=client.shard)
        identity = await log.identity("pay")
        assert await client.add_offsets("pay", identity) == 0
        assert await client.commit_in_transaction("pay", identity, 5) == [0]
        seen = await seen_at_the_leader(log, partition)

        async def abort():
            marker = storage_pb2.TxnMarker(
                producer_id=seen.producer_id,
                producer_epoch=seen.producer_epoch,
                coordinator_epoch=max(seen.coordinator_epoch, 0),
                partitions=[partition],
                seen=storage_pb2.SeenTransaction(
                    start_offset=seen.current_txn_start_offset, last_offset=seen.last_offset
                ),
            )
            request = storage_pb2.WriteTxnMarkersRequest(markers=[marker])
            answer = await client.groups.WriteTxnMarkers(request, None)
            return answer.results[0].partitions[0].error_code

        assert (await log.end("pay", identity, True)).error_code == 0
        await log.until_state("pay", "CompleteCommit")
        assert await client.add_offsets("pay", identity) == 0
        assert await client.commit_in_transaction("pay", identity, 7) == [0]
        assert await abort() == ErrorCode.INVALID_TXN_STATE
        seen = await seen_at_the_leader(log, partition)
        assert await client.commit_in_transaction("pay", identity, 8) == [0]
        assert await abort() == ErrorCode.INVALID_TXN_STATE
        seen = await seen_at_the_leader(log, partition)
        assert await abort() == 0
        assert await client.fetch(require_stable=True) == [(5, 0)]
