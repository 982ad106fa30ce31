"""What a heartbeat of the consumer protocol is answered, by names or a regular expression, row by row (KIP-848)."""

import pytest
from tests.worlds.coordinator.consumer_world import (
    REBALANCE_MS,
    SESSION_MS,
    TOPICS,
    ConsumerWorld,
    slots,
)

from oncelog.errors import ErrorCode
from oncelog.ids import Partition
from oncelog_coordinator.core.consumer_assignors import target_assignment
from oncelog_coordinator.core.consumer_group import (
    ConsumerGroup,
    ConsumerGroupState,
    ConsumerMember,
    MemberState,
    PatternResolved,
    Subscription,
    TopicShape,
)
from oncelog_coordinator.core.consumer_heartbeat import MATCHES_MAX, PATTERNS_REFRESH_MS
from oncelog_coordinator.core.group_events import (
    CommitOffsets,
    ConsumerHeartbeat,
    DeleteGroup,
    FetchOffsets,
    ListGroups,
    OffsetToCommit,
    TopicsDeleted,
)
from oncelog_coordinator.core.topic_patterns import InvalidPattern, check_pattern, matching_topics

ORDERS = Partition("orders", 0)
ALL = slots(TOPICS, "orders")
MORE = TopicShape(b"m" * 16, 2)


@pytest.fixture
def world():
    return ConsumerWorld()


def test_a_partition_is_given_up_before_another_member_gets_it(world):
    first, second = world.client("a"), world.client("b")
    first.beat()
    first.settle()
    assert first.owned == ALL
    second.beat()
    assert (second.epoch, second.assigned) == (2, frozenset())
    assert world.consumers.members["b"].current.state is MemberState.UNRELEASED_PARTITIONS
    first.beat()
    assert (first.epoch, len(first.assigned)) == (1, 2), (
        "it stays in its epoch until it has revoked"
    )
    assert world.consumers.state is ConsumerGroupState.RECONCILING
    second.beat()
    assert second.assigned == frozenset()
    first.settle()
    first.beat()
    second.beat()
    assert (first.epoch, second.epoch) == (2, 2)
    assert first.assigned | second.assigned == ALL
    assert not first.assigned & second.assigned
    assert world.consumers.state is ConsumerGroupState.STABLE


def test_who_keeps_partitions_past_the_rebalance_is_put_out(world):
    first, second = world.client("a"), world.client("b")
    first.beat()
    first.settle()
    second.beat()
    first.beat()
    for _ in range(4):
        world.advance(REBALANCE_MS // 4)
        second.beat()
        first.beat()
    assert "consumer_did_not_revoke" in world.labels
    assert first.code == ErrorCode.UNKNOWN_MEMBER_ID
    second.beat()
    assert second.assigned == ALL


def test_a_silent_member_is_put_out_after_a_whole_session(world):
    first, second = world.client("a"), world.client("b")
    world.quiesce()
    world.advance(SESSION_MS - 1)
    second.beat()
    world.crash()
    world.advance(SESSION_MS - 1)
    assert set(world.consumers.members) == {"a", "b"}
    second.beat()
    world.advance(1)
    assert set(world.consumers.members) == {"b"}
    world.quiesce(second)
    assert second.owned == ALL
    assert first.beat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_goes_though_the_clock_was_set_back(world):
    """Its deadline is then as far away as the clock was set back."""
    world.client("a")
    second = world.client("b")
    world.quiesce()
    world.advance(SESSION_MS // 2)
    world.set_clock_back(3_600_000)
    for _ in range(4):
        assert second.beat() == ErrorCode.NONE
        world.advance(SESSION_MS // 2)
    assert set(world.consumers.members) == {"b"}
    world.quiesce(second)
    assert second.owned == ALL


@pytest.mark.parametrize("step_ms", [1_000, 3_600_000, -3_600_000])
def test_a_clock_that_steps_puts_no_living_consumer_out(world, step_ms):
    client = world.client("a")
    world.quiesce()
    for _ in range(4):
        world.advance(SESSION_MS // 2 + 500)
        assert client.beat() == ErrorCode.NONE
        world.step_clock(step_ms)
    world.advance(SESSION_MS // 2 + 500)
    assert client.beat() == ErrorCode.NONE
    world.advance(2 * SESSION_MS)
    assert world.consumers is None or "a" not in world.consumers.members


@pytest.mark.parametrize(
    ("fields", "error_code"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"member_id": "m" * 40_000}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"owned": None}, ErrorCode.INVALID_REQUEST),
        ({"owned": frozenset({(b"o" * 16, 0)})}, ErrorCode.INVALID_REQUEST),
        ({"topics": None}, ErrorCode.INVALID_REQUEST),
        ({"topics": tuple(f"{n:0>200}" for n in range(5_000))}, ErrorCode.INVALID_REQUEST),
        ({"assignor": "sticky"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"regex": "o.*"}, ErrorCode.NONE),
        ({"regex": "o(.*"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"regex": "(?=o).*"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"regex": "a{1001}"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"regex": "o" * 8_193}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"member_epoch": 3}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"member_epoch": -1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"group_id": "other", "member_epoch": 3}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"group_id": "other", "member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_id": "a", "member_epoch": 9}, ErrorCode.FENCED_MEMBER_EPOCH),
        ({"member_id": "a", "member_epoch": 1, "owned": None}, ErrorCode.NONE),
        ({"instance_id": "unknown", "member_epoch": 1}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({"regex": ""}, ErrorCode.NONE),
        ({}, ErrorCode.NONE),
    ],
)
def test_requests_that_are_refused(world, fields, error_code):
    world.client("a").beat()
    fields = {
        "group_id": "g",
        "member_id": "b",
        "member_epoch": 0,
        "rebalance_timeout_ms": REBALANCE_MS,
        "topics": ("orders",),
        "owned": frozenset(),
    } | fields
    before = len(world.log)
    answer = world.answer(ConsumerHeartbeat, shapes=world.shapes, **fields)
    assert answer.error_code == error_code
    assert (len(world.log) == before) or error_code == 0


def test_an_answer_that_was_lost_is_told_again(world):
    first, second = world.client("a"), world.client("b")
    world.quiesce()
    second.leave()
    first.beat(loses_answer=True)
    assert world.consumers.members["a"].current.epoch == first.epoch + 1
    assert first.beat() == 0
    assert first.assigned == ALL


def test_the_epoch_before_with_foreign_partitions_is_fenced(world):
    first, second = world.client("a"), world.client("b")
    world.quiesce()
    stolen = second.owned
    second.leave()
    first.beat(loses_answer=True)
    first.owned = stolen | {(b"x" * 16, 0)}
    assert first.beat() == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_full_group_refuses_one_more():
    world = ConsumerWorld(group_members_max=1)
    assert world.client("a").beat() == 0
    assert world.client("b").beat() == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_static_member_comes_back_to_what_it_had(world):
    first, second = world.client("a", instance_id="i"), world.client("b")
    world.quiesce()
    epoch, held = world.consumers.epoch, first.owned
    back = world.client("c", instance_id="i")
    assert back.beat() == ErrorCode.UNRELEASED_INSTANCE_ID
    assert first.leave(-2) == 0
    second.beat()
    assert second.assigned == second.owned, "its partitions wait for it"
    assert back.beat() == 0
    assert back.assigned == held
    assert world.consumers.epoch == epoch
    assert first.beat() == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_that_does_not_come_back_is_put_out(world):
    first, second = world.client("a", instance_id="i"), world.client("b")
    world.quiesce()
    first.leave(-2)
    for _ in range(4):
        world.advance(SESSION_MS // 3)
        second.beat()
    assert set(world.consumers.members) == {"b"}


def commit(world, epoch, member_id):
    offsets = (OffsetToCommit(ORDERS, 5),)
    return world.answer(CommitOffsets, "g", epoch, member_id, None, offsets).error_code


def test_offsets_are_committed_and_fetched_at_the_members_epoch(world):
    member = world.client("a")
    member.beat()
    assert commit(world, 1, "a") == 0
    assert commit(world, 0, "a") == ErrorCode.STALE_MEMBER_EPOCH
    assert commit(world, 1, "b") == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(world, -1, "") == ErrorCode.UNKNOWN_MEMBER_ID

    in_transaction = world.commit_in_transaction
    assert in_transaction(5, generation=0, member_id="a") == ErrorCode.STALE_MEMBER_EPOCH
    assert in_transaction(5, generation=1, member_id="b") == ErrorCode.UNKNOWN_MEMBER_ID
    assert in_transaction(5, generation=1, member_id="a") == 0
    assert world.end() == 0

    def fetched(*who):
        return world.answer(FetchOffsets, "g", (ORDERS,), False, *who).error_code

    assert fetched("a", 1) == 0
    assert fetched("a", 2) == ErrorCode.STALE_MEMBER_EPOCH
    assert fetched("b", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert fetched() == 0
    member.leave()
    assert commit(world, -1, "") == 0
    world.crash()
    assert world.fetch() == 5


def test_only_an_empty_group_changes_its_protocol(world):
    member = world.client("a")
    member.beat()
    commit(world, 1, "a")
    joined = world.answers[world.join()]
    assert joined.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.heartbeat("a", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    member.leave()
    joined = world.stable()
    assert world.group.generation == 1
    assert world.fetch() == 5
    again = world.client("b")
    assert again.beat() == ErrorCode.GROUP_ID_NOT_FOUND
    assert world.leave(joined.member_id) == [0]
    assert again.beat() == 0
    assert world.fetch() == 5
    world.crash()
    assert isinstance(world.consumers, ConsumerGroup)


def test_offsets_without_their_group_are_still_a_groups(world):
    """Committed without a group, kept through the consumer protocol, and on the way to the classic one at a crash."""
    assert world.commit(7) == 0
    member = world.client("a")
    member.beat()
    member.leave()
    world.join()
    world.machine = world.compacted()
    assert world.fetch() == 7
    world.submit(TopicsDeleted({"orders": world.shapes["orders"].topic_id}))
    assert world.fetch() == -1
    assert world.machine.is_empty


def test_an_operator_lists_and_deletes_consumer_groups(world):
    member = world.client("a")
    member.beat()
    (row,) = world.answer(ListGroups, (), ("consumer",)).groups
    assert row == ("g", "consumer", "Stable", "consumer")
    assert world.answer(ListGroups, (), ("classic",)).groups == ()
    assert world.answer(DeleteGroup, "g").error_code == ErrorCode.NON_EMPTY_GROUP
    member.leave()
    assert world.answer(DeleteGroup, "g").error_code == 0
    assert world.machine.is_empty
    assert world.replayed().is_empty


def test_an_empty_group_without_offsets_is_cleaned_up(world):
    world.client("a").beat()
    world.advance(SESSION_MS + world.config.clean_up_interval_ms)
    world.crash()
    world.advance(world.config.clean_up_interval_ms)
    assert world.machine.is_empty


# ------------------------------------------------------------------------------------------------ assignors


def group_of(topics_of, assignor=None, targets=()):
    members = {
        id_: ConsumerMember(id_, Subscription(topics=topics, assignor=assignor))
        for id_, topics in topics_of.items()
    }
    return ConsumerGroup("g", members=members, targets=dict(targets))


def test_range_gives_neighbours_and_the_same_places():
    topics = {"x": TopicShape(b"x" * 16, 3), "y": TopicShape(b"y" * 16, 3)}
    found = target_assignment(group_of({"a": ("x", "y"), "b": ("x", "y")}, "range"), topics)
    assert {(slot[0][:1], slot[1]) for slot in found["a"]} == {
        *((name, number) for name in (b"x", b"y") for number in (0, 1))
    }
    assert {number for _, number in found["b"]} == {2}


def test_uniform_is_even_and_moves_as_little_as_it_can():
    topics = {"x": TopicShape(b"x" * 16, 9)}
    alone = target_assignment(group_of({"a": ("x",)}), topics)
    both = target_assignment(group_of({"a": ("x",), "b": ("x",)}, targets=alone.items()), topics)
    assert sorted(map(len, both.values())) == [4, 5]
    assert both["a"] < alone["a"]
    three = group_of({"a": ("x",), "b": ("x",), "c": ("x",)}, targets=both.items())
    found = target_assignment(three, topics)
    assert set(map(len, found.values())) == {3}
    assert found["a"] < both["a"]
    assert found["b"] < both["b"]


def test_uniform_gives_each_only_its_own_subscriptions():
    topics = {"x": TopicShape(b"x" * 16, 4), "y": TopicShape(b"y" * 16, 4)}
    found = target_assignment(group_of({"a": ("x", "y"), "b": ("y",)}), topics)
    assert found == {"a": slots(topics, "x"), "b": slots(topics, "y")}


# -------------------------------------------------------------------------------- subscriptions by a regular expression


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("orders", ("orders",)),
        ("order", ()),
        ("^order.*", ("orders",)),
        ("(?i)ORDERS|bills", ("bills", "orders")),
        (".*s", ("bills", "orders")),
        (r"\w{5}", ("bills",)),
        ("", ()),
    ],
)
def test_the_whole_name_must_match(pattern, named):
    check_pattern(pattern)
    assert matching_topics(pattern, TOPICS) == named


@pytest.mark.parametrize("pattern", ["(", "a**", r"\1", "(?=a)", "(?<!a)b", "a{1001}"])
def test_what_re2_does_not_know_is_refused(pattern):
    with pytest.raises(InvalidPattern):
        check_pattern(pattern)


def test_the_refusal_names_the_expression_and_the_reason(world):
    client = world.client("a", (), regex="o(rders")
    assert client.beat() == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert client.message == "'o(rders' is no regular expression of RE2: missing ): o(rders"
    assert world.log == []


def test_a_hostile_expression_costs_little(world):
    """Python's own would take longer than the sun has."""
    world.shapes["a" * 249] = MORE
    assert matching_topics("(a|aa)+b|(a*)*c", world.shapes) == ()


def test_topics_that_come_and_go_are_noticed(world):
    client = world.client("a", (), regex="[bm].*")
    world.quiesce()
    assert client.owned == slots(TOPICS, "bills")
    world.shapes["more"] = MORE
    world.advance(PATTERNS_REFRESH_MS)
    world.quiesce()
    assert client.owned == slots(world.shapes, "bills", "more")
    del world.shapes["bills"]
    world.advance(PATTERNS_REFRESH_MS)
    world.quiesce()
    assert client.owned == slots(world.shapes, "more")


def test_all_topics_are_not_looked_through_at_each_heartbeat(world):
    client = world.client("a", (), regex="m.*")
    world.quiesce()
    world.shapes["more"] = MORE
    world.quiesce()
    assert client.owned == frozenset(), "they were looked through a moment ago"
    world.advance(PATTERNS_REFRESH_MS - 1)
    world.quiesce()
    assert client.owned == frozenset()
    world.advance(1)
    world.quiesce()
    assert client.owned == slots(world.shapes, "more")


def test_without_a_new_topic_nothing_is_written(world):
    world.client("a", (), regex="o.*")
    world.quiesce()
    written = len(world.log)
    world.advance(20 * PATTERNS_REFRESH_MS)
    world.quiesce()
    assert len(world.log) == written


def test_a_pattern_goes_with_the_last_member_that_has_it(world):
    first, second = world.client("a", (), regex="o.*"), world.client("b", (), regex="o.*")
    world.quiesce()
    first.leave()
    assert "o.*" in world.consumers.patterns
    second.options["regex"] = "b.*"
    second.beat()
    assert list(world.consumers.patterns) == ["b.*"]
    assert PatternResolved("g", "o.*", None) in world.log
    second.leave()
    assert world.consumers.patterns == {}


def test_an_empty_expression_ends_the_subscription_by_one(world):
    client = world.client("a", ("bills",), regex="o.*")
    world.quiesce()
    assert client.owned == slots(TOPICS, "orders", "bills")
    client.options["regex"] = ""
    world.quiesce()
    assert client.owned == slots(TOPICS, "bills")


def test_a_static_member_that_comes_back_keeps_its_pattern(world):
    client = world.client("a", (), instance_id="i", regex="o.*")
    world.quiesce()
    client.leave(-2)
    back = world.client("b", (), instance_id="i")
    back.beat()
    assert back.assigned == slots(TOPICS, "orders")


def test_many_patterns_are_looked_for_a_few_at_a_time(world):
    for number in range(MATCHES_MAX // 2 - 3):
        world.shapes[f"t{number}"] = MORE
    for number in range(6):
        world.client(f"m{number}", (), regex=f"t{number}").beat()
    world.shapes["x"] = MORE
    world.advance(PATTERNS_REFRESH_MS)
    (first, *_) = world.clients
    assert world.looked_through(first.beat) == 2
    assert world.looked_through(first.beat) == 2
    assert world.looked_through(first.beat) == 2
    assert world.looked_through(first.beat) == 0


def test_a_pattern_that_names_too_much_for_a_record_is_refused():
    world = ConsumerWorld(record_bytes_max=2_000)
    for number in range(100):
        world.shapes[f"topic-with-a-long-name-{number}"] = MORE
    client = world.client("a", (), regex="topic.*")
    assert client.beat() == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert client.message == "'topic.*' names 100 topics, too many for a record"
    assert world.log == []


def test_a_pattern_that_grew_too_large_is_told_to_who_sent_it():
    """Whose heartbeat looks for its topics has nothing to do with it, and goes on."""
    world = ConsumerWorld(record_bytes_max=2_000)
    sender = world.client("a", (), regex="topic.*")
    other = world.client("b", (), regex="o.*")
    world.quiesce()
    for number in range(100):
        world.shapes[f"topic-with-a-long-name-{number}"] = MORE
    world.advance(PATTERNS_REFRESH_MS)
    assert other.beat() == ErrorCode.NONE
    assert other.beat() == ErrorCode.NONE
    assert sender.beat() == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert sender.message == "'topic.*' names 100 topics, too many for a record"
    assert other.beat() == ErrorCode.NONE
    assert world.consumers.patterns["topic.*"].topics == ()
