"""Lookups in the sparse indexes and the aborted-transaction index against a full scan."""

from hypothesis import given
from hypothesis import strategies as st
from tests.worlds.storage.partitions import TRANSACTIONAL, header

from oncelog_storage.core.aborted_index import (
    AbortedTransactionEntry,
    decode_entries,
    encode_entry,
    search,
)
from oncelog_storage.core.offset_index import OffsetIndex
from oncelog_storage.core.producer_state import ProducerStates
from oncelog_storage.core.time_index import TimeIndex

ASCENDING = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 500)), max_size=40)


@given(ASCENDING, st.integers(0, 3000), st.integers(0, 3000))
def test_offset_lookup_is_the_last_entry_at_or_below(steps, offset, cut):
    index, offset_at, position_at, entries = OffsetIndex(100), 100, 0, []
    for offset_step, position_step in steps:
        offset_at += offset_step
        position_at += position_step
        index.append(offset_at, position_at)
        entries.append((offset_at, position_at))
    index.check(position_at + 1)
    below = [position for at, position in entries if at <= 100 + offset]
    assert index.lookup(100 + offset) == (below[-1] if below else 0)
    copy = OffsetIndex(100, index.bytes_from(0))
    copy.truncate_from(100 + cut)
    assert [copy.entry(each) for each in range(len(copy))] == [
        entry for entry in entries if entry[0] < 100 + cut
    ]


@given(st.lists(st.integers(-1, 100), max_size=60), st.integers(0, 100))
def test_no_record_before_a_time_lookup_is_new_enough(timestamps, wanted):
    index, largest, largest_at = TimeIndex(0), -1, 0
    for offset, timestamp in enumerate(timestamps):
        if timestamp > largest:
            largest, largest_at = timestamp, offset
        if offset % 3 == 2:
            index.maybe_append(largest, largest_at)
    index.check()
    before = index.lookup(wanted)
    if before is not None:
        assert all(timestamp <= before[0] < wanted for timestamp in timestamps[: before[1] + 1])


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.sampled_from(["write", "commit", "abort"])), max_size=60
    ),
    st.data(),
)
def test_a_fetch_is_told_of_exactly_the_aborted_it_touches(actions, data):
    """The real producer state makes the entries; the model knows every transaction. Segments split the entries."""
    states, end = ProducerStates(), 0
    entries, open_transactions, aborted = [], {}, []
    for producer, action in actions:
        if action == "write":
            written = header(producer_id=producer, sequence=-1, attributes=TRANSACTIONAL)
            states.apply_batch(written, end)
            open_transactions.setdefault(producer, end)
        else:
            completed = states.apply_marker(
                producer_id=producer,
                producer_epoch=0,
                coordinator_epoch=0,
                is_commit=action == "commit",
                marker_offset=end,
                timestamp=0,
            )
            first = open_transactions.pop(producer, None)
            if completed is not None and action == "abort":
                entries.append(
                    AbortedTransactionEntry(producer, first, end, completed.last_stable_offset)
                )
                aborted.append((producer, first, end))
        end += 1
    assert decode_entries(b"".join(map(encode_entry, entries))) == entries
    stable = min(open_transactions.values(), default=end)
    if stable == 0:
        return
    fetch_offset = data.draw(st.integers(0, stable - 1))
    upper = data.draw(st.integers(fetch_offset + 1, stable))
    split = data.draw(st.integers(0, len(entries)))
    found, is_complete = search(entries[:split], fetch_offset, upper)
    if not is_complete:
        found += search(entries[split:], fetch_offset, upper)[0]
    touched = [row for row in aborted if row[2] >= fetch_offset and row[1] < upper]
    assert [tuple(entry[:3]) for entry in found] == touched
