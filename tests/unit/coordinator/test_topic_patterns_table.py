"""Groups of the consumer protocol that subscribe by a regular expression (KIP-848), row by row."""

import pytest
from tests.unit.coordinator.consumer_world import TOPICS, ConsumerWorld, slots

from oncelog.errors import ErrorCode
from oncelog_coordinator.core.consumer_group import PatternResolved, TopicShape
from oncelog_coordinator.core.consumer_heartbeat import MATCHES_MAX, PATTERNS_REFRESH_MS
from oncelog_coordinator.core.topic_patterns import InvalidPattern, check_pattern, matching_topics

MORE = TopicShape(b"m" * 16, 2)


@pytest.fixture
def world():
    return ConsumerWorld()


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
