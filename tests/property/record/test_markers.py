"""A marker is packed as a whole; its bytes are those of any batch with that record."""

from hypothesis import given
from hypothesis import strategies as st

from oncelog.record.batch import CONTROL, TRANSACTIONAL, crc_is_valid, read_header
from oncelog.record.control import Marker, MarkerType, decode_marker, encode_marker, marker_record
from oncelog.record.records import encode_batch


def signed(bits):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@given(
    marker=st.builds(Marker, st.sampled_from(MarkerType), signed(32)),
    timestamp=signed(64),
    identity=st.fixed_dictionaries(
        {
            "producer_id": signed(64),
            "producer_epoch": signed(16),
            "base_offset": signed(64),
            "leader_epoch": signed(32),
        }
    ),
)
def test_a_packed_marker_is_the_batch_of_its_record(marker, timestamp, identity):
    packed = encode_marker(marker, timestamp=timestamp, **identity)
    attributes = CONTROL | TRANSACTIONAL
    record = marker_record(marker, timestamp)
    assert packed == encode_batch([record], extra_attributes=attributes, **identity)
    assert crc_is_valid(packed, read_header(packed))
    assert decode_marker(packed) == marker
