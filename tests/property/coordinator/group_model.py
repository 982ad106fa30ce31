"""What the models of groups share: clients die, time passes, coordinators crash; and no partition has two owners."""

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from oncelog_coordinator.core.consumer_group import ConsumerGroup, TopicShape


class GroupModel(RuleBasedStateMachine):
    """A subclass has `world`, its `active` clients, and `_members()`: the ids in the group now."""

    @precondition(lambda self: len(self.active) > 1)
    @rule(data=st.data())
    def die(self, data):
        self.active.remove(data.draw(st.sampled_from(self.active)))

    @rule(partitions=st.integers(1, 6))
    def grow(self, partitions):
        old = self.world.shapes["orders"]
        if partitions > old.partitions:
            self.world.shapes["orders"] = TopicShape(old.topic_id, partitions)

    @rule()
    def crash(self):
        self.world.crash()

    def _advance(self, span_ms):
        before = self._members()
        self.world.advance(span_ms)
        for client in self.active:
            if client.member_id in before and client.member_id not in self._members():
                # Its own session has ended, too: a client that receives nothing stops to use what it had.
                client.fenced()

    @invariant()
    def nobody_shares_a_partition(self):
        using = [slot for one in self.active for slot in one.owned]
        assert len(using) == len(set(using))
        group = self.world.consumers
        if isinstance(group, ConsumerGroup):
            held = [
                slot
                for member in group.members.values()
                for slot in member.current.assigned | member.current.revoking
            ]
            assert len(held) == len(set(held))

    @invariant()
    def nobody_is_ahead(self):
        group = self.world.consumers
        if isinstance(group, ConsumerGroup):
            assert group.target_epoch <= group.epoch
            for member in group.members.values():
                assert member.current.epoch <= group.target_epoch
