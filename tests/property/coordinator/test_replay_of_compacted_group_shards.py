"""A load of a compacted group shard knows the offsets that a load of everything ever written knows."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.integration.storage.cleaned_log import clean
from tests.integration.storage.partition_log_at import append, mark, new_log
from tests.integration.storage.storage_node import NOW

from oncelog.ids import Partition
from oncelog.record.records import encode_batch
from oncelog_coordinator.core.group_machine import GroupMachine
from oncelog_coordinator.core.group_records import (
    OffsetCommitted,
    OffsetTombstone,
    TransactionEnded,
)
from oncelog_coordinator.group_shards import GroupRecords
from oncelog_coordinator.shard_replay import LiveRecords

PARTITIONS = [Partition("t", number) for number in range(3)]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("commit"), st.sampled_from(PARTITIONS)),
        st.tuples(st.just("covered"), st.sampled_from(PARTITIONS), st.integers(5, 6)),
        st.tuples(st.just("end"), st.integers(5, 6), st.booleans()),
        st.tuples(st.just("forget"), st.sampled_from(PARTITIONS)),
        st.tuples(st.just("clean"), st.sampled_from([0, 2000]), st.sampled_from([64, 1 << 20])),
        st.tuples(st.just("roll")),
    ),
    max_size=60,
)


def committed_by(machine):
    return {
        partition: entry
        for partition in PARTITIONS
        for entry in [machine.offsets.of("g").get(partition)]
        if entry is not None
    }, {partition for partition in PARTITIONS if machine.offsets.is_pending("g", partition)}


def loaded(log):
    live, machine, form, offset = LiveRecords(), GroupMachine(), GroupRecords(), 0
    while True:
        records, next_offset = log.read(offset, log.log_end_offset, 512)
        if not records:
            break
        live.add_batches(records, offset)
        offset = next_offset
    for record in live.in_order():
        if record.key is None:
            decoded = form.decode_control(record.header, record.value, 0)
        else:
            decoded = form.decode(record.header, record.key, record.value)
        machine.apply(record.offset, decoded)
    return machine


def write(log, record, now, sequences):
    (run,) = GroupRecords().encode([record], now)
    if run.producer is None:
        fields = {"producer_id": 1, "producer_epoch": 0, "base_sequence": sequences}
    else:
        producer_id, epoch = run.producer
        fields = {"producer_id": producer_id, "producer_epoch": epoch, "is_transactional": True}
    return append(log, bytes(encode_batch(run.records, **fields)), now=now)


@settings(deadline=None, max_examples=150)
@example(
    [
        ("covered", PARTITIONS[0], 5),
        ("forget", PARTITIONS[0]),
        ("commit", PARTITIONS[0]),
        ("end", 5, True),
    ]
)
@given(steps)
def test_committed_and_pending_offsets_are_the_same(actions):
    folder = Path(tempfile.mkdtemp())
    try:
        log = new_log(folder / "shard-0", is_compacted=True, is_deleted=False)
        full, now, cleaned_to, sequence, value = GroupMachine(), NOW, 0, 0, 0
        for name, *arguments in actions:
            now, value = now + 1, value + 1
            record = None
            if name == "commit":
                record = OffsetCommitted("g", arguments[0], value, -1, "", now)
            elif name == "covered":
                record = OffsetCommitted("g", arguments[0], value, -1, "", now, -1, arguments[1], 0)
            elif name == "forget":
                record = OffsetTombstone("g", arguments[0])
            elif name == "end":
                offset = mark(log, (arguments[0], 0, arguments[1]), now=now)
                full.apply(offset, TransactionEnded(arguments[0], 0, arguments[1], 0, now))
            elif name == "roll" and log.segments and log.segments[-1].size_bytes:
                log.roll(now)
            elif name == "clean" and log.segments:
                now += arguments[0]
                cleaned_to = clean(log, cleaned_to, now, map_bytes=arguments[1])
            if record is not None:
                full.apply(write(log, record, now, sequence), record)
                is_ours = getattr(record, "producer_id", -1) < 0
                sequence += is_ours
            if log.segments:
                found = loaded(log)
                assert committed_by(found) == committed_by(full)
                assert found.group("g") == full.group("g")
                for producer_id in (5, 6):
                    before, after = (m.offsets.producer(producer_id) for m in (full, found))
                    assert (before is None) == (after is None)
                    if before is not None:
                        assert after.producer_epoch == before.producer_epoch
                        assert after.is_open == before.is_open
    finally:
        shutil.rmtree(folder)
