"""What DescribeConfigs says of a topic and of the broker, and which changes IncrementalAlterConfigs means."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from oncelog.config_key import known_key
from oncelog.errors import ErrorCode, KafkaError
from oncelog.topic_config import TOPIC_CONFIGS, broker_synonyms


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

_WITHOUT_DEFAULT: Final = frozenset({"segment.ms", "segment.jitter.ms", "retention.ms", "flush.ms"})
"""Configs whose strongest broker name has no default in Kafka, which then tells no synonym."""


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
        broker_names = broker_synonyms(name)[:1] if name not in _WITHOUT_DEFAULT else ()
        defaults = tuple((one, key.default, ConfigSource.DEFAULT) for one in broker_names)
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
                synonyms=((name, value, source), *defaults) if is_set else defaults,
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
        if name in seen:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"config {name!r} stands twice")
        seen.add(name)
        key = known_key(TOPIC_CONFIGS, "topic", name)
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
        now = [part for part in overrides.get(name, key.default).split(",") if part]
        given = [part.strip() for part in value.split(",") if part.strip()]
        if operation == ConfigOperation.APPEND:
            parts = now + [part for part in given if part not in now]
        else:
            parts = [part for part in now if part not in given]
        to_set[name] = key.check(",".join(parts))
    return to_set, to_remove
