"""A group whose members speak both protocols, in whatever order they come, go, fall silent, rebalance and outlive
crashes: no partition is used twice, a replay knows the same, and once things calm down everything is read."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    invariant,
    precondition,
    rule,
)
from tests.property.coordinator.group_model import GroupModel
from tests.worlds.coordinator.consumer_world import SESSION_MS, Client, slots
from tests.worlds.coordinator.group_world import REBALANCE_MS
from tests.worlds.coordinator.group_world import SESSION_MS as CLASSIC_SESSION_MS
from tests.worlds.coordinator.migration_world import COOPERATIVE, EAGER, MigrationWorld

from oncelog.errors import ErrorCode
from oncelog_coordinator.core.consumer_group import ConsumerGroup
from oncelog_coordinator.core.group_events import MigrationPolicy

TOPICS = st.sampled_from([("orders",), ("orders",), ("bills", "orders"), ("bills",)])
INSTANCES = st.sampled_from([None, None, "i"])
POLICIES = st.sampled_from(
    [MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.BIDIRECTIONAL, *MigrationPolicy]
)


class MigratingGroups(GroupModel):
    @initialize(
        policy=POLICIES,
        protocol=st.sampled_from([EAGER, COOPERATIVE]),
        classics=st.integers(0, 3),
        consumers=st.integers(0, 1),
    )
    def begin(self, policy, protocol, classics, consumers):
        self.world = MigrationWorld(group_members_max=4, migration_policy=policy)
        self.protocol = protocol
        self.number = 0
        self.active = []
        for _ in range(classics):
            self.start_classic(("orders",), None)
            self._quiesce(6)
        for _ in range(consumers):
            self.start_consumer(("orders",), None)
            self._quiesce(6)

    # What clients do.

    @rule(topics=TOPICS, instance_id=INSTANCES)
    def start_classic(self, topics, instance_id):
        topics = self._stop_instance(instance_id, topics)
        client = self.world.classic(topics, instance_id=instance_id, protocol=self.protocol)
        client.step()
        self.active.append(client)

    @rule(topics=TOPICS, instance_id=INSTANCES)
    def start_consumer(self, topics, instance_id):
        topics = self._stop_instance(instance_id, topics)
        self.number += 1
        client = self.world.client(f"m{self.number}", topics, instance_id=instance_id)
        if client.beat() == 0:
            # It uses at once what it is told: so nobody else may use that any more.
            client.settle()
            self.active.append(client)

    def _stop_instance(self, instance_id, topics):
        """There is one process of an instance at a time; it stops without a word. The topics of the next one: a classic
        group gives an instance what it had, whatever it subscribes to now."""
        if instance_id is None:
            return topics
        self.active = [one for one in self.active if one.instance_id != instance_id]
        return ("bills", "orders")

    @precondition(lambda self: self.active)
    @rule(data=st.data(), count=st.integers(1, 4))
    def go_on(self, data, count):
        client = data.draw(st.sampled_from(self.active))
        for _ in range(count):
            self._step(client)

    @precondition(lambda self: self.active)
    @rule(slow=st.integers(0, 4), rounds=st.integers(1, 4))
    def everybody_goes_on(self, slow, rounds):
        """All but one."""
        for _ in range(rounds):
            for number, client in enumerate(self.active):
                if number != slow:
                    self._step(client)
                    self.world.advance(0)
                    if isinstance(client, Client):
                        client.settle()

    @precondition(lambda self: self.active)
    @rule(data=st.data())
    def settle(self, data):
        client = data.draw(st.sampled_from(self.active))
        if isinstance(client, Client):
            client.settle()

    @precondition(lambda self: self.active)
    @rule(data=st.data())
    def leave(self, data):
        client = data.draw(st.sampled_from(self.active))
        self.active.remove(client)
        client.leave()
        client.fenced()

    def _step(self, client):
        if not isinstance(client, Client):
            client.step()
        elif client.beat() not in (0, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            client.fenced()

    # What happens to them.

    @rule(
        span_ms=st.sampled_from(
            [1_000, 1_000, CLASSIC_SESSION_MS // 2, CLASSIC_SESSION_MS, REBALANCE_MS, SESSION_MS]
        )
    )
    def time_passes(self, span_ms):
        self._advance(span_ms)

    @precondition(lambda self: self.active)
    @rule()
    def calms_down(self):
        """The dead expire; the living get everything that anybody subscribes to."""
        for _ in range(8):
            self._advance(CLASSIC_SESSION_MS // 2)
            self._quiesce(2)
        self._quiesce(12)
        members = [one for one in self.active if one.member_id in self._members()]
        if self._members() != {one.member_id for one in members} or not members:
            return
        wanted = {name for one in members for name in self.world.shapes if name in one.topics}
        assert {slot for one in members for slot in one.owned} == slots(self.world.shapes, *wanted)
        if all(not isinstance(one, Client) for one in members) and self._downgrades():
            assert not isinstance(self.world.consumers, ConsumerGroup)

    def _quiesce(self, rounds):
        for _ in range(rounds):
            for client in self.active:
                self._step(client)
                self.world.advance(0)
                if isinstance(client, Client):
                    client.settle()

    def _downgrades(self):
        return self.world.config.migration_policy.downgrades

    # What always holds.

    @invariant()
    def a_replay_knows_the_same(self):
        group = self.world.consumers
        replayed, compacted = self.world.replayed().group("g"), self.world.compacted().group("g")
        assert type(replayed) is type(compacted)
        if isinstance(group, ConsumerGroup):
            assert replayed == compacted == group
        elif replayed is not None:
            assert replayed == compacted

    def _members(self):
        group = self.world.machine.group("g")
        return set() if group is None else set(group.members)


TestMigratingGroups = MigratingGroups.TestCase
TestMigratingGroups.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
