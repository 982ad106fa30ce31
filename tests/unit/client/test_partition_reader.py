"""Reading [start, end) by position, against a broker that hands out hand-made logs (SPARK source, facts 3)."""

from dataclasses import replace

import pytest
from tests.unit.client.kafka_peer import Hangup, KafkaPeer, PeerPartition

from oncelog.client.cluster import ClientSettings, Cluster
from oncelog.client.core.log_places import READ_UNCOMMITTED
from oncelog.client.core.visibility import AbortedTransaction
from oncelog.client.partition_reader import DataLossError, ReadPlan, read_partition
from oncelog.ids import Partition
from oncelog.protocol import versions
from oncelog.record.control import Marker, MarkerType, encode_marker
from oncelog.record.records import Record, encode_batch

ORDERS = Partition("orders", 0)
QUICK = ClientSettings(request_timeout_ms=5_000, call_timeout_ms=300, backoff_min_ms=1)

UNCOMMITTED = replace(QUICK, isolation_level=READ_UNCOMMITTED)


def data(*values, pid=-1):
    records = [Record(b"k", value.encode(), 1_700_000_000_000) for value in values]
    if pid < 0:
        return bytes(encode_batch(records))
    return bytes(
        encode_batch(
            records, producer_id=pid, producer_epoch=0, base_sequence=0, is_transactional=True
        )
    )


def marker(kind, pid):
    return bytes(
        encode_marker(
            Marker(kind, 0), producer_id=pid, producer_epoch=0, timestamp=1_700_000_000_000
        )
    )


@pytest.fixture
def peer():
    with KafkaPeer({"orders": 1}) as peer:
        yield peer


@pytest.fixture
def log(peer) -> PeerPartition:
    return peer.partitions["orders", 0]


def read(peer, start, end, *, settings=QUICK, **plan):
    warnings: list[str] = []
    found = []
    with Cluster([peer.address], settings) as cluster:
        for columns in read_partition(
            cluster, ReadPlan(ORDERS, start, end, **plan), warnings.append
        ):
            values = [value.decode() for value in columns.values.to_pylist()]
            found += zip(columns.offsets.tolist(), values, strict=True)
    return (found, warnings) if plan.get("fail_on_data_loss") is False else found


def test_empty_range_asks_nobody(peer):
    assert read(peer, 5, 5) == []
    assert peer.requests == []


def test_range_begins_and_ends_inside_batches(peer, log):
    log.append(data("a", "b", "c"))
    log.append(data("d", "e", "f"))
    assert read(peer, 1, 5) == [(1, "b"), (2, "c"), (3, "d"), (4, "e")]


def test_first_offsets_are_missing(peer, log):
    log.append(data("a"), skip_offsets=10)
    assert read(peer, 3, 11) == [(10, "a")]


def test_gap_in_the_middle_ends_at_the_next_batch(peer, log):
    log.append(data("a"))
    log.append(data("b"), skip_offsets=100)
    assert read(peer, 0, 102) == [(0, "a"), (101, "b")]


def test_range_that_ends_inside_a_gap_shows_nothing_behind_it(peer, log):
    log.append(data("a"))
    log.append(data("b"), skip_offsets=100)
    assert read(peer, 0, 50) == [(0, "a")]


def test_last_offsets_are_missing_but_decided(peer, log):
    log.append(data("a"))
    log.next_offset = 20  # what was there is compacted away
    assert read(peer, 0, 20) == [(0, "a")]


def test_nothing_is_left_of_the_range(peer, log):
    log.next_offset = 20
    assert read(peer, 5, 20) == []


def test_marker_is_the_last_offset(peer, log):
    log.append(data("a", "b", pid=7))
    log.append(marker(MarkerType.COMMIT, 7))
    assert read(peer, 0, 3) == [(0, "a"), (1, "b")]


@pytest.fixture
def mixed(log):
    """One committed, one aborted and one open transaction, with plain records between."""
    log.append(data("a", "b", pid=7))  # 0, 1
    log.append(marker(MarkerType.COMMIT, 7))
    log.append(data("c", pid=8))  # 3
    log.append(data("d"))
    log.append(marker(MarkerType.ABORT, 8))
    log.append(data("e", "f", pid=9))  # 6, 7
    log.append(data("g"))
    log.append(data("h", pid=7))  # 9, decided, and yet behind an open one
    log.append(marker(MarkerType.ABORT, 7))
    log.aborted.append(AbortedTransaction(8, 3))
    log.last_stable_offset = 6
    return log


def outcomes(peer, start, end, **plan):
    with Cluster([peer.address], UNCOMMITTED) as cluster:
        found = read_partition(cluster, ReadPlan(ORDERS, start, end, **plan), pytest.fail)
        return [
            (value.decode(), columns.outcome)
            for columns in found
            for value in columns.values.to_pylist()
        ]


def test_uncommitted_reading_shows_every_record_but_markers(peer, mixed):
    assert read(peer, 0, 11, settings=UNCOMMITTED) == [
        *[(0, "a"), (1, "b"), (3, "c"), (4, "d"), (6, "e"), (7, "f"), (8, "g"), (9, "h")]
    ]
    assert {outcome for _, outcome in outcomes(peer, 0, 11)} == {None}


def test_each_record_tells_its_outcome_when_asked(peer, mixed):
    decided = [("a", "committed"), ("b", "committed"), ("c", "aborted"), ("d", "committed")]
    behind = [("e", "undecided"), ("f", "undecided"), ("g", "committed"), ("h", "undecided")]
    assert outcomes(peer, 0, 11, with_outcome=True) == decided + behind
    assert outcomes(peer, 3, 8, with_outcome=True) == decided[2:] + behind[:2]
    assert outcomes(peer, 7, 9, with_outcome=True) == behind[1:3]
    tiny = outcomes(peer, 0, 11, with_outcome=True, fetch_bytes=1)
    assert tiny == decided + behind


def test_a_cut_tail_is_noticed_by_who_reads_uncommitted(peer, mixed):
    for plan in ({}, {"with_outcome": True}):
        with (
            Cluster([peer.address], UNCOMMITTED) as cluster,
            pytest.raises(DataLossError, match=r"11 to 19 were planned, .*up to offset 11"),
        ):
            list(read_partition(cluster, ReadPlan(ORDERS, 0, 20, **plan), pytest.fail))


def test_a_topic_that_is_gone_is_lost_data(peer):
    gone = Partition("gone", 0)
    with Cluster([peer.address], replace(QUICK, call_timeout_ms=50)) as cluster:
        with pytest.raises(DataLossError, match=r"gone-0: offsets 3 to 8 .*its topic was deleted"):
            list(read_partition(cluster, ReadPlan(gone, 3, 9), pytest.fail))
        warnings = []
        plan = ReadPlan(gone, 3, 9, fail_on_data_loss=False)
        assert list(read_partition(cluster, plan, warnings.append)) == []
    assert len(warnings) == 1


def test_range_of_markers_only(peer, log):
    for pid in range(5):
        log.append(marker(MarkerType.COMMIT, pid))
    assert read(peer, 0, 5) == []


def test_aborted_range_is_left_out_and_what_is_between_stays(peer, log):
    log.append(data("a1", pid=7))
    log.append(data("c1", pid=8))
    log.append(data("a2", pid=7))
    log.append(marker(MarkerType.ABORT, 7))
    log.append(data("again", pid=7))
    log.append(marker(MarkerType.COMMIT, 8))
    log.append(marker(MarkerType.COMMIT, 7))
    log.aborted = [AbortedTransaction(7, 0)]
    assert read(peer, 0, 7) == [(1, "c1"), (4, "again")]


def test_whole_range_is_aborted(peer, log):
    log.append(data("a", "b", pid=7))
    log.append(marker(MarkerType.ABORT, 7))
    log.aborted = [AbortedTransaction(7, 0)]
    assert read(peer, 0, 3) == []


def test_connection_cut_between_answers_loses_nothing(peer, log):
    for number in range(30):
        log.append(data(f"{number}" * 400_000))
    cuts = iter([False, True, False, False, True, False, True])

    def cut(api_key, request):
        if api_key == versions.FETCH and next(cuts, False):
            raise Hangup

    peer.before_answer = cut
    assert [offset for offset, _ in read(peer, 0, 30)] == list(range(30))


def test_retention_past_the_start_is_data_loss(peer, log):
    log.append(data("a"))
    log.append(data("b"))
    log.log_start = 1
    with pytest.raises(
        DataLossError, match=r"orders-0: offsets 0 to 0 are gone.*failOnDataLoss=false"
    ):
        read(peer, 0, 2)


def test_accepted_data_loss_goes_on_at_the_first_offset(peer, log):
    log.append(data("a"))
    log.append(data("b"))
    log.log_start = 1
    found, warnings = read(peer, 0, 2, fail_on_data_loss=False)
    assert found == [(1, "b")]
    assert len(warnings) == 1
    assert "offsets 0 to 0 are gone" in warnings[0]


def test_truncated_log_is_data_loss_after_the_waiting_time(peer, log):
    log.append(data("a"))
    with pytest.raises(DataLossError, match="offsets 1 to 9 were planned"):
        read(peer, 0, 10)


def test_accepted_truncation_ends_the_range(peer, log):
    log.append(data("a"))
    found, warnings = read(peer, 0, 10, fail_on_data_loss=False)
    assert found == [(0, "a")]
    assert "truncated" in warnings[0]


def test_end_above_the_stable_offset_waits_for_the_decision(peer, log):
    log.append(data("a", pid=7))
    log.append(marker(MarkerType.COMMIT, 7))
    log.last_stable_offset = 0

    def decide(api_key, request):
        if api_key == versions.LIST_OFFSETS:
            log.last_stable_offset = None

    peer.before_answer = decide
    assert read(peer, 0, 2) == [(0, "a")]
