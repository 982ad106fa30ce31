"""With flush_policy=always a follower's fetch offset says what is on its disk, however slow that is."""

import asyncio
import threading

from tests.integration.storage.replica_cluster import batch, running_cluster
from tests.integration.storage.storage_node import until

from oncelog_storage import follower
from oncelog_storage.log_checkpoint import sync_logs
from oncelog_storage.settings import FlushPolicy


class StuckDisk:
    """Syncs of this node wait until it is mended."""

    def __init__(self, node):
        self.is_mended = threading.Event()
        node.role.maintenance._sync = self._sync

    def _sync(self, paths):
        self.is_mended.wait(20)
        sync_logs(paths)


async def test_a_sync_that_takes_too_long_is_not_taken_for_done(tmp_path, monkeypatch):
    monkeypatch.setattr(follower, "_COMMIT_TIMEOUT_S", 0.05)

    async with running_cluster(tmp_path, nodes=(1, 2), flush_policy=FlushPolicy.ALWAYS) as cluster:
        cluster.controller.topic(replicas=(1, 2))
        assert (await cluster.produce(batch())).error_code == 0
        disk = StuckDisk(cluster.nodes[2])
        sent = asyncio.create_task(cluster.produce(batch()))
        try:
            copy = cluster.nodes[2].held()
            await until(lambda: copy.log.log_end_offset == 2)
            await asyncio.sleep(0.5)
            assert cluster.leader().held().high_watermark == 1
            assert not sent.done()
        finally:
            disk.is_mended.set()
        assert (await sent).error_code == 0


async def test_nor_is_one_that_is_under_way_when_another_leads(tmp_path):
    async with running_cluster(tmp_path, flush_policy=FlushPolicy.ALWAYS) as cluster:
        cluster.controller.topic()
        assert (await cluster.produce(batch())).error_code == 0
        disk = StuckDisk(cluster.nodes[3])
        try:
            sent = asyncio.create_task(cluster.produce(batch()))
            copies = [cluster.nodes[node].held() for node in (2, 3)]
            await until(lambda: all(copy.log.log_end_offset == 2 for copy in copies))
            await until(lambda: copies[0].local_end == 2)
            await cluster.kill(1)
            await asyncio.gather(sent, return_exceptions=True)
            assert cluster.controller.partition().leader == 2
            await asyncio.sleep(0.5)
            assert copies[0].high_watermark < 2
        finally:
            disk.is_mended.set()
        await until(lambda: copies[0].high_watermark == 2)


async def test_a_replica_that_begins_behind_its_end_waits_for_no_sync(tmp_path):
    """The leader's records are all deleted, so there is nothing that the follower could write."""
    async with running_cluster(tmp_path, nodes=(1, 2)) as cluster:
        cluster.controller.topic(replicas=(1,))
        assert (await cluster.produce(batch(5))).error_code == 0
        await cluster.delete_records(5, timeout_ms=0)
        cluster.controller.change(replicas=[1, 2])
        await until(lambda: cluster.isr() == [1, 2])
        copy = cluster.nodes[2].held()
        assert (copy.log.log_start_offset, copy.log.log_end_offset) == (5, 5)
        assert (await cluster.produce(batch(), timeout_ms=2000)).error_code == 0
