"""Broker configuration: Kafka's names for the settings of oncelog's processes, and which of them change while they run.

A process that registers tells the controller its settings under these names (`published`), unless they are Kafka's
defaults. So any listener can answer DescribeConfigs for settings of other roles. The controller keeps what changes
while the cluster runs, for one node or for all (empty name). Processes read it from the metadata image:

```
this node's value  >  the value for all nodes  >  the process's setting  >  Kafka's default
```

A default of topics (`log.retention.ms` and its like) may be set for one storage node: the replicas there follow it. It
cannot be set for a node that is only a listener, which stores no topic, though clients see it as a broker.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from oncelog.config_key import DAY_MS, ConfigKey, ConfigType, known_key
from oncelog.errors import ErrorCode, KafkaError
from oncelog.idle_broker_config import IDLE, IDLE_FOR_ONE, REFUSED, STATIC_NAMES
from oncelog.security_broker_config import SECURITY
from oncelog.topic_config import BROKER_SYNONYMS, TOPIC_CONFIGS, check_together

PRODUCER_ID_EXPIRATION: Final = "producer.id.expiration.ms"
VERIFICATION: Final = "transaction.partition.verification.enable"
MAX_CONNECTIONS: Final = "max.connections"
CLEANER_PAUSE: Final = "log.cleaner.backoff.ms"
CLEANER_MAP_BYTES: Final = "log.cleaner.dedupe.buffer.size"


@dataclass(frozen=True, slots=True)
class BrokerKey:
    key: ConfigKey
    setting: str = ""
    """The process setting behind the config, as `role.name`; empty where there is none."""
    divisor: int = 1
    """The number of the setting's units in one unit of the config."""
    is_dynamic: bool = False
    is_for_all_only: bool = False
    """True if the config is changed for all nodes only, never for one node."""
    is_for_one_only: bool = False
    """True if the config is changed for one node at a time, as in Kafka."""
    reader: str = ""

    @property
    def role(self) -> str:
        """The role (such as `storage`) whose processes read this config; empty if no role in particular does."""
        return self.reader or self.setting.partition(".")[0]


def _row(
    name: str,
    kind: ConfigType,
    default: str,
    doc: str,
    setting: str = "",
    *,
    divisor: int = 1,
    minimum: int | None = None,
    is_dynamic: bool = False,
) -> BrokerKey:
    return BrokerKey(
        ConfigKey(name, kind, default, doc, minimum=minimum, may_be_empty=True),
        setting,
        divisor,
        is_dynamic,
    )


_COMPUTED: Final = (
    _row("broker.id", "int", "-1", "node id of this listener"),
    _row("node.id", "int", "-1", "node id of this listener"),
    _row("process.roles", "list", "", "Kafka's roles that this process plays"),
    _row("broker.rack", "string", "", "where this node stands"),
    _row("listeners", "list", "PLAINTEXT://:9092", "where this listener listens"),
    _row("advertised.listeners", "list", "", "where clients are told that it is"),
    _row(
        "listener.security.protocol.map",
        "string",
        "PLAINTEXT:PLAINTEXT",
        "how connections of each listener are protected",
    ),
    _row("default.replication.factor", "int", "1", "replicas of a topic that asks for -1"),
    _row("transaction.state.log.num.partitions", "int", "50", "of __transaction_state; fixed"),
    _row("transaction.state.log.replication.factor", "int", "3", "of __transaction_state"),
    _row("transaction.state.log.min.isr", "int", "2", "min.insync.replicas of __transaction_state"),
    _row("transaction.state.log.segment.bytes", "int", "104857600", "of __transaction_state"),
    _row("offsets.topic.num.partitions", "int", "50", "of __consumer_offsets; fixed"),
    _row("offsets.topic.replication.factor", "int", "3", "of __consumer_offsets"),
    _row("offsets.topic.segment.bytes", "int", "104857600", "of __consumer_offsets"),
    _row("offsets.topic.compression.codec", "int", "0", "internal topics are not compressed"),
)
"""The configs whose values follow from the metadata."""

_CONSTANT: Final = (
    _row("delete.topic.enable", "boolean", "true", "topics can be deleted"),
    _row("auto.leader.rebalance.enable", "boolean", "true", "leaders return to preferred replicas"),
    _row(
        "group.coordinator.rebalance.protocols",
        "list",
        "classic,consumer",
        "the group protocols that oncelog speaks",
    ),
    _row("group.consumer.assignors", "list", "uniform,range", "server-side assignors"),
    _row("log.cleaner.enable", "boolean", "true", "compacted topics are cleaned"),
    _row(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        "int",
        "10000",
        "Kafka's sweep; oncelog aborts each transaction by a timer of its own, at its timeout",
    ),
)
"""The configs for which oncelog does what Kafka's default says, and has no setting."""

_LISTENER: Final = (
    _row(
        "auto.create.topics.enable",
        "boolean",
        "true",
        "create a topic that a client's Metadata names",
        "listener.auto_create_topics",
    ),
    _row(
        "num.partitions",
        "int",
        "1",
        "partitions of an automatically created topic",
        "listener.num_partitions",
    ),
    _row(
        "socket.request.max.bytes",
        "int",
        "104857600",
        "largest request",
        "listener.request_bytes_max",
    ),
    _row(
        "fetch.max.bytes",
        "int",
        "57671680",
        "most bytes one Fetch answers with",
        "listener.fetch_bytes_max",
    ),
    _row(
        MAX_CONNECTIONS,
        "int",
        "2147483647",
        "connections open at once",
        "listener.connections_max",
        minimum=1,
        is_dynamic=True,
    ),
    _row(
        "connections.max.idle.ms",
        "long",
        "600000",
        "an idle connection is closed after this time",
        "listener.connection_idle_max_ms",
    ),
    _row(
        "queued.max.request.bytes",
        "long",
        "-1",
        "request bytes held for all connections",
        "listener.queued_bytes_max",
    ),
    _row(
        "request.timeout.ms",
        "int",
        "30000",
        "longest wait for another role",
        "listener.request_timeout_ms",
    ),
)

_COORDINATOR: Final = (
    _row(
        "transaction.max.timeout.ms",
        "int",
        "900000",
        "longest transaction timeout a producer may ask for",
        "coordinator.transaction_max_timeout_ms",
    ),
    _row(
        "transactional.id.expiration.ms",
        "int",
        str(7 * DAY_MS),
        "an id unused for this long is forgotten",
        "coordinator.transactional_id_expiration_ms",
    ),
    _row(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        "int",
        "3600000",
        "how often expired ids are looked for",
        "coordinator.expire_ids_interval_ms",
    ),
    _row(
        "transaction.two.phase.commit.enable",
        "boolean",
        "false",
        "allow producers whose transactions never time out",
        "coordinator.two_phase_commit_enabled",
    ),
    _row(
        "group.initial.rebalance.delay.ms",
        "int",
        "3000",
        "how long an empty group's first rebalance waits for more members",
        "coordinator.group_initial_rebalance_delay_ms",
    ),
    _row(
        "group.min.session.timeout.ms",
        "int",
        "6000",
        "shortest session of a classic member",
        "coordinator.group_session_timeout_min_ms",
    ),
    _row(
        "group.max.session.timeout.ms",
        "int",
        "1800000",
        "longest session of a classic member",
        "coordinator.group_session_timeout_max_ms",
    ),
    _row(
        "group.max.size",
        "int",
        "2147483647",
        "members of a classic group",
        "coordinator.group_members_max",
    ),
    _row(
        "group.consumer.max.size",
        "int",
        "2147483647",
        "members of a group of the consumer protocol",
        "coordinator.group_members_max",
    ),
    _row(
        "group.consumer.session.timeout.ms",
        "int",
        "45000",
        "session of members of the consumer protocol",
        "coordinator.group_consumer_session_timeout_ms",
    ),
    _row(
        "group.consumer.heartbeat.interval.ms",
        "int",
        "5000",
        "heartbeats of members of the consumer protocol",
        "coordinator.group_consumer_heartbeat_interval_ms",
    ),
    _row(
        "group.consumer.migration.policy",
        "string",
        "bidirectional",
        "which way a living group may change its protocol",
        "coordinator.group_consumer_migration_policy",
    ),
    _row(
        "offset.metadata.max.bytes",
        "int",
        "4096",
        "of what a client may say beside an offset",
        "coordinator.offset_metadata_bytes_max",
    ),
    _row(
        "offsets.retention.minutes",
        "int",
        "10080",
        "how long offsets of a group without members are kept",
        "coordinator.offsets_retention_ms",
        divisor=60_000,
    ),
    _row(
        "offsets.retention.check.interval.ms",
        "long",
        "600000",
        "how often offsets past their retention are looked for",
        "coordinator.offsets_clean_up_interval_ms",
    ),
    _row(
        "transaction.state.log.load.buffer.size",
        "int",
        "5242880",
        "bytes read at a time when a transaction shard is loaded",
        "coordinator.transaction_load_buffer_bytes",
    ),
    _row(
        "offsets.load.buffer.size",
        "int",
        "5242880",
        "bytes read at a time when a group shard is loaded",
        "coordinator.group_load_buffer_bytes",
    ),
)

_STORAGE: Final = (
    _row(
        PRODUCER_ID_EXPIRATION,
        "int",
        str(DAY_MS),
        "a producer silent this long, with nothing open, is forgotten",
        "storage.producer_id_expiration_ms",
        minimum=1,
        is_dynamic=True,
    ),
    _row(
        "producer.id.expiration.check.interval.ms",
        "int",
        "600000",
        "how often silent producers are looked for",
        "storage.producer_id_expiration_check_interval_ms",
    ),
    _row(
        VERIFICATION,
        "boolean",
        "true",
        "ask the coordinator before a TV1 transaction enters a partition",
        "storage.transaction_partition_verification_enable",
        is_dynamic=True,
    ),
    _row(
        "add.partitions.to.txn.retry.backoff.ms",
        "int",
        "20",
        "pause between tries while the last transaction completes",
        "storage.add_partitions_retry_backoff_ms",
    ),
    _row(
        "add.partitions.to.txn.retry.backoff.max.ms",
        "int",
        "100",
        "after this the producer tries again",
        "storage.add_partitions_retry_backoff_max_ms",
    ),
    _row("log.dirs", "list", "", "folder of this node's partitions", "storage.data_dir"),
    _row(
        "log.retention.check.interval.ms",
        "long",
        "300000",
        "how often retention is applied",
        "storage.retention_check_interval_ms",
    ),
    _row(
        CLEANER_PAUSE,
        "long",
        "15000",
        "how often compacted topics are looked at",
        "storage.cleaner_interval_ms",
        minimum=0,
        is_dynamic=True,
    ),
    _row(
        CLEANER_MAP_BYTES,
        "long",
        "134217728",
        "memory for the keys of one cleaning pass",
        "storage.cleaner_map_bytes",
        minimum=1024,
        is_dynamic=True,
    ),
    _row(
        "replica.lag.time.max.ms",
        "long",
        "30000",
        "a follower that has not caught up for this long leaves the ISR",
        "storage.replica_lag_time_max_ms",
    ),
    _row(
        "replica.fetch.wait.max.ms",
        "int",
        "500",
        "longest wait of a follower's fetch",
        "storage.replica_fetch_wait_max_ms",
    ),
    _row(
        "replica.fetch.response.max.bytes",
        "int",
        "10485760",
        "largest answer to a follower",
        "storage.replica_fetch_bytes_max",
    ),
    _row(
        "replica.high.watermark.checkpoint.interval.ms",
        "long",
        "5000",
        "how often high watermarks are written down",
        "storage.high_watermark_checkpoint_interval_ms",
    ),
)

_NOT_FOR_ALL: Final = frozenset({"unclean.leader.election.enable"})
"""The topic configs that are set for each topic only: a broker config cannot change their default. The controller
elects by the topic's own config."""

_FOR_ALL_ONLY: Final = frozenset({"min.insync.replicas"})
"""The topic configs whose default is changed for all brokers only, never for one: leaders on different nodes must use
the same value."""

TOPIC_DEFAULTS: Final[Mapping[str, str]] = {
    BROKER_SYNONYMS[name][0]: name for name in TOPIC_CONFIGS if BROKER_SYNONYMS[name]
}
"""The broker's name of a topic config → the topic's name of it."""


def _topic_default(broker_name: str, topic_name: str) -> BrokerKey:
    key = TOPIC_CONFIGS[topic_name]
    return BrokerKey(
        ConfigKey(
            broker_name,
            key.kind,
            key.default,
            f"{topic_name} of topics that set nothing: {key.doc}",
            minimum=key.minimum,
            maximum=key.maximum,
            choices=key.choices,
            may_be_empty=key.may_be_empty,
            unsupported=key.unsupported,
        ),
        is_dynamic=topic_name not in _NOT_FOR_ALL,
        is_for_all_only=topic_name in _FOR_ALL_ONLY,
        reader="storage",
    )


BROKER_CONFIGS: Final[Mapping[str, BrokerKey]] = {
    row.key.name: row
    for row in (
        *_COMPUTED,
        *_CONSTANT,
        *_LISTENER,
        *_COORDINATOR,
        *_STORAGE,
        *(_topic_default(*names) for names in TOPIC_DEFAULTS.items()),
        *(BrokerKey(key, setting) for key, setting in SECURITY),
        *(BrokerKey(key, is_dynamic=True) for key in (*IDLE, *REFUSED)),
        *(BrokerKey(key, is_dynamic=True, is_for_one_only=True) for key in IDLE_FOR_ONE),
    )
}


def checked_broker_configs(configs: Mapping[str, str], *, for_all: bool) -> dict[str, str]:
    """Return these broker configs with their values checked: each may be set while the cluster runs, and is within its
    bounds.

    Raises KafkaError: INVALID_CONFIG for an unknown key or a bad value, INVALID_REQUEST for a key that cannot be
    changed.
    """
    keys = {name: row.key for name, row in BROKER_CONFIGS.items()}
    checked = {}
    for name, value in configs.items():
        check_not_static(name)
        checked[name] = known_key(keys, "broker", name).check(value)
        row = BROKER_CONFIGS[name]
        if not row.is_dynamic:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"broker config {name!r} cannot be changed while oncelog runs; it is a setting of its process",
            )
        if row.is_for_all_only and not for_all:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"broker config {name!r} can be set for all brokers only: leave the broker's name empty",
            )
        if row.is_for_one_only and for_all:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"broker config {name!r} is set for one broker at a time: give the broker's id",
            )
    check_together(topic_defaults(checked))
    return checked


def check_not_static(name: str) -> None:
    """Raise KafkaError(INVALID_REQUEST) for a broker config that Kafka's brokers read only when they start."""
    if name in STATIC_NAMES:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"broker config {name!r} cannot be changed while brokers run, in Kafka neither; oncelog has none such",
        )


def topic_defaults(configs: Mapping[str, str]) -> dict[str, str]:
    """Return the defaults of topics among a broker's configs, under the topics' names (`retention.ms`)."""
    return {TOPIC_DEFAULTS[name]: one for name, one in configs.items() if name in TOPIC_DEFAULTS}
