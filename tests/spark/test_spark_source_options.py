"""Options that queries bring along from Spark's Kafka source: patterns, tasks, triggers, isolation, a group."""

import json
import time
from collections import Counter

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

ROWS = [f"row-{number:04}" for number in range(40)]
SETTLED_S = 60


def tasks_of(frame):
    """Task → its rows' (partition, offset)."""
    rows = frame.withColumn("task", f.spark_partition_id()).collect()
    found: dict[int, list[tuple[int, int]]] = {}
    for row in rows:
        found.setdefault(row.task, []).append((row.partition, row.offset))
    return found


def transactional(lab, values, end):
    producer = Producer(
        {"bootstrap.servers": lab.bootstrap, "transactional.id": f"{lab.source}-{end}"}
    )
    producer.init_transactions()
    producer.begin_transaction()
    for value in values:
        producer.produce(lab.source, value.encode(), partition=0)
    producer.flush()
    if end != "open":
        getattr(producer, f"{end}_transaction")()
    return producer


def test_a_partition_is_split_into_the_tasks_asked_for(lab):
    lab.fill(ROWS)
    whole = tasks_of(lab.reader().load())
    split = tasks_of(lab.reader(minPartitions="6").load())
    capped = tasks_of(lab.reader(maxRecordsPerPartition="5").load())
    everything = sorted(place for places in whole.values() for place in places)
    assert len(everything) == len(ROWS)
    for found in (split, capped):
        assert sorted(place for places in found.values() for place in places) == everything
        assert all(len({partition for partition, _ in places}) == 1 for places in found.values())
    assert len(whole) == 2
    assert len(split) == 6
    assert max(map(len, capped.values())) <= 5
    assert len(capped) >= 8


def test_a_split_stream_writes_each_row_once(lab):
    lab.fill(ROWS)
    lab.copy(limit=15, source={"minPartitions": "5"})
    assert lab.visible_settled() == ROWS


def test_topics_by_pattern_are_those_that_match_whole_names(lab):
    other = f"{lab.source}-more"
    lab.cluster.create_topic(other, 1)
    lab.fill(ROWS)
    lab.write(lab.spark.createDataFrame([("new",)], "value string"), topic=other, jobId="p")
    lab.wait_decided(other)
    names = {"subscribe": ""}

    def topics(pattern):
        frame = lab.reader(**names, subscribePattern=pattern).load()
        return {row.topic for row in frame.select("topic").distinct().collect()}

    assert topics(f"{lab.source}.*") == {lab.source, other}
    assert topics(f"{lab.source}-m[a-z]+") == {other}
    assert topics(lab.source[:-1]) == set()
    assert not any(topic.startswith("__") for topic in topics("__.*"))


def test_a_topic_made_later_joins_a_stream_by_pattern(lab):
    lab.fill(ROWS)
    source = {"subscribe": "", "subscribePattern": f"{lab.source}.*"}
    lab.copy(source=source)
    later = f"{lab.source}-later"
    lab.cluster.create_topic(later, 1)
    lab.write(lab.spark.createDataFrame([("new",)], "value string"), topic=later, jobId="l")
    lab.wait_decided(later)
    lab.copy(source=source)
    assert lab.visible_settled() == ["new", *ROWS]


def test_uncommitted_records_come_with_their_outcome_on_request(lab):
    transactional(lab, ["kept"], "commit")
    transactional(lab, ["thrown"], "abort")
    lab.wait_decided(lab.source)
    holder = transactional(lab, ["hanging"], "open")
    level = {"kafka.isolation.level": "read_uncommitted"}

    def read(frame):
        return [row.value.decode() for row in frame.orderBy("offset").collect()]

    assert read(lab.reader().load()) == ["kept"]
    assert read(lab.reader(**level).load()) == ["kept", "thrown", "hanging"]
    told = lab.reader(**level, includeOutcome="true").load().orderBy("offset")
    assert [(row.value.decode(), row.outcome) for row in told.collect()] == [
        ("kept", "committed"),
        ("thrown", "aborted"),
        ("hanging", "undecided"),
    ]
    holder.abort_transaction()


def test_a_stream_waits_until_enough_records_are_there(lab):
    lab.fill(ROWS)
    batches = Counter()
    query = (
        lab.stream(startingOffsets="earliest", minOffsetsPerTrigger="20", maxTriggerDelay="1h")
        .writeStream.foreachBatch(lambda frame, number: batches.update({number: frame.count()}))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    try:
        wait_until(lambda: batches[0] == len(ROWS))
        lab.fill(["alone"])
        looked = lab.proxy.calls["ListOffsets"]
        wait_until(lambda: lab.proxy.calls["ListOffsets"] >= looked + 4)
        lab.fill(ROWS)
        wait_until(lambda: batches[1] == 1 + len(ROWS))
        assert len(batches) == 2
    finally:
        query.stop()


def test_a_query_shows_what_it_read_as_a_group(lab):
    lab.fill(ROWS)
    group = f"{lab.source}-query"
    query = (
        lab.stream(**{"startingOffsets": "earliest", "kafka.group.id": group})
        .writeStream.format("noop")
        .trigger(processingTime="100 milliseconds")
        .start()
    )
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    wanted = ConsumerGroupTopicPartitions(
        group, [TopicPartition(lab.source, number) for number in range(2)]
    )

    def committed():
        found = admin.list_consumer_group_offsets([wanted])[group].result().topic_partitions
        return {(one.topic, one.partition): one.offset for one in found}

    try:
        wait_until(lambda: committed() == lab.ends(lab.source))
        lab.fill(["more"])
        wait_until(lambda: committed() == lab.ends(lab.source))
    finally:
        query.stop()
    with pytest.raises(AnalysisException, match=r"kafka.group.id is for streams"):
        lab.reader(**{"kafka.group.id": group}).load().collect()


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_the_sink_compresses_as_it_is_told(lab, codec):
    rows = [(str(number), "x" * 100) for number in range(2_000)]
    frame = lab.spark.createDataFrame(rows, "key string, value string")
    lab.write(frame, jobId=codec, **{"kafka.compression.type": codec})
    assert len(lab.visible_settled()) == len(rows)
    sizes = lab.call(35, 1, topics=None).results[0].topics
    size = sum(
        one.partition_size for topic in sizes if topic.name == lab.sink for one in topic.partitions
    )
    assert 0 < size < 100_000


def wait_until(holds):
    deadline = time.monotonic() + SETTLED_S
    while not holds():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.1)


def test_starting_offsets_of_a_pattern_name_its_partitions(lab):
    lab.fill(ROWS)
    starting = json.dumps({lab.source: {"0": 5, "1": -1}})
    options = {"subscribe": "", "subscribePattern": lab.source, "startingOffsets": starting}
    found = tasks_of(lab.reader(**options).load())
    assert {partition for places in found.values() for partition, _ in places} == {0}
