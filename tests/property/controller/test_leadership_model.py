"""A cluster of nodes that live, die, drain and come back, under leaders' proposals and an operator's wishes.

Beside them come and go processes to which the controller gives their node ids.

After every step: a leader is alive and in the ISR, and the ISR is never empty and lies within the replicas. A fenced
node is in it only as the last one, and shards belong to coordinators that are alive. Over the whole run: one leader in
a leader epoch, one coordinator in a coordinator epoch, and no epoch ever falls. A given id belongs to one process until
that is over.
"""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.worlds.controller.metadata_cases import Bench

from oncelog.errors import ErrorCode
from oncelog_controller.core.events import (
    AlterConfigs,
    BalanceLeaders,
    CreateTopics,
    DrainNode,
    NewTopic,
    RemoveNode,
)
from oncelog_controller.core.image import ClusterImage
from oncelog_controller.core.machine import MetadataRules

STORAGE_IDS = (1, 2, 3, 4)
COORDINATOR_IDS = (5, 6, 7)
NODE_IDS = st.sampled_from([*STORAGE_IDS, *COORDINATOR_IDS])
REPLICAS = st.lists(st.sampled_from(STORAGE_IDS), max_size=4, unique=True)
PICK = st.integers(0, 50)
STATELESS_ROLE = st.sampled_from(["listener", "marker_sender", "gateway"])


def rules(incarnation_id):
    return MetadataRules(
        controller=1,
        incarnation_id=incarnation_id,
        transaction_shard_count=5,
        group_shard_count=2,
        bootstrap_storage_nodes=2,
        snapshot_interval_records=9,
    )


class LeadershipModel(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.bench = Bench(rules("controller-0"))
        self.serial = 0
        self.terms = {}  # (topic id, partition, leader epoch) or (shard key, coordinator epoch) to the node
        self.epochs = {}
        self.unclean = set()
        self.given = {}  # node id to the incarnation id and role that it was given to
        self.forgotten = {}  # the same, of processes that may live on

    @property
    def image(self):
        return self.bench.image

    def next(self):
        self.serial += 1
        return self.serial

    def partitions(self):
        return [
            (name, number, partition)
            for name, topic in self.image.topics.items()
            for number, partition in enumerate(topic.partitions)
        ]

    @rule(node_id=NODE_IDS, beats=st.booleans())
    def start(self, node_id, beats):
        role = "storage" if node_id in STORAGE_IDS else "coordinator"
        incarnation_id = f"incarnation-{self.next()}"
        self.bench.register(node_id, incarnation_id, (role,), rpc_address=f"node-{node_id}:1")
        if beats:
            self.beat(node_id, False)

    @rule(node_id=NODE_IDS, want_drain=st.booleans())
    def beat(self, node_id, want_drain):
        if node_id not in self.image.nodes:
            return
        answer = self.bench.beat(node_id, want_drain=want_drain)
        assert answer.error_code is ErrorCode.NONE
        if answer.drained:
            coordinators = [n for n in self.image.staying_with("coordinator") if n != node_id]
            owned = [s for s in self.image.shards.values() if s.coordinator == node_id]
            assert not (coordinators and owned)

    @rule(node_ids=st.lists(NODE_IDS, min_size=1, max_size=4, unique=True))
    def fence(self, node_ids):
        self.bench.fence(*[node_id for node_id in node_ids if node_id in self.image.nodes])

    def ask_id(self, node_id, incarnation_id, role):
        address = f"{incarnation_id}:1"
        return self.bench.register(
            node_id, incarnation_id, (role,), rpc_address=address, given=node_id > 0
        )

    @rule(role=STATELESS_ROLE)
    def give_id(self, role):
        taken = {*self.image.nodes, *self.forgotten}
        incarnation_id = f"incarnation-{self.next()}"
        node_id = self.ask_id(0, incarnation_id, role).node_id
        assert node_id > 1000
        assert node_id not in taken
        self.given[node_id] = incarnation_id, role

    @precondition(lambda self: self.given)
    @rule(pick=PICK, beats=st.booleans(), want_drain=st.booleans())
    def hear_of_given(self, pick, beats, want_drain):
        node_id, process = sorted(self.given.items())[pick % len(self.given)]
        if beats:
            assert self.bench.beat(node_id, want_drain=want_drain).error_code is ErrorCode.NONE
        else:
            assert self.ask_id(0, *process).node_id == node_id

    @precondition(lambda self: self.given)
    @rule(pick=PICK)
    def end_given(self, pick):
        node_id = sorted(self.given)[pick % len(self.given)]
        self.bench.fence(node_id)
        self.forgotten[node_id] = self.given.pop(node_id)

    @precondition(lambda self: self.forgotten)
    @rule(pick=PICK)
    def ask_for_id_again(self, pick):
        node_id = sorted(self.forgotten)[pick % len(self.forgotten)]
        process = self.forgotten.pop(node_id)
        answer = self.ask_id(node_id, *process)
        assert (answer.error_code is ErrorCode.NONE) == (node_id not in self.given)
        if answer.error_code is ErrorCode.NONE:
            self.given[node_id] = process

    @rule(node_id=NODE_IDS, cancel=st.booleans())
    def drain(self, node_id, cancel):
        self.bench.ask(DrainNode, node_id, cancel)

    @rule(node_id=NODE_IDS)
    def remove(self, node_id):
        answer = self.bench.ask(RemoveNode, node_id)
        if answer.error_code is ErrorCode.NONE:
            assert not any(node_id in partition.replicas for _, _, partition in self.partitions())

    @precondition(lambda self: self.image.nodes_with("storage"))
    @rule(replication_factor=st.integers(-1, 3))
    def create(self, replication_factor):
        # Heartbeats bring ids for the internal topics, which count requests from 1.
        topic = NewTopic(f"t{self.next()}", f"a{self.serial:031x}", 2, replication_factor)
        self.bench.ask(CreateTopics, (topic,))

    @precondition(lambda self: self.image.topics)
    @rule(pick=PICK, isr=REPLICAS, lag=st.integers(0, 1))
    def propose(self, pick, isr, lag):
        name, number, partition = self.partitions()[pick % len(self.partitions())]
        if partition.leader < 0:
            return
        answer = self.bench.propose(
            name, isr, number=number, partition_epoch=partition.partition_epoch - lag
        )
        after = self.bench.partition(name, number)
        if answer is ErrorCode.NONE:
            assert lag == 0
            joined = set(after.isr) - set(partition.isr)
            assert joined <= set(self.image.staying_with("storage"))
        else:
            assert after == partition

    @precondition(lambda self: self.image.topics)
    @rule(pick=PICK, replicas=REPLICAS)
    def reassign(self, pick, replicas):
        name, number, before = self.partitions()[pick % len(self.partitions())]
        answer = self.bench.reassign(name, *replicas, number=number)
        after = self.bench.partition(name, number)
        if answer is ErrorCode.NONE and replicas:
            assert set(replicas) <= set(after.replicas)
        elif answer is not ErrorCode.NONE:
            assert after == before

    @precondition(lambda self: self.image.topics)
    @rule(pick=PICK)
    def allow_unclean(self, pick):
        name = self.partitions()[pick % len(self.partitions())][0]
        self.unclean.add(name)
        changes = {"unclean.leader.election.enable": "true"}
        self.bench.ask(AlterConfigs, name, changes)

    @rule()
    def balance(self):
        self.bench.tell(BalanceLeaders())

    @precondition(lambda self: self.bench.records)
    @rule()
    def restart_controller(self):
        self.bench.machine = self.bench.replayed(rules(f"controller-{self.next()}"))

    @invariant()
    def leaders_and_isrs_fit_the_nodes(self):
        live = set(self.image.live_with("storage"))
        for name, number, partition in self.partitions():
            assert partition.isr, (name, number)
            assert set(partition.isr) <= set(partition.replicas), (name, number, partition)
            assert len(set(partition.replicas)) == len(partition.replicas)
            assert set(partition.adding) | set(partition.removing) <= set(partition.replicas)
            if partition.leader >= 0:
                assert partition.leader in live & set(partition.isr), (name, number, partition)
                assert set(partition.isr) <= live, (name, number, partition)
            else:
                assert not live & set(partition.isr), (name, number, partition)

    @invariant()
    def shards_fit_the_coordinators(self):
        staying = set(self.image.staying_with("coordinator"))
        live = set(self.image.live_with("coordinator"))
        for kind in ("transaction", "group"):
            owners = [s.coordinator for s in self.image.shards.values() if s.kind == kind]
            assert set(owners) <= (staying or live | {-1})
            if owners and staying:
                counts = Counter(owners)
                loads = [counts[node_id] for node_id in staying]
                assert max(loads) - min(loads) <= 1

    @invariant()
    def one_node_leads_in_one_epoch(self):
        now = {}
        for name, number, partition in self.partitions():
            key = self.image.topics[name].topic_id, number
            now[key] = partition.leader_epoch, partition.partition_epoch
            term = (*key, partition.leader_epoch)
            assert self.terms.setdefault(term, partition.leader) == partition.leader, term
        for key, shard in self.image.shards.items():
            now[key] = (shard.coordinator_epoch,)
            # A restarted process is another owner, although its node id is the same.
            node = self.image.nodes.get(shard.coordinator)
            owner = shard.coordinator, node.node_epoch if node else -1
            term = (*key, shard.coordinator_epoch)
            assert self.terms.setdefault(term, owner) == owner, term
        for key, epochs in now.items():
            before = self.epochs.get(key, epochs)
            assert all(was <= is_now for was, is_now in zip(before, epochs, strict=True)), key
        self.epochs = now

    @invariant()
    def given_ids_belong_to_their_processes(self):
        given = {
            n: (one.incarnation_id, *one.roles) for n, one in self.image.nodes.items() if one.given
        }
        assert given == self.given

    @invariant()
    def replay_gives_the_same_image(self):
        image = ClusterImage()
        for offset, record in enumerate(self.bench.records):
            image.apply(offset, record)
        assert image == self.image


LeadershipModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestLeadershipModel = LeadershipModel.TestCase
