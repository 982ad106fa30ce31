"""Transactions over the real controller, storage node, marker sender and coordinator."""

import asyncio

import pytest
from tests.integration.coordinator.whole_log import whole_log

from oncelog.api.v1 import marker_sender_pb2
from oncelog.ids import TRANSACTION_STATE_TOPIC


class StuckMarkerSender:
    """Never delivers."""

    async def DeliverMarkers(self, request, context):  # noqa: N802
        await asyncio.Event().wait()

    async def CancelShard(self, request, context):  # noqa: N802
        return marker_sender_pb2.CancelShardResponse()


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("commit", [True, False])
async def test_the_lso_waits_for_the_decision_and_passes_the_marker(tmp_path, version, commit):
    async with whole_log(tmp_path) as log:
        identity = await log.identity("pay")
        if version == 0:
            assert (await log.add("pay", identity, ("orders", 0))).error_code == 0
        assert await log.produce("pay", identity, 0, b"one", version) == 0
        assert await log.produce("pay", identity, 1, b"two", version) == 0
        assert await log.offsets() == (0, 2, [])
        assert await log.state("pay") == "Ongoing"
        ended = await log.end("pay", identity, commit, version)
        assert ended.error_code == 0
        await log.until_state("pay", "CompleteCommit" if commit else "CompleteAbort")
        assert await log.offsets() == (3, 3, [] if commit else [identity[0]])


async def test_a_tv1_producer_must_add_its_partition(tmp_path):
    async with whole_log(tmp_path) as log:
        identity = await log.identity("pay")
        assert await log.produce("pay", identity, 0, b"one") == 48
        assert await log.offsets() == (0, 0, [])


async def test_a_zombie_is_refused_by_coordinator_and_leader(tmp_path):
    async with whole_log(tmp_path) as log:
        zombie = await log.identity("pay")
        await log.add("pay", zombie, ("orders", 0))
        assert await log.produce("pay", zombie, 0, b"old") == 0
        fresh = await log.identity("pay")
        assert fresh == (zombie[0], zombie[1] + 2)
        assert await log.produce("pay", zombie, 1, b"late") == 47
        assert (await log.end("pay", zombie, True)).error_code == 90
        assert await log.offsets() == (2, 2, [zombie[0]])


async def test_a_deposed_coordinator_fences_nobody(tmp_path):
    """The next one has loaded the shard and given the producer its next epoch; this one does not know yet."""
    async with whole_log(tmp_path) as log:
        producer_id, epoch = await log.identity("pay")
        following = (producer_id, epoch + 1)
        assert (await log.add("pay", following, ("orders", 0))).error_code == 90
        assert (await log.end("pay", following, True, 2)).error_code == 90
        await log.load_as_another_coordinator("pay")
        assert (await log.client.add(following, ("orders", 0), name="pay")).error_code == 16
        assert (await log.client.end(following, True, "pay", 2)).error_code == 16
        assert await log.produce("pay", following, 0, b"one", 2) == 19


async def test_an_abandoned_transaction_frees_its_readers(tmp_path):
    async with whole_log(tmp_path) as log:
        identity = await log.identity("pay", timeout_ms=100)
        assert await log.produce("pay", identity, 0, b"one", 2) == 0
        await log.until_state("pay", "CompleteAbort")
        assert await log.offsets() == (2, 2, [identity[0]])


@pytest.mark.parametrize("version", [0, 2])
async def test_a_decision_survives_a_restart_and_its_markers_follow(tmp_path, version):
    async with whole_log(tmp_path, marker_sender=StuckMarkerSender()) as log:
        identity = await log.identity("pay")
        await log.add("pay", identity, ("orders", 0), version=version)
        assert await log.produce("pay", identity, 0, b"one", version) == 0
        assert (await log.end("pay", identity, True, version)).error_code == 0
        assert await log.offsets() == (0, 1, [])
    async with whole_log(tmp_path) as log:
        await log.until_state("pay", "CompleteCommit")
        assert await log.offsets() == (2, 2, [])
        assert (await log.end("pay", identity, True, version)).error_code == 0


async def test_an_open_transaction_survives_a_restart(tmp_path):
    async with whole_log(tmp_path) as log:
        identity = await log.identity("pay")
        await log.add("pay", identity, ("orders", 0))
        assert await log.produce("pay", identity, 0, b"one") == 0
    async with whole_log(tmp_path) as log:
        assert await log.state("pay") == "Ongoing"
        assert await log.produce("pay", identity, 1, b"two") == 0
        assert (await log.end("pay", identity, True)).error_code == 0
        await log.until_state("pay", "CompleteCommit")
        assert await log.offsets() == (3, 3, [])


async def test_every_shard_is_loaded_and_idle_ones_write_nothing(tmp_path):
    async with whole_log(tmp_path) as log:
        terms = log.role.shards._terms
        assert len(terms) == 50
        assert all(term.driver is not None for term in terms.values())
        used = await log.identity("pay")
        assert used == (0, 0)
        end_of = {}
        for shard in range(50):
            end_of[shard] = (await log.offsets((TRANSACTION_STATE_TOPIC, shard)))[1]
        assert sum(end_of.values()) == 1
