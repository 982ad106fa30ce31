"""Record times outlive a start that reads nothing: lookups by time, the age of a segment, retention."""

from tests.integration.storage.partition_log_at import append, checkpoint, new_log, opened
from tests.integration.storage.storage_node import NOW, batch, running, topic


async def test_offsets_are_found_by_time_after_a_clean_restart(tmp_path):
    async with running(tmp_path, topic("orders")) as node:
        await node.produce("orders", batch(3))
        assert (await node.list_offset("orders", NOW + 1)).offset == 1
    async with running(tmp_path, topic("orders")) as node:
        assert (await node.list_offset("orders", NOW + 1)).offset == 1
        assert (await node.list_offset("orders", -3)).offset == 2


def test_a_segment_sealed_after_a_checkpoint_keeps_its_time(tmp_path):
    log = new_log(tmp_path / "orders-0", segment_bytes=200)
    for time in (0, 500):
        append(log, batch(timestamp=NOW + time))
    checkpoint(log)
    append(log, batch(timestamp=NOW + 1000))
    recovery_point = checkpoint(log)
    found = opened(tmp_path / "orders-0", recovery_point, segment_bytes=200)
    assert [segment.max_timestamp()[0] - NOW for segment in found.segments] == [500, 1000]


def test_a_segments_age_counts_from_its_first_batch(tmp_path):
    log = new_log(tmp_path / "orders-0", segment_ms=1000)
    append(log, batch(timestamp=NOW))
    found = opened(tmp_path / "orders-0", checkpoint(log), segment_ms=1000)
    append(found, batch(timestamp=NOW + 1001))
    assert len(found.segments) == 2
