"""Options of the connector: every refusal names the option, its value and the way out."""

import pickle

import pytest

from oncelog.client.core.log_places import READ_COMMITTED
from oncelog.client.core.login import ClientLogin
from oncelog.errors import OncelogError
from oncelog.ids import Partition
from oncelog.record.batch import Codec
from oncelog.spark.columns import check_sink_columns, check_source_columns
from oncelog.spark.connecting import cluster_of
from oncelog.spark.offsets import EARLIEST, LATEST, Timestamps
from oncelog.spark.options import (
    FetchOptions,
    OnNewQuery,
    Partitioner,
    parse_sink_options,
    parse_source_options,
)

SOURCE = {"bootstrap.servers": "localhost:9092", "subscribe": "orders"}
SINK = {"bootstrap.servers": "localhost:9092", "transactionalId": "etl"}


def test_server_and_topic_are_enough_to_read():
    options = parse_source_options(SOURCE)
    assert options.topics == ("orders",)
    assert options.starting is None
    assert options.ending == LATEST
    assert options.max_offsets_per_trigger >= 250_000
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert not options.pushdown


def test_server_and_transactional_id_are_enough_to_write():
    options = parse_sink_options(SINK)
    assert options.topic is None
    assert options.on_new_query is OnNewQuery.FAIL
    assert options.attempt_timeout_ms == 900_000
    assert options.partitioner is Partitioner.MURMUR2
    assert options.collected_bytes_max == 128 * 1024 * 1024


def test_names_have_no_case_and_kafka_alias_is_accepted():
    options = parse_source_options(
        {"KAFKA.BOOTSTRAP.SERVERS": "h:1", "SUBSCRIBE": "a, b,a", "startingoffsets": "Earliest"}
    )
    assert [str(address) for address in options.bootstrap] == ["h:1"]
    assert options.topics == ("a", "b")
    assert options.starting == EARLIEST


def test_sparks_own_options_are_ignored():
    own = {"checkpointLocation": "/x", "queryName": "q", "path": "/y", "truncate": "false"}
    assert parse_source_options({**SOURCE, **own}) == parse_source_options(SOURCE)


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"bootstrap.servers": ""}, "option bootstrap.servers is required"),
        ({"bootstrap.servers": "localhost"}, "'localhost' in bootstrap.servers is no host:port"),
        ({"subscribe": ""}, "give one of subscribe .*; none was given"),
        ({"assign": '{"orders": [0]}'}, "give one of .*; subscribe and assign were given"),
        ({"subscribePattern": "a.*"}, "subscribe and subscribePattern were given"),
        ({"startingOffsets": "now"}, "option startingOffsets is 'now'.*earliest, latest or JSON"),
        ({"startingOffsets": '{"orders": {"0": -3}}'}, "-3 is no offset of orders-0"),
        ({"startingOffsets": '{"orders": {"x": 1}}'}, "'x' is no partition of topic 'orders'"),
        ({"startingOffsets": '{"orders": 1}'}, "the value of topic 'orders' is no object"),
        ({"startingOffsets": "{}"}, "names no partition"),
        ({"endingOffsets": "earliest"}, "option endingOffsets is 'earliest'.*reads nothing"),
        ({"endingOffsets": '{"orders": {"0": -2}}'}, "option endingOffsets"),
        (
            {"maxOffsetsPerTrigger": "0"},
            "option maxOffsetsPerTrigger is '0': give a whole number above 0",
        ),
        ({"maxOffsetsPerTrigger": "1e6"}, "option maxOffsetsPerTrigger is '1e6'"),
        ({"failOnDataLoss": "no"}, "option failOnDataLoss is 'no': give true or false"),
        ({"oncelog.foo": "1"}, "option oncelog.foo is unknown"),
        ({"startingOffset": "earliest"}, "did you mean startingOffsets"),
        ({"bootstrap.server": "h:1"}, "did you mean bootstrap.servers"),
        ({"minOffsetsPerTrigger": "0"}, "minOffsetsPerTrigger is '0': give a whole number above 0"),
        ({"maxTriggerDelay": "soon"}, "maxTriggerDelay is 'soon': give a time of 0h to 168h"),
        ({"minPartitions": "1000000"}, "minPartitions is '1000000': give at most 100000"),
        ({"maxRecordsPerPartition": "-5"}, "maxRecordsPerPartition is '-5'"),
        ({"maxBytesPerTrigger": "1g"}, "maxBytesPerTrigger is not supported.*maxOffsetsPerTrigger"),
        ({"groupIdPrefix": "x"}, "groupIdPrefix is not supported: .*kafka.group.id"),
        ({"kafka.auto.offset.reset": "latest"}, "kafka.auto.offset.reset.*set startingOffsets"),
        ({"kafka.fetch.max.bytes": "999999999"}, "kafka.fetch.max.bytes is .*at most 134217728"),
        ({"kafka.fetch.max.wait.ms": "99999999999"}, "kafka.fetch.max.wait.ms .*at most 300000"),
        (
            {"kafka.fetch.max.wait.ms": "40000"},
            "kafka.fetch.max.wait.ms is 40000: give less than kafka.request.timeout.ms, which is 30000",
        ),
        ({"transactionalId": "x"}, "transactionalId is for writing and not for reading: leave it"),
        ({"kafka.compression.type": "lz4"}, "kafka.compression.type is for writing"),
        ({"kafka.request.timeout.ms": "5s"}, "kafka.request.timeout.ms is '5s': give a whole"),
        ({"fetchOffset.numRetries": "3"}, "set kafka.default.api.timeout.ms"),
        ({"kafka.security.protocol": "SASL_SSL"}, "option kafka.sasl.mechanism is missing"),
        ({"kafka.sasl.mechanism": "PLAIN"}, "option kafka.sasl.mechanism.*protocol=SASL_SSL"),
        ({"kafka.ssl.truststore.type": "JKS"}, "option kafka.ssl.truststore.type is 'JKS'.*PEM"),
        ({"kafka.ssl.protocol": "TLS"}, "option kafka.ssl.protocol is not supported"),
        ({"kafka.max.poll.records": "5"}, "kafka.max.poll.records is not supported.*leave it out"),
        ({"isolation.level": "serializable"}, "give read_committed or read_uncommitted"),
        (
            {"isolation.level": "read_committed", "kafka.isolation.level": "read_uncommitted"},
            "isolation.level and kafka.isolation.level differ",
        ),
        ({"includeOutcome": "true"}, "includeOutcome needs isolation.level=read_uncommitted"),
        ({"startingTimestamp": "yesterday"}, "option startingTimestamp is 'yesterday'"),
        ({"startingOffsetsByTimestamp": '{"a": {"0": -1}}'}, "ByTimestamp is .*milliseconds"),
        ({"startingOffsetsByTimestampStrategy": "x"}, "give error or latest"),
        (
            {"subscribe": "", "subscribePattern": "a("},
            r"subscribePattern is 'a\(', no regular expression of Python: .*orders-",
        ),
    ],
)
def test_bad_source_option_is_refused(changed, text):
    with pytest.raises(OncelogError, match=text):
        parse_source_options({**SOURCE, **changed})


def test_settings_that_say_what_happens_anyway_are_accepted():
    same = {
        "kafka.security.protocol": "PLAINTEXT",
        "kafka.isolation.level": "read_committed",
        "kafka.acks": "all",
        "kafka.enable.idempotence": "true",
    }
    assert parse_source_options({**SOURCE, **same}) == parse_source_options(SOURCE)
    del same["kafka.isolation.level"]
    assert parse_sink_options({**SINK, **same}) == parse_sink_options(SINK)


def test_options_of_the_kafka_source_are_taken():
    options = parse_source_options(
        {
            "kafka.bootstrap.servers": "h:1",
            "subscribePattern": "orders-.*",
            "minPartitions": "8",
            "maxRecordsPerPartition": "1000",
            "minOffsetsPerTrigger": "10",
            "maxTriggerDelay": "2m",
            "kafka.group.id": "g",
            "kafka.isolation.level": "READ_UNCOMMITTED",
            "includeOutcome": "true",
            "kafka.fetch.max.bytes": "1000",
            "kafka.max.partition.fetch.bytes": "500",
            "kafka.fetch.max.wait.ms": "0",
            "kafka.default.api.timeout.ms": "7000",
        }
    )
    assert (options.topics, options.topic_pattern) == ((), "orders-.*")
    assert (options.min_partitions, options.max_records_per_partition) == (8, 1000)
    assert (options.min_offsets_per_trigger, options.max_trigger_delay_ms) == (10, 120_000)
    assert (options.group_id, options.read_uncommitted, options.include_outcome) == (
        "g",
        True,
        True,
    )
    assert options.fetch == FetchOptions(max_bytes=500, max_wait_ms=0)
    assert options.calls.call_timeout_ms == 7_000
    assert pickle.loads(pickle.dumps(options)) == options


def test_the_sink_compresses_as_it_is_told():
    options = parse_sink_options(
        {**SINK, "kafka.compression.type": "zstd", "kafka.batch.size": "1000"}
    )
    assert (options.codec, options.batch_bytes) == (Codec.ZSTD, 1000)


def test_what_calls_cost_reaches_the_client():
    given = {
        "kafka.client.id": "etl",
        "kafka.request.timeout.ms": "5",
        "kafka.retry.backoff.ms": "1",
    }
    with cluster_of(parse_source_options({**SOURCE, **given})) as cluster:
        settings = cluster.settings
    assert (settings.client_id, settings.request_timeout_ms) == ("etl", 5)
    assert (settings.backoff_min_ms, settings.backoff_max_ms) == (1, 1_000)
    assert settings.isolation_level == READ_COMMITTED


def test_a_query_logs_in_with_the_options_of_sparks_kafka_source():
    given = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="alice" password="hidden";',
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": "/ca.pem",
    }
    expected = ClientLogin("SASL_SSL", "SCRAM-SHA-512", "alice", "hidden", ca="/ca.pem")
    for options in (
        parse_source_options({**SOURCE, **given}),
        parse_sink_options({**SINK, **given}),
        pickle.loads(pickle.dumps(parse_sink_options({**SINK, **given}))),
    ):
        assert options.login == expected
        assert "hidden" not in repr(options)
    assert parse_source_options(SOURCE).login == ClientLogin()


def test_times_take_the_place_of_offsets():
    options = parse_source_options(
        {
            **SOURCE,
            "startingOffsets": "latest",
            "startingOffsetsByTimestamp": '{"orders": {"0": 5}}',
            "endingTimestamp": "7",
            "startingOffsetsByTimestampStrategy": "latest",
        }
    )
    assert options.starting == Timestamps(None, {Partition("orders", 0): 5}, True)
    assert options.ending == Timestamps(7, {}, True)
    sooner = parse_source_options(
        {**SOURCE, "startingTimestamp": "9", "startingOffsetsByTimestamp": "ignored"}
    )
    assert sooner.starting == Timestamps(9, {}, False)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_stream_has_no_end(name):
    with pytest.raises(OncelogError, match=f"option {name} is for batch reads.*availableNow"):
        parse_source_options({**SOURCE, name: "latest"}, is_stream=True)


@pytest.mark.parametrize("assign", ["[]", '{"a": 1}', '{"a": ["x"]}', '{"a": [-1]}', "{"])
def test_bad_assignment_is_refused(assign):
    with pytest.raises(
        OncelogError, match=r'option assign is .*Give JSON such as \{"orders": \[0, 1\]\}'
    ):
        parse_source_options({"bootstrap.servers": "h:1", "assign": assign})


def test_assignment_names_partitions():
    options = parse_source_options({"bootstrap.servers": "h:1", "assign": '{"a": [1, 0]}'})
    assert options.assigned == (Partition("a", 1), Partition("a", 0))


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"transactionalId": " "}, "option transactionalId is required"),
        ({"onNewQuery": "yes"}, "option onNewQuery is 'yes': give fail or adopt"),
        ({"attemptTimeout": "soon"}, "option attemptTimeout is 'soon': give a time of 1s to 24h"),
        ({"attemptTimeout": "10"}, "option attemptTimeout is '10'"),
        ({"partitioner": "crc"}, "option partitioner is 'crc': give murmur2 or roundrobin"),
        ({"transactionaId": "x"}, "did you mean transactionalId"),
        (
            {"transactionalId": "__oncelog/job/a"},
            "names that begin with __oncelog/ are oncelog's own",
        ),
        ({"verifyReplay": "no"}, "option verifyReplay is 'no': give true or false"),
        (
            {"maxBatchBytes": "2000000000"},
            "option maxBatchBytes is '2000000000': give at most 1073741824",
        ),
        ({"batchId": "-1"}, "option batchId is '-1': give a whole number"),
        ({"batchId": "1", "jobId": "a"}, "jobId='a' and batchId=1 exclude each other"),
        ({"kafka.sasl.jaas.config": "x"}, "option kafka.sasl.jaas.config cannot be read"),
        ({"kafka.acks": "1"}, "option kafka.acks is '1'.*all in-sync replicas"),
        ({"kafka.linger.ms": "5"}, "option kafka.linger.ms is not supported.*kafka.batch.size"),
        ({"kafka.compression.type": "rar"}, "give none or gzip or snappy or lz4 or zstd"),
        ({"startingOffsets": "nonsense"}, "startingOffsets is for reading and not for writing"),
        ({"kafka.fetch.max.bytes": "1"}, "kafka.fetch.max.bytes is for reading"),
        ({"kafka.batch.size": "0"}, "option kafka.batch.size is '0'"),
    ],
)
def test_bad_sink_option_is_refused(changed, text):
    with pytest.raises(OncelogError, match=text):
        parse_sink_options({**SINK, **changed})


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [("15m", 900_000), ("90 s", 90_000), ("2h", 7_200_000), ("5000", 5_000), ("5000ms", 5_000)],
)
def test_times_have_units(text, milliseconds):
    assert parse_sink_options({**SINK, "attemptTimeout": text}).attempt_timeout_ms == milliseconds


@pytest.mark.parametrize(
    ("types", "has_topic", "text"),
    [
        ({"id": "bigint"}, True, "needs a column value.*the columns are id"),
        ({"value": "bigint"}, True, "column value is bigint: cast it to binary or string"),
        ({"value": "string"}, False, "option topic, or give a column topic"),
        ({"value": "string", "x": "int"}, True, "column x has no place in a record"),
        ({"value": "string", "partition": "bigint"}, True, "column partition is bigint"),
        ({"value": "string", "headers": "map<string,string>"}, True, "column headers is map"),
    ],
)
def test_input_that_is_no_record_is_refused(types, has_topic, text):
    with pytest.raises(OncelogError, match=text):
        check_sink_columns(types, has_topic)


def test_every_column_of_a_record_is_accepted():
    check_sink_columns(
        {
            "key": "binary",
            "value": "string",
            "topic": "string",
            "partition": "int",
            "timestamp": "timestamp",
            "headers": "array<struct<key:string,value:binary>>",
        },
        False,
    )


def test_schema_of_the_users_own_is_refused():
    with pytest.raises(OncelogError, match=r"leave out \.schema"):
        check_source_columns(["id"], parse_source_options(SOURCE))
