"""Group configuration: the configs of one group, set by its name (KIP-848; Kafka's GROUP config resource)."""

from collections.abc import Mapping
from typing import Final

from oncelog.config_key import ConfigKey, known_key, table_of
from oncelog.errors import ErrorCode, KafkaError

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"

_NO_SHARE_GROUPS: Final = "oncelog has no share groups"
_NO_STREAMS_GROUPS: Final = "oncelog has no streams groups"


def _absent(name: str, kind: str, default: str, doc: str) -> ConfigKey:
    why = _NO_SHARE_GROUPS if name.startswith("share.") else _NO_STREAMS_GROUPS
    return ConfigKey(name, "string" if kind == "string" else "int", default, doc, unsupported=why)


GROUP_CONFIGS: Final[Mapping[str, ConfigKey]] = table_of(
    (
        ConfigKey(
            SESSION_TIMEOUT,
            "int",
            "45000",
            "a member of the consumer protocol that is silent this long is put out",
            minimum=100,
        ),
        ConfigKey(
            HEARTBEAT_INTERVAL,
            "int",
            "5000",
            "how often members of the consumer protocol are told to send a heartbeat",
            minimum=10,
        ),
        _absent("share.session.timeout.ms", "int", "45000", "session of share consumers"),
        _absent("share.heartbeat.interval.ms", "int", "5000", "heartbeats of share consumers"),
        _absent("share.record.lock.duration.ms", "int", "30000", "how long a record is held"),
        _absent("share.auto.offset.reset", "string", "latest", "where a share group begins"),
        _absent("share.isolation.level", "string", "read_uncommitted", "which records it is given"),
        _absent("streams.session.timeout.ms", "int", "45000", "session of streams clients"),
        _absent("streams.heartbeat.interval.ms", "int", "5000", "heartbeats of streams clients"),
        _absent("streams.num.standby.replicas", "int", "0", "standby tasks of a streams group"),
        _absent("streams.initial.rebalance.delay.ms", "int", "3000", "wait before it first begins"),
    )
)

GROUP_SYNONYMS: Final[Mapping[str, str]] = {
    SESSION_TIMEOUT: "group.consumer.session.timeout.ms",
    HEARTBEAT_INTERVAL: "group.consumer.heartbeat.interval.ms",
}
"""Group config → the broker config whose value holds for groups that set nothing."""


def checked_group_configs(
    configs: Mapping[str, str], defaults: Mapping[str, str]
) -> dict[str, str]:
    """Return these configs of a group with their values checked: each key is known, each value within its bounds.

    `defaults` are the values that hold for groups that set none. Raises KafkaError(INVALID_CONFIG).
    """
    checked = {
        name: known_key(GROUP_CONFIGS, "group", name).check(value)
        for name, value in configs.items()
    }
    session_ms, interval_ms = (
        int(checked.get(name) or defaults.get(name) or GROUP_CONFIGS[name].default)
        for name in (SESSION_TIMEOUT, HEARTBEAT_INTERVAL)
    )
    if session_ms <= interval_ms:
        raise KafkaError(
            ErrorCode.INVALID_CONFIG,
            f"{SESSION_TIMEOUT}={session_ms} must be above {HEARTBEAT_INTERVAL}={interval_ms}",
        )
    return checked
