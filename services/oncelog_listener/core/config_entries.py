"""The rows of DescribeConfigs for topics, brokers and groups, and what an AlterConfigs request sets and removes.

A value comes from the first place that sets it. Kafka returns all places that set it as "synonyms", in this order:

```
topic:   topic > this node > all brokers > default          group: group > coordinators' setting > default
broker:  this node > all brokers > the process's setting > default
```
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

from oncelog.broker_config import BROKER_CONFIGS, check_not_static
from oncelog.config_key import ConfigKey, known_key
from oncelog.errors import ErrorCode, KafkaError
from oncelog.group_config import GROUP_CONFIGS, GROUP_SYNONYMS
from oncelog.topic_config import BROKER_SYNONYMS, TOPIC_CONFIGS


class ResourceType(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    GROUP = 8


class ConfigOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


_TYPE_CODES: Final = {"boolean": 1, "string": 2, "int": 3, "long": 5, "double": 6, "list": 7}
"""The numbers of config types in Kafka's protocol."""

_WITHOUT_DEFAULT: Final = frozenset({"segment.ms", "segment.jitter.ms", "retention.ms", "flush.ms"})
"""The topic configs for which DescribeConfigs lists no default among the synonyms, as in Kafka: their strongest broker
name has none."""

Synonym = tuple[str, str, ConfigSource]
"""A place that has the config: (name, value, source)."""


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    name: str
    value: str
    type_code: int
    source: ConfigSource
    documentation: str
    synonyms: tuple[Synonym, ...]
    """The places that have the config, the one in force first."""
    is_read_only: bool = False


class BrokerValues(NamedTuple):
    """The configs that are set for one node: on the node itself, for all brokers, and by the settings of its
    process."""

    of_node: Mapping[str, str]
    of_all: Mapping[str, str]
    of_process: Mapping[str, str]
    """The settings of the node's process and of other roles, under Kafka's names."""


def topic_entries(
    overrides: Mapping[str, str],
    names: Iterable[str] | None,
    of_all_brokers: Mapping[str, str] | None = None,
    of_node: Mapping[str, str] | None = None,
) -> tuple[ConfigEntry, ...]:
    """Return the rows of DescribeConfigs for a topic: all its configs, or those that `names` lists. Names that do not
    exist are left out, as in Kafka.

    `of_all_brokers` has the defaults that are set for all brokers, `of_node` those for one, under the topics' names.
    """
    defaults = (
        (of_node or {}, ConfigSource.DYNAMIC_BROKER),
        (of_all_brokers or {}, ConfigSource.DYNAMIC_DEFAULT_BROKER),
    )
    return tuple(_topic_entry(key, overrides, defaults) for key in _wanted(TOPIC_CONFIGS, names))


def _topic_entry(
    key: ConfigKey,
    overrides: Mapping[str, str],
    defaults: Iterable[tuple[Mapping[str, str], ConfigSource]],
) -> ConfigEntry:
    name = key.name
    found: list[Synonym] = []
    if name in overrides:
        found.append((name, overrides[name], ConfigSource.DYNAMIC_TOPIC))
    broker_names = BROKER_SYNONYMS[name][:1]
    for values, source in defaults:
        if name in values:
            found += [(one, values[name], source) for one in broker_names]
    if name not in _WITHOUT_DEFAULT:
        found += [(one, key.default, ConfigSource.DEFAULT) for one in broker_names]
    return _entry(key, found)


def broker_entries(values: BrokerValues, names: Iterable[str] | None) -> tuple[ConfigEntry, ...]:
    """Return the rows of DescribeConfigs for one node: all its configs, or those that `names` lists."""
    return tuple(
        _broker_entry(key, values)
        for key in _wanted({name: row.key for name, row in BROKER_CONFIGS.items()}, names)
    )


def _broker_entry(key: ConfigKey, values: BrokerValues) -> ConfigEntry:
    found: list[Synonym] = []
    for configs, source in (
        (values.of_node, ConfigSource.DYNAMIC_BROKER),
        (values.of_all, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (values.of_process, ConfigSource.STATIC_BROKER),
    ):
        if key.name in configs:
            found.append((key.name, configs[key.name], source))
    found.append((key.name, key.default, ConfigSource.DEFAULT))
    return _entry(key, found, is_read_only=not BROKER_CONFIGS[key.name].is_dynamic)


def entries_of_all_brokers(
    of_all: Mapping[str, str], names: Iterable[str] | None
) -> tuple[ConfigEntry, ...]:
    """Return the configs that are set for all brokers (DescribeConfigs with an empty name), and no defaults, as in
    Kafka."""
    keys = {name: BROKER_CONFIGS[name].key for name in of_all if name in BROKER_CONFIGS}
    return tuple(
        _entry(key, [(key.name, of_all[key.name], ConfigSource.DYNAMIC_DEFAULT_BROKER)])
        for key in _wanted(keys, names)
    )


def group_entries(
    overrides: Mapping[str, str], of_process: Mapping[str, str], names: Iterable[str] | None
) -> tuple[ConfigEntry, ...]:
    entries = []
    for key in _wanted(GROUP_CONFIGS, names):
        found: list[Synonym] = []
        if key.name in overrides:
            found.append((key.name, overrides[key.name], ConfigSource.GROUP))
        broker_name = GROUP_SYNONYMS.get(key.name, key.name)
        if broker_name in of_process:
            found.append((broker_name, of_process[broker_name], ConfigSource.STATIC_BROKER))
        found.append((broker_name, key.default, ConfigSource.DEFAULT))
        entries.append(_entry(key, found))
    return tuple(entries)


def _wanted(table: Mapping[str, ConfigKey], names: Iterable[str] | None) -> Iterable[ConfigKey]:
    wanted = None if names is None else frozenset(names)
    return (key for name, key in table.items() if wanted is None or name in wanted)


def _entry(key: ConfigKey, found: list[Synonym], *, is_read_only: bool = False) -> ConfigEntry:
    _, value, source = found[0] if found else ("", key.default, ConfigSource.DEFAULT)
    return ConfigEntry(
        name=key.name,
        value=value,
        type_code=_TYPE_CODES[key.kind],
        source=source,
        documentation=key.doc,
        synonyms=tuple(found),
        is_read_only=is_read_only,
    )


def table_for(resource_type: ResourceType) -> tuple[str, Mapping[str, ConfigKey]]:
    """Return how messages call a resource of this type (such as "topic"), and its config keys by name."""
    match resource_type:
        case ResourceType.TOPIC:
            return "topic", TOPIC_CONFIGS
        case ResourceType.GROUP:
            return "group", GROUP_CONFIGS
        case _:
            return "broker", {name: row.key for name, row in BROKER_CONFIGS.items()}


def altered(
    overrides: Mapping[str, str],
    operations: Iterable[tuple[str, int, str | None]],
    resource_type: ResourceType = ResourceType.TOPIC,
) -> tuple[dict[str, str], list[str]]:
    """Return (configs to set, names to remove) for the (name, operation, value) of an IncrementalAlterConfigs.
    `overrides` are the resource's configs now.

    Raises KafkaError. INVALID_REQUEST: a name was given twice, or an operation does not exist. INVALID_CONFIG: the
    config does not take this name, value or operation.
    """
    kind, table = table_for(resource_type)
    to_set: dict[str, str] = {}
    to_remove: list[str] = []
    seen: set[str] = set()
    for name, operation, value in operations:
        if name in seen:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"config {name!r} stands twice")
        seen.add(name)
        if operation == ConfigOperation.DELETE:
            # As in Kafka, the names of what is removed are not checked: its tools clear throttles that nobody set.
            if name in table:
                to_remove.append(name)
            continue
        if kind == "broker":
            check_not_static(name)
        key = known_key(table, kind, name)
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
