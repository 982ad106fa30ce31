"""Producer ids come from blocks: fetched ahead, never repeated, and never from an impossible block."""

import asyncio
from dataclasses import replace

import pytest
from tests.contracts.shard_storage import Cluster
from tests.integration.coordinator.transaction_client import SHARD_OF_PAY, identity_of, started

from oncelog.errors import ErrorCode


class TestProducerIds:
    async def test_blocks_are_fetched_ahead_and_ids_never_repeat(self):
        cluster = Cluster(block_size=10)
        async with started(cluster) as client:
            seen = []
            for _ in range(100):
                answer = await client.init(None)
                if answer.error_code == 0:
                    seen.append(answer.producer_id)
                await asyncio.sleep(0)
            assert len(seen) == len(set(seen))
            assert len(seen) >= 90
            assert cluster.controller.calls <= 12

    async def test_without_a_block_clients_wait_and_calls_are_few(self, cluster):
        cluster.controller.faults.extend([ErrorCode.NOT_CONTROLLER] * 3)
        async with started(cluster, start_timeout_ms=1) as client:
            assert (await client.init(None)).error_code == 14
            assert (await client.init()).error_code == 14
            async with asyncio.timeout(30):
                while (await client.init()).error_code == 14:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert cluster.controller.calls == 4

    @pytest.mark.parametrize("block", [(-5, 10), (5, 0), (5, -1), (2**63 - 5, 10), (0, 10)])
    async def test_an_impossible_block_is_not_used(self, block):
        cluster = Cluster(block_size=10)
        async with started(cluster) as client:
            first = identity_of(await client.init(None))[0]
            cluster.controller.faults.append(block)
            seen = [first]
            async with asyncio.timeout(30):
                while len(seen) < 15:
                    answer = await client.init(None)
                    if answer.error_code == 0:
                        seen.append(answer.producer_id)
                    else:
                        await asyncio.sleep(0.005)
            assert seen == list(range(15))

    async def test_exhausted_epochs_take_the_next_id_from_the_block(self):
        async with started(Cluster()) as client:
            identity = identity_of(await client.init())
            driver = client.role.shards._terms[SHARD_OF_PAY].driver
            txns = driver.machine.txn._txns
            txns["pay"] = replace(txns["pay"], producer_epoch=32_766)
            exhausted = (identity[0], 32_766)
            await client.add(exhausted, version=2)
            ended = await client.end(exhausted, version=2)
            assert (ended.error_code, ended.producer_epoch) == (0, 0)
            assert ended.producer_id > identity[0]
            await client.until_state("CompleteCommit")
            assert (await client.add((ended.producer_id, 0), version=2)).error_code == 0
