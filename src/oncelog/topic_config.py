"""Topic configuration: the keys oncelog honours, with their defaults, bounds and reasons.

The controller stores only what differs from these defaults; storage nodes read them through
`TopicConfig.from_overrides`; DescribeConfigs lists `TOPIC_CONFIGS`. Names and meanings are Kafka's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from oncelog.config_key import DAY_MS, NEVER_MS, ConfigKey, known_key, table_of
from oncelog.errors import ErrorCode, KafkaError
from oncelog.record.batch import Codec

_NO_REMOTE: Final = "oncelog has no remote storage"

_UNSUPPORTED: Final = (
    ConfigKey(
        "preallocate",
        "boolean",
        "false",
        "allocate a segment's file whole when it begins",
        unsupported="oncelog lets segments grow",
    ),
    ConfigKey(
        "leader.replication.throttled.replicas",
        "list",
        "",
        "replicas whose leader sends slowly",
        may_be_empty=True,
        unsupported="oncelog does not throttle replication",
    ),
    ConfigKey(
        "follower.replication.throttled.replicas",
        "list",
        "",
        "replicas that fetch slowly",
        may_be_empty=True,
        unsupported="oncelog does not throttle replication",
    ),
    ConfigKey(
        "remote.storage.enable",
        "boolean",
        "false",
        "move old segments to a remote store",
        unsupported=_NO_REMOTE,
    ),
    ConfigKey(
        "remote.log.copy.disable",
        "boolean",
        "false",
        "stop copying segments to the remote store",
        unsupported=_NO_REMOTE,
    ),
    ConfigKey(
        "remote.log.delete.on.disable",
        "boolean",
        "false",
        "delete the remote segments when remote.storage.enable ends",
        unsupported=_NO_REMOTE,
    ),
    ConfigKey(
        "local.retention.ms",
        "long",
        "-2",
        "how long a segment stays here beside its remote copy; -2: retention.ms",
        unsupported=_NO_REMOTE,
    ),
    ConfigKey(
        "local.retention.bytes",
        "long",
        "-2",
        "how much stays here beside its remote copy; -2: retention.bytes",
        unsupported=_NO_REMOTE,
    ),
    ConfigKey(
        "remote.copy.lag.ms",
        "long",
        "0",
        "how old a segment is before it is copied to the remote store",
        unsupported=_NO_REMOTE,
    ),
    ConfigKey(
        "remote.copy.lag.bytes",
        "long",
        "-1",
        "how far behind the log's end a segment is before it is copied to the remote store",
        unsupported=_NO_REMOTE,
    ),
    ConfigKey(
        "errors.deadletterqueue.group.enable",
        "boolean",
        "false",
        "let share groups write what they cannot deliver to this topic",
        unsupported="oncelog has no share groups",
    ),
    ConfigKey(
        "max.decompressed.message.bytes",
        "int",
        "2147483639",
        "largest size of one record, decompressed",
        minimum=1,
        maximum=2147483639,
        unsupported="oncelog bounds what a whole batch decompresses to, by max.message.bytes",
    ),
)
"""Configs that take only their default, which is what oncelog does. So a tool can copy a topic with all its configs."""

TOPIC_CONFIGS: Final[Mapping[str, ConfigKey]] = table_of(
    (
        ConfigKey(
            "cleanup.policy",
            "list",
            "delete",
            "delete old segments, or keep the last value of each key; empty keeps everything",
            choices=("delete", "compact"),
            may_be_empty=True,
        ),
        ConfigKey(
            "compression.type",
            "string",
            "producer",
            "the codec of stored batches; producer keeps each batch as it was sent",
            choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
        ),
        ConfigKey(
            "delete.retention.ms",
            "long",
            str(DAY_MS),
            "how long a tombstone stays in a compacted topic",
            minimum=0,
        ),
        ConfigKey(
            "flush.messages",
            "long",
            str(NEVER_MS),
            "fsync after this many records; the default leaves it to the operating system",
            minimum=1,
        ),
        ConfigKey(
            "flush.ms", "long", str(NEVER_MS), "fsync at most this long after an append", minimum=0
        ),
        ConfigKey(
            "index.interval.bytes", "int", "4096", "log bytes between two index entries", minimum=0
        ),
        ConfigKey(
            "max.compaction.lag.ms",
            "long",
            str(NEVER_MS),
            "a record of a compacted topic is cleaned at the latest after this time",
            minimum=1,
        ),
        ConfigKey(
            "max.message.bytes", "int", "1048588", "largest record batch accepted", minimum=0
        ),
        ConfigKey(
            "message.timestamp.after.max.ms",
            "long",
            "3600000",
            "how far in the future a record's timestamp may lie",
            minimum=0,
        ),
        ConfigKey(
            "message.timestamp.before.max.ms",
            "long",
            str(NEVER_MS),
            "how far in the past a record's timestamp may lie",
            minimum=0,
        ),
        ConfigKey(
            "message.timestamp.type",
            "string",
            "CreateTime",
            "whose clock stamps records",
            choices=("CreateTime", "LogAppendTime"),
        ),
        ConfigKey(
            "min.cleanable.dirty.ratio",
            "double",
            "0.5",
            "share of a compacted log that is not cleaned before it is cleaned again",
        ),
        ConfigKey(
            "min.compaction.lag.ms",
            "long",
            "0",
            "a record of a compacted topic stays at least this long",
            minimum=0,
        ),
        ConfigKey(
            "min.insync.replicas",
            "int",
            "1",
            "replicas that must have a record before acks=all answers",
            minimum=1,
        ),
        ConfigKey(
            "retention.bytes",
            "long",
            "-1",
            "delete the oldest segments above this size; -1: never",
            minimum=-1,
        ),
        ConfigKey(
            "retention.ms",
            "long",
            str(7 * DAY_MS),
            "delete segments older than this; -1: never",
            minimum=-1,
        ),
        ConfigKey("segment.bytes", "int", str(1 << 30), "a segment's largest size", minimum=1024),
        ConfigKey(
            "segment.ms", "long", str(7 * DAY_MS), "a segment's longest time open", minimum=1
        ),
        ConfigKey("segment.index.bytes", "int", "10485760", "an index's largest size", minimum=4),
        ConfigKey(
            "unclean.leader.election.enable",
            "boolean",
            "false",
            "let a replica outside the ISR lead, and lose records",
        ),
        ConfigKey(
            "file.delete.delay.ms",
            "long",
            "60000",
            "how long a deleted segment's file lingers",
            minimum=0,
        ),
        ConfigKey(
            "compression.gzip.level",
            "int",
            "-1",
            "the level when compression.type is gzip; -1: zlib's default",
            choices=("-1", *(str(level) for level in range(1, 10))),
        ),
        ConfigKey(
            "compression.lz4.level",
            "int",
            "9",
            "the level when compression.type is lz4",
            minimum=1,
            maximum=17,
        ),
        ConfigKey(
            "compression.zstd.level",
            "int",
            "3",
            "the level when compression.type is zstd",
            minimum=-131072,
            maximum=22,
        ),
        ConfigKey(
            "segment.jitter.ms",
            "long",
            "0",
            "a segment closes up to this much before segment.ms, so that segments do not all close at once",
            minimum=0,
        ),
        *_UNSUPPORTED,
    )
)

BROKER_SYNONYMS: Final[Mapping[str, tuple[str, ...]]] = {
    "segment.ms": ("log.roll.ms", "log.roll.hours"),
    "segment.jitter.ms": ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    "segment.index.bytes": ("log.index.size.max.bytes",),
    "flush.messages": ("log.flush.interval.messages",),
    "flush.ms": ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "max.message.bytes": ("message.max.bytes",),
    "max.decompressed.message.bytes": ("max.decompressed.message.bytes",),
    "delete.retention.ms": ("log.cleaner.delete.retention.ms",),
    "min.compaction.lag.ms": ("log.cleaner.min.compaction.lag.ms",),
    "max.compaction.lag.ms": ("log.cleaner.max.compaction.lag.ms",),
    "file.delete.delay.ms": ("log.segment.delete.delay.ms",),
    "min.cleanable.dirty.ratio": ("log.cleaner.min.cleanable.ratio",),
    "unclean.leader.election.enable": ("unclean.leader.election.enable",),
    "min.insync.replicas": ("min.insync.replicas",),
    "compression.type": ("compression.type",),
    "compression.gzip.level": ("compression.gzip.level",),
    "compression.lz4.level": ("compression.lz4.level",),
    "compression.zstd.level": ("compression.zstd.level",),
    "leader.replication.throttled.replicas": (),
    "follower.replication.throttled.replicas": (),
    "remote.storage.enable": (),
    "remote.log.copy.disable": (),
    "remote.log.delete.on.disable": (),
    "errors.deadletterqueue.group.enable": (),
    "remote.copy.lag.ms": ("log.remote.copy.lag.ms",),
    "remote.copy.lag.bytes": ("log.remote.copy.lag.bytes",),
    "cleanup.policy": ("log.cleanup.policy",),
    "index.interval.bytes": ("log.index.interval.bytes",),
    "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms",),
    "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms",),
    "message.timestamp.type": ("log.message.timestamp.type",),
    "retention.bytes": ("log.retention.bytes",),
    "segment.bytes": ("log.segment.bytes",),
    "preallocate": ("log.preallocate",),
    "local.retention.ms": ("log.local.retention.ms",),
    "local.retention.bytes": ("log.local.retention.bytes",),
}
"""A topic config → the broker's names of it, the strongest first; none: brokers have no such config.

Each topic config is named here, for the first of the names becomes a broker config by itself (`broker_config`).
"""


def checked_overrides(configs: Mapping[str, str]) -> dict[str, str]:
    """Return these configs of a topic with their values checked: each key is known, each value within its bounds.

    Raises KafkaError(INVALID_CONFIG).
    """
    checked = {
        name: known_key(TOPIC_CONFIGS, "topic", name).check(value)
        for name, value in configs.items()
    }
    check_together(checked)
    return checked


def check_together(overrides: Mapping[str, str]) -> None:
    """Raise KafkaError(INVALID_CONFIG) if values of a topic's configs contradict each other."""
    shortest, longest = (
        int(overrides.get(name, TOPIC_CONFIGS[name].default))
        for name in ("min.compaction.lag.ms", "max.compaction.lag.ms")
    )
    if shortest > longest:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"min.compaction.lag.ms={shortest} is above max.compaction.lag.ms={longest}",
        )


_CODECS: Final = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}
FLUSH_NEVER: Final = NEVER_MS
"""The value of flush.messages that no log reaches: syncing is left to the node's policy."""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The configs that a partition's log needs; the units are in the names."""

    is_compacted: bool = False
    is_deleted: bool = True
    flush_messages: int = FLUSH_NEVER
    flush_ms: int = 2**63 - 1
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1048588
    timestamp_after_max_ms: int = 3_600_000
    timestamp_before_max_ms: int = 2**63 - 1
    is_log_append_time: bool = False
    min_insync_replicas: int = 1
    retention_bytes: int = -1
    retention_ms: int = 7 * DAY_MS
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    delete_retention_ms: int = DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    file_delete_delay_ms: int = 60_000
    segment_index_bytes: int = 10 * 1024 * 1024
    segment_jitter_ms: int = 0
    codec: Codec | None = None
    """The codec that batches are stored in; None: the one that their producer chose."""
    compression_level: int | None = None
    """The level of that codec; None where it has no levels."""

    @staticmethod
    def from_overrides(overrides: Mapping[str, str]) -> "TopicConfig":
        def text(name: str) -> str:
            return overrides.get(name, TOPIC_CONFIGS[name].default)

        def number(name: str) -> int:
            return int(text(name))

        policy = text("cleanup.policy").split(",")
        compression = text("compression.type")
        has_levels = f"compression.{compression}.level" in TOPIC_CONFIGS
        return TopicConfig(
            is_compacted="compact" in policy,
            is_deleted="delete" in policy,
            flush_messages=number("flush.messages"),
            flush_ms=number("flush.ms"),
            index_interval_bytes=number("index.interval.bytes"),
            max_message_bytes=number("max.message.bytes"),
            timestamp_after_max_ms=number("message.timestamp.after.max.ms"),
            timestamp_before_max_ms=number("message.timestamp.before.max.ms"),
            is_log_append_time=text("message.timestamp.type") == "LogAppendTime",
            min_insync_replicas=number("min.insync.replicas"),
            retention_bytes=number("retention.bytes"),
            retention_ms=number("retention.ms"),
            segment_bytes=number("segment.bytes"),
            segment_ms=number("segment.ms"),
            delete_retention_ms=number("delete.retention.ms"),
            min_cleanable_dirty_ratio=float(text("min.cleanable.dirty.ratio")),
            min_compaction_lag_ms=number("min.compaction.lag.ms"),
            max_compaction_lag_ms=number("max.compaction.lag.ms"),
            file_delete_delay_ms=number("file.delete.delay.ms"),
            segment_index_bytes=number("segment.index.bytes"),
            segment_jitter_ms=number("segment.jitter.ms"),
            codec=_CODECS.get(compression),
            compression_level=number(f"compression.{compression}.level") if has_levels else None,
        )
