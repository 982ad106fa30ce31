"""A partition whose folder is another topic's, or was set aside: offline until somebody says so, or copied again."""

import asyncio
import shutil

import pytest
from tests.integration.storage.replica_cluster import TOPIC, batch, differences, running_cluster
from tests.integration.storage.storage_node import running, topic, until

from oncelog.errors import ErrorCode
from oncelog_server.cli import run

ORDERS, OTHER = topic("orders", topic_id=b"1" * 16), topic("other", topic_id=b"2" * 16)


async def filled(path):
    async with running(path, ORDERS, OTHER) as node:
        for name in ("orders", "other"):
            assert (await node.produce(name, batch(3))).error_code == 0


def strays(path):
    return sorted(path.glob("*-stray"))


def told(caplog):
    lines = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    caplog.clear()
    return lines


async def code_of(path, name, *topics):
    """What a producer gets."""
    async with running(path, *topics) as node:
        return (await node.produce(name, batch())).error_code


async def test_another_topics_folder_is_no_folder_of_this_one(tmp_path, caplog):
    await filled(tmp_path)
    shutil.rmtree(tmp_path / "orders-0")
    shutil.copytree(tmp_path / "other-0", tmp_path / "orders-0")
    for _ in range(2):
        assert await code_of(tmp_path, "orders", ORDERS, OTHER) == ErrorCode.KAFKA_STORAGE_ERROR
        (line,) = told(caplog)
        assert "orders-0 is gone with its records up to 2" in line
        assert "oncelog storage repair" in line
    assert await code_of(tmp_path, "other", ORDERS, OTHER) == 0
    assert len(strays(tmp_path)) == 1
    # Somebody says so.
    accept = ["storage", "repair", str(tmp_path), "--accept-loss", "--yes"]
    assert await asyncio.to_thread(run, accept) == 0
    assert await code_of(tmp_path, "orders", ORDERS, OTHER) == 0


@pytest.mark.parametrize("ends", ["renamed back", "removed"])
async def test_a_topic_whose_folder_was_set_aside_is_missed(tmp_path, caplog, ends):
    """By a start whose metadata did not know it."""
    await filled(tmp_path)
    assert await code_of(tmp_path, "other", OTHER) == 0
    (aside,) = strays(tmp_path)
    told(caplog)
    for _ in range(2):
        assert await code_of(tmp_path, "orders", ORDERS, OTHER) == ErrorCode.KAFKA_STORAGE_ERROR
        (line,) = told(caplog)
        assert f"was set aside as {aside}" in line
    if ends == "removed":
        shutil.rmtree(aside)
    else:
        aside.rename(tmp_path / "orders-0")
    async with running(tmp_path, ORDERS, OTHER) as node:
        answer = await node.produce("orders", batch())
        assert (answer.error_code, answer.base_offset) == (0, 0 if ends == "removed" else 3)


async def test_folders_that_changed_places_are_served_to_nobody(tmp_path):
    await filled(tmp_path)
    (tmp_path / "orders-0").rename(tmp_path / "between")
    (tmp_path / "other-0").rename(tmp_path / "orders-0")
    (tmp_path / "between").rename(tmp_path / "other-0")
    async with running(tmp_path, ORDERS, OTHER) as node:
        for name in ("orders", "other"):
            answer = await node.produce(name, batch())
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR


async def test_partitions_that_changed_places_are_served_to_nobody(tmp_path, caplog):
    """They have the same topic id."""
    two = topic("orders", 2)
    async with running(tmp_path, two) as node:
        for partition in (0, 1):
            await node.produce("orders", batch(3 + partition), partition=partition)
    (tmp_path / "orders-0").rename(tmp_path / "between")
    (tmp_path / "orders-1").rename(tmp_path / "orders-0")
    (tmp_path / "between").rename(tmp_path / "orders-1")
    async with running(tmp_path, two) as node:
        for partition in (0, 1):
            answer = await node.produce("orders", batch(), partition=partition)
            assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "orders-0 holds partition 1 of topic id" in told(caplog)[0]


async def test_a_healthy_copy_serves_what_was_set_aside_here(tmp_path):
    async with running_cluster(tmp_path, replica_lag_time_max_ms=400) as cluster:
        cluster.controller.topic(min_insync_replicas=2)
        cluster.controller.topic("other", topic_id=b"o" * 16)
        await cluster.fill(10, batch(3))
        await cluster.caught_up()
        starts = tmp_path / "1" / "log-start-offset-checkpoint"
        await until(lambda: starts.exists() and f"{TOPIC} 0 0" in starts.read_text())
        await cluster.kill(1)
        metadata = tmp_path / "1" / f"{TOPIC}-0" / "partition.metadata"
        metadata.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n")
        await cluster.start(1)
        await until(lambda: sorted(cluster.isr()) == [1, 2, 3], 30)
        await cluster.caught_up()
        assert differences(cluster) == {}
        assert len(strays(tmp_path / "1")) == 1
