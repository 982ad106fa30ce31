"""Fetches and a follower's log against a plain list of records: nothing is left out, told twice, or told too early."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.worlds.storage.partitions import ORDERS, header, log_state, partition_of
from tests.worlds.storage.segments import NOW, MemorySegment, batch

from oncelog.api.v1 import storage_pb2 as pb
from oncelog.record.batch import iter_headers
from oncelog_storage.core.copied import copied_batches, fitting, wrote_copied
from oncelog_storage.core.fetching import Fetching, FindAborted, LogSlice
from oncelog_storage.core.log_state import Room
from oncelog_storage.core.walks import run_walk

counts = st.lists(st.integers(1, 4), min_size=1, max_size=12)


class Log:
    """A partition led here, as whole batches in a list."""

    def __init__(self, sizes: list[int], transactional: set[int]) -> None:
        self.partition = partition_of()
        self.batches: list[tuple[int, int, bytes]] = []
        log = self.partition.log
        for number, count in enumerate(sizes):
            first = log.log_end_offset
            is_transactional = number in transactional
            log.wrote_batch(
                MemorySegment(0, is_new=True),
                0,
                100,
                header(
                    producer_id=7 + number,
                    count=count,
                    attributes=(1 << 4) if is_transactional else 0,
                ),
            )
            self.batches.append((first, first + count, batch(first, count)))
        self.partition.move_local_end(log.log_end_offset)

    def led(self, topic: str, partition: int):
        return self.partition

    def leader_of(self, partition):
        return 1, 5

    def read(self, offset: int, upper: int, bytes_max: int) -> LogSlice:
        found, next_offset = b"", -1
        for first, behind, data in self.batches:
            if (
                behind > offset
                and first < upper
                and (not found or len(found) + len(data) <= bytes_max)
            ):
                found, next_offset = found + data, behind
            elif found:
                break
        return LogSlice(found, next_offset)

    def found(self, need):
        if isinstance(need, FindAborted):
            return []
        return self.read(need.offset, need.upper, need.bytes_max)


@settings(deadline=None)
@given(
    counts,
    st.sets(st.integers(0, 11)),
    st.lists(st.integers(1, 600), min_size=1, max_size=5),
    st.booleans(),
)
def test_fetches_in_a_row_bring_every_batch_once(sizes, transactional, limits, is_committed_only):
    log = Log(sizes, transactional)
    partition = log.partition
    upper = partition.last_stable_offset if is_committed_only else partition.high_watermark
    seen, offset, turn = [], 0, 0
    while offset < upper:
        request = pb.FetchRequest(max_bytes=limits[turn % len(limits)], min_bytes=1)
        reading = Fetching(request, log, 1 << 20, is_committed_only=is_committed_only)
        answer = pb.FetchedPartition(topic="orders")
        part = pb.FetchPartition(topic="orders", fetch_offset=offset, current_leader_epoch=-1)
        run_walk(reading.read(part, answer), log.found)
        assert reading.is_enough, "the first records go whatever the limit"
        headers = [found for _, found in iter_headers(answer.records)]
        assert headers[0].base_offset == offset
        seen += [found.base_offset for found in headers]
        offset, turn = headers[-1].last_offset + 1, turn + 1
    assert seen == [first for first, _, _ in log.batches if first < upper]
    assert offset == upper


@settings(deadline=None)
@given(counts, st.integers(1, 600), st.lists(st.integers(1, 5), max_size=4))
def test_a_copy_is_what_the_leader_has(sizes, segment_bytes, cuts):
    log = log_state(ORDERS, segment_bytes=segment_bytes)
    segments: list[MemorySegment] = []
    log.segments = segments
    rows, first = [], 0
    for count in sizes:
        rows.append(batch(first, count))
        first += count
    left = list(rows)
    for size in [*cuts, len(rows)]:
        view = memoryview(b"".join(left[:size]))
        left = left[size:]
        batches = copied_batches(log, view)
        while batches:
            if log.room_for(batches[0].added, NOW) is not Room.NEWEST:
                segments.append(MemorySegment(log.log_end_offset, created_ms=NOW, is_new=True))
            segment = segments[-1]
            run = fitting(log, segment, batches, NOW)
            size_bytes = sum(each.size_bytes for each in run)
            assert segment.size_bytes == 0 or segment.size_bytes + size_bytes <= segment_bytes
            position, segment.size_bytes = segment.size_bytes, segment.size_bytes + size_bytes
            wrote_copied(log, segment, position, run, view)
            batches = batches[len(run) :]
    assert log.log_end_offset == first
    assert sum(segment.size_bytes for segment in segments) == sum(map(len, rows))
    starts = [segment.base_offset for segment in segments]
    assert starts == sorted(set(starts))
    for offset in range(first + 1):
        kept = segments[log.droppable(offset) :]
        assert kept
        assert all(behind.base_offset > offset for behind in kept[1:])
