"""Three replicas and a controller as pure steps, in every order that messages may take (ADR 0006).

What is held: a record that any leader called committed is on every later leader at the same offset. Replicas agree
below their high watermarks, and neither a high watermark nor a leader epoch goes back.
"""

import struct
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from oncelog.api.v1 import controller_pb2
from oncelog.api.v1 import storage_pb2 as pb
from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog.topic_config import TopicConfig
from oncelog_storage.core.follower import (
    CutEpochs,
    FollowerSession,
    Position,
    StartOver,
    Truncate,
    step_of,
    take_log_start,
)
from oncelog_storage.core.isr import isr_to_propose
from oncelog_storage.core.leader_sessions import LeaderSessions, Moved, ReadRecords
from oncelog_storage.core.log_state import LogState
from oncelog_storage.core.messages import PartitionTold
from oncelog_storage.core.partition import PartitionReplica
from oncelog_storage.core.partition_values import Leadership
from oncelog_storage.core.replica_session import ReplicaSession
from oncelog_storage.core.walks import run_walk

NODES = (1, 2, 3)
ORDERS = Partition("orders", 0)
LAG_MAX_S = 10.0
RECORD = struct.Struct(">ii")
NODE = controller_pb2.Node(node_epoch=1)
Record = tuple[int, int]
"""Leader epoch and a number that no other record has."""


@dataclass(frozen=True)
class Image:
    leader: int = 1
    leader_epoch: int = 0
    partition_epoch: int = 0
    isr: tuple[int, ...] = NODES


@dataclass
class Request:
    """A follower's fetch on its way."""

    leader: int
    told: pb.ReplicaFetchRequest


@dataclass
class Answer:
    session_id: int
    parts: list[pb.ReplicaFetchedPartition] = field(default_factory=list)


class Node:
    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.records: list[Record] = []
        self.log = LogState(ORDERS, bytes(16), TopicConfig(min_insync_replicas=1))
        self.partition = PartitionReplica(self.log)
        self.image = Image(leader=-1, leader_epoch=-1)
        self.sessions = self.new_sessions()
        self.following = FollowerSession["Node"](0.0)
        self.request: Request | None = None
        self.answer: Answer | None = None
        self.is_failed, self.is_durable = False, True

    def new_sessions(self) -> LeaderSessions[PartitionReplica, ReplicaSession]:
        return LeaderSessions(self, lambda _: NODE, ReplicaSession, 1)

    def hosted(self, _: Partition) -> PartitionReplica:
        return self.partition

    def leader_of(self, _: Partition) -> tuple[int, int]:
        return self.image.leader, self.image.leader_epoch

    def fill(self, part: PartitionTold) -> None:
        part.topic, part.partition = ORDERS
        part.fetch_offset, part.last_fetched_leader_epoch, part.log_start_offset = self.position
        part.current_leader_epoch = self.image.leader_epoch

    @property
    def leads(self) -> bool:
        return self.partition.leadership.is_here

    @property
    def position(self) -> Position:
        log = self.log
        return Position(log.log_end_offset, log.leader_epochs.latest, log.log_start_offset)

    def learn(self, image: Image, now_s: float) -> None:
        before, self.image = self.image, image
        partition = self.partition
        partition.leadership = Leadership(
            image.leader, image.leader_epoch, image.leader == self.node_id, len(image.isr), 3
        )
        if image.leader == self.node_id:
            if not partition.leads_in(image.leader_epoch):
                self.log.leader_epochs.assign(image.leader_epoch, self.log.log_end_offset)
                self.sessions = self.new_sessions()
            partition.lead(
                self.node_id, image.leader_epoch, NODES, image.isr, image.partition_epoch, now_s
            )
            partition.move_with_followers()
        elif image.leader_epoch != before.leader_epoch:
            partition.follow()
            self.following = FollowerSession["Node"](0.0)
            self.following.follow(ORDERS, self)
            self.request = self.answer = None
        partition.notify_replicas()

    def append(self, record: Record) -> None:
        self.records.append(record)
        self.log.log_end_offset += 1
        if record[0] > self.log.leader_epochs.latest:
            self.log.leader_epochs.assign(record[0], self.log.log_end_offset - 1)
        if self.leads:
            self.partition.move_local_end(self.log.log_end_offset)
            self.partition.notify_replicas()
        else:
            self.partition.local_end = self.log.log_end_offset

    def cut(self, offset: int) -> None:
        del self.records[offset:]
        self.log.log_end_offset = offset
        self.log.leader_epochs.truncate_from(offset)
        self.partition.truncated(has_started_over=False)


class Replicas(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0
        self.count = 0
        self.session_count = 0
        self.image = Image()
        self.nodes = {node_id: Node(node_id) for node_id in NODES}
        for node in self.nodes.values():
            node.learn(self.image, 0.0)
        self.committed: list[Record] = []
        self.marks = dict.fromkeys(NODES, 0)

    # What clients and time do.

    @rule(node_id=st.sampled_from(NODES), count=st.integers(1, 3))
    def produce(self, node_id: int, count: int) -> None:
        node = self.nodes[node_id]
        if node.leads:
            for _ in range(count):
                self.count += 1
                node.append((node.image.leader_epoch, self.count))

    @rule(seconds=st.sampled_from((0.1, LAG_MAX_S + 1)))
    def wait(self, seconds: float) -> None:
        self.now_s += seconds

    # A fetch, in three steps; each may be the last.

    @rule(node_id=st.sampled_from(NODES))
    def ask(self, node_id: int) -> None:
        node = self.nodes[node_id]
        if node.leads or node.request is not None or node.answer is not None:
            return
        request = pb.ReplicaFetchRequest(node_id=node_id, node_epoch=1)
        node.following.next_request(self.now_s).fill(request, 0)
        node.request = Request(node.image.leader, request)

    @rule(node_id=st.sampled_from(NODES), records_max=st.integers(1, 4))
    def serve(self, node_id: int, records_max: int) -> None:
        node = self.nodes[node_id]
        if node.request is None:
            return
        request, node.request = node.request, None
        node.answer = self._serve(self.nodes[request.leader], request.told, records_max)
        if node.answer is None:
            node.following.end()

    def _serve(
        self, leader: Node, request: pb.ReplicaFetchRequest, records_max: int
    ) -> Answer | None:
        session = leader.sessions.begin(request, self.now_s)
        if isinstance(session, ErrorCode):
            return None
        for moved in leader.sessions.take_positions(session, request, self.now_s):
            assert moved.isr is None or moved.isr[-1] == request.node_id
            if moved.has_high_watermark_moved:
                leader.partition.notify_replicas()
        answer = Answer(session.session_id)
        if self._answer(leader, session, answer, records_max):
            # A high watermark alone has waited long enough.
            session.is_late_due = True
            self._answer(leader, session, answer, records_max)
        return answer

    def _answer(
        self, leader: Node, session: ReplicaSession, answer: Answer, records_max: int
    ) -> bool:
        response = pb.ReplicaFetchResponse()
        walk = leader.sessions.answer(session, response.partitions, 1 << 20, self.now_s)

        def found(step: Moved | ReadRecords) -> bytes:
            if isinstance(step, Moved):
                return b""
            records = leader.records[step.offset : step.offset + records_max]
            return b"".join(RECORD.pack(*each) for each in records)

        is_due = run_walk(walk, found)
        answer.parts = list(response.partitions)
        return is_due

    @rule(node_id=st.sampled_from(NODES))
    def take(self, node_id: int) -> None:
        node = self.nodes[node_id]
        if node.answer is None:
            return
        answer, node.answer = node.answer, None
        node.following.continue_session(answer.session_id)
        for part in answer.parts:
            self._take(node, part)

    def _take(self, node: Node, part: pb.ReplicaFetchedPartition) -> None:
        receiver = node.following.receiver(ORDERS, part.error_code, self.now_s)
        if receiver is None:
            return
        step = step_of(node.log, node.image.leader_epoch, part)
        match step:
            case Truncate(offset):
                node.cut(offset)
            case StartOver(offset):
                assert offset == 0, "nothing is ever deleted here"
                node.cut(0)
            case CutEpochs():
                assert node.log.leader_epochs.truncate_from(node.log.log_end_offset)
            case None:
                return
            case _:
                for epoch, number in RECORD.iter_unpack(part.records):
                    node.append((epoch, number))
                take_log_start(node.log, part.log_start_offset)
                node.partition.follow_high_watermark(part.high_watermark)
        node.following.took(ORDERS, *receiver)

    @rule(node_ids=st.permutations(NODES), count=st.integers(1, 3), records_max=st.integers(1, 4))
    def fetch(self, node_ids: list[int], count: int, records_max: int) -> None:
        """Some followers go through all three steps."""
        for node_id in node_ids[:count]:
            self.take(node_id)
            self.ask(node_id)
            self.serve(node_id, records_max)
            self.take(node_id)

    @rule(node_id=st.sampled_from(NODES))
    def lose(self, node_id: int) -> None:
        """A request or its answer, and with it the session."""
        node = self.nodes[node_id]
        if node.request is not None or node.answer is not None:
            node.request = node.answer = None
            node.following.end()

    # The controller.

    @rule(node_id=st.sampled_from(NODES))
    def propose(self, node_id: int) -> None:
        partition = self.nodes[node_id].partition
        state = partition.replicas
        if not self.nodes[node_id].leads or state is None:
            return
        if state.pending is None:
            isr = isr_to_propose(partition, self.now_s, LAG_MAX_S, lambda *_: True)
            if isr is None:
                return
            state.propose(isr)
        pending = state.pending
        assert pending is not None
        epochs = (self.image.leader_epoch, self.image.partition_epoch)
        if (pending.leader_epoch, pending.partition_epoch) == epochs:
            self.image = Image(
                node_id, self.image.leader_epoch, self.image.partition_epoch + 1, pending.isr
            )

    @rule(chosen=st.integers(0, 2))
    def elect(self, chosen: int) -> None:
        image = self.image
        self.image = Image(
            image.isr[chosen % len(image.isr)],
            image.leader_epoch + 1,
            image.partition_epoch + 1,
            image.isr,
        )

    @rule(chosen=st.integers(0, 2), count=st.integers(1, 3), others=st.permutations(NODES))
    def fail_over(self, chosen: int, count: int, others: list[int]) -> None:
        """An election that some nodes learn at once, the new leader first."""
        self.elect(chosen)
        self.learn(self.image.leader)
        for node_id in others[: count - 1]:
            self.learn(node_id)

    @rule(node_id=st.sampled_from(NODES))
    def stop_following(self, node_id: int) -> None:
        """A follower does not fetch for long; its leader has it taken out of the in-sync replicas."""
        self.now_s += LAG_MAX_S + 1
        for other in NODES:
            if other != node_id:
                self.fetch([other], 1, 4)
        self.propose(self.image.leader)

    @rule(node_id=st.sampled_from(NODES), behind=st.integers(0, 3))
    def restart(self, node_id: int, behind: int) -> None:
        """A follower begins again with the high watermark of its last checkpoint."""
        node = self.nodes[node_id]
        if node.leads:
            return
        known = max(node.partition.high_watermark - behind, 0)
        self.marks[node_id] = known
        image, records, log = node.image, node.records, node.log
        node = self.nodes[node_id] = Node(node_id)
        node.records, node.log = records, log
        node.partition = PartitionReplica(log, known)
        node.image = Image(leader=-1, leader_epoch=-1)
        node.learn(image, self.now_s)

    @rule(node_id=st.sampled_from(NODES))
    def learn(self, node_id: int) -> None:
        if self.nodes[node_id].image != self.image:
            self.nodes[node_id].learn(self.image, self.now_s)

    # What must hold.

    @invariant()
    def nothing_committed_is_lost(self) -> None:
        for node in self.nodes.values():
            assert len(node.records) == node.log.log_end_offset
            assert node.partition.high_watermark <= node.log.log_end_offset
        for node in sorted(self.nodes.values(), key=lambda each: not each.leads):
            below = node.records[: node.partition.high_watermark]
            shared = min(len(below), len(self.committed))
            assert below[:shared] == self.committed[:shared]
            assert node.leads or len(below) == shared, node.node_id
            self.committed += below[shared:]
        leader = self.nodes[self.image.leader]
        assert leader.records[: len(self.committed)] == self.committed

    @invariant()
    def marks_do_not_go_back(self) -> None:
        for node_id, node in self.nodes.items():
            assert node.partition.high_watermark >= self.marks[node_id]
            self.marks[node_id] = node.partition.high_watermark

    @precondition(lambda self: self.count > 0)
    @rule()
    def settle(self) -> None:
        """Left alone, everybody has everything, and it is committed."""
        for _ in range(6 * self.count + 40):
            self.propose(self.image.leader)
            for node_id in NODES:
                self.learn(node_id)
                self.ask(node_id)
                self.serve(node_id, 4)
                self.take(node_id)
        leader = self.nodes[self.image.leader]
        assert leader.partition.high_watermark == leader.log.log_end_offset
        for node in self.nodes.values():
            assert node.records == leader.records


TestReplicas = Replicas.TestCase
TestReplicas.settings = settings(max_examples=400, stateful_step_count=50, deadline=None)
