"""The metadata machine against a model of a few lines, under any sequence of requests.

After every step: replaying the records gives the same image, and what a watcher folds together from deltas is what a
snapshot tells. Over the whole run: producer ids and node epochs never repeat, and no leader or coordinator epoch falls.
"""

import asyncio

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.worlds.controller.metadata_cases import Bench

from oncelog.errors import ErrorCode
from oncelog.ids import INTERNAL_TOPICS
from oncelog.rpc.metadata import MetadataImage
from oncelog_controller.core.events import (
    AllocateProducerIds,
    AlterConfigs,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    NewPartitions,
    NewTopic,
    UpdateFeatures,
)
from oncelog_controller.core.image import ClusterImage
from oncelog_controller.core.machine import MetadataRules
from oncelog_controller.watchers import Watchers

NAMES = st.sampled_from(["a", "b", "a.b", "a_b", "c"])
NODE_IDS = st.integers(1, 4)
ROLE_SETS = st.sampled_from(
    [("storage",), ("coordinator",), ("storage", "coordinator"), ("listener",)]
)


def rules(incarnation_id):
    # A snapshot every few records, so that every kind of state passes through one.
    return MetadataRules(
        controller=1,
        incarnation_id=incarnation_id,
        transaction_shard_count=3,
        group_shard_count=2,
        partitions_max=30,
        snapshot_interval_records=7,
    )


class MetadataModel(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.bench = Bench(rules("controller-0"))
        self.serial = 0
        self.watchers = Watchers(history_max=3)
        self.watchers.reset(ClusterImage())
        self.published = 0
        self.folded = MetadataImage()
        # The model: partitions by topic, the newest epoch of each node, the blocks handed out.
        self.topics = {}
        self.node_epochs = {}
        self.first_producer_ids = []
        self.epochs = {}

    def next(self):
        self.serial += 1
        return self.serial

    @rule(node_id=NODE_IDS, roles=ROLE_SETS)
    def register(self, node_id, roles):
        answer = self.bench.register(node_id, f"incarnation-{self.next()}", roles)
        assert answer.error_code is ErrorCode.NONE
        assert answer.node_epoch > max(self.node_epochs.values(), default=-1)
        self.node_epochs[node_id] = answer.node_epoch

    @rule(name=NAMES, partitions=st.integers(-1, 4))
    def create(self, name, partitions):
        topic = NewTopic(name, f"{self.next():032x}", partitions)
        (result,) = self.bench.ask(CreateTopics, (topic,)).results
        if result.error_code is ErrorCode.NONE:
            assert name.replace(".", "_") not in {n.replace(".", "_") for n in self.topics}
            assert partitions != 0
            self.topics[name] = abs(partitions)
        else:
            assert result.message

    @rule(name=NAMES)
    def delete(self, name):
        (result,) = self.bench.ask(DeleteTopics, (name,)).results
        assert (result.error_code is ErrorCode.NONE) == (self.topics.pop(name, None) is not None)

    @rule(name=NAMES, count=st.integers(0, 6))
    def grow(self, name, count):
        wanted = NewPartitions(name, count)
        (result,) = self.bench.ask(CreatePartitions, (wanted,)).results
        if result.error_code is ErrorCode.NONE:
            assert count > self.topics[name]
            self.topics[name] = count

    @rule(name=NAMES, value=st.integers(0, 3))
    def configure(self, name, value):
        changes = {"retention.ms": str(value)}
        answer = self.bench.ask(AlterConfigs, name, changes)
        assert (answer.error_code is ErrorCode.NONE) == (name in self.topics)

    @rule(level=st.integers(-1, 3))
    def update_features(self, level):
        self.bench.ask(UpdateFeatures, {"transaction.version": level})

    @rule(node_id=NODE_IDS, lag=st.integers(0, 1))
    def allocate(self, node_id, lag):
        node_epoch = self.node_epochs.get(node_id, 0) - lag
        answer = self.bench.ask(AllocateProducerIds, node_id, node_epoch)
        if node_id in self.node_epochs and lag == 0:
            assert answer.error_code is ErrorCode.NONE
            self.first_producer_ids.append(answer.first_producer_id)
        else:
            assert answer.error_code is not ErrorCode.NONE

    @precondition(lambda self: self.bench.records)
    @rule()
    def restart_controller(self):
        self.bench.machine = self.bench.replayed(rules(f"controller-{self.next()}"))

    @rule()
    def watcher_catches_up(self):
        """A watcher at any distance: through deltas while they are held, else through a snapshot."""
        for committed in self.bench.committed[self.published :]:
            self.watchers.add_committed(committed)
        self.published = len(self.bench.committed)
        if self.watchers.metadata_offset < 0:
            return
        self.folded = asyncio.run(caught_up(self.watchers, self.folded))
        fresh = asyncio.run(caught_up(self.watchers, MetadataImage()))
        assert self.folded == fresh

    @invariant()
    def replay_gives_the_same_image(self):
        image = ClusterImage()
        for offset, record in enumerate(self.bench.records):
            image.apply(offset, record)
        assert image == self.bench.image

    @invariant()
    def image_agrees_with_the_model(self):
        image = self.bench.image
        existing = {n: len(t.partitions) for n, t in image.topics.items()}
        for name in INTERNAL_TOPICS:
            existing.pop(name, None)
        assert existing == self.topics
        assert {n: node.node_epoch for n, node in image.nodes.items()} == self.node_epochs
        assert self.first_producer_ids == [1000 * n for n in range(len(self.first_producer_ids))]
        assert image.partition_count == sum(len(t.partitions) for t in image.topics.values()) <= 30

    @invariant()
    def epochs_never_fall(self):
        image = self.bench.image
        now = {("controller",): image.controller_epoch, ("features",): image.features_epoch}
        now |= {key: shard.coordinator_epoch for key, shard in image.shards.items()}
        now |= {
            (topic.topic_id, number): partition.leader_epoch
            for topic in image.topics.values()
            for number, partition in enumerate(topic.partitions)
        }
        for key, epoch in now.items():
            assert epoch >= self.epochs.get(key, -1), key
        self.epochs = now


async def caught_up(watchers, image):
    """`image` after everything the stream has to tell it."""
    if image.metadata_offset == watchers.metadata_offset:
        return image
    async for update in watchers.watch(image.metadata_offset):
        assert update.metadata_offset > image.metadata_offset
        image = image.updated(update)
        if image.metadata_offset == watchers.metadata_offset:
            return image
    raise AssertionError("the stream ended")


MetadataModel.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestMetadataModel = MetadataModel.TestCase
