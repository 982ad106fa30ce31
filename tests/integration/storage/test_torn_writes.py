"""A torn write whose value is itself a sound batch is cut as torn; an acknowledged batch never is (ADR 0023)."""

import contextlib

import pytest
from tests.integration.storage.partition_log_at import LOG, append, new_log, opened
from tests.integration.storage.storage_node import NOW, batch

from oncelog.record.records import Record, encode_batch
from oncelog_storage.files import StorageFailed
from oncelog_storage.segment import CorruptSegment


def holding_a_batch(base_offset):
    """One batch whose value is a sound one of a later offset: what a copier of raw logs writes."""
    inner = bytes(encode_batch([Record(None, b"inner", NOW)], base_offset=base_offset + 5))
    records = [
        Record(b"k", b"first", NOW),
        Record(None, inner, NOW + 1),
        Record(b"key", b"x" * 70, NOW + 2),
    ]
    return bytes(encode_batch(records, base_offset=base_offset, leader_epoch=0))


def test_a_torn_write_around_a_whole_batch_is_cut_at_any_byte(directory):
    """It looked like damage with acknowledged records behind it, and the partition was offline after a kill."""
    append(new_log(directory), batch())
    whole = (directory / LOG).read_bytes()
    torn = holding_a_batch(1)
    for lost_power in (False, True):
        for size in range(1, len(torn)):
            (directory / LOG).write_bytes(whole + torn[:size])
            found = opened(directory, lost_power=lost_power)
            assert (found.log_end_offset, found.set_aside_bytes) == (1, size), size
            assert found.set_aside_records == 0
            assert (directory / LOG).read_bytes() == whole
    assert not list(directory.glob("*.cut"))


@pytest.mark.parametrize("damaged", ["length", "length and a record"])
def test_a_damaged_length_costs_no_batch_that_follows(directory, damaged):
    """The batch that follows was acknowledged. The records of the damaged one show where that one ends."""
    log = new_log(directory)
    append(log, holding_a_batch(0))
    append(log, batch(value=b"v" * 400))
    data = bytearray((directory / LOG).read_bytes())
    data[9] ^= 0x10
    if damaged != "length":
        data[61:69] = b"\xff" * 8
    (directory / LOG).write_bytes(data)
    for lost_power in (False, True):
        with pytest.raises(CorruptSegment, match="readable record"):
            opened(directory, lost_power=lost_power)
    assert (directory / LOG).read_bytes() == data


def test_no_damaged_bit_of_an_acknowledged_batch_cuts_it(directory):
    log = new_log(directory)
    append(log, holding_a_batch(0))
    first = log.segments[0].size_bytes
    append(log, holding_a_batch(3))
    whole = (directory / LOG).read_bytes()
    for bit in range(8 * first):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        (directory / LOG).write_bytes(data)
        with contextlib.suppress(StorageFailed):
            assert opened(directory).log_end_offset == 6, bit
        assert (directory / LOG).read_bytes() == data, bit
