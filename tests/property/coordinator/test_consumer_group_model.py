"""Groups of the consumer protocol under whatever order of joins, heartbeats, lost answers, silence, new partitions and
crashes: no partition has two owners, nobody is ahead of the group, and once things calm down everything is read."""

import re

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from tests.property.coordinator.group_model import GroupModel
from tests.worlds.coordinator.consumer_world import SESSION_MS, ConsumerWorld, slots

from oncelog.errors import ErrorCode
from oncelog_coordinator.core.consumer_group import ConsumerGroup, TopicShape

SUBSCRIPTIONS = st.sampled_from([("orders",), ("orders",), ("bills", "orders"), ("bills",), ()])
PATTERNS = st.sampled_from([None, None, "", "b.*", "orders|bills", "bill", ".*s"])
ASSIGNORS = st.sampled_from([None, None, "uniform", "range"])


class ConsumerGroups(GroupModel):
    def __init__(self):
        super().__init__()
        self.world = ConsumerWorld(group_members_max=4)
        self.number = 0
        self.active = []

    @rule(
        topics=SUBSCRIPTIONS,
        pattern=PATTERNS,
        assignor=ASSIGNORS,
        instance_id=st.sampled_from([None, None, "i"]),
    )
    def join(self, topics, pattern, assignor, instance_id):
        self.number += 1
        options = {} if assignor is None else {"assignor": assignor}
        if pattern is not None:
            options["regex"] = pattern
        client = self.world.client(f"m{self.number}", topics, instance_id=instance_id, **options)
        if client.beat() == 0:
            self.active.append(client)

    @precondition(lambda self: self.active)
    @rule(data=st.data(), loses_answer=st.booleans(), full=st.booleans())
    def beat(self, data, loses_answer, full):
        client = data.draw(st.sampled_from(self.active))
        code = client.beat(loses_answer=loses_answer, full=full)
        known = (0, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
        refused = (ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.UNRELEASED_INSTANCE_ID)
        assert code in (
            *known,
            *refused,
            ErrorCode.GROUP_ID_NOT_FOUND,
            ErrorCode.FENCED_INSTANCE_ID,
        )
        if code not in known:
            client.fenced()

    @precondition(lambda self: self.active)
    @rule(data=st.data())
    def settle(self, data):
        data.draw(st.sampled_from(self.active)).settle()

    @precondition(lambda self: self.active)
    @rule(slow=st.integers(0, 3))
    def everybody_goes_on(self, slow):
        """All but one, who does not give up or take what it was told."""
        for number, client in enumerate(self.active):
            client.beat(full=True)
            if number != slow:
                client.settle()

    @precondition(lambda self: self.active)
    @rule(data=st.data(), topics=SUBSCRIPTIONS)
    def subscribe(self, data, topics):
        client = data.draw(st.sampled_from(self.active))
        if client.epoch > 0:
            client.subscribe(*topics)

    @precondition(lambda self: self.active)
    @rule(data=st.data(), for_a_while=st.booleans())
    def leave(self, data, for_a_while):
        client = data.draw(st.sampled_from(self.active))
        self.active.remove(client)
        client.leave(-2 if for_a_while and client.instance_id else -1)
        client.fenced()

    @precondition(lambda self: len(self.active) > 1)
    @rule(exists=st.booleans(), generation=st.integers(0, 1))
    def recreate(self, exists, generation):
        if exists:
            self.world.shapes["bills"] = TopicShape(b"b%d" % generation + b"b" * 14, 3)
        else:
            self.world.shapes.pop("bills", None)

    @rule(span_ms=st.sampled_from([1_000, 1_000, 1_000, 20_000, SESSION_MS]))
    def time_passes(self, span_ms):
        self._advance(span_ms)

    @precondition(lambda self: not self.active)
    @rule()
    def clean_up(self):
        self.world.advance(self.world.config.clean_up_interval_ms)

    @precondition(lambda self: len(self.active) > 1)
    @rule()
    def calms_down(self):
        """The dead expire; the living get everything that anybody subscribes to."""
        for _ in range(4):
            self.world.advance(SESSION_MS // 3)
            self.world.quiesce(*self.active, rounds=2)
        self.world.quiesce(*self.active, rounds=8)
        members = [one for one in self.active if one.member_id in self._members()]
        for one in members:
            assert one.epoch == self.world.consumers.epoch
            assert one.owned == self.world.consumers.targets[one.member_id]
        if self._members() != {one.member_id for one in members}:
            return
        wanted = {
            name
            for one in members
            for name in self.world.shapes
            if name in one.topics or re.fullmatch(self._pattern(one), name)
        }
        assert {slot for one in members for slot in one.owned} == slots(self.world.shapes, *wanted)

    # What always holds.

    @invariant()
    def a_replay_knows_the_same(self):
        assert self.world.replayed().group("g") == self.world.consumers
        assert self.world.compacted().group("g") == self.world.consumers

    def _pattern(self, client):
        """What the group has of it: who comes back under its name may have said it in an earlier life."""
        return self.world.consumers.members[client.member_id].subscription.pattern

    def _members(self):
        group = self.world.consumers
        return set(group.members) if isinstance(group, ConsumerGroup) else set()


TestConsumerGroups = ConsumerGroups.TestCase
TestConsumerGroups.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
