"""Topic configuration: the keys oncelog honours, with their defaults, bounds and reasons.

The controller stores only what differs from these defaults; storage nodes read them through
`TopicConfig.from_overrides`; DescribeConfigs lists `TOPIC_CONFIGS`. Names and meanings are Kafka's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from oncelog.errors import ErrorCode, KafkaError

ConfigType = Literal["int", "long", "double", "boolean", "string", "list"]


@dataclass(frozen=True, slots=True)
class ConfigKey:
    name: str
    kind: ConfigType
    default: str
    doc: str
    minimum: int | None = None
    maximum: int | None = None
    choices: tuple[str, ...] = ()

    def check(self, value: str) -> str:
        """The value as stored. Raises KafkaError(INVALID_CONFIG) that names the key, the value and what is allowed."""
        match self.kind:
            case "int" | "long":
                try:
                    number = int(value)
                except ValueError:
                    raise self._refuse(value, "is not a whole number") from None
                if self.minimum is not None and number < self.minimum:
                    raise self._refuse(value, f"is below {self.minimum}")
                largest = self.maximum or (2**31 - 1 if self.kind == "int" else 2**63 - 1)
                if number > largest:
                    raise self._refuse(value, f"is above {largest}")
                return str(number)
            case "double":
                return self._check_share(value)
            case "boolean":
                if value.lower() not in ("true", "false"):
                    raise self._refuse(value, "is neither true nor false")
                return value.lower()
            case "string":
                if self.choices and value not in self.choices:
                    raise self._refuse(value, f"is not one of {', '.join(self.choices)}")
                return value
            case "list":
                parts = [part.strip() for part in value.split(",") if part.strip()]
                if not parts or any(part not in self.choices for part in parts):
                    raise self._refuse(value, f"may name {', '.join(self.choices)}")
                return ",".join(parts)

    def _check_share(self, value: str) -> str:
        """A number from 0 to 1, as Kafka's only topic config of this type is."""
        try:
            share = float(value)
        except ValueError:
            raise self._refuse(value, "is not a number") from None
        if not 0 <= share <= 1:
            raise self._refuse(value, "is not between 0 and 1")
        return str(share)

    def _refuse(self, value: str, reason: str) -> KafkaError:
        return KafkaError(ErrorCode.INVALID_CONFIG, f"{self.name}={value!r} {reason}")


_DAY_MS: Final = 86_400_000

TOPIC_CONFIGS: Final[Mapping[str, ConfigKey]] = {
    key.name: key
    for key in (
        ConfigKey(
            "cleanup.policy",
            "list",
            "delete",
            "delete old segments, or keep the last value of each key",
            choices=("delete", "compact"),
        ),
        ConfigKey(
            "compression.type",
            "string",
            "producer",
            "kept as the producer sent it",
            choices=("producer", "uncompressed"),
        ),
        ConfigKey(
            "delete.retention.ms",
            "long",
            str(_DAY_MS),
            "how long a tombstone stays in a compacted topic",
            minimum=0,
        ),
        ConfigKey(
            "flush.messages",
            "long",
            str(2**63 - 1),
            "fsync after this many records; the default leaves it to the operating system",
            minimum=1,
        ),
        ConfigKey(
            "flush.ms", "long", str(2**63 - 1), "fsync at most this long after an append", minimum=0
        ),
        ConfigKey(
            "index.interval.bytes", "int", "4096", "log bytes between two index entries", minimum=0
        ),
        ConfigKey(
            "max.compaction.lag.ms",
            "long",
            str(2**63 - 1),
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
            str(2**63 - 1),
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
            str(7 * _DAY_MS),
            "delete segments older than this; -1: never",
            minimum=-1,
        ),
        ConfigKey("segment.bytes", "int", str(1 << 30), "a segment's largest size", minimum=1024),
        ConfigKey(
            "segment.ms", "long", str(7 * _DAY_MS), "a segment's longest time open", minimum=1
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
    )
}


def checked_overrides(configs: Mapping[str, str]) -> dict[str, str]:
    """Every key known, every value in bounds. Raises KafkaError(INVALID_CONFIG)."""
    checked = {}
    for name, value in configs.items():
        key = TOPIC_CONFIGS.get(name)
        if key is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"unknown topic config {name!r}; known are {', '.join(TOPIC_CONFIGS)}",
            )
        checked[name] = key.check(value)
    return checked


FLUSH_NEVER: Final = 2**63 - 1
"""As many messages as never come: syncing is left to the node's policy."""


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """What a partition's log needs to know; the units are in the names."""

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
    retention_ms: int = 7 * _DAY_MS
    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    delete_retention_ms: int = _DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = 2**63 - 1
    file_delete_delay_ms: int = 60_000

    @staticmethod
    def from_overrides(overrides: Mapping[str, str]) -> "TopicConfig":
        def text(name: str) -> str:
            return overrides.get(name, TOPIC_CONFIGS[name].default)

        def number(name: str) -> int:
            return int(text(name))

        policy = text("cleanup.policy").split(",")
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
        )
