"""What DescribeConfigs says of a topic and of the broker, and which changes IncrementalAlterConfigs means."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from oncelog.errors import ErrorCode, KafkaError
from oncelog.topic_config import TOPIC_CONFIGS


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4


class ConfigSource(IntEnum):
    DYNAMIC_TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


class ConfigOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_TYPE_CODES: Final = {"boolean": 1, "string": 2, "int": 3, "long": 5, "double": 6, "list": 7}
"""Kafka's numbers of config types."""

_BROKER_NAMES: Final = {
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "max.message.bytes": "message.max.bytes",
    "segment.ms": "log.roll.ms",
    "segment.index.bytes": "log.index.size.max.bytes",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "compression.type": "compression.type",
    "min.insync.replicas": "min.insync.replicas",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""The broker's default of a topic config, where its name is not "log." and the topic's."""


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str
    type_code: int
    source: ConfigSource
    documentation: str
    synonyms: tuple[tuple[str, str, ConfigSource], ...]
    """(name, value, source), the one in force first."""
    is_read_only: bool = False


def topic_entries(
    overrides: Mapping[str, str], names: Iterable[str] | None
) -> tuple[ConfigEntry, ...]:
    """All configs of a topic, or those that `names` lists; names that do not exist are left out, as in Kafka."""
    wanted = None if names is None else frozenset(names)
    entries = []
    for name, key in TOPIC_CONFIGS.items():
        if wanted is not None and name not in wanted:
            continue
        default = (_BROKER_NAMES.get(name, f"log.{name}"), key.default, ConfigSource.DEFAULT)
        override = overrides.get(name)
        is_set = override is not None
        value = key.default if override is None else override
        source = ConfigSource.DYNAMIC_TOPIC if is_set else ConfigSource.DEFAULT
        entries.append(
            ConfigEntry(
                name=name,
                value=value,
                type_code=_TYPE_CODES[key.kind],
                source=source,
                documentation=key.doc,
                synonyms=((name, value, source), default) if is_set else (default,),
            )
        )
    return tuple(entries)


def broker_entries(
    settings: Mapping[str, tuple[str, str]], names: Iterable[str] | None
) -> tuple[ConfigEntry, ...]:
    """The broker's configs: name → (type, value). They are set when a process starts and are read-only here."""
    wanted = None if names is None else frozenset(names)
    return tuple(
        ConfigEntry(
            name=name,
            value=value,
            type_code=_TYPE_CODES[kind],
            source=ConfigSource.STATIC_BROKER,
            documentation="",
            synonyms=((name, value, ConfigSource.STATIC_BROKER),),
            is_read_only=True,
        )
        for name, (kind, value) in settings.items()
        if wanted is None or name in wanted
    )


def altered(
    overrides: Mapping[str, str], operations: Iterable[tuple[str, int, str | None]]
) -> tuple[dict[str, str], list[str]]:
    """(what to set, what to remove) for these (name, operation, value) on a topic with these overrides.

    Raises KafkaError: INVALID_REQUEST for a name given twice or an operation that does not exist, INVALID_CONFIG for a
    name, a value or an operation that the config does not take.
    """
    to_set: dict[str, str] = {}
    to_remove: list[str] = []
    seen: set[str] = set()
    for name, operation, value in operations:
        key = TOPIC_CONFIGS.get(name)
        if name in seen:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"config {name!r} stands twice")
        seen.add(name)
        if key is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"unknown topic config {name!r}; known are {', '.join(TOPIC_CONFIGS)}",
            )
        if operation == ConfigOperation.DELETE:
            to_remove.append(name)
            continue
        if value is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"config {name!r} has no value")
        if operation == ConfigOperation.SET:
            to_set[name] = key.check(value)
            continue
        if operation not in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"there is no operation {operation}")
        if key.kind != "list":
            raise KafkaError(
                ErrorCode.INVALID_CONFIG, f"{name!r} is no list: only SET and DELETE change it"
            )
        now = overrides.get(name, key.default).split(",")
        given = [part.strip() for part in value.split(",")]
        if operation == ConfigOperation.APPEND:
            parts = now + [part for part in given if part not in now]
        else:
            parts = [part for part in now if part not in given]
        to_set[name] = key.check(",".join(parts))
    return to_set, to_remove
