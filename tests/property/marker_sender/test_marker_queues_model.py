"""Every marker arrives, or is dropped, or its delivery ends fenced or cancelled; and each delivery ends once.

Random deliveries, answers, lost answers, leader moves, deletions and cancels; then everything heals, and the queues
must run dry. The model leaders keep what was written, in order.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog_marker_sender.core.queues import HOLDING, Limits, MarkerQueues, Outcome

PARTITIONS = [Partition(topic, number) for topic in "ab" for number in range(2)]
PARTITION = st.sampled_from(PARTITIONS)
NODE = st.sampled_from([1, 2, 3])
CODES = st.sampled_from(
    [ErrorCode(code) for code in (0, 0, 0, 0, 3, 6, 7, 19, 20, 56, 43, 35, 47, 52, -1, 10)]
)
FENCING = {ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED}


class QueuesModel(RuleBasedStateMachine):
    requests = Bundle("requests")

    def __init__(self):
        super().__init__()
        self.queues = MarkerQueues(
            Limits(
                queued_markers_max=25,
                request_markers_max=4,
                retry_backoff_ms=10,
                retry_backoff_max_ms=50,
            )
        )
        self.now_ms = 0
        self.leaders = dict.fromkeys(PARTITIONS, 1)
        self.wanted = {}  # delivery -> partition -> positions of markers
        self.shards = {}  # delivery -> (shard, coordinator epoch)
        self.written = {}  # delivery -> partitions that some leader has written
        self.droppable = {}  # delivery -> partitions that were gone, or refused for good, at some time
        self.fenceable = set()  # deliveries that some leader fenced
        self.cancelled = set()
        self.ended = {}
        self.flying = {}  # node -> request

    def leader_of(self, partition):
        return self.leaders.get(partition)

    def take_ended(self, ended):
        for over in ended:
            assert over.delivery_id not in self.ended, "told twice"
            self.ended[over.delivery_id] = over
            wanted = set(self.wanted[over.delivery_id])
            assert set(over.dropped) <= self.droppable[over.delivery_id]
            match over.outcome:
                case Outcome.DELIVERED:
                    assert wanted == self.written[over.delivery_id] | set(over.dropped)
                case Outcome.FENCED:
                    assert over.delivery_id in self.fenceable
                case Outcome.CANCELLED:
                    assert over.delivery_id in self.cancelled

    def note_gone(self):
        for delivery_id, wanted in self.wanted.items():
            for partition in wanted:
                if partition not in self.leaders:
                    self.droppable[delivery_id].add(partition)

    @rule(
        markers=st.lists(st.lists(PARTITION, max_size=4), max_size=3),
        shard=st.integers(0, 1),
        coordinator_epoch=st.integers(0, 2),
    )
    def deliver(self, markers, shard, coordinator_epoch):
        delivery_id = len(self.wanted)
        wanted = {}
        for position, partitions in enumerate(markers):
            for partition in dict.fromkeys(partitions):
                wanted.setdefault(partition, []).append(position)
        count = sum(map(len, wanted.values()))
        is_full = self.queues.marker_count and self.queues.marker_count + count > 25
        added = self.queues.add(shard, coordinator_epoch, markers, self.leader_of, self.now_ms)
        assert (added is None) == bool(is_full)
        if added is None:
            return
        assert added[0] == delivery_id
        self.wanted[delivery_id] = wanted
        self.shards[delivery_id] = (shard, coordinator_epoch)
        self.written[delivery_id] = set()
        self.droppable[delivery_id] = set()
        self.note_gone()
        self.take_ended(added[1])

    @rule(target=requests, node_id=NODE)
    def send(self, node_id):
        request = self.queues.request_for_node(node_id, self.now_ms)
        if request is None:
            return multiple()
        assert node_id not in self.flying, "two requests in flight"
        self.flying[node_id] = request
        deliveries = [entry.delivery_id for entry in request.entries]
        assert deliveries == sorted(deliveries), "entries of one delivery stand together"
        for entry in request.entries:
            assert list(entry.markers) == self.wanted[entry.delivery_id][entry.partition]
            assert entry.delivery_id not in self.ended, "sent after its end"
        return request

    def in_flight(self, request):
        return self.flying.get(request.node_id) is request

    def write(self, entry):
        self.written[entry.delivery_id].add(entry.partition)

    @rule(request=requests, codes=st.lists(CODES, min_size=1), jitter=st.floats(0, 1))
    def answer(self, request, codes, jitter):
        if not self.in_flight(request):
            return
        del self.flying[request.node_id]
        answered = {}
        for number, entry in enumerate(request.entries):
            code = codes[number % len(codes)]
            if code is ErrorCode.NONE:
                self.write(entry)
            elif code in FENCING:
                self.fenceable.add(entry.delivery_id)
            elif code in (43, 35):
                self.droppable[entry.delivery_id].add(entry.partition)
            for marker in entry.markers:
                answered[entry.delivery_id, marker, entry.partition] = code
        outcome = self.queues.settle_request(request, answered, self.leader_of, self.now_ms, jitter)
        self.take_ended(outcome.ended)

    @rule(request=requests, was_written=st.booleans(), given_up=st.booleans())
    def lose_answer(self, request, was_written, given_up):
        if not self.in_flight(request):
            return
        del self.flying[request.node_id]
        if was_written:
            for entry in request.entries:
                self.write(entry)
        if given_up:
            self.take_ended(self.queues.given_up(request, self.leader_of))
        else:
            self.take_ended(self.queues.unanswered(request, self.leader_of, self.now_ms, 0.5))

    @rule(
        partition=PARTITION,
        leader=st.sampled_from([None, HOLDING, 1, 2, 3]),
        is_notified=st.booleans(),
    )
    def move_leader(self, partition, leader, is_notified):
        self.leaders.pop(partition, None)
        if leader is not None:
            self.leaders[partition] = leader
        self.note_gone()
        if is_notified:
            self.take_ended(self.queues.reroute(self.leader_of))

    @rule(shard=st.integers(0, 1), coordinator_epoch=st.integers(0, 2))
    def cancel_shard(self, shard, coordinator_epoch):
        self.cancelled |= {
            delivery_id
            for delivery_id, (its_shard, its_epoch) in self.shards.items()
            if its_shard == shard and its_epoch <= coordinator_epoch
        }
        self.take_ended(self.queues.cancel_shard(shard, coordinator_epoch))
        for delivery_id in self.cancelled:
            assert delivery_id in self.ended

    @rule(delivery_id=st.integers(0, 20))
    def cancel(self, delivery_id):
        if delivery_id in self.wanted:
            self.cancelled.add(delivery_id)
            self.take_ended(self.queues.cancel(delivery_id))

    @rule(ms=st.integers(1, 60))
    def wait(self, ms):
        self.now_ms += ms

    @invariant()
    def markers_are_counted(self):
        depth = sum(found.depth for found in self.queues.depths(self.now_ms))
        assert depth == self.queues.marker_count
        if len(self.ended) == len(self.wanted):
            assert depth == 0

    def teardown(self):
        """The world heals: within a few rounds every delivery has ended."""
        self.leaders.update(dict.fromkeys(PARTITIONS, 2))
        for request in tuple(self.flying.values()):
            self.lose_answer(request, False, False)
        self.take_ended(self.queues.reroute(self.leader_of))
        for _ in range(len(self.wanted) * len(PARTITIONS) + 1):
            self.now_ms += 100
            if (request := self.queues.request_for_node(2, self.now_ms)) is not None:
                self.flying[2] = request
                self.answer(request, [ErrorCode.NONE], 1.0)
        assert set(self.ended) == set(self.wanted)
        assert self.queues.marker_count == 0


QueuesModel.TestCase.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
TestQueuesModel = QueuesModel.TestCase
