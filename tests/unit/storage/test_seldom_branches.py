"""Branches of the storage core that whole logs take seldom: each by itself."""

import struct

import pytest
from crc32c import crc32c
from tests.unit.storage.partitions import (
    CONTROL,
    OTHER,
    SHARD,
    TRANSACTIONAL,
    append,
    header,
    log_state,
    partition_of,
    with_followers,
)
from tests.unit.storage.segments import NOW, batch

from oncelog.record.batch import HEADER
from oncelog_storage.core.batch_walk import first_not_older
from oncelog_storage.core.cleaning import Transactions
from oncelog_storage.core.damage import is_unfinished_write
from oncelog_storage.core.leader_state import FollowerProgress, Liveness
from oncelog_storage.core.offset_map import key_name
from oncelog_storage.core.producer_snapshot import CorruptSnapshot, decode_snapshot
from oncelog_storage.core.producer_state import ProducerStates
from oncelog_storage.core.record_links import linked_spans
from oncelog_storage.core.replay import CUT_BATCH


def progress(*fetches: tuple[int, int, float]) -> FollowerProgress:
    """(fetch offset, log end offset, time) of each fetch."""
    found = FollowerProgress(0.0)
    for offset, end, now in fetches:
        found.fetched(offset, end, 1, Liveness(now), now)
    return found


@pytest.mark.parametrize(
    ("fetches", "behind_since"),
    [
        (((0, 5, 1.0),), 0.0),
        (((5, 5, 1.0),), None),
        (((0, 5, 1.0), (5, 9, 2.0)), 1.0),
        (((5, 5, 1.0), (5, 9, 2.0)), 1.0),
        (((5, 5, 1.0), (3, 9, 2.0)), 1.0),
    ],
)
def test_since_when_a_follower_is_behind(fetches, behind_since):
    assert progress(*fetches).behind_since == behind_since


def test_a_follower_that_waits_or_asked_lately_keeps_up():
    found = progress((5, 5, 1.0))
    assert found.is_in_sync(11.0, 10.0)
    assert not found.is_in_sync(11.1, 10.0)
    found.liveness.is_waiting = True
    assert found.is_in_sync(99.0, 10.0)


def test_an_append_leaves_those_behind_who_had_everything():
    partition = with_followers()
    state = partition.replicas
    assert state is not None
    state.followers[OTHER].fetched(0, 0, 1, Liveness(1.0), 1.0)
    state.appended(7.0)
    assert [each.behind_since for each in state.followers.values()] == [7.0, 0.0]


def test_a_proposal_is_open_until_a_newer_partition_epoch():
    state = with_followers().replicas
    assert state is not None
    state.propose((1,))
    assert state.out_of_sync(99.0, 10.0) == []
    state.image_moved((1, 2, 3), (1, 2, 3), 0, 1.0)
    assert state.pending is not None
    state.image_moved((1, 2, 3), (1,), 1, 1.0)
    assert state.pending is None


def test_a_short_key_is_its_own_name():
    assert key_name(b"k") == b"k"


def test_a_record_before_the_offset_is_passed_over():
    data = batch(0, 2, timestamp=NOW) + batch(2, timestamp=NOW + 5)
    view, second = memoryview(data), len(batch(0, 2))
    batches = [(at, HEADER.unpack_from(data, at), view, at) for at in (0, second)]
    # The first batch reaches the timestamp with a record that is below the offset only.
    early = list(batches[0][1])
    early[8] = NOW + 5
    batches[0] = (0, tuple(early), view, 0)
    assert first_not_older(batches, NOW + 5, 1) == (NOW + 5, 2, 0)


def test_a_clients_entry_is_no_coordinators():
    partition = partition_of(log_state(SHARD))
    append(partition, header(producer_id=7, epoch=9, attributes=TRANSACTIONAL))
    append(partition, header(producer_id=8, epoch=4))
    partition.lead(1, 5, (1, 2), (1, 2), 0, 0.0)
    assert partition.coordinator_epoch == 4


def test_a_coordinators_batch_may_have_no_producer_id():
    partition = partition_of(log_state(SHARD))
    none = header(producer_id=-1, sequence=-1)
    assert partition.find_from_coordinator(none, 3, 0, lambda _: False) is None
    marker = header(attributes=CONTROL | TRANSACTIONAL, sequence=-1)
    assert partition.find_from_coordinator(marker, 3, 0, lambda _: False) is None


def test_a_snapshot_that_says_another_count_is_none():
    tail = struct.pack(">i", 3)
    with pytest.raises(CorruptSnapshot, match="says 3 producers"):
        decode_snapshot(struct.pack(">hI", 1, crc32c(tail)) + tail)


def test_markers_of_a_snapshot_may_hold_the_lso():
    states = ProducerStates()
    states.hold(3, 8)
    assert states.first_unstable_offset() == 3
    states.high_watermark_moved(8)
    assert states.first_unstable_offset() is None


@pytest.mark.parametrize("cut", [30, 70, 150])
def test_a_batch_that_is_cut_is_an_unfinished_write(cut):
    whole = batch(7, 3, value=b"v" * 60)
    assert is_unfinished_write(whole[:cut], len(whole), CUT_BATCH, 7)


def test_an_unfinished_batch_may_hold_another_as_a_value():
    inner = batch(8)
    whole = batch(7, 2, value=inner)
    first_end = whole.index(inner) + len(inner) + 1
    for cut in (first_end, first_end + 5):
        assert is_unfinished_write(whole[:cut], len(whole), CUT_BATCH, 7)
    assert not is_unfinished_write(b"x" * 10 + inner, 99, CUT_BATCH, 7)


def test_a_control_batch_without_records_may_go():
    fields = HEADER.unpack_from(batch(0))
    transactions = Transactions(())
    assert not transactions.may_go(fields, None)
    assert transactions.may_go((*fields[:12], 0), None)


def test_records_that_are_none_name_no_span():
    data = bytearray(batch(0, value=b"traceparent"))
    data[61] = 0x7F
    assert linked_spans(bytes(data), 5) == []
