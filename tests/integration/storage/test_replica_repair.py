"""A replica whose files are damaged finds it by CRC, leaves the ISR, and is whole again from its leader."""

import shutil

import pytest
from tests.integration.storage.partition_log_at import flip
from tests.integration.storage.replica_cluster import TOPIC, batch, differences, running_cluster
from tests.integration.storage.storage_node import until

from oncelog.errors import ErrorCode
from oncelog_storage.core.scrubbing import places

FAST = {"replica_lag_time_max_ms": 400}


async def fill(cluster, count=40):
    await cluster.fill(count, batch(3, value=b"v" * 50))
    await cluster.caught_up()


def segments(tmp_path, node):
    return sorted((tmp_path / str(node) / f"{TOPIC}-0").glob("*.log"))


async def whole_again(cluster, node):
    await until(lambda: cluster.nodes[node].role.replication.repair_count == 1, 30)
    await until(lambda: sorted(cluster.isr()) == [1, 2, 3], 30)
    await cluster.caught_up()
    assert differences(cluster) == {}


@pytest.mark.parametrize("place", [100, 12], ids=["content", "leader epoch"])
async def test_a_follower_found_damaged_by_the_scrub_is_copied_again(tmp_path, place):
    """The CRC covers the content; the leader epoch is held against the checkpoint."""
    async with running_cluster(tmp_path, **FAST) as cluster:
        cluster.controller.topic(segment_bytes=1024, min_insync_replicas=2)
        await fill(cluster)
        flip(segments(tmp_path, 3)[1], place)
        await cluster.nodes[3].role.replication.scrub_all(1 << 30)
        assert cluster.nodes[3].held().offline is not None
        await whole_again(cluster, 3)


async def test_a_sound_replica_is_not_found_damaged(tmp_path):
    async with running_cluster(tmp_path, **FAST) as cluster:
        cluster.controller.topic(segment_bytes=1024)
        await fill(cluster)
        for node in cluster.nodes.values():
            assert places([(node.held(), node.held().log.segments)])
            await node.role.replication.scrub_all(1 << 30)
            assert node.held().offline is None


async def test_a_leader_that_reads_damage_hands_over_and_is_copied(tmp_path):
    async with running_cluster(tmp_path, **FAST) as cluster:
        cluster.controller.topic(segment_bytes=1024, min_insync_replicas=2)
        await fill(cluster)
        flip(segments(tmp_path, 1)[0], 100)
        answer = await cluster.leader().fetch(TOPIC, 0)
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await until(lambda: cluster.controller.partition().leader != 1, 30)
        assert (await cluster.produce(batch())).error_code == 0
        await whole_again(cluster, 1)


async def test_the_last_copy_is_not_dropped(tmp_path):
    # Not so fast: on a busy machine replicas would leave and come back by themselves, the last time behind the cut.
    async with running_cluster(tmp_path, replica_lag_time_max_ms=2_000) as cluster:
        cluster.controller.topic(segment_bytes=1024)
        await fill(cluster)
        await until(lambda: sorted(cluster.isr()) == [1, 2, 3], 30)
        cluster.cut_off.update((2, 3))
        await until(lambda: cluster.isr() == [1], 30)
        flip(segments(tmp_path, 1)[1], 100)
        await cluster.nodes[1].role.replication.scrub_all(1 << 30)
        held = cluster.nodes[1].held()
        assert held.offline is not None
        cluster.nodes[1].role.replication.look()
        assert (cluster.isr(), held.log.log_end_offset) == ([1], 120)


async def test_a_damaged_leader_without_a_successor_asks_once(tmp_path, caplog):
    """Refused, it asked again every second."""
    async with running_cluster(tmp_path, **FAST) as cluster:
        cluster.controller.topic(segment_bytes=1024)
        await fill(cluster)
        cluster.controller.refuses = [ErrorCode.INVALID_REQUEST] * 100
        flip(segments(tmp_path, 1)[1], 100)
        replication = cluster.nodes[1].role.replication
        await replication.scrub_all(1 << 30)
        held = cluster.nodes[1].held()
        for _ in range(5):
            replication.look()
            await until(lambda: held.replicas.pending is None)
        assert [node for node, _ in cluster.controller.proposals].count(1) == 1
        # The metadata moves on: another try, refused, and no more.
        cluster.controller.register(9)
        for _ in range(5):
            replication.look()
            await until(lambda: held.replicas.pending is None)
        assert [node for node, _ in cluster.controller.proposals].count(1) == 2
        assert "stays offline: it is damaged here" in caplog.text
        cluster.controller.refuses.clear()
        cluster.controller.register(9)
        await whole_again(cluster, 1)


@pytest.mark.parametrize("role", ["leader", "follower"])
@pytest.mark.parametrize("how", ["flipped", "removed", "folder removed", "cut"])
async def test_a_replica_damaged_while_killed_is_copied_from_others(tmp_path, how, role):
    """Before the first checkpoint everything is behind the recovery point; a start may cut none of it."""
    node_id = 1 if role == "leader" else 3

    async with running_cluster(tmp_path, **FAST) as cluster:
        cluster.controller.topic(segment_bytes=1024, min_insync_replicas=2)
        await fill(cluster)
        starts = tmp_path / str(node_id) / "log-start-offset-checkpoint"
        await until(starts.exists)
        # All go at once, and the damaged one comes first: it leads if it led.
        for other in (2, 3, 1):
            await cluster.kill(other, fence=False)
        path = segments(tmp_path, node_id)[1]
        if how == "flipped":
            flip(path, 100)
        elif how == "cut":
            path.write_bytes(path.read_bytes()[:-20])
        elif how == "removed":
            path.unlink()
        else:
            shutil.rmtree(path.parent)
        for other in (node_id, *({1, 2, 3} - {node_id})):
            await cluster.start(other)
        await whole_again(cluster, node_id)
        assert cluster.leader().held().log.log_end_offset == 120


async def test_a_damaged_copy_that_lost_its_topic_id_is_copied_again(tmp_path):
    """`partition.metadata` is written unsynced, so a power cut may take it; the repair writes it again."""
    async with running_cluster(tmp_path, **FAST) as cluster:
        cluster.controller.topic(segment_bytes=1024, min_insync_replicas=2)
        await fill(cluster)
        metadata = tmp_path / "3" / f"{TOPIC}-0" / "partition.metadata"
        metadata.unlink()
        flip(segments(tmp_path, 3)[1], 100)
        await cluster.nodes[3].role.replication.scrub_all(1 << 30)
        await whole_again(cluster, 3)
        assert metadata.exists()
