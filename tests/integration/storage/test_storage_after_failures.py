"""Faults met between two steps: what was promised holds, and what is only a passing shortage passes."""

import asyncio
import errno
import os
import resource
import shutil
import threading
import time

import pytest
from tests.integration.storage.partition_log_at import (
    append,
    checkpoint,
    everything,
    new_log,
    opened,
)
from tests.integration.storage.storage_node import batch, running, topic, txn_batch, until

from oncelog.api.v1 import storage_pb2
from oncelog.ids import Partition
from oncelog_storage import log_checkpoint
from oncelog_storage.core.checkpoint_files import decode_checkpoint
from oncelog_storage.files import PassingShortage, StorageFailed


async def test_retention_keeps_what_no_producer_snapshot_has_seen(tmp_path):
    """Else a marker deleted between two checkpoints leaves its transaction open for ever after a kill."""
    orders = topic("orders", segment_bytes=1400, retention_bytes=1400)

    async with running(tmp_path / "node", orders) as node:
        await node.produce("orders", txn_batch(9, 0), transactional_id="pay")
    settings = {"checkpoint_interval_ms": 3_600_000}
    async with running(tmp_path / "node", orders, **settings) as node:
        await node.mark("orders", (9, 0, True))
        await node.fill("orders", 60, batch())
        await node.role.maintenance.enforce_retention()
        assert (await node.describe("orders")).log_start_offset > 2
        shutil.copytree(tmp_path / "node", tmp_path / "killed")
    async with running(tmp_path / "killed", orders) as node:
        found = await node.describe("orders")
        assert (found.last_stable_offset, found.open_transaction_count) == (62, 0)


async def test_deletions_at_the_same_time_all_last(tmp_path):
    async with running(tmp_path, topic("orders", 20)) as node:

        async def delete(partition):
            await node.produce("orders", batch(3), partition=partition)
            wanted = storage_pb2.DeleteRecordsRequest.Partition(
                topic="orders", partition=partition, before_offset=2
            )
            request = storage_pb2.DeleteRecordsRequest(partitions=[wanted])
            return (await node.storage.DeleteRecords(request, None)).partitions[0]

        answers = await asyncio.gather(*(delete(partition) for partition in range(20)))
        assert [answer.error_code for answer in answers] == [0] * 20
        starts = decode_checkpoint((tmp_path / "log-start-offset-checkpoint").read_text())
        assert starts == {Partition("orders", partition): 2 for partition in range(20)}


async def test_a_checkpoint_whose_sync_failed_is_not_tried_again(tmp_path):
    """The system reports a failed write-back once: the next sync would succeed without the lost pages."""
    failures = [OSError(errno.EIO, "Input/output error")]

    def sync(paths):
        if paths and failures:
            raise failures.pop()
        log_checkpoint.sync_logs(paths)

    async with running(tmp_path, topic("orders"), sync=sync, checkpoint_bytes=1024) as node:
        await node.produce("orders", batch(value=bytes(2000)))
        await until(lambda: not failures)
        while (await node.fetch("orders", 0)).error_code == 0:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        assert (await node.fetch("orders", 0)).error_code == 56
    assert not (tmp_path / "recovery-point-offset-checkpoint").exists()


@pytest.mark.parametrize("begins_before_the_failure", [False, True])
async def test_a_checkpoint_after_a_failed_flush_does_not_count(
    tmp_path, begins_before_the_failure
):
    """The failed sync dropped the pages; the checkpoint's own succeeds because nothing is left to write."""
    has_failed, has_begun = threading.Event(), threading.Event()

    def sync(paths):
        if threading.current_thread().name.startswith("storage-sync"):
            assert not begins_before_the_failure or has_begun.wait(30)
            has_failed.set()
            raise OSError(errno.EIO, "Input/output error")
        has_begun.set()
        assert has_failed.wait(30)
        log_checkpoint.sync_logs(paths)

    async with running(tmp_path, topic("orders"), sync=sync, flush_policy="always") as node:
        worker_is_busy = node.role.maintenance._in_worker(
            lambda: begins_before_the_failure or has_failed.wait(30)
        )
        producing = asyncio.create_task(node.produce("orders", batch()))
        occupied = asyncio.create_task(worker_is_busy)
        await asyncio.sleep(0)
        await asyncio.gather(node.role.maintenance.checkpoint_all(), occupied)
        assert (await producing).error_code == 56
    assert recovery_points(tmp_path) == {}


def recovery_points(path):
    try:
        return decode_checkpoint((path / "recovery-point-offset-checkpoint").read_text())
    except FileNotFoundError:
        return {}


async def test_running_out_of_descriptors_takes_nothing_offline(tmp_path):
    orders = topic("orders", segment_bytes=1400)
    async with running(tmp_path, orders) as node:
        await node.fill("orders", 60, batch())
    async with running(tmp_path, orders) as node:
        with no_descriptors_left():
            short = await node.fetch("orders", 0, committed=True)
        assert short.error_code == 56
        assert (await node.fetch("orders", 0, committed=True)).error_code == 0


class no_descriptors_left:  # noqa: N801
    """Inside, this process can open no file."""

    def __enter__(self):
        self.limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        in_use = max(int(name) for name in os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (in_use + 4, self.limits[1]))
        self.held = []
        while True:
            try:
                self.held.append(os.open(os.devnull, os.O_RDONLY))
            except OSError:
                return

    def __exit__(self, *_):
        for descriptor in self.held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, self.limits)


def test_leftovers_of_a_failed_write_are_cut_after_a_roll_too(tmp_path, monkeypatch):
    log = new_log(tmp_path / "orders-0", segment_bytes=200)
    append(log, batch())
    size = log.segments[0].size_bytes

    def write_half(descriptor, buffers, position):
        os.pwrite(descriptor, b"".join(buffers)[:30], position)
        raise OSError(errno.ENOSPC, "No space left on device")

    def refuse(*_):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken_disk:
        broken_disk.setattr(os, "pwritev", write_half)
        broken_disk.setattr(os, "ftruncate", refuse)
        with pytest.raises(StorageFailed, match=r"No space left"):
            append(log, batch())
    append(log, batch(value=bytes(150)))
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    assert os.path.getsize(log.segments[0].log_path) == size
    recovery_point = checkpoint(log)
    found = opened(tmp_path / "orders-0", recovery_point, segment_bytes=200)
    assert everything(found) == everything(log)


async def test_flush_policy_always_makes_new_names_durable_too(tmp_path, monkeypatch):
    """A synced file whose name is lost in a power cut is lost."""
    synced = []
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, watched(getattr(os, name), synced))
    orders = topic("orders", segment_bytes=200)
    async with running(tmp_path, orders, flush_policy="always") as node:
        synced.clear()
        await node.produce("orders", batch())
        assert {str(tmp_path), str(tmp_path / "orders-0")} <= set(synced)
        synced.clear()
        await node.produce("orders", batch())
        # Not the node's folder: the checkpoint of every few seconds has a new name in it.
        assert str(tmp_path / "orders-0") not in synced
        await node.produce("orders", batch(value=bytes(200)))
        assert str(tmp_path / "orders-0") in synced


async def test_what_a_killed_process_left_is_synced_first(tmp_path, monkeypatch):
    """A follower's next fetch tells its end, and the leader takes that for kept: a power cut may follow the kill."""
    synced = []

    orders = topic("orders", 20)
    async with running(tmp_path / "node", orders) as node:
        for partition in range(20):
            await node.produce("orders", batch(), partition=partition)
        shutil.copytree(tmp_path / "node", tmp_path / "killed")
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, watched(getattr(os, name), synced))
    folders = [tmp_path / "killed" / f"orders-{partition}" for partition in range(20)]
    logs = [folder / "00000000000000000000.log" for folder in folders]
    async with running(tmp_path / "killed", orders, flush_policy="always"):
        assert set(map(str, [*logs, *folders])) <= set(synced)
        # Once, not once for each partition.
        assert synced.count(str(tmp_path / "killed")) == 1
    synced.clear()
    async with running(tmp_path / "killed", orders, flush_policy="always"):
        assert not set(map(str, logs)) & set(synced)


def test_a_start_without_descriptors_says_so_and_trusts_nothing(tmp_path):
    """The disk is well. What is not synced may be told to nobody, even though the shortage passes."""
    log = new_log(tmp_path / "orders-0")
    append(log, batch())
    with no_descriptors_left():
        failures = log_checkpoint.sync_recovered(tmp_path, [log])
        with pytest.raises(
            StorageFailed, match=r"cannot open .* limit of open files \(ulimit -n\)"
        ):
            opened(tmp_path / "orders-0", 0)
    assert list(failures) == [log.partition]
    assert "limit of open files (ulimit -n), then restart" in str(failures[log.partition])
    assert "disk" not in str(failures[log.partition])
    assert not isinstance(failures[log.partition], PassingShortage)
    assert log.flushed_offset == 0
    assert log_checkpoint.sync_recovered(tmp_path, [log]) == {}
    assert log.flushed_offset == 1


async def test_a_stop_does_not_wait_for_a_slow_disk_for_ever(tmp_path, caplog):
    """The process manager would kill it. So it gives up in time, logs what, and the next start finds all of it."""
    is_slow = False

    def sync(paths):
        if is_slow:
            time.sleep(0.1)
        log_checkpoint.sync_logs(paths)

    orders = topic("orders", 20)
    async with running(tmp_path, orders, sync=sync, stop_timeout_ms=250) as node:
        for partition in range(20):
            await node.produce("orders", batch(), partition=partition)
        is_slow = True
    is_slow = False
    assert "of 20 partitions are not checkpointed" in caplog.text
    async with running(tmp_path, orders) as node:
        for partition in range(20):
            assert (await node.describe("orders", partition)).log_end_offset == 1


def watched(sync, synced):
    def watching(descriptor):
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        return sync(descriptor)

    return watching


async def test_a_succeeded_coordinator_cannot_load_its_shard_again(tmp_path):
    """It would go on to verify partitions of transactions that its successor has ended."""
    name = "__transaction_state"

    async with running(tmp_path) as node:
        await node.append(name, batch(), coordinator_epoch=4)
        loading = {"read_to_log_end": True}
        assert (await node.fetch(name, 0, coordinator_epoch=4, **loading)).error_code == 0
        old = await node.fetch(name, 0, coordinator_epoch=3, **loading)
        assert (old.error_code, old.records) == (52, b"")
