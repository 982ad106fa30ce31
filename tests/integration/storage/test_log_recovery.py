"""A log after a crash: whole up to the last whole batch, and everything derived from it as if replayed (facts 5, 9)."""

import os

import pytest
from tests.integration.storage.partition_log_at import (
    LOG,
    append,
    checkpoint,
    copied,
    everything,
    filled,
    flip,
    mark,
    new_log,
    opened,
    write_rounds,
)
from tests.integration.storage.storage_node import NOW, batch, txn_batch

from oncelog.record.batch import iter_headers
from oncelog_storage import log_recovery
from oncelog_storage.damage import TORN_FILES_KEPT
from oncelog_storage.files import StorageFailed
from oncelog_storage.hosted_partition import HostedPartition
from oncelog_storage.log_recovery import snapshot_offsets
from oncelog_storage.segment import CorruptSegment


def replayed(directory, records, **config):
    """A log that has just these bytes and nothing else to go by: what recovery must arrive at."""
    directory.mkdir()
    (directory / LOG).write_bytes(records)
    return opened(directory, **config)


def test_a_cut_at_any_byte_leaves_exactly_the_whole_batches(tmp_path):
    source = tmp_path / "orders-0"
    log = new_log(source, index_interval_bytes=100)
    write_rounds(log, rounds=3)
    recovery_point = checkpoint(log)
    kept = (source / LOG).stat().st_size
    write_story_tail(log)
    whole = (source / LOG).read_bytes()
    ends = [position + header.size_bytes for position, header in iter_headers(whole)]
    expected = {
        end: everything(replayed(tmp_path / f"replayed-{end}", whole[:end]))
        for end in [kept, *[end for end in ends if end > kept]]
    }
    for cut in range(kept, len(whole) + 1):
        directory = copied(source, tmp_path / "cut")
        os.truncate(directory / LOG, cut)
        found = opened(directory, recovery_point, index_interval_bytes=100)
        last_whole = max(end for end in expected if end <= cut)
        assert everything(found) == expected[last_whole], f"cut at byte {cut}"
        assert (directory / LOG).stat().st_size == last_whole
        for path in directory.iterdir():
            path.unlink()
        directory.rmdir()


def write_story_tail(log):
    """Goes on after `write_rounds(rounds=3)`: ends what is open, aborts something, opens something new."""
    mark(log, (0, 0, False), (1, 0, True))
    append(log, txn_batch(7, 0, 2))
    mark(log, (2, 0, False))
    append(log, txn_batch(8, 0))
    mark(log, (7, 0, True))


@pytest.mark.parametrize("segment_bytes", [400, 1000, 1 << 20])
@pytest.mark.parametrize("checkpoint_at", [None, 0, 3, 5])
def test_reopening_changes_nothing(directory, segment_bytes, checkpoint_at):
    config = {"segment_bytes": segment_bytes, "index_interval_bytes": 50}
    log = new_log(directory, **config)
    recovery_point = 0
    for step in range(6):
        write_round(log, step)
        if step == checkpoint_at:
            recovery_point = checkpoint(log)
    found = opened(directory, recovery_point, **config)
    assert everything(found) == everything(log)
    write_round(found, 6)
    write_round(log_again := opened(directory, recovery_point, **config), 7)
    assert log_again.log_end_offset > found.log_end_offset


def write_round(log, step):
    for producer_id in (1, 2, 3):
        append(log, txn_batch(producer_id, 2 * step, 2), leader_epoch=step // 2)
    mark(log, (1, 0, step % 2 == 0), (2, 0, True))


def test_what_a_kill_left_of_one_write_is_set_aside_and_told(directory, caplog):
    filled(directory, 1)
    whole = (directory / LOG).stat().st_size
    for number in range(TORN_FILES_KEPT + 2):
        torn = batch(5)[: 30 + number]
        with open(directory / LOG, "ab") as file:
            file.write(torn)
        os.utime(directory / LOG, (number, number))
        found = opened(directory)
        assert (found.log_end_offset, found.set_aside_bytes) == (1, len(torn))
        assert (directory / LOG).stat().st_size == whole
    kept = list(directory.glob(f"{LOG}.{whole}*.torn"))
    assert len(kept) == TORN_FILES_KEPT, "as many as are of use"
    assert torn in [path.read_bytes() for path in kept]
    assert f"{len(torn)} bytes with 0 readable records are set aside" in caplog.messages[-1]


def test_what_a_power_cut_took_ends_the_log_there(directory):
    """Pages that were not synced are zeros, in any file, with sound batches behind (ADR 0011)."""
    log = new_log(directory, segment_bytes=40_000)
    for _ in range(30):
        append(log, batch(value=b"v" * 3000))
    path = directory / LOG
    data = path.read_bytes()
    damaged = data[:8192] + bytes(4096) + data[12288:]
    path.write_bytes(damaged)
    later = {each.base_offset for each in log.segments[1:]}
    with pytest.raises(CorruptSegment, match="readable records in 3 files behind it"):
        opened(directory, segment_bytes=40_000)
    found = opened(directory, segment_bytes=40_000, lost_power=True)
    assert found.log_end_offset == 2
    assert found.set_aside_records == 30 - 2 - 2, "the page was one of two batches"
    assert {int(each.name[:20]) for each in directory.glob("*.log.cut")} == later
    (tail,) = directory.glob(f"{LOG}.*.cut")
    assert path.read_bytes() + tail.read_bytes() == damaged
    assert append(found, batch()) == 2


def test_a_flipped_bit_is_no_power_cut(directory):
    filled(directory, 3)
    flip(directory / LOG, 65)
    with pytest.raises(CorruptSegment, match="2 readable records in 1 file behind it"):
        opened(directory, lost_power=True)


def test_damage_before_the_recovery_point_is_never_cut_away(directory):
    log = filled(directory, 3)
    recovery_point = checkpoint(log)
    log.close()
    size = (directory / LOG).stat().st_size
    flip(directory / LOG, 65)
    found = opened(directory, recovery_point)
    with pytest.raises(
        CorruptSegment, match=r"\.log is damaged at byte 0 .*CRC.*oncelog storage repair"
    ):
        found.read(0, 3, 1 << 20)
    assert found.read(1, 3, 1 << 20).next_offset == 3, "sound batches behind it are still there"
    assert (directory / LOG).stat().st_size == size


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("bit", [1, 16, 40])
def test_a_damaged_base_offset_moves_no_end(directory, bit, is_compacted):
    """The CRC does not cover it. The log ended 65536 offsets later, and those were given to nobody."""
    log = filled(directory, 3, is_compacted=is_compacted)
    recovery_point = checkpoint(log)
    path, size = directory / LOG, log.segments[0].size_bytes
    data = bytearray(path.read_bytes())
    data[size // 3 * 2 + 7 - bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    with pytest.raises(StorageFailed, match=r"stands where 3 begins|ends at offset"):
        opened(directory, recovery_point, is_compacted=is_compacted)
    assert path.read_bytes() == data


def test_a_replica_with_a_damaged_leader_epoch_does_not_open(directory):
    """Its followers were cut back to where the false epoch began, among committed records."""
    log = filled(directory, 3)
    flip(directory / LOG, log.segments[0].size_bytes // 3 + 13)
    replica = new_log(directory)
    replica.committed_at_load = 3
    with pytest.raises(CorruptSegment, match="leader epoch 0 follows"):
        log_recovery.recover(replica, 0, 0, NOW)


@pytest.mark.parametrize("how", ["flipped", "cut", "removed"])
def test_a_damaged_segment_costs_no_segment_behind_it(directory, how):
    """After a kill before the first checkpoint: one bit, and five sound segments were deleted."""
    log = filled(directory, 9, segment_bytes=200)
    path = directory / f"{log.segments[1].base_offset:020d}.log"
    if how == "flipped":
        flip(path, 65)
    elif how == "cut":
        os.truncate(path, path.stat().st_size - 10)
    else:
        path.unlink()
    before = {each: each.read_bytes() for each in directory.glob("*.log")}
    with pytest.raises(StorageFailed, match=r"\.log is (damaged at byte|missing).*storage repair"):
        opened(directory, segment_bytes=200)
    assert {each: each.read_bytes() for each in directory.glob("*.log")} == before


@pytest.mark.parametrize("damage", ["newest", "all"])
def test_a_corrupt_snapshot_gives_way_to_an_older_one_or_the_log(directory, damage):
    log = new_log(directory)
    write_rounds(log)
    checkpoint(log)
    mark(log, (0, 0, False))
    recovery_point = checkpoint(log)
    append(log, txn_batch(2, 7))
    offsets = snapshot_offsets(directory)
    assert len(offsets) == 2
    for offset in offsets if damage == "all" else offsets[-1:]:
        flip(directory / f"{offset:020d}.snapshot", 8)
    assert everything(opened(directory, recovery_point)) == everything(log)


def test_a_snapshot_ahead_of_the_recovery_point_is_not_trusted(directory):
    log = new_log(directory)
    write_rounds(log)
    checkpoint(log)
    found = opened(directory, recovery_point=0)
    assert everything(found) == everything(log)
    assert snapshot_offsets(directory) == []


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("how", ["missing", "cut", "garbage"])
def test_indexes_are_built_again_from_the_log(directory, suffix, how):
    config = {"segment_bytes": 600, "index_interval_bytes": 0}
    log = new_log(directory, **config)
    write_rounds(log, rounds=6)
    recovery_point = checkpoint(log)
    for path in directory.glob(f"*{suffix}"):
        if how == "missing":
            path.unlink()
        elif how == "cut":
            path.write_bytes(path.read_bytes()[:-1])
        else:
            path.write_bytes(b"\xff" * len(path.read_bytes()))
    assert everything(opened(directory, recovery_point, **config)) == everything(log)


CHECKS = "segments-checkpoint"


@pytest.mark.parametrize("checks", ["sound", "removed", "flipped", "emptied", "garbage"])
@pytest.mark.parametrize("index", ["sound", "short", "removed", "flipped", "longer"])
def test_without_sound_files_aborted_ones_are_derived_again(directory, checks, index):
    """Neither file is believed alone: an index that is short shows aborted records."""
    config = {"segment_bytes": 600, "index_interval_bytes": 0}
    log = new_log(directory, **config)
    write_rounds(log, rounds=6)
    recovery_point = checkpoint(log)
    expected = everything(log)
    damage(directory / CHECKS, checks)
    damage(sorted(directory.glob("*.txnindex"))[0], index)
    found = opened(directory, recovery_point, **config)
    assert everything(found) == expected
    append(found, batch())
    again = checkpoint(found)
    assert everything(opened(directory, again, **config)) == everything(found)


def damage(path, how):
    data = path.read_bytes()
    if how == "removed":
        path.unlink()
    elif how == "flipped":
        flip(path, len(data) // 2)
    elif how != "sound":
        changed = {"emptied": b"", "garbage": b"\xff" * 60, "short": data[:-34]}
        path.write_bytes(changed.get(how, b"\0" + data))


def test_only_what_lies_behind_the_snapshot_is_read_at_start(directory):
    """Sealed segments are not opened: one that is unreadable does not matter until somebody reads it."""
    log = new_log(directory, segment_bytes=500)
    write_rounds(log, rounds=8)
    recovery_point = checkpoint(log)
    first = directory / LOG
    flip(first, 65)
    found = opened(directory, recovery_point, segment_bytes=500)
    assert found.log_end_offset == log.log_end_offset
    with pytest.raises(CorruptSegment):
        found.read(0, 5, 1000)


@pytest.mark.parametrize("torn", [b"", b"0\n3\n1 0\n"])
def test_a_torn_leader_epoch_checkpoint_forgets_nothing(directory, torn):
    log = new_log(directory, segment_bytes=200)
    for leader_epoch in (1, 1, 4, 6):
        append(log, batch(), leader_epoch=leader_epoch)
    recovery_point = checkpoint(log)
    append(log, batch(), leader_epoch=7)
    (directory / "leader-epoch-checkpoint").write_bytes(torn)
    found = opened(directory, recovery_point, segment_bytes=200)
    assert found.leader_epochs.entries() == [(1, 0), (4, 2), (6, 3), (7, 4)]


def test_leftovers_of_interrupted_work_are_removed(directory):
    log = new_log(directory)
    log.log_end_offset = 10
    append(log, batch())
    (directory / "00000000000000000000.snapshot.tmp").write_bytes(b"half")
    (directory / "00000000000000000009.log.deleted").write_bytes(b"old")
    (directory / "00000000000000000009.index").write_bytes(b"")
    opened(directory, log_start_offset=10)
    assert not list(directory.glob("*9.index"))
    assert not list(directory.glob("*.tmp"))
    assert not list(directory.glob("*.deleted"))


def test_a_log_that_ends_before_its_start_begins_again_empty(directory):
    filled(directory, 1)
    found = opened(directory, log_start_offset=5)
    assert (found.log_start_offset, found.log_end_offset) == (5, 5)
    assert append(found, batch()) == 5
    assert everything(opened(directory, log_start_offset=5))[1] == 6


def test_recovery_leaves_damage_before_the_recovery_point_alone(directory):
    """With the newest snapshot lost the scan begins earlier, among data that was safe: it may complain, not cut."""
    log = filled(directory, 1)
    checkpoint(log)
    damaged_at = log.segments[0].size_bytes + 65
    append(log, batch())
    append(log, batch())
    recovery_point = checkpoint(log)
    flip(directory / f"{snapshot_offsets(directory)[-1]:020d}.snapshot", 8)
    flip(directory / LOG, damaged_at)
    before = (directory / LOG).read_bytes()
    with pytest.raises(CorruptSegment, match=r"is damaged at byte 70, offset 1 .*restore it"):
        opened(directory, recovery_point)
    assert (directory / LOG).read_bytes() == before


def test_a_checkpoint_cut_in_the_aborted_index_is_made_good(directory):
    log = new_log(directory)
    write_rounds(log)
    recovery_point = checkpoint(log)
    write_story_tail(log)
    path = directory / "00000000000000000000.txnindex"
    path.write_bytes(path.read_bytes() + bytes(20))
    assert everything(opened(directory, recovery_point)) == everything(log)


def test_a_hole_before_the_recovery_point_deletes_nothing(directory):
    log = filled(directory, 9, segment_bytes=200)
    recovery_point = checkpoint(log)
    logs = sorted(directory.glob("*.log"))
    logs.pop(1).unlink()
    for snapshot in directory.glob("*.snapshot"):
        snapshot.unlink()
    with pytest.raises(
        StorageFailed, match=r"restore it from a backup, or .*oncelog storage repair"
    ):
        opened(directory, recovery_point, segment_bytes=200)
    assert sorted(directory.glob("*.log")) == logs


def test_a_committed_read_loads_no_later_index(directory):
    log = filled(directory, 60, segment_bytes=200)
    found = opened(directory, checkpoint(log), segment_bytes=200)
    _, next_offset = found.read(0, found.log_end_offset, 100)
    assert found.aborted_transactions(0, next_offset) == []
    assert sum(segment.is_loaded for segment in found.segments) == 2, "the first and the newest"


def test_a_forgetful_snapshot_holds_the_stable_end(directory):
    """Nobody knows how far the markers were replicated: the high watermark was not written down before the crash."""
    log = new_log(directory)
    append(log, txn_batch(7, 0))
    append(log, txn_batch(8, 0))
    mark(log, (7, 0, True))
    mark(log, (8, 0, True))
    recovery_point = checkpoint(log)
    assert recovery_point == 4
    log = new_log(directory)
    log.committed_at_load = 0
    log_recovery.recover(log, recovery_point, 0, NOW)
    hosted = HostedPartition(
        log,
        flushes_always=False,
        request_flush=lambda _: None,
        request_checkpoint=lambda _: None,
        checkpoint_bytes=1 << 20,
        high_watermark=0,
    )
    hosted.follow_high_watermark(3)
    # The marker of the second one is at 3.
    assert hosted.last_stable_offset <= 1
    hosted.follow_high_watermark(4)
    assert hosted.last_stable_offset == 4
