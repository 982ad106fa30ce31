"""Each replica cleans its own copy, whenever it likes: what they answer stays the same, and any of them may lead."""

from tests.integration.storage.cleaned_log import last_words, view
from tests.integration.storage.replica_cluster import batch, running_cluster
from tests.integration.storage.storage_node import txn_batch, until

from oncelog_storage.files import StorageFailed

CONFIGS = {"cleanup_policy": "compact", "segment_bytes": 2048, "min_cleanable_dirty_ratio": 0.01}


async def write(cluster, count, sequences, start=0):
    for index in range(start, start + count):
        producer_id = 7 + index % 2
        answer = await cluster.produce(
            txn_batch(producer_id, sequences[producer_id], 2, key=b"k%d" % (index % 5)),
            transactional_id=f"t{producer_id}",
        )
        assert answer.error_code == 0, index
        sequences[producer_id] += 2
        if index % 3 == 2:
            assert await cluster.mark(producer_id, 0, commit=index % 2 == 0) == 0
        assert (await cluster.produce(batch(2, key=b"p%d" % (index % 7)))).error_code == 0
    for producer_id in (7, 8):
        assert await cluster.mark(producer_id, 0, commit=True) == 0


async def clean(cluster, *nodes):
    for node in nodes:
        await cluster.nodes[node].role.maintenance.cleaner.clean_all()


def latest(cluster, node):
    return {row[2]: row for row in view(cluster.nodes[node].held().log)}


def all_alike(cluster):
    nodes = sorted(cluster.nodes)
    first = nodes[0]
    for node in nodes[1:]:
        assert latest(cluster, node) == latest(cluster, first)
        held, other = cluster.nodes[node].held(), cluster.nodes[first].held()
        assert last_words(held.log) == last_words(other.log)
        assert held.log.log_end_offset == other.log.log_end_offset
        assert held.last_stable_offset == other.last_stable_offset


async def test_a_new_replica_takes_over_a_cleaned_log_and_may_lead(tmp_path):
    sequences = {7: 0, 8: 0}
    async with running_cluster(tmp_path) as cluster:
        cluster.controller.topic(**CONFIGS)
        await write(cluster, 30, sequences)
        await cluster.kill(3)
        await write(cluster, 30, sequences, 30)
        whole = latest(cluster, 2)
        await clean(cluster, 1)
        rows = len(view(cluster.nodes[1].held().log))
        assert rows < len(view(cluster.nodes[2].held().log)) / 2
        # It has the beginning as it was written, and takes the rest as it was cleaned.
        await cluster.start(3)
        await cluster.caught_up()
        all_alike(cluster)
        assert latest(cluster, 3) == whole
        await clean(cluster, 2, 3)
        all_alike(cluster)
        await write(cluster, 10, sequences, 60)
        await cluster.caught_up()
        all_alike(cluster)
        for lost in (1, 2):
            await cluster.kill(lost)
            await write(cluster, 5, sequences, 70 + 5 * lost)
            await clean(cluster, 3)
        await cluster.start(1)
        await cluster.start(2)
        await cluster.caught_up()
        all_alike(cluster)


async def test_a_follower_cleans_nothing_a_new_leader_may_take_back(tmp_path):
    sequences = {7: 0, 8: 0}
    async with running_cluster(tmp_path) as cluster:
        cluster.controller.topic(**CONFIGS)
        await write(cluster, 30, sequences)
        await cluster.caught_up()
        cluster.cut_off.update((2, 3))
        await cluster.fill(40, batch(2, key=b"lone"), acks=1)
        held = cluster.nodes[1].held()
        limit = held.high_watermark
        assert limit < held.log.log_end_offset
        before = [row for row in view(held.log, committed=False) if row[0] >= limit]
        await clean(cluster, 1)
        assert [r for r in view(held.log, committed=False) if r[0] >= limit] == before
        await cluster.kill(1)
        cluster.cut_off.clear()
        await write(cluster, 20, sequences, 30)
        await cluster.start(1)
        await cluster.caught_up()
        all_alike(cluster)
        assert b"lone" not in latest(cluster, 1)


async def test_a_copy_that_begins_anew_is_not_taken_for_cleaned(tmp_path):
    """Its leader had cleaned nothing. Where a key's older values are still there, its tombstone must not go."""

    async def fill(cluster, count=30):
        for index in range(count):
            assert (await cluster.produce(batch(2, key=b"k%d" % (index % 5)))).error_code == 0

    async with running_cluster(tmp_path, nodes=(1, 2), replica_lag_time_max_ms=400) as cluster:
        cluster.controller.topic(replicas=(1, 2), delete_retention_ms=0, **CONFIGS)
        assert (await cluster.produce(batch(key=b"gone"))).error_code == 0
        await fill(cluster)
        assert (await cluster.produce(batch(key=b"gone", value=None))).error_code == 0
        await fill(cluster)
        await cluster.caught_up()
        await clean(cluster, 2)
        copy = cluster.nodes[2].held()
        assert [row[3] for row in view(copy.log) if row[2] == b"gone"] == [None]
        copy.take_offline(StorageFailed("a damaged segment"))
        await until(lambda: cluster.nodes[2].role.replication.repair_count == 1, 20)
        await until(lambda: cluster.isr() == [1, 2], 20)
        for _ in range(3):
            cluster.clock.time += 1_000
            await fill(cluster)
            await cluster.caught_up()
            await clean(cluster, 2)
        assert latest(cluster, 2).get(b"gone", (None,) * 4)[3] is None
