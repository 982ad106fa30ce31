"""A follower of a compacted log, killed: the gaps that it copied are no damage, whatever its topic is by then."""

import pytest
from tests.integration.storage.partition_log_at import LOG, filled, flip, new_log, opened
from tests.integration.storage.storage_node import NOW

from oncelog.record.records import Record, encode_batch
from oncelog_storage import log_replication
from oncelog_storage.core.segment_files import GAPS_FILE
from oncelog_storage.segment import CorruptSegment


def at(offset):
    record = Record(b"k", b"%d" % offset, NOW)
    return bytes(encode_batch([record], base_offset=offset, leader_epoch=0))


def killed_follower(directory, *offsets):
    """It copies these batches one by one and ends without a checkpoint, as by a kill."""
    log = new_log(directory, is_compacted=True)
    for offset in offsets:
        log_replication.append_copied(log, at(offset), NOW)


@pytest.mark.parametrize("offsets", [(0, 7), (3,), (0, 1, 2, 9)])
def test_a_gap_is_no_damage_when_the_topic_keeps_everything(directory, offsets):
    killed_follower(directory, *offsets)
    found = opened(directory)
    assert found.log_end_offset == offsets[-1] + 1
    # What it copies from now on may have gaps too, and another start finds them.
    log_replication.append_copied(found, at(offsets[-1] + 5), NOW)
    assert opened(directory).log_end_offset == offsets[-1] + 6


def test_without_a_gap_a_damaged_offset_is_still_seen(directory):
    killed_follower(directory, 0, 1, 2)
    assert not (directory / GAPS_FILE).exists()
    flip(directory / LOG, (directory / LOG).stat().st_size // 3 * 2 + 5, 1)
    with pytest.raises(CorruptSegment, match="follows 1"):
        opened(directory)


def test_a_log_that_begins_anew_has_no_gaps(directory):
    killed_follower(directory, 0, 7)
    found = opened(directory)
    assert found.has_gaps
    log_replication.start_over(found, 20)
    assert not found.has_gaps
    assert not (directory / GAPS_FILE).exists()


def test_a_leader_notes_nothing(directory):
    filled(directory, 3)
    assert not (directory / GAPS_FILE).exists()
