"""A load of a compacted shard gives the machine that a load of everything ever written gives."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.integration.storage.cleaned_log import batches_from, clean
from tests.integration.storage.partition_log_at import append, mark, new_log, opened
from tests.integration.storage.storage_node import NOW

from oncelog.ids import Partition
from oncelog.record.records import Record, decode_batch, encode_batch
from oncelog_coordinator.core.shard_machine import (
    ShardMachine,
    decode_shard_record,
    encode_shard_record,
)
from oncelog_coordinator.core.txn_state import TxnMetadata, TxnState, TxnTombstone
from oncelog_coordinator.shard_replay import LiveRecords, next_offset_of

states = st.one_of(
    st.none(),
    st.builds(
        lambda state, epoch, partition: (state, epoch, partition),
        st.sampled_from([state for state in TxnState if state is not TxnState.DEAD]),
        st.integers(0, 5),
        st.integers(0, 3),
    ),
)
batches = st.lists(st.tuples(st.integers(0, 4), states), min_size=1, max_size=4)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), batches),
        st.tuples(st.just("covered"), batches, st.booleans()),
        st.tuples(st.just("clean"), st.sampled_from([0, 2000]), st.sampled_from([64, 1 << 20])),
        st.tuples(st.just("roll")),
        st.tuples(st.just("restart")),
    ),
    max_size=40,
)


def record_of(index, content):
    name = f"id-{index}"
    if content is None:
        return TxnTombstone(name)
    state, epoch, partition = content
    partitions = (
        (Partition("t", partition),) if state in (TxnState.ONGOING, TxnState.PREPARE_COMMIT) else ()
    )
    start = -1 if state is TxnState.EMPTY else NOW
    return TxnMetadata(name, index, epoch, state, 1000, partitions, start, NOW, index)


def encoded(content, **fields):
    records = [
        Record(*encode_shard_record(record_of(*each), 1), NOW + i) for i, each in enumerate(content)
    ]
    return bytes(encode_batch(records, **fields))


def bytes_of(log):
    found, offset = [], log.log_start_offset
    while True:
        records, next_offset = log.read(offset, log.log_end_offset, 512)
        if not records:
            return found
        assert next_offset_of(records) == next_offset
        found.append((offset, records))
        offset = next_offset


def loaded(log):
    live = LiveRecords()
    for start, data in bytes_of(log):
        live.add_batches(data, start)
    machine, covered = ShardMachine(), []
    for record in live.in_order():
        if record.header.is_transactional:
            covered.append((record.offset, record.key))
        else:
            machine.apply(record.offset, decode_shard_record(record.key, record.value))
    return {txn.transactional_id: txn for txn in machine.txn.transactions}, covered


def replayed(records):
    machine = ShardMachine()
    for offset, record in records:
        machine.apply(offset, record)
    return {txn.transactional_id: txn for txn in machine.txn.transactions}


@settings(deadline=None, max_examples=100)
@given(steps)
def test_a_load_of_a_compacted_shard_equals_a_load_of_all_of_it(actions):
    folder = Path(tempfile.mkdtemp())
    try:
        log = new_log(folder / "shard-0", is_compacted=True, is_deleted=False)
        written, sequence, cleaned_to, now = [], 0, 0, NOW
        for name, *arguments in actions:
            now += 1
            if name == "append":
                batch = encoded(
                    arguments[0], producer_id=1, producer_epoch=0, base_sequence=sequence
                )
                base = append(log, batch, now=now)
                sequence += len(arguments[0])
                written += [(base + i, record_of(*c)) for i, c in enumerate(arguments[0])]
            elif name == "covered":
                # Of a client's transaction, as group shards have them: never mixed up with the rest.
                content = [(index + 10, state) for index, state in arguments[0]]
                append(
                    log,
                    encoded(content, producer_id=2, producer_epoch=0, is_transactional=True),
                    now=now,
                )
                mark(log, (2, 0, arguments[1]), now=now)
            elif name == "roll" and log.segments and log.segments[-1].size_bytes:
                log.roll(now)
            elif name == "clean" and log.segments:
                now += arguments[0]
                cleaned_to = clean(log, cleaned_to, now, map_bytes=arguments[1])
            elif name == "restart" and log.exists_on_disk:
                log.close()
                log = opened(log.directory, log.recovery_point, is_compacted=True, is_deleted=False)
            if not log.segments:
                continue
            found, covered = loaded(log)
            assert found == replayed(written)
            in_log = [
                (record.offset, record.key)
                for header, data, at in batches_from(log, 0)
                if header.is_transactional and not header.is_control
                for record in decode_batch(data, at)
            ]
            assert [each for each in covered if each[1] is not None] == in_log
    finally:
        shutil.rmtree(folder)
