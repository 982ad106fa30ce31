"""Fetched batches, record by record: what became of each, as far as the fetch says."""

import pytest

from oncelog.client.core.visibility import AbortedTransaction
from oncelog.errors import KafkaError
from oncelog.record.batch import Codec
from oncelog.record.control import Marker, MarkerType, encode_marker
from oncelog.record.records import Record, encode_batch
from oncelog_gateway.core.record_walk import Unreadable, Walk


def batch(offset, *values, producer_id=-1, codec=Codec.NONE):
    return encode_batch(
        [Record(None, value, 1_000) for value in values],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        is_transactional=producer_id >= 0,
        codec=codec,
    )


def marker(offset, kind, producer_id):
    return encode_marker(
        Marker(kind, 0), producer_id=producer_id, producer_epoch=0, timestamp=1, base_offset=offset
    )


LOG = b"".join(
    (
        batch(0, b"plain"),
        batch(1, b"a", b"b", producer_id=7),
        batch(3, b"c", producer_id=8, codec=Codec.ZSTD),
        marker(4, MarkerType.ABORT, 7),
        batch(5, b"d", producer_id=7),
        marker(6, MarkerType.COMMIT, 7),
    )
)


def outcomes(records, aborted):
    return [(one.record.offset, one.outcome) for one in Walk().through(records, aborted)]


def test_below_the_lso_each_record_has_its_outcome():
    assert outcomes(LOG, [AbortedTransaction(7, 1)]) == [
        (0, "plain"),
        (1, "aborted"),
        (2, "aborted"),
        (3, "committed"),
        (4, "marker"),
        (5, "committed"),
        (6, "marker"),
    ]


def test_behind_the_lso_the_leader_must_be_asked():
    assert [outcome for _, outcome in outcomes(LOG, None)] == [
        "plain",
        *[None] * 3,
        "marker",
        None,
        "marker",
    ]


def test_a_marker_parts_two_transactions_of_a_producer():
    found = {one.record.offset: one.transaction for one in Walk().through(LOG, None)}
    assert found[1] == found[2]
    assert found[1] != found[5]
    assert found[3].producer_id == 8
    assert found[0] is None


def test_markers_say_which_they_are():
    found = [one.marker for one in Walk().through(LOG, []) if one.outcome == "marker"]
    assert found == ["abort", "commit"]


def test_a_walk_goes_on_over_two_fetches():
    walk = Walk()
    first = list(walk.through(batch(0, b"a", producer_id=7) + marker(1, MarkerType.ABORT, 7), None))
    second = list(walk.through(bytes(batch(2, b"b", producer_id=7)), None))
    assert first[0].transaction != second[0].transaction


def test_a_batch_that_is_too_large_is_named_and_left_out():
    records = batch(0, bytes(2_000), codec=Codec.GZIP) + batch(1, b"next")
    large, following = Walk(1_000).through(bytes(records), [])
    assert isinstance(large, Unreadable)
    assert "more than 1000 bytes" in large.why
    assert following.record.value == b"next"


def test_a_codec_that_is_not_known_is_named_and_left_out():
    strange = batch(0, b"x")
    strange[22] |= 7
    unknown, following = Walk().through(bytes(strange + batch(1, b"next")), None)
    assert "unknown compression codec 7" in unknown.why
    assert following.record.offset == 1


def test_a_length_that_cannot_be_is_an_error():
    broken = batch(0, b"x")
    broken[8:12] = (3).to_bytes(4, "big")
    with pytest.raises(KafkaError, match="batch length 3"):
        list(Walk().through(bytes(broken), None))
