"""Damaged or lost files beside the log: never a record left out, never an aborted one shown, without a word."""

import pytest
from tests.integration.storage.partition_log_at import (
    append,
    checkpoint,
    copied,
    everything,
    mark,
    new_log,
    opened,
    write_rounds,
)
from tests.integration.storage.storage_node import batch

from oncelog_storage.files import StorageFailed
from oncelog_storage.log_recovery import snapshot_offsets

SMALL = {"segment_bytes": 1500, "index_interval_bytes": 100}


def written_log(directory):
    """Some segments, a checkpoint, and aborted transactions in all of them; returns (log, recovery point)."""
    log = new_log(directory, **SMALL)
    write_rounds(log, rounds=20)
    recovery_point = checkpoint(log)
    assert len(log.segments) > 3
    return log, recovery_point


def damages(data):
    yield "deleted", None
    yield "emptied", b""
    yield "one entry short", data[:-34]
    for place in range(0, len(data), 7):
        yield f"byte {place}", data[:place] + bytes([data[place] ^ 0x41]) + data[place + 1 :]


@pytest.mark.parametrize("which", [0, -1])
def test_a_damaged_aborted_index_is_repaired_never_believed(directory, tmp_path, which):
    log, recovery_point = written_log(directory)
    expected = everything(log)
    path = sorted(directory.glob("*.txnindex"))[which]
    for number, (damage, data) in enumerate(damages(path.read_bytes())):
        copy = copied(directory, tmp_path / f"damaged-{number}")
        (copy / path.name).unlink()
        if data is not None:
            (copy / path.name).write_bytes(data)
        assert everything(opened(copy, recovery_point, **SMALL)) == expected, damage


def test_an_aborted_index_that_was_built_again_stays_repaired(directory):
    _, recovery_point = written_log(directory)
    path = sorted(directory.glob("*.txnindex"))[0]
    path.write_bytes(b"damaged")
    for offset in snapshot_offsets(directory):
        (directory / f"{offset:020d}.snapshot").unlink()
    repaired = opened(directory, recovery_point, **SMALL)
    append(repaired, batch(1))
    expected = everything(repaired)
    assert everything(opened(directory, checkpoint(repaired), **SMALL)) == expected


def test_an_index_that_leads_astray_leaves_no_record_out(directory, tmp_path):
    log, recovery_point = written_log(directory)
    expected = everything(log)
    paths = sorted(directory.glob("*.index"))
    for place in range(len(paths[1].read_bytes())):
        copy = copied(directory, tmp_path / f"astray-{place}")
        for path in (paths[1], paths[-1]):
            data = bytearray(path.read_bytes())
            if place < len(data):
                data[place] ^= 1
                (copy / path.name).write_bytes(data)
        found = opened(copy, recovery_point, **SMALL)
        for offset in range(log.log_end_offset):
            assert found.read(offset, log.log_end_offset, 1) == log.read(
                offset, log.log_end_offset, 1
            ), (place, offset)
        assert everything(found) == expected


@pytest.mark.parametrize("how", ["deleted", "emptied"])
def test_a_segment_lost_below_the_snapshot_is_not_skipped(directory, how):
    log, recovery_point = written_log(directory)
    path = directory / log.segments[1].log_path.rpartition("/")[2]
    lost_offset = log.segments[1].base_offset
    path.unlink()
    if how == "emptied":
        path.touch()
    with pytest.raises(StorageFailed, match=r"missing|0 bytes"):
        opened(directory, recovery_point, **SMALL).read(lost_offset, log.log_end_offset, 1 << 20)


def test_a_log_that_was_cut_needs_no_checks_of_what_was_cut_off(directory):
    log, recovery_point = written_log(directory)
    mark(log, (2, 0, False))
    last = log.segments[-1]
    checkpoint(log)
    # A power cut took the recovery point's last move, and the end of the log with it.
    with open(last.log_path, "r+b") as file:
        file.truncate(last.size_bytes - 1)
    found = opened(directory, recovery_point, lost_power=True, **SMALL)
    append(found, batch(1))
    assert everything(opened(directory, recovery_point, **SMALL)) == everything(found)
