"""A log that was cut at a batch is the log that never had the rest: bytes, epochs, aborted transactions, producers."""

import itertools
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.integration.storage.partition_log_at import (
    append,
    checkpoint,
    everything,
    mark,
    new_log,
    opened,
)
from tests.integration.storage.storage_node import NOW, batch, txn_batch

from oncelog.record.batch import iter_headers
from oncelog_storage import log_replication

SEGMENT_BYTES = 1024

PRODUCERS = st.integers(0, 2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("plain"), st.integers(1, 3)),
        st.tuples(st.just("transactional"), PRODUCERS),
        st.tuples(st.just("end"), PRODUCERS, st.booleans()),
        st.tuples(st.just("epoch")),
    ),
    min_size=1,
    max_size=25,
)


def written(directory, steps):
    """A leader's log after these steps."""
    log = new_log(directory, segment_bytes=SEGMENT_BYTES, index_interval_bytes=100)
    epoch, sequences, producer_epochs = 0, [0] * 3, [0] * 3
    for number, (kind, *fields) in enumerate(steps):
        if kind == "plain":
            append(log, batch(fields[0], timestamp=NOW + number), epoch)
        elif kind == "transactional":
            producer = fields[0]
            records = txn_batch(
                producer, sequences[producer], 2, producer_epoch=producer_epochs[producer]
            )
            append(log, records, epoch)
            sequences[producer] += 2
        elif kind == "end":
            end = (fields[0], producer_epochs[fields[0]], fields[1])
            mark(log, end, leader_epoch=epoch)
        else:
            epoch += 1
    return log


def slices(log, offset, upper):
    """What a follower would fetch from `offset` up to `upper`, in answers of a few hundred bytes."""
    while offset < upper:
        records, offset = log.read(offset, upper, 400)
        yield records


def copied(directory, leader, upper):
    log = new_log(directory, segment_bytes=SEGMENT_BYTES, index_interval_bytes=100)
    for records in slices(leader, 0, upper):
        log_replication.append_copied(log, records, NOW)
        log.producers.high_watermark_moved(log.log_end_offset)
    return log


def boundaries(leader):
    data = b"".join(slices(leader, 0, leader.log_end_offset))
    return [0, *(header.next_offset for _, header in iter_headers(data))]


@settings(max_examples=60, deadline=None)
@given(STEPS, st.data())
def test_a_log_cut_at_a_batch_is_the_log_that_never_had_the_rest(steps, data):
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        leader = written(root / "leader", steps)
        ends = boundaries(leader)
        cut = data.draw(st.sampled_from(ends))
        checkpoints = data.draw(st.sets(st.sampled_from(ends), max_size=3))
        follower = new_log(root / "follower", segment_bytes=SEGMENT_BYTES, index_interval_bytes=100)
        for lower, upper in itertools.pairwise(ends):
            if lower in checkpoints and follower.exists_on_disk:
                checkpoint(follower)
            records = leader.read(lower, upper, 1).records
            log_replication.append_copied(follower, records, NOW)
            follower.producers.high_watermark_moved(follower.log_end_offset)
        log_replication.truncate(follower, cut, NOW)
        expected = copied(root / "expected", leader, cut)
        assert everything(follower) == everything(expected)
        for records in slices(leader, follower.log_end_offset, leader.log_end_offset):
            log_replication.append_copied(follower, records, NOW)
            follower.producers.high_watermark_moved(follower.log_end_offset)
        assert everything(follower) == everything(leader)
        if follower.exists_on_disk:
            point = min(follower.recovery_point, cut)
            reopened = opened(
                root / "follower", point, segment_bytes=SEGMENT_BYTES, index_interval_bytes=100
            )
            assert everything(reopened) == everything(follower)
