"""What clients wrote and read, by topic: each record once, in bounded numbers that only grow."""

from tests.unit.storage.read_host import Host, grown, slice_of

from oncelog_storage.core.topic_counts import OTHERS, TOPICS_MAX, CountsOfTopics


def test_what_a_look_gives_counts_when_it_is_the_answer():
    host = Host(grown(3), slice_of(0, 3))
    counts = host.partition.counts
    reading = host.fetching(min_bytes=1)
    size_bytes = len(host.read(reading, 1).records)
    assert (counts.consumed_records, counts.consumed_bytes) == (0, 0)
    reading.count_given()
    # The batch is given whole, and its first record was not asked for.
    assert (counts.consumed_records, counts.consumed_bytes) == (2, size_bytes)


def test_a_coordinator_that_loads_its_shard_consumes_nothing():
    host = Host(grown(3), slice_of(0, 3))
    reading = host.fetching(min_bytes=1, read_to_log_end=True)
    assert host.read(reading, 0).records
    reading.count_given()
    assert host.partition.counts.consumed_bytes == 0


def test_an_empty_look_counts_nothing():
    host = Host(grown(3))
    reading = host.fetching(min_bytes=1)
    host.read(reading, 3)
    reading.count_given()
    assert not host.partition.counts.is_used()


def test_topics_beyond_the_limit_are_counted_together():
    counts = CountsOfTopics()
    for number in range(TOPICS_MAX + 2):
        counts.of(f"topic-{number}").produced_bytes += 1
    used = dict(counts.used())
    assert len(used) == TOPICS_MAX + 1
    assert used[OTHERS].produced_bytes == 2


def test_a_deleted_topic_leaves_its_place_to_another():
    counts = CountsOfTopics()
    for number in range(TOPICS_MAX):
        counts.of(f"topic-{number}")
    counts.forget("topic-0")
    counts.of("new").produced_bytes += 1
    assert [topic for topic, _ in counts.used()] == ["new"]
    assert counts.of("topic-0") is counts.of("another")
