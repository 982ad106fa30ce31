"""Reading with Spark: batch and stream, offsets, headers, pushdown, loss."""

import json
from datetime import timedelta

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import functions as f
from tests.spark.topic_tools import SOURCE_PARTITIONS

from oncelog.protocol import versions
from oncelog.spark.columns import source_ddl
from oncelog.spark.options import parse_source_options

ROWS = [f"row-{number:04}" for number in range(40)]
SPAN = timedelta(seconds=10)


def values(frame):
    return sorted(row.value.decode() for row in frame.collect())


def test_batch_read_shows_committed_with_place_and_time(lab):
    lab.fill(ROWS)
    rows = lab.reader().load().orderBy("partition", "offset").collect()
    assert sorted(row.value.decode() for row in rows) == ROWS
    assert {row.topic for row in rows} == {lab.source}
    assert {row.partition for row in rows} == set(range(SOURCE_PARTITIONS))
    assert [row.offset for row in rows if row.partition == 0] == list(range(20))
    assert rows[0].timestamp.timestamp() == 1_700_000_000
    assert {row.timestampType for row in rows} == {0}
    assert rows[0].key == rows[0].value


@pytest.mark.parametrize("with_headers", ["true", "false"])
def test_schema_is_that_of_the_kafka_source(lab, with_headers):
    frame = lab.reader(includeHeaders=with_headers).load()
    given = {"bootstrap.servers": lab.bootstrap, "subscribe": lab.source}
    options = parse_source_options(given | {"includeHeaders": with_headers})
    assert frame.schema == lab.spark.createDataFrame([], source_ddl(options)).schema


def test_batch_read_between_offsets(lab):
    lab.fill(ROWS)
    starting = json.dumps({lab.source: {"0": 5, "1": -2}})
    ending = json.dumps({lab.source: {"0": 7, "1": 2}})
    frame = lab.reader(startingOffsets=starting, endingOffsets=ending).load()
    found = sorted((row.partition, row.offset) for row in frame.collect())
    assert found == [(0, 5), (0, 6), (1, 0), (1, 1)]


def test_batch_read_between_times(lab):
    lab.fill(ROWS)
    first_ms = 1_700_000_000_000
    times = {"startingTimestamp": str(first_ms + 20), "endingTimestamp": str(first_ms + 30)}
    assert values(lab.reader(**times).load()) == ROWS[20:30]
    # Markers have the time at which they were written.
    late = {"startingTimestamp": "4000000000000"}
    with pytest.raises(AnalysisException, match=r"no committed record at or after \d+ ms"):
        lab.reader(**late).load().collect()
    late["startingOffsetsByTimestampStrategy"] = "latest"
    assert values(lab.reader(**late).load()) == []


def test_batch_read_of_an_empty_topic_is_empty(lab):
    assert lab.reader().load().collect() == []


def test_assigned_partition_is_read_alone(lab):
    lab.fill(ROWS)
    found = lab.reader(assign=json.dumps({lab.source: [1]})).load().collect()
    assert {row.partition for row in found} == {1}
    assert len(found) == 20


def test_pushed_filters_fetch_less_and_give_the_same_rows(lab):
    lab.fill(ROWS)

    def read(**options):
        frame = lab.reader(**options).load()
        wanted = frame.where("partition = 1 and offset >= 3 and offset < 12")
        later = wanted.where(f.col("timestamp") >= f.timestamp_millis(f.lit(1_700_000_000_011)))
        return sorted(row.offset for row in later.collect())

    expected = read()
    fetches = lab.proxy.calls["Fetch"]
    assert read(pushdown="true") == expected == list(range(5, 12))
    assert lab.proxy.calls["Fetch"] - fetches < fetches


def test_headers_come_when_asked_for_and_go_through_the_sink(lab):
    rows = [(b"k", b"v", [("h", b"x"), ("n", None)]), (None, b"w", None)]
    schema = "key binary, value binary, headers array<struct<key:string,value:binary>>"
    lab.write(lab.spark.createDataFrame(rows, schema), topic=lab.source, jobId="headers")
    lab.wait_decided(lab.source)
    found = lab.reader(includeHeaders="true").load().select("key", "value", "headers").collect()
    shown = {
        bytes(row.value): row.headers and [(header.key, header.value) for header in row.headers]
        for row in found
    }
    assert shown == {b"v": [("h", b"x"), ("n", None)], b"w": None}


def test_unknown_topic_and_bad_options_say_what_to_do(lab):
    with pytest.raises(AnalysisException, match="did you mean startingOffsets"):
        lab.reader(startingOffset="earliest").load()
    with pytest.raises(AnalysisException, match=r"leave out \.schema"):
        lab.reader().schema("id int").load().collect()
    with pytest.raises(Exception, match=r"topic 'nowhere' does not exist.*topics create"):
        lab.reader(subscribe="nowhere").load().collect()


@pytest.mark.slow
def test_deleted_records_stop_the_query_unless_it_may_go_on(lab):
    lab.fill(ROWS)
    lab.copy(limit=10)
    lab.fill([f"later-{row}" for row in ROWS])
    last_record = lab.ends(lab.source)[(lab.source, 0)] - 2  # the marker is behind it
    delete_records(lab, 0, last_record)
    with pytest.raises(StreamingQueryException, match=r"are gone.*failOnDataLoss=false"):
        lab.copy()
    lab.copy(source={"failOnDataLoss": "false"})
    found = set(lab.visible_settled())
    lost = {f"later-{row}" for row in ROWS[:-2:2]}
    assert found == {*ROWS, *(f"later-{row}" for row in ROWS)} - lost


def test_stream_starts_at_the_latest_offset_by_default(lab):
    lab.fill(ROWS)
    query = (
        lab.stream()
        .writeStream.format("memory")
        .queryName(lab.source.replace("-", "_"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(180)
    assert lab.spark.table(lab.source.replace("-", "_")).count() == 0


def test_partition_added_meanwhile_is_read_from_its_beginning(lab):
    lab.fill(ROWS)
    lab.copy()
    create_partitions(lab, SOURCE_PARTITIONS + 1)
    schema = "value string, partition int"
    frame = lab.spark.createDataFrame([("new", SOURCE_PARTITIONS)], schema)
    lab.write(frame, topic=lab.source, transactionalId=f"{lab.sink_id}-more", jobId="more")
    lab.wait_decided(lab.source)
    lab.copy()
    assert lab.visible_settled() == ["new", *ROWS]


def delete_records(lab, partition, offset):
    words = {"name": lab.source, "partition_index": partition, "offset": offset, "timeout": SPAN}
    answer = lab.call(versions.DELETE_RECORDS, 2, **words)
    assert answer.topics[0].partitions[0].error_code.value == 0


def create_partitions(lab, count):
    words = {"name": lab.source, "count": count, "assignments": None, "timeout": SPAN}
    assert lab.call(versions.CREATE_PARTITIONS, 3, **words).results[0].error_code.value == 0
