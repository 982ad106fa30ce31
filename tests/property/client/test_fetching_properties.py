"""A consumer's core hands out each committed record once and in order, in whatever order requests are answered."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.core.addresses import Address
from oncelog.client.core.cluster_view import ClusterView, Leader, Node, TopicView
from oncelog.client.core.consumer_record import reader_class
from oncelog.client.core.consumer_settings import ConsumerSettings
from oncelog.client.core.fetching import FetchCore
from oncelog.client.core.log_places import EARLIEST_TIMESTAMP
from oncelog.client.core.partition_state import FetchAnswer
from oncelog.client.core.visibility import AbortedTransaction
from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog.record.batch import Codec, iter_headers, read_header
from oncelog.record.control import Marker, MarkerType, encode_marker
from oncelog.record.records import Record, encode_batch

TOPIC = "t"
PASSING = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


class Log:
    """One partition: transactions of a few producers, side by side, and records without one."""

    def __init__(self, kinds):
        self.bytes, self.starts, self.aborted, self.committed = bytearray(), [], [], []
        open_since, written = {}, {}
        self.end = 0
        for producer_id, kind, count, codec in kinds:
            if kind == "write":
                open_since.setdefault(producer_id, self.end)
                written.setdefault(producer_id, []).extend(range(self.end, self.end + count))
                self._batch(count, codec, producer_id=producer_id, is_transactional=True)
            elif kind == "plain":
                self.committed += range(self.end, self.end + count)
                self._batch(count, codec)
            elif producer_id in open_since:
                self._marker(producer_id, kind, open_since.pop(producer_id))
                if kind == "commit":
                    self.committed += written.pop(producer_id)
                else:
                    del written[producer_id]
        self.stable = min(open_since.values(), default=self.end)
        self.committed = sorted(one for one in self.committed if one < self.stable)

    def _batch(self, count, codec, **options):
        records = [Record(b"%d" % (self.end + index), b"v", 1) for index in range(count)]
        self._add(encode_batch(records, base_offset=self.end, codec=codec, **options))

    def _marker(self, producer_id, kind, first_offset):
        if kind == "abort":
            self.aborted.append((producer_id, first_offset, self.end))
        marker = Marker(MarkerType.COMMIT if kind == "commit" else MarkerType.ABORT, 0)
        self._add(
            encode_marker(
                marker, producer_id=producer_id, producer_epoch=0, timestamp=1, base_offset=self.end
            )
        )

    def _add(self, batch):
        self.starts.append((read_header(batch).next_offset, len(self.bytes)))
        self.bytes += batch
        self.end = self.starts[-1][0]

    def answer(self, offset, batches):
        """What a leader sends: whole batches below the last stable offset, from the one that holds `offset`."""
        marks = {"high_watermark": self.end, "last_stable_offset": self.stable}
        found = bytearray()
        last = offset
        for position, header in iter_headers(self.bytes):
            if header.last_offset < offset or header.base_offset >= self.stable:
                continue
            if not batches:
                break
            batches -= 1
            last = header.next_offset
            found += self.bytes[position : position + header.size_bytes]
        aborted = tuple(
            AbortedTransaction(producer_id, first)
            for producer_id, first, marker in self.aborted
            if marker >= offset and first < last
        )
        return FetchAnswer(ErrorCode.NONE, bytes(found), aborted, **marks)


steps = st.tuples(
    st.integers(1, 3),
    st.sampled_from(["write", "write", "plain", "commit", "abort"]),
    st.integers(1, 4),
    st.sampled_from([Codec.NONE, Codec.LZ4]),
)
logs = st.lists(steps, max_size=20).map(Log)


class Consumer:
    """The core with a cluster of two nodes that answers when it is told to."""

    def __init__(self, partitions):
        self.logs = dict(enumerate(partitions))
        self.epoch, self.now, self.under_way = 0, 0.0, []
        self.core = FetchCore(ConsumerSettings(auto_offset_reset="earliest"), reader_class())
        self.elect(0)
        self.core.assign([Partition(TOPIC, number) for number in self.logs])
        self.got = {number: [] for number in self.logs}

    def elect(self, node):
        self.epoch += 1
        leaders = tuple(Leader((node + number) % 2, self.epoch) for number in self.logs)
        nodes = [Node(one, Address("h", one + 1), None) for one in (0, 1)]
        view = ClusterView().with_answer(nodes, [TopicView(TOPIC, b"i" * 16, leaders)], "c", 0)
        self.core.view = view

    def step(self):
        step = self.core.step(self.now, lambda node_id: True)
        self.under_way += step.fetches
        self.under_way += [one for asked in step.lookups.values() for one in asked]
        self.under_way += [one for asked in step.validations.values() for one in asked]
        nodes = Counter(one.node_id for one in self.under_way if hasattr(one, "parts"))
        assert all(count == 1 for count in nodes.values()), "one fetch a node"

    def answer(self, index, error=None, batches=3):
        one = self.under_way.pop(index % len(self.under_way))
        if hasattr(one, "parts"):
            if error == "lost":
                self.core.fetch_lost(one, self.now)
                return
            self.core.fetch_ended(one)
            for part in one.parts:
                log = self.logs[part.partition.partition]
                answer = FetchAnswer(error) if error else log.answer(part.offset, batches)
                self.core.fetched(part, answer, self.now)
        elif error:
            failing = ErrorCode.NETWORK_EXCEPTION if error == "lost" else error
            self.core.ask_again(one.partition, one.version, self.now, failing)
        elif hasattr(one, "timestamp_ms"):
            assert one.timestamp_ms == EARLIEST_TIMESTAMP
            self.core.looked_up(one, 0, 0)
        else:
            log = self.logs[one.partition.partition]
            self.core.validated(one, one.offset_epoch, log.end)

    def take(self, count):
        found = self.core.take(count)
        for record in found:
            assert record.key == b"%d" % record.offset
            self.got[record.partition].append(record.offset)
        return found

    def drain(self):
        for _ in range(1000):
            self.now += 2000
            self.step()
            while self.under_way:
                self.answer(0)
            while self.take(7):
                pass
            if all(
                self.core.state(Partition(TOPIC, number)).position == log.stable
                for number, log in self.logs.items()
            ):
                return
        raise AssertionError("it does not come to the end")


moves = st.one_of(
    st.tuples(st.just("step")),
    st.tuples(
        st.just("answer"),
        st.integers(0, 5),
        st.sampled_from([None, None, None, "lost", *PASSING]),
        st.integers(0, 4),
    ),
    st.tuples(st.just("take"), st.integers(1, 9)),
    st.tuples(st.just("elect"), st.integers(0, 1)),
    st.tuples(st.just("later")),
    st.tuples(st.just("back"), st.integers(0, 2)),
)


@given(st.lists(logs, min_size=1, max_size=3), st.lists(moves, max_size=60))
def test_each_committed_record_is_handed_out_once_in_order(partitions, script):
    consumer = Consumer(partitions)
    for move, *words in script:
        if move == "step":
            consumer.step()
        elif move == "answer":
            consumer.step()
            if consumer.under_way:
                consumer.answer(*words)
                consumer.step()
        elif move == "take":
            consumer.take(*words)
        elif move == "elect":
            consumer.elect(*words)
        elif move == "later":
            consumer.now += 500
        elif move == "back" and words[0] in consumer.logs:
            # To where it stands: what was read ahead is read again, and old answers do not count.
            state = consumer.core.state(Partition(TOPIC, words[0]))
            if state.position >= 0:
                consumer.core.seek(state.partition, state.position)
    consumer.drain()
    assert consumer.got == {number: log.committed for number, log in consumer.logs.items()}


@given(logs, st.lists(st.integers(1, 5), max_size=12))
def test_the_position_is_behind_what_was_handed_out(log, counts):
    consumer = Consumer([log])
    state = consumer.core.state(Partition(TOPIC, 0))
    for count in counts:
        consumer.step()
        while consumer.under_way:
            consumer.answer(0)
        consumer.take(count)
        if consumer.got[0]:
            assert state.position > consumer.got[0][-1]
        left = [one for one in log.committed if one not in consumer.got[0]]
        assert not left or state.position <= left[0]
