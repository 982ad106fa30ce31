"""Pages over logs with holes, large batches and several partitions: each record once, in few bytes."""

import pytest

from oncelog.api.v1 import controller_pb2, storage_pb2, types_pb2
from oncelog.errors import ErrorCode, KafkaError
from oncelog.record.batch import Codec, read_header
from oncelog.record.control import Marker, MarkerType, encode_marker
from oncelog.record.records import Record, encode_batch
from oncelog_gateway.core.record_filter import RecordFilter
from oncelog_gateway.record_source import ASKED_MAX, Newest, Oldest, Wanted
from oncelog_gateway.records import Records

LSO_HOLDER = 9


def batch(offset, *values, span=None, producer_id=-1, codec=Codec.NONE):
    """`span`: offsets that the batch takes, where compaction took some of its records; those at the end."""
    made = encode_batch(
        [Record(None, value, 1_000 + offset) for value in values],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        is_transactional=producer_id >= 0,
        codec=codec,
    )
    if span is not None:
        made[23:27] = (span - 1).to_bytes(4, "big")
    return bytes(made)


def empty(offset, span):
    """What compaction leaves of a batch to keep its producer's last sequence."""
    made = bytearray(batch(offset, b"x", span=span)[:61])
    made[8:12] = (49).to_bytes(4, "big")
    made[57:61] = bytes(4)
    return bytes(made)


def marker(offset, kind, producer_id):
    made = encode_marker(
        Marker(kind, 0), producer_id=producer_id, producer_epoch=0, timestamp=1, base_offset=offset
    )
    return bytes(made)


class Leaders:
    """Logs in memory, read as a leader's are."""

    def __init__(self, logs, stable=None):
        self.logs, self._stable = logs, stable or {}
        self.fetches = self.described = 0
        self.broken, self.away = set(), set()

    def _end(self, number):
        return read_header(self.logs[number][-1]).next_offset if self.logs[number] else 0

    def _lso(self, number):
        return self._stable.get(number, self._end(number))

    def topic(self, name):
        partitions = [controller_pb2.Partition(partition=number) for number in self.logs]
        return controller_pb2.Topic(name=name, partitions=partitions)

    def leader_of(self, partition):
        return 1

    async def describe_partitions(self, partitions):
        return {
            one: KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{one} has no leader now")
            if one.partition in self.away
            else storage_pb2.PartitionDescription(
                topic=one.topic,
                partition=one.partition,
                high_watermark=self._end(one.partition),
                last_stable_offset=self._lso(one.partition),
            )
            for one in partitions
        }

    async def fetch(self, partition, offset, max_bytes, isolation):
        self.fetches += 1
        if partition.partition in self.broken:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the leader has moved")
        number, found = partition.partition, b""
        upper = self._end(number)
        if isolation == types_pb2.READ_COMMITTED:
            upper = self._lso(number)
        for one in self.logs[number]:
            header = read_header(one)
            if header.next_offset <= offset or header.base_offset >= upper:
                continue
            if found and len(found) + len(one) > max_bytes:
                break
            found += one
        return storage_pb2.FetchedPartition(records=found)

    async def describe_record(self, partition, offset):
        self.described += 1
        open_from = self._lso(partition.partition)
        header = next(
            header
            for header in map(read_header, self.logs[partition.partition])
            if header.base_offset <= offset < header.next_offset
        )
        is_open = header.producer_id == LSO_HOLDER and offset >= open_from
        fate = storage_pb2.IN_OPEN if is_open else storage_pb2.IN_COMMITTED
        return storage_pb2.DescribeRecordResponse(fate=fate)


class Nobody:
    """No coordinator knows a producer."""

    async def of_producers(self, ids):
        return (), ()


async def every(leaders, **wanted):
    """Records as (partition, offset) of all pages, and the bytes of the page that read the most."""
    found, cursor, most = [], None, 0
    for _ in range(500):
        page = await Records(leaders, Nobody()).page("t", Wanted(cursor=cursor, **wanted))
        assert len(page.records) <= wanted.get("limit", 100)
        found += [(one.partition, one.offset) for one in page.records]
        most, cursor = max(most, page.bytes_read), page.next_cursor
        if cursor is None:
            return found, most
    raise AssertionError("the pages never end")


HOLES = [
    batch(0, b"a", b"b", span=7),
    empty(7, 5),
    batch(20, b"c"),
    batch(21, *[b"d"] * 9),
    batch(40, b"e", span=100),
    empty(140, 60),
]
OFFSETS = [0, 1, 20, *range(21, 30), 40]


@pytest.mark.parametrize("limit", [1, 2, 5, 100])
@pytest.mark.parametrize("bytes_max", [1, 150, 100_000])
async def test_what_compaction_left_is_shown_once(limit, bytes_max):
    for begin, order in ((Oldest(), 1), (Newest(), -1)):
        found, _ = await every(Leaders({0: HOLES}), begin=begin, limit=limit, bytes_max=bytes_max)
        assert [offset for _, offset in found] == OFFSETS[::order]


async def test_a_gap_of_millions_is_crossed_in_few_fetches():
    leaders = Leaders({0: [batch(0, b"old"), batch(10_000_000, b"new")]})
    page = await Records(leaders, Nobody()).page("t", Wanted(Newest()))
    assert [one.offset for one in page.records] == [10_000_000, 0]
    assert page.next_cursor is None
    assert leaders.fetches < 20


@pytest.mark.parametrize("limit", [1, 3, 7, 100])
@pytest.mark.parametrize("bytes_max", [1, 5_000])
async def test_several_partitions_are_each_read_to_their_end(limit, bytes_max):
    logs = {
        number: [batch(offset, b"x" * 300) for offset in range(count)]
        for number, count in enumerate((0, 1, 13, 40))
    }
    expected = sorted((number, offset) for number in logs for offset in range(len(logs[number])))
    for begin in (Oldest(), Newest()):
        found, most = await every(Leaders(logs), begin=begin, limit=limit, bytes_max=bytes_max)
        assert sorted(found) == expected
        # Of each partition one batch at least, and going back a window that was too large.
        assert most <= 2 * bytes_max + 2 * len(logs) * 400


async def test_a_filter_goes_on_until_its_bytes_are_read():
    log = [batch(offset, b"needle" if offset % 50 == 7 else b"hay") for offset in range(400)]
    wanted = {"filter": RecordFilter.of(None, None, "needle"), "bytes_max": 2_000}
    expected = [(0, offset) for offset in range(7, 400, 50)]
    for begin, order in ((Oldest(), 1), (Newest(), -1)):
        found, most = await every(Leaders({0: log}), begin=begin, **wanted)
        assert found == expected[::order]
        assert most <= 5_000


async def test_records_that_compress_well_cost_what_they_are():
    """Sixteen times the bytes of a page are looked at, and not all that a megabyte may become."""
    log = [batch(offset, bytes(1 << 20), codec=Codec.ZSTD) for offset in range(40)]
    assert sum(map(len, log)) < 40_000
    for begin, order in ((Oldest(), 1), (Newest(), -1)):
        page = await Records(Leaders({0: log}), Nobody()).page("t", Wanted(begin, limit=100))
        assert 1 <= len(page.records) <= 17
        assert all(one.cut == ["value"] for one in page.records)
        found, _ = await every(Leaders({0: log}), begin=begin)
        assert [offset for _, offset in found] == list(range(40))[::order]


async def test_a_batch_that_cannot_be_shown_is_named_once_a_page():
    strange = bytearray(batch(3, *[b"x"] * 5_000))
    strange[22] |= 7
    log = [*[batch(offset, b"a") for offset in range(3)], bytes(strange)]
    log += [batch(offset, b"b") for offset in range(5_003, 5_006)]
    for begin in (Oldest(), Newest()):
        found, cursor, failures = [], None, set()
        for _ in range(10):
            wanted = Wanted(begin, cursor=cursor)
            page = await Records(Leaders({0: log}), Nobody()).page("t", wanted)
            found += [one.offset for one in page.records]
            failures |= {one.detail for one in page.incomplete}
            cursor = page.next_cursor
            if cursor is None:
                break
        assert cursor is None
        assert sorted(found) == [0, 1, 2, 5_003, 5_004, 5_005]
        assert failures == {"t-0: offsets 3 to 5002 are not shown: unknown compression codec 7"}


async def test_the_leader_is_asked_once_for_each_transaction():
    log = [batch(0, b"held", producer_id=LSO_HOLDER)]
    for start in range(1, 31, 6):
        log += [batch(start + one, b"x", producer_id=5) for one in range(5)]
        log.append(marker(start + 5, MarkerType.COMMIT, 5))
    leaders = Leaders({0: log}, stable={0: 0})
    page = await Records(leaders, Nobody()).page("t", Wanted(Oldest()))
    assert [one.outcome for one in page.records] == ["open", *(["committed"] * 5 + ["marker"]) * 5]
    assert not any(one.read_committed for one in page.records)
    assert leaders.described == 6


async def test_a_partition_that_fails_is_named_and_read_later():
    leaders = Leaders({0: [batch(0, b"a")], 1: [batch(0, b"b")]})
    leaders.broken = {1}
    page = await Records(leaders, Nobody()).page("t", Wanted(Oldest()))
    assert [one.value for one in page.records] == ["a"]
    assert [one.detail for one in page.incomplete] == ["the leader has moved"]
    leaders.broken = set()
    page = await Records(leaders, Nobody()).page("t", Wanted(cursor=page.next_cursor))
    assert [one.value for one in page.records] == ["b"]
    leaders.broken = {0, 1}
    with pytest.raises(KafkaError, match="the leader has moved"):
        await Records(leaders, Nobody()).page("t", Wanted(Oldest()))


async def test_a_cursor_keeps_a_partition_without_a_leader():
    logs = {number: [batch(offset, b"x") for offset in range(3)] for number in (0, 1)}
    leaders = Leaders(logs)
    first = await Records(leaders, Nobody()).page("t", Wanted(Oldest(), limit=2))
    leaders.away = {1}
    second = await Records(leaders, Nobody()).page("t", Wanted(cursor=first.next_cursor))
    assert [one.detail for one in second.incomplete] == ["t-1 has no leader now"]
    leaders.away = set()
    third = await Records(leaders, Nobody()).page("t", Wanted(cursor=second.next_cursor))
    assert [(one.partition, one.offset) for one in third.records] == [(1, 1), (1, 2)]
    leaders.away = {0, 1}
    with pytest.raises(KafkaError, match="has no leader now"):
        await Records(leaders, Nobody()).page("t", Wanted(cursor=first.next_cursor))


async def test_too_many_partitions_are_not_read_together():
    leaders = Leaders({number: [] for number in range(201)})
    with pytest.raises(KafkaError, match=r"has 201 partitions, .* partition=0"):
        await Records(leaders, Nobody()).page("t", Wanted())
    page = await Records(leaders, Nobody()).page("t", Wanted(partition=200))
    assert (page.records, page.next_cursor) == ([], None)


def mixed(count):
    """Offsets by outcome: of no transaction, committed, aborted; each transaction has one record and a marker."""
    log, of = [], {"plain": [], "committed": [], "aborted": []}
    for at in range(0, count, 5):
        log.append(batch(at, b"p"))
        of["plain"].append(at)
        for place, kind, producer_id in ((1, MarkerType.COMMIT, 7), (3, MarkerType.ABORT, 8)):
            log += [
                batch(at + place, b"t", producer_id=producer_id),
                marker(at + place + 1, kind, producer_id),
            ]
            of["committed" if place == 1 else "aborted"].append(at + place)
    return log, of


@pytest.mark.parametrize("outcome", ["plain", "committed"])
@pytest.mark.parametrize("stable", [0, 100, 200])
async def test_only_records_of_an_outcome_are_shown(outcome, stable):
    """Below the last stable offset and behind it, where only the leader knows."""
    log, of = mixed(200)
    wanted = {"outcomes": frozenset({outcome}), "limit": 7}
    if outcome == "committed":
        # These leaders name no aborted transaction, and call all that is decided committed.
        of["committed"] += of["aborted"]
    expected = [(0, offset) for offset in sorted(of[outcome])]
    for begin, order in ((Oldest(), 1), (Newest(), -1)):
        found, _ = await every(Leaders({0: log}, {0: stable}), begin=begin, **wanted)
        assert found == expected[::order]


async def test_markers_are_an_outcome_too():
    log, _ = mixed(50)
    found, _ = await every(Leaders({0: log}), begin=Oldest(), outcomes=frozenset({"marker"}))
    assert len(found) == 20


async def test_a_page_asks_about_so_many_transactions_at_most():
    log, _ = mixed(5_000)
    for begin in (Oldest(), Newest()):
        leaders = Leaders({0: log}, {0: 0})
        wanted = Wanted(begin, outcomes=frozenset({"open"}), limit=50)
        page = await Records(leaders, Nobody()).page("t", wanted)
        assert page.next_cursor is not None
        assert page.records == []
        assert page.unshown.filtered > 0
        assert leaders.described <= ASKED_MAX + 50
