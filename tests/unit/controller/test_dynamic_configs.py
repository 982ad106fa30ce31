"""Configs of brokers and groups in the journal: what may be set, for whom, and that it stays."""

import pytest
from tests.worlds.controller.metadata_cases import Bench, restored

from oncelog.errors import ErrorCode
from oncelog_controller.core.events import AlterConfigs
from oncelog_controller.core.image import ClusterImage
from oncelog_controller.core.records import Snapshot

VERIFICATION = "transaction.partition.verification.enable"


@pytest.fixture
def bench():
    """Node 1 is a listener, node 2 everything else."""
    bench = Bench()
    bench.register(1, roles=("listener",))
    configs = {"group.consumer.heartbeat.interval.ms": "20000"}
    bench.register(2, roles=("controller", "coordinator", "storage"), configs=configs)
    return bench


def alter(bench, kind, name, to_set=(), remove=(), validate_only=False):
    return bench.ask(AlterConfigs, name, dict(to_set), tuple(remove), validate_only, kind)


@pytest.mark.parametrize(
    ("kind", "name", "to_set", "error_code"),
    [
        ("broker", "", {VERIFICATION: "FALSE"}, ErrorCode.NONE),
        ("broker", "2", {VERIFICATION: "false"}, ErrorCode.NONE),
        ("broker", "1", {VERIFICATION: "false"}, ErrorCode.INVALID_REQUEST),
        ("broker", "1", {"max.connections": "5"}, ErrorCode.NONE),
        ("broker", "1", {"max.connections": "0"}, ErrorCode.INVALID_CONFIG),
        ("broker", "9", {"max.connections": "5"}, ErrorCode.BROKER_ID_NOT_REGISTERED),
        ("broker", "x", {"max.connections": "5"}, ErrorCode.INVALID_REQUEST),
        ("broker", "01", {"max.connections": "5"}, ErrorCode.INVALID_REQUEST),
        ("broker", "\u00b2", {"max.connections": "5"}, ErrorCode.INVALID_REQUEST),
        ("broker", "\u0661", {"max.connections": "5"}, ErrorCode.INVALID_REQUEST),
        ("broker", "9" * 5000, {"max.connections": "5"}, ErrorCode.INVALID_REQUEST),
        ("broker", "1", {"max.connections": "1_000"}, ErrorCode.INVALID_CONFIG),
        ("broker", "1", {"max.connections": "\u0661"}, ErrorCode.INVALID_CONFIG),
        ("broker", "2", {"log.cleaner.backoff.ms": "0"}, ErrorCode.NONE),
        ("broker", "1", {"log.cleaner.backoff.ms": "0"}, ErrorCode.INVALID_REQUEST),
        ("broker", "", {"log.cleaner.dedupe.buffer.size": "1000"}, ErrorCode.INVALID_CONFIG),
        # Keys of parts that oncelog does not have: kept where nobody relies on them.
        ("broker", "1", {"sasl.kerberos.min.time.before.relogin": "58000"}, ErrorCode.NONE),
        ("broker", "2", {"sasl.kerberos.min.time.before.relogin": "58000"}, ErrorCode.NONE),
        ("broker", "", {"sasl.kerberos.min.time.before.relogin": "5"}, ErrorCode.INVALID_REQUEST),
        ("broker", "1", {"sasl.kerberos.min.time.before.relogin": "x"}, ErrorCode.INVALID_CONFIG),
        ("broker", "", {"num.io.threads": "16"}, ErrorCode.NONE),
        ("broker", "1", {"num.io.threads": "0"}, ErrorCode.INVALID_CONFIG),
        # Settings of a listener's process.
        ("broker", "", {"sasl.enabled.mechanisms": "PLAIN"}, ErrorCode.INVALID_REQUEST),
        ("broker", "1", {"ssl.client.auth": "required"}, ErrorCode.INVALID_REQUEST),
        ("broker", "", {"ssl.enabled.protocols": "TLSv1.3"}, ErrorCode.INVALID_CONFIG),
        ("broker", "", {"ssl.enabled.protocols": ""}, ErrorCode.NONE),
        ("broker", "1", {"ssl.keystore.password": "hush"}, ErrorCode.INVALID_CONFIG),
        ("broker", "", {"leader.replication.throttled.rate": "1000"}, ErrorCode.INVALID_CONFIG),
        ("broker", "", {"max.connections.per.ip": "3"}, ErrorCode.INVALID_REQUEST),
        ("broker", "", {"socket.send.buffer.bytes": "3"}, ErrorCode.INVALID_REQUEST),
        ("broker", "", {"no.such.key": "5"}, ErrorCode.INVALID_CONFIG),
        ("broker", "", {"transaction.max.timeout.ms": "5"}, ErrorCode.INVALID_REQUEST),
        ("broker", "", {"producer.id.expiration.ms": "soon"}, ErrorCode.INVALID_CONFIG),
        ("broker", "", {"log.retention.ms": "1000"}, ErrorCode.NONE),
        ("broker", "2", {"log.retention.ms": "1000"}, ErrorCode.NONE),
        ("broker", "1", {"log.retention.ms": "1000"}, ErrorCode.INVALID_REQUEST),
        ("broker", "2", {"min.insync.replicas": "2"}, ErrorCode.INVALID_REQUEST),
        ("broker", "", {"log.preallocate": "true"}, ErrorCode.INVALID_CONFIG),
        (
            "broker",
            "",
            {
                "log.cleaner.min.compaction.lag.ms": "9",
                "log.cleaner.max.compaction.lag.ms": "8",
            },
            ErrorCode.INVALID_CONFIG,
        ),
        ("group", "g", {"consumer.session.timeout.ms": "30000"}, ErrorCode.NONE),
        ("group", "g", {"consumer.session.timeout.ms": "20000"}, ErrorCode.INVALID_CONFIG),
        ("group", "g", {"share.isolation.level": "read_committed"}, ErrorCode.INVALID_CONFIG),
        ("group", "g", {"session.timeout.ms": "30000"}, ErrorCode.INVALID_CONFIG),
        ("group", "", {"consumer.session.timeout.ms": "30000"}, ErrorCode.INVALID_REQUEST),
        ("7", "g", {}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_can_be_set_while_the_cluster_runs(bench, kind, name, to_set, error_code):
    count = len(bench.records)
    trial = alter(bench, kind, name, to_set, validate_only=True)
    assert trial.error_code is error_code, trial.message
    assert len(bench.records) == count
    answer = alter(bench, kind, name, to_set)
    assert answer.error_code is error_code
    if error_code is ErrorCode.NONE:
        found = {key: value.lower() for key, value in to_set.items()}
        assert dict(bench.image.configs[kind, name]) == found
    else:
        assert answer.message
        assert "hush" not in answer.message
        assert not bench.image.configs


def test_what_is_removed_leaves_nothing_behind(bench):
    alter(bench, "broker", "", {VERIFICATION: "false", "max.connections": "7"})
    alter(bench, "broker", "", remove=[VERIFICATION])
    assert dict(bench.image.configs["broker", ""]) == {"max.connections": "7"}
    alter(bench, "broker", "", remove=["max.connections"])
    assert not bench.image.configs


def test_a_snapshot_carries_them_and_an_older_one_needs_none(bench):
    alter(bench, "group", "g", {"consumer.session.timeout.ms": "30000"})
    state = bench.image.to_state()
    again = restored(bench.image)
    assert again.configs == bench.image.configs
    assert again.nodes == bench.image.nodes
    older = ClusterImage()
    older.apply(0, Snapshot({name: part for name, part in state.items() if name != "configs"}))
    assert older.configs == {}
