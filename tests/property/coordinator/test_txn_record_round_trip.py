"""What is written is read back; what is damaged is named, never guessed."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from oncelog.ids import Partition
from oncelog_coordinator.core.request_origin import RequestOrigin
from oncelog_coordinator.core.txn_records import MalformedRecord, decode_record, encode_record
from oncelog_coordinator.core.txn_state import TxnMetadata, TxnState

int64s = st.integers(-(2**63), 2**63 - 1)
topics = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
partitions = st.lists(
    st.builds(Partition, topics, st.integers(0, 2**31 - 1)), unique=True, max_size=8
)


@st.composite
def transactions(draw):
    state = draw(st.sampled_from([state for state in TxnState if state < 6]))
    grouped = {}
    for topic, number in draw(partitions):
        grouped.setdefault(topic, []).append(Partition(topic, number))
    return TxnMetadata(
        draw(topics),
        draw(int64s),
        draw(st.integers(-1, 32_767)),
        state,
        draw(st.integers(0, 2**31 - 1)),
        () if state is TxnState.EMPTY else tuple(p for group in grouped.values() for p in group),
        draw(int64s),
        draw(int64s),
        draw(int64s),
        draw(int64s),
        draw(st.sampled_from([0, 1, 2])),
        draw(st.integers(-1, 32_767)),
        origin=draw(st.none() | st.builds(RequestOrigin, int64s, int64s, int64s)),
    )


@given(transactions())
def test_version_1_round_trips(txn):
    assert decode_record(*encode_record(txn, 1)) == txn


@given(transactions())
def test_version_0_keeps_all_but_the_tagged_fields(txn):
    untagged = replace(
        txn,
        previous_producer_id=-1,
        next_producer_id=-1,
        client_transaction_version=0,
        last_producer_epoch=-1,
        origin=None,
    )
    assert decode_record(*encode_record(txn, 0)) == untagged


@given(transactions(), st.sampled_from([0, 1]), st.data())
def test_a_flipped_byte_is_read_or_refused_but_never_breaks(txn, version, data):
    key, value = encode_record(txn, version)
    at = data.draw(st.integers(0, len(value) - 1))
    damaged = bytearray(value)
    damaged[at] ^= data.draw(st.integers(1, 255))
    try:
        decode_record(key, bytes(damaged))
    except MalformedRecord:
        return


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(key, value):
    try:
        decode_record(b"\0\0" + key, value)
    except MalformedRecord:
        return
