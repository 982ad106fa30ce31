import pytest

from oncelog.broker_config import BROKER_CONFIGS, checked_broker_configs
from oncelog.errors import ErrorCode, KafkaError
from oncelog.idle_broker_config import STATIC_NAMES
from oncelog.ids import acl_name_of, branch_transactional_id, job_sink_name
from oncelog.protocol.error_versions import error_for_version
from oncelog.record.batch import HEADER, HEADER_BYTES
from oncelog.topic_config import TOPIC_CONFIGS, TopicConfig, checked_overrides
from oncelog_listener.core.config_entries import (
    BrokerValues,
    ConfigOperation,
    ConfigSource,
    ResourceType,
    altered,
    broker_entries,
    topic_entries,
)
from oncelog_listener.core.feature_rules import FeatureUpdate, wanted_levels
from oncelog_listener.core.produce_rules import refused_records, refused_request
from oncelog_listener.core.topic_names import is_legal_topic_name
from oncelog_listener.counters import ListenerCounters, api_name
from oncelog_listener.memory_budget import MemoryBudget
from oncelog_listener.role_metrics import listener_metrics

TRANSACTIONAL, CONTROL, ZSTD = 0x10, 0x20, 4


def batch(attributes=0, producer_id=-1, magic=2):
    size = HEADER_BYTES - 12
    return HEADER.pack(0, size, -1, magic, 0, attributes, 0, 0, 0, producer_id, -1, -1, 1)


@pytest.mark.parametrize(
    ("api_key", "version", "error", "expected"),
    [
        (22, 3, 90, 47),
        (22, 4, 90, 90),
        (24, 1, 90, 47),
        (24, 2, 90, 90),
        (26, 1, 90, 47),
        (26, 2, 90, 90),
        (0, 3, 56, 6),
        (0, 4, 56, 56),
        (1, 5, 56, 6),
        (1, 6, 56, 56),
        (22, 0, 51, 51),
        (22, 0, 0, 0),
        (22, 5, 4242, -1),
    ],
)
def test_old_versions_get_the_error_they_know(api_key, version, error, expected):
    """facts 1.3"""
    assert error_for_version(api_key, version, error) == expected


def test_unknown_acks_refuse_the_whole_request():
    assert refused_request(2, None, [batch()]).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    for acks in (-1, 0, 1):
        assert refused_request(acks, None, [batch()]) is None


@pytest.mark.parametrize("transactional_id", [None, ""])
def test_a_transactional_batch_needs_a_transactional_id(transactional_id):
    refused = refused_request(-1, transactional_id, [batch(), batch(TRANSACTIONAL, 7)])
    assert refused.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert refused_request(-1, "pay", [batch(), batch(TRANSACTIONAL, 7)]) is None


def test_transactional_batches_of_two_producers_are_refused():
    refused = refused_request(-1, "pay", [batch(TRANSACTIONAL, 7), batch(TRANSACTIONAL, 8)])
    assert refused.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_bytes_too_short_for_a_header_are_left_to_the_leader():
    assert refused_request(-1, None, [b"\xff" * 30, None, b""]) is None
    assert refused_records(3, b"\xff" * 30) is None
    assert refused_records(3, batch(magic=1)) is None


@pytest.mark.parametrize(
    ("version", "records", "error"),
    [
        (3, None, ErrorCode.INVALID_RECORD),
        (3, b"", ErrorCode.INVALID_RECORD),
        (12, batch(TRANSACTIONAL | CONTROL, 7), ErrorCode.INVALID_RECORD),
        (6, batch(ZSTD), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    ],
)
def test_records_that_no_leader_should_see_are_refused(version, records, error):
    assert refused_records(version, records).error_code == error


def test_zstd_is_taken_from_version_7():
    assert refused_records(7, batch(ZSTD)) is None


@pytest.mark.parametrize(
    ("name", "is_legal"),
    [("orders", True), ("a.b_c-9", True), ("x" * 249, True), ("x" * 250, False)]
    + [(name, False) for name in ("", ".", "..", "a b", "ä", "a/b", "a\n")],
)
def test_topic_names_are_kafkas(name, is_legal):
    assert is_legal_topic_name(name) is is_legal


def test_topic_entries_tell_overrides_from_defaults():
    entries = {entry.name: entry for entry in topic_entries({"retention.ms": "5"}, None)}
    assert entries.keys() == TOPIC_CONFIGS.keys()
    override, default = entries["retention.ms"], entries["segment.bytes"]
    assert (override.value, override.source) == ("5", ConfigSource.DYNAMIC_TOPIC)
    assert [name for name, _, _ in override.synonyms] == ["retention.ms"]
    assert [name for name, _, _ in default.synonyms] == ["log.segment.bytes"]
    assert default.source == ConfigSource.DEFAULT
    assert [entry.name for entry in topic_entries({}, ["segment.ms", "nonsense"])] == ["segment.ms"]


def test_a_policy_without_a_name_keeps_everything():
    assert altered({}, [("cleanup.policy", ConfigOperation.SUBTRACT, "delete")]) == (
        {"cleanup.policy": ""},
        [],
    )
    config = TopicConfig.from_overrides({"cleanup.policy": ""})
    assert (config.is_compacted, config.is_deleted) == (False, False)


def test_every_config_of_a_topic_can_be_set_to_its_default():
    """So a tool can copy a topic with all that DescribeConfigs told it."""
    values = {entry.name: entry.value for entry in topic_entries({}, None)}
    assert checked_overrides(values) == values


def test_every_changeable_broker_config_can_have_its_default():
    for for_all in (True, False):
        defaults = {
            name: row.key.default
            for name, row in BROKER_CONFIGS.items()
            if row.is_dynamic
            and not (row.is_for_all_only and not for_all)
            and not (row.is_for_one_only and for_all)
        }
        assert checked_broker_configs(defaults, for_all=for_all) == defaults


def test_a_config_without_effect_says_so():
    """Kept and told where nobody relies on it (librdkafka's suite sets this one)."""
    name = "sasl.kerberos.min.time.before.relogin"
    to_set, _ = altered({}, [(name, ConfigOperation.SET, "58000")], ResourceType.BROKER)
    (entry,) = broker_entries(BrokerValues(to_set, {}, {}), [name])
    assert (entry.value, entry.source) == ("58000", ConfigSource.DYNAMIC_BROKER)
    assert not entry.is_read_only
    assert "without effect" in entry.documentation


def test_what_kafka_reads_at_its_start_is_no_typing_error():
    assert not STATIC_NAMES & BROKER_CONFIGS.keys()
    with pytest.raises(KafkaError, match="cannot be changed while brokers run") as caught:
        altered({}, [("log.dir", ConfigOperation.SET, "/tmp")], ResourceType.BROKER)
    assert caught.value.error_code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("retention.ms", "1_000"),
        ("retention.ms", "\u0663"),
        ("retention.ms", "9" * 5000),
        ("retention.ms", "1e3"),
        ("retention.ms", ""),
        ("min.cleanable.dirty.ratio", "0.1_0"),
        ("min.cleanable.dirty.ratio", "0.\u0663"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("min.cleanable.dirty.ratio", "1.5"),
    ],
)
def test_a_number_is_written_with_plain_digits(name, value):
    with pytest.raises(KafkaError) as caught:
        checked_overrides({name: value})
    assert caught.value.error_code is ErrorCode.INVALID_CONFIG


def test_numbers_are_told_as_kafka_tells_them():
    given = {"retention.ms": " +0010 ", "min.cleanable.dirty.ratio": ".5e0", "flush.ms": "7"}
    assert checked_overrides(given) == {
        "retention.ms": "10",
        "min.cleanable.dirty.ratio": "0.5",
        "flush.ms": "7",
    }


def test_synonyms_are_kafkas_names():
    """ServerTopicConfigSynonyms; four have no default under their strongest name, and Kafka tells none then."""
    synonyms = {
        entry.name: [name for name, _, _ in entry.synonyms] for entry in topic_entries({}, None)
    }
    assert synonyms["min.cleanable.dirty.ratio"] == ["log.cleaner.min.cleanable.ratio"]
    assert synonyms["min.compaction.lag.ms"] == ["log.cleaner.min.compaction.lag.ms"]
    assert synonyms["max.compaction.lag.ms"] == ["log.cleaner.max.compaction.lag.ms"]
    assert synonyms["message.timestamp.type"] == ["log.message.timestamp.type"]
    assert synonyms["preallocate"] == ["log.preallocate"]
    assert synonyms["compression.zstd.level"] == ["compression.zstd.level"]
    for name in ("retention.ms", "segment.ms", "flush.ms", "segment.jitter.ms"):
        assert synonyms[name] == []
    assert synonyms["remote.storage.enable"] == []


def test_broker_entries_are_read_only():
    (entry,) = broker_entries(BrokerValues({}, {}, {"broker.id": "1"}), ["broker.id", "x"])
    assert entry.is_read_only
    assert (entry.value, entry.type_code) == ("1", 3)


def test_incremental_changes_become_values_and_removals():
    operations = [
        ("retention.ms", ConfigOperation.SET, "7"),
        ("segment.ms", ConfigOperation.DELETE, None),
        ("cleanup.policy", ConfigOperation.APPEND, "compact"),
    ]
    assert altered({}, operations) == (
        {"retention.ms": "7", "cleanup.policy": "delete,compact"},
        ["segment.ms"],
    )
    subtract = [("cleanup.policy", ConfigOperation.SUBTRACT, "delete")]
    assert altered({"cleanup.policy": "delete,compact"}, subtract)[0] == {
        "cleanup.policy": "compact"
    }


@pytest.mark.parametrize("resource_type", [ResourceType.TOPIC, ResourceType.BROKER])
def test_a_name_that_is_not_known_can_be_removed_as_in_kafka(resource_type):
    operations = [("a.plugin.of.kafka", ConfigOperation.DELETE, None)]
    assert altered({}, operations, resource_type) == ({}, [])


def test_a_throttle_that_nobody_set_can_be_removed():
    """kafka-reassign-partitions clears those of topics and brokers."""
    rate = "leader.replication.throttled.rate"
    operations = [(rate, ConfigOperation.DELETE, None)]
    assert altered({}, operations, ResourceType.TOPIC) == ({}, [])
    assert altered({}, operations, ResourceType.BROKER) == ({}, [rate])


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (("nonsense", 0, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", 0, "soon"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", 2, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", 0, None), ErrorCode.INVALID_REQUEST),
        (("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
        (("cleanup.policy", 0, "shred"), ErrorCode.INVALID_CONFIG),
        (("preallocate", 0, "true"), ErrorCode.INVALID_CONFIG),
    ],
)
def test_a_change_that_makes_no_sense_is_refused_by_name(operation, error):
    with pytest.raises(KafkaError) as caught:
        altered({}, [operation])
    assert caught.value.error_code == error
    with pytest.raises(KafkaError, match="stands twice"):
        altered({}, [("retention.ms", 1, None)] * 2)


class Waiter:
    resumed = 0

    def resume(self):
        self.resumed += 1


def test_a_full_budget_waits_only_while_memory_can_come_free():
    budget, waiter = MemoryBudget(100), Waiter()
    budget.change(60, 0)
    assert not budget.is_exhausted
    budget.change(60, 0)
    assert budget.is_exhausted
    assert not budget.wait(waiter), "halves of frames are freed by nobody"
    budget.change(10, 10)
    assert budget.wait(waiter)
    budget.change(-10, -10)
    assert waiter.resumed == 1
    budget.change(-60, 0)
    assert waiter.resumed == 1, "it waits once"


def test_a_connection_that_is_gone_is_not_resumed():
    budget, waiter = MemoryBudget(10), Waiter()
    budget.change(20, 20)
    budget.wait(waiter)
    budget.forget(waiter)
    budget.change(-20, -20)
    assert waiter.resumed == 0


@pytest.mark.parametrize("name", ["pay", "a/b", "50%2F", "%25/x", "", "ünï"])
def test_a_branch_and_a_job_have_the_name_people_chose(name):
    job = job_sink_name(name, "2024/01")
    assert acl_name_of(name) == name
    assert acl_name_of(branch_transactional_id(name, 7, 3)) == name
    assert acl_name_of(job_sink_name(name, None)) == name
    assert acl_name_of(job) == name
    assert acl_name_of(branch_transactional_id(job, 7, 3)) == name


KNOWN = {"transaction.version": 1}


@pytest.mark.parametrize(
    ("level", "upgrade_type", "is_taken"),
    [
        *((2, 1, True), (1, 1, True), (0, 1, False), (0, 2, True), (0, 3, True), (1, 2, True)),
        *((2, 2, False), (2, 3, False), (2, 0, False), (2, 4, False), (-1, 3, False)),
    ],
)
def test_a_level_goes_the_way_that_its_upgrade_type_says(level, upgrade_type, is_taken):
    updates = [FeatureUpdate("transaction.version", level, upgrade_type)]
    if is_taken:
        assert wanted_levels(KNOWN, updates) == {"transaction.version": level}
        return
    with pytest.raises(KafkaError) as caught:
        wanted_levels(KNOWN, updates)
    assert caught.value.error_code is ErrorCode.INVALID_UPDATE_VERSION
    assert "transaction.version" in caught.value.message


def test_a_feature_may_stand_once():
    updates = [FeatureUpdate("transaction.version", 2, 1)] * 2
    with pytest.raises(KafkaError) as caught:
        wanted_levels(KNOWN, updates)
    assert caught.value.error_code is ErrorCode.INVALID_REQUEST


def test_requests_have_kafkas_names():
    assert [api_name(key) for key in (0, 1, 26, 20003)] == [
        "Produce",
        "Fetch",
        "EndTxn",
        "CommitBatch",
    ]


def test_a_client_that_makes_up_api_keys_makes_no_series():
    counters = ListenerCounters()
    for key in range(-1, 30_000, 7):
        counters.count_failure(key)
    assert counters.request_failures["unknown"] > 4_000
    assert len(counters.request_failures) < 40


def test_requests_and_their_latency_are_shown_by_name():
    counters = ListenerCounters()
    counters.count_request(0, 0.004)
    counters.count_request(0, 0.04)
    counters.count_request(1, 0.5)
    shown = {metric.name: metric for metric in listener_metrics(counters)}
    requests = shown["oncelog_listener_requests"]
    assert (requests.labels, dict(requests.samples)) == (
        ("api",),
        {("Produce",): 2, ("Fetch",): 1},
    )
    latencies = shown["oncelog_listener_request_seconds"].histograms
    assert round(latencies[("Produce",)].sum_s, 3) == 0.044


def test_the_cleaners_throttle_names_the_setting_that_is_one():
    with pytest.raises(KafkaError, match="CLEANER_IO_BYTES_PER_S"):
        checked_broker_configs({"log.cleaner.io.max.bytes.per.second": "1000"}, for_all=True)


def test_kafkas_bound_of_a_record_is_taken_at_its_default():
    """Kafka 4.4.0 tells it for each topic, and a tool that copies topics sends it."""
    default = {"max.decompressed.message.bytes": "2147483639"}
    assert checked_overrides(default) == default
    assert checked_broker_configs(default, for_all=True) == default
    with pytest.raises(KafkaError, match="bounds what a whole batch"):
        checked_overrides({"max.decompressed.message.bytes": "1000"})
