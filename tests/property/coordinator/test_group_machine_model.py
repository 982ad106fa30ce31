"""Groups under whatever order of joins, leaves, silence, commits and crashes: one leader a generation, and assignments
go to whom the leader meant them for. Old generations commit nothing, nobody waits for ever, and the log tells it again.
"""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.worlds.coordinator.group_world import (
    REBALANCE_MS,
    SESSION_MS,
    GroupWorld,
)

from oncelog.errors import ErrorCode
from oncelog_coordinator.core.group_rebalance import join_timer, session_timer, sync_timer
from oncelog_coordinator.core.group_records import (
    GroupChanged,
    GroupTombstone,
    TransactionEnded,
    encode_group,
    encode_group_record,
)
from oncelog_coordinator.core.group_state import GroupState

PROTOCOLS = {
    "both": (("range", b"r"), ("sticky", b"s")),
    "range": (("range", b"r"),),
    "sticky": (("sticky", b"s"), ("range", b"r")),
}
INSTANCES = st.sampled_from([None, None, "i1", "i2"])
PRODUCERS = st.sampled_from([7, 8])


class Groups(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.world = GroupWorld(initial_rebalance_delay_ms=100, group_members_max=4)
        self.waiting = {}
        self.told = []
        self.leaders = {}
        self.named = {}
        self.assigned = {}
        self.life = 0
        self.committed = (-1, -1)
        self.pending = {}

    # Clients.

    def _ask_join(self, member_id, instance_id, protocols, needs_id):
        request_id = self.world.join(
            member_id,
            instance_id=instance_id,
            protocols=PROTOCOLS[protocols],
            requires_known_member_id=needs_id,
            supports_skipping_assignment=True,
        )
        self.waiting[request_id] = ("join", instance_id)
        self._collect()

    @rule(
        instance_id=INSTANCES, protocols=st.sampled_from(sorted(PROTOCOLS)), needs_id=st.booleans()
    )
    def join_new(self, instance_id, protocols, needs_id):
        self._ask_join("", instance_id, protocols, needs_id and instance_id is None)

    @precondition(lambda self: self.told)
    @rule(data=st.data(), protocols=st.sampled_from(sorted(PROTOCOLS)))
    def join_again(self, data, protocols):
        member_id, instance_id, _ = self._one_of_told(data)
        self._ask_join(member_id, instance_id, protocols, True)

    @precondition(lambda self: self.told)
    @rule(data=st.data(), stray=st.sampled_from([0, 0, 0, -1, 1]))
    def sync(self, data, stray):
        member_id, _, generation = self._one_of_told(data)
        self._ask_sync(member_id, generation + stray)

    def _one_of_told(self, data):
        """Mostly somebody who was told something lately."""
        return data.draw(st.sampled_from(self.told) | st.sampled_from(self.told[-4:]))

    def _ask_sync(self, member_id, generation):
        group = self.world.group
        # A leader knows whom its own answer named, and nobody who came later.
        assignments = {
            id_: f"{generation} {self.life} {id_}".encode()
            for id_ in self.named.get((self.life, generation, member_id), ())
        }
        is_leader = (
            group is not None
            and group.leader == member_id
            and group.generation == generation
            and group.state is GroupState.COMPLETING_REBALANCE
        )
        if is_leader:
            self.assigned[self.life, generation] = assignments
        joined = type("Joined", (), {"member_id": member_id, "generation": generation})
        self.waiting[self.world.sync(joined, assignments)] = ("sync", member_id, generation)
        self._collect()

    @rule(protocols=st.sampled_from(sorted(PROTOCOLS)), whole=st.booleans())
    def everybody_goes_on(self, protocols, whole):
        """Members do what they are asked to: join again, then ask for their assignment, the leader last or never."""
        self.time_passes(100)
        group = self.world.group
        if group is None:
            return
        if group.state is GroupState.PREPARING_REBALANCE:
            for member in group.members.values():
                if member.joining is None:
                    self._ask_join(member.member_id, member.instance_id, protocols, True)
        group = self.world.group
        if group.state is GroupState.COMPLETING_REBALANCE:
            generation = group.generation
            for member_id in group.members:
                if member_id != group.leader:
                    self._ask_sync(member_id, generation)
            if whole:
                self._ask_sync(group.leader, generation)

    @precondition(lambda self: self.told)
    @rule(data=st.data())
    def heartbeat(self, data):
        member_id, instance_id, generation = self._one_of_told(data)
        code = self.world.heartbeat(member_id, generation, instance_id=instance_id)
        group = self.world.group
        if code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS):
            assert member_id in group.members
            assert group.generation == generation

    @precondition(lambda self: self.told)
    @rule(data=st.data())
    def leave(self, data):
        member_id, _, _ = self._one_of_told(data)
        (code,) = self.world.leave(member_id)
        assert (code == 0) == (member_id not in self._ids()) or code != 0
        assert member_id not in self._ids() or code != 0
        self._collect()

    def _ids(self):
        group = self.world.group
        return () if group is None else (*group.members, *group.pending)

    @precondition(lambda self: self.told)
    @rule(data=st.data(), offset=st.integers(1000, 1100))
    def commit(self, data, offset):
        member_id, _, generation = self._one_of_told(data)
        group = self.world.group
        is_current = (
            group is not None and member_id in group.members and group.generation == generation
        )
        is_alone = generation < 0 and (group is None or group.state is GroupState.EMPTY)
        if self.world.commit(offset, generation, member_id) == ErrorCode.NONE:
            assert is_current or is_alone, "an old generation committed"
            self.committed = (len(self.world.log), offset)
        assert self.world.fetch() == self.committed[1]

    # Transactions. What was said later in the log counts, whichever way it was said.

    @rule(producer_id=PRODUCERS, offset=st.integers(1000, 1100))
    def commit_in_transaction(self, producer_id, offset):
        if self.world.commit_in_transaction(offset, (producer_id, 0)) == ErrorCode.NONE:
            self.pending[producer_id] = (len(self.world.log), offset)
        assert self.world.fetch() == self.committed[1]

    @rule(producer_id=PRODUCERS, commit=st.booleans())
    def end(self, producer_id, commit):
        assert self.world.end((producer_id, 0), commit=commit) == ErrorCode.NONE
        pending = self.pending.pop(producer_id, self.committed)
        if commit:
            self.committed = max(self.committed, pending)
        assert self.world.fetch() == self.committed[1]
        is_unstable = self.world.fetch(require_stable=True) == ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert is_unstable == bool(self.pending)

    # Time and crashes.

    @rule(span_ms=st.sampled_from([1, 100, SESSION_MS // 2, SESSION_MS, REBALANCE_MS]))
    def time_passes(self, span_ms):
        self.world.advance(span_ms)
        self._collect()

    @rule()
    def crash(self):
        self.world.crash()
        self.waiting.clear()
        self.life += 1
        # A generation that no record knows may come again with other members (docs/architecture/group-coordinator.md).
        stored = self.world.group.generation if self.world.group else 0
        self.leaders = {g: leader for g, leader in self.leaders.items() if g <= stored}

    # What clients were told.

    def _collect(self):
        for request_id in [r for r in self.waiting if r in self.world.answers]:
            kind, *about = self.waiting.pop(request_id)
            answer = self.world.answers[request_id]
            if kind == "join":
                self._joined(answer, *about)
            elif answer.error_code == ErrorCode.NONE:
                member_id, generation = about
                for life in range(self.life, -1, -1):
                    if (life, generation) in self.assigned:
                        meant = self.assigned[life, generation].get(member_id, b"")
                        assert answer.assignment, "a member that its leader was never told of"
                        assert answer.assignment == meant or self._moved(answer, generation)
                        break

    def _moved(self, answer, generation):
        """A static member keeps what its instance's earlier id was assigned."""
        return answer.assignment in self.assigned_bytes(generation)

    def assigned_bytes(self, generation):
        return {
            data
            for (_, g), parts in self.assigned.items()
            if g == generation
            for data in parts.values()
        }

    def _joined(self, answer, instance_id):
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.told.append((answer.member_id, instance_id, -1))
        if answer.error_code != ErrorCode.NONE:
            return
        self.told.append((answer.member_id, instance_id, answer.generation))
        if answer.members:
            leading = (self.life, answer.generation, answer.member_id)
            self.named[leading] = [member_id for member_id, *_ in answer.members]
        group = self.world.group
        if group is not None and group.generation == answer.generation:
            known = self.leaders.setdefault(answer.generation, answer.leader)
            is_static = any(m.instance_id for m in group.members.values())
            assert known == answer.leader or is_static, "two leaders of one generation"

    # Always.

    @invariant()
    def a_group_is_in_order(self):
        group = self.world.group
        if group is None:
            return
        members = group.members.values()
        if group.state is not GroupState.PREPARING_REBALANCE:
            assert bool(members) != (group.state is GroupState.EMPTY)
        assert not members or group.leader in group.members
        if group.state is not GroupState.PREPARING_REBALANCE:
            assert not any(member.joining for member in members)
        if group.state is not GroupState.COMPLETING_REBALANCE:
            assert not any(member.syncing for member in members)
        assert all(member.metadata(group.protocol) for member in members) or group.state not in (
            GroupState.STABLE,
            GroupState.COMPLETING_REBALANCE,
        )

    @invariant()
    def nobody_waits_for_nothing(self):
        group = self.world.group
        if group is None:
            return
        timers = self.world.timers
        if group.state is GroupState.PREPARING_REBALANCE:
            assert join_timer("g") in timers
        if group.state is GroupState.COMPLETING_REBALANCE:
            assert sync_timer("g") in timers
        for member_id in (*group.members, *group.pending):
            member = group.members.get(member_id)
            waits = member is not None and (member.joining or member.syncing)
            assert waits or session_timer("g", member_id) in timers, member_id

    @invariant()
    def the_log_tells_it_again(self):
        replayed, live = self.world.replayed(), self.world.machine
        assert replayed.offsets == live.offsets
        cleaned = self.world.replayed(compacted(self.world.log))
        assert cleaned.offsets.of("g") == live.offsets.of("g")
        stored = None
        for record in self.world.log:
            if isinstance(record, GroupChanged):
                stored = record.group
            elif isinstance(record, GroupTombstone):
                stored = None
        if stored is not None:
            assert encode_group(replayed.group("g")) == encode_group(stored)

    def teardown(self):
        """Left alone, every request has its answer."""
        self.world.advance(20 * REBALANCE_MS)
        unanswered = [r for r in self.waiting if r not in self.world.answers]
        assert not unanswered
        group = self.world.group
        assert group is None or group.state is GroupState.EMPTY


def compacted(log):
    """(offset, record): of each key the last one. What a transaction covers stays, and its marker (`shard_replay`)."""
    last = {}
    for offset, record in enumerate(log):
        if isinstance(record, TransactionEnded) or getattr(record, "producer_id", -1) >= 0:
            last[offset] = offset
        else:
            last[encode_group_record(record)[0]] = offset
    return [(offset, log[offset]) for offset in sorted(last.values())]


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
