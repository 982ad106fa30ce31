"""What is written down of a log's segments, and which segments are not what was written down."""

import pytest
from tests.worlds.storage.segments import batch

from oncelog.record.batch import HEADER_BYTES
from oncelog_storage.core.aborted_index import AbortedCheck
from oncelog_storage.core.recovery import is_old, lost_from, proven_end
from oncelog_storage.core.segment_checks import (
    NO_POWER_LOST,
    UNSURE,
    FoundSegment,
    LogChecks,
    SegmentCheck,
    decode_checks,
    encode_checks,
    faults_of,
    head_crc,
)

HEADS = {base: batch(base, 10)[:HEADER_BYTES] for base in (0, 50, 90)}
SIZES = {0: 500, 50: 400, 90: 300}
SEGMENTS = {
    base: SegmentCheck(SIZES[base], head_crc(HEADS[base]), AbortedCheck()) for base in HEADS
}
CHECKS = LogChecks("topic", 3, 0, 120, SEGMENTS)
FOUND = [FoundSegment(base, SIZES[base], HEADS[base]) for base in HEADS]
OTHER = batch(50, 10, value=b"another")[:HEADER_BYTES]


def changed(index, **fields):
    return [*FOUND[:index], FOUND[index]._replace(**fields), *FOUND[index + 1 :]]


def faults(found, checks=CHECKS, start=0, **fields):
    fields = {"may_have_gaps": False, **fields}
    return [(one.base_offset, one.reason) for one in faults_of(checks, found, start, **fields)]


def test_what_is_written_down_is_read_again_or_not_believed():
    data = encode_checks(CHECKS._replace(segments={**SEGMENTS, 90: UNSURE}))
    assert decode_checks(data).segments[90] == UNSURE
    assert encode_checks(decode_checks(data)) == data
    assert decode_checks(encode_checks(CHECKS._replace(segments={}))).segments == {}
    for place in range(len(data)):
        with pytest.raises(ValueError):
            decode_checks(data[:place])
        with pytest.raises(ValueError):
            decode_checks(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (FOUND, []),
        (FOUND[1:], [(0, "is missing")]),
        ([FOUND[0], FOUND[2]], [(50, "is missing")]),
        (FOUND[:2], [(90, "is missing")]),
        (changed(1, head=OTHER), [(50, "begins with another batch than was written there")]),
        (changed(1, size_bytes=399), [(50, "has 399 bytes, and 400 were written")]),
        (changed(1, size_bytes=401), [(50, "has 401 bytes, and 400 were written")]),
        (changed(1, size_bytes=0, head=b""), [(50, "has 0 bytes, and 400 were written")]),
        # The newest grows.
        (changed(2, size_bytes=301), []),
        (changed(2, size_bytes=299), [(90, "has 299 bytes, and 300 were written")]),
        ([*FOUND, FoundSegment(120, 9, OTHER)], [(120, "is no segment of this log")]),
        ([FOUND[0], FoundSegment(20, 9, OTHER), *FOUND[1:]], [(20, "is no segment of this log")]),
        # A kill came before the first batch.
        ([*FOUND, FoundSegment(120, 0)], []),
    ],
)
def test_a_segment_is_what_was_written_down_of_it(found, expected):
    assert faults(found) == expected


def test_what_is_before_the_log_start_may_be_gone():
    assert faults(FOUND[1:], start=50) == []
    assert faults(FOUND[1:], start=49) == [(0, "is missing")]


def test_a_segment_that_is_being_replaced_may_be_anything():
    unsure = CHECKS.unsure_of([50])
    for found in ([FOUND[0], FOUND[2]], changed(1, size_bytes=7), changed(1, head=OTHER)):
        assert faults(found, unsure) == []
    assert CHECKS.unsure_of([51]) == CHECKS
    assert not unsure.aborted_of(50).is_known
    assert not CHECKS.aborted_of(51).is_known


def test_a_power_cut_may_take_what_was_not_safe():
    longer = [*FOUND, FoundSegment(120, 9, OTHER)]
    for found in (FOUND[:2], longer, changed(2, size_bytes=7), changed(1, size_bytes=7)):
        assert faults(found, lost_from=60) == []
    assert faults(FOUND[1:], lost_from=60) == [(0, "is missing")]
    assert faults(changed(0, size_bytes=7), lost_from=60) == [
        (0, "has 7 bytes, and 500 were written")
    ]


@pytest.mark.parametrize("checks", [None, CHECKS.unsure_of(SEGMENTS)])
def test_without_checks_a_segment_begins_at_its_base_offset(checks):
    assert faults(FOUND, checks) == []
    assert faults(changed(1, head=HEADS[0]), checks) == [(50, "begins at offset 0")]
    assert faults(changed(1, head=HEADS[90]), checks) == [(50, "begins at offset 90")]
    # Compaction may have taken its first batches.
    assert faults(changed(1, head=HEADS[90]), checks, may_have_gaps=True) == []
    assert faults(changed(1, head=HEADS[0]), checks, may_have_gaps=True) != []


def test_others_tell_how_far_a_log_went():
    assert proven_end(None, CHECKS, [40, 110]) == 120
    assert proven_end(None, CHECKS, [40, 130]) == 130
    assert proven_end(None, None, [40]) == 40
    assert proven_end(None, None, []) == 0
    # A truncation lowers it first.
    assert proven_end(7, CHECKS, [130]) == 0


def test_checks_older_than_the_recovery_point_are_not_believed():
    assert is_old(CHECKS, 121)
    assert not is_old(CHECKS, 120)
    assert not is_old(CHECKS, None)


def test_only_a_power_cut_excuses_losses_of_what_was_not_safe():
    assert lost_from(7, CHECKS, may_have_lost_power=False) == NO_POWER_LOST
    assert lost_from(7, CHECKS, may_have_lost_power=True) == 7
    assert lost_from(None, CHECKS, may_have_lost_power=True) == 120
    assert lost_from(None, None, may_have_lost_power=True) == 0
